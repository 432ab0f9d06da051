"""What the records behind a table, a figure or a page have in common: their study and their departures."""

from collections.abc import Iterable, Sequence

from saobp.study.setup import labels
from saobp.study.setup.schema import Record, Value

NAMED_STAGES = {"finetune": "fine-tuning", "attention": "attention", "cost": "cost"}  # before their departures


def profile(records: Sequence[Record]) -> str:
    """The one study that records come from ("none" without a record).

    Raises ValueError for records of several studies: runs of different recipes must not share a cell.
    """
    names = sorted({record["profile"] for record in records})
    if len(names) > 1:
        raise ValueError(f"records: of several studies ({', '.join(names)}); choose the records of one")
    return names[0] if names else "none"


def departures(records: Iterable[Record]) -> list[str]:
    """All distinct departures from the paper that the records name, one line per matter, in a fixed order.

    Values on one matter stand together, with their models where these differ: "steps: 60, not 245000 (BERT-Medium) |
    120, not 150000 (BERT-Small)".
    """
    together: dict[str, dict[str, set[str]]] = {}
    for (of, matter, ours, paper), models in departure_rows(records).items():
        said = f"{ours}, not {paper}" if paper else f"{ours}; the paper gives none"
        together.setdefault(", ".join(filter(None, [of, matter])), {})[said] = models
    lines = []
    for matter, said in sorted(together.items()):
        alike = len({frozenset(models) for models in said.values()}) == 1
        values = (words if alike else f"{words} ({', '.join(sorted(said[words]))})" for words in sorted(said))
        lines.append(f"{matter}: {' | '.join(values)}")
    return lines


def departure_rows(records: Iterable[Record]) -> dict[tuple[str, str, str, str], set[str]]:
    """Map (what it is of, matter, ours, the paper's or "") to the names of the models, in a fixed order."""
    rows: dict[tuple[str, str, str, str], set[str]] = {}
    for record in records:
        for entry in record["departures"]:
            of = ", ".join(filter(None, [NAMED_STAGES.get(record["stage"]), entry.get("part"), entry.get("task")]))
            basis = f" ({entry['basis']})" if "basis" in entry else ""
            paper = "" if entry["paper"] is None else _shown(entry["paper"]) + basis
            model = entry.get("model") or record["parameters"].get("model")
            models = rows.setdefault((of, entry["matter"], _shown(entry["ours"]), paper), set())
            models |= {labels.model_title(model)} if model else set()
    return dict(sorted(rows.items()))


def _shown(value: Value) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
