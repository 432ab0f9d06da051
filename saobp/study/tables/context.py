"""What the records behind a table, a figure or a page have in common: their study and their departures."""

from collections.abc import Iterable, Sequence

import pandas as pd

from saobp.study.setup import labels
from saobp.study.setup.schema import Record, Value

NAMED_STAGES = {"finetune": "fine-tuning", "attention": "attention", "cost": "cost"}  # before their departures


def study_of(records: Sequence[Record]) -> str:
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
    rows = departure_rows(records)
    rows["matter"] = (rows["of"] + ", ").where(rows["of"] != "", "") + rows["matter"]
    rows["said"] = rows["ours"] + (", not " + rows["paper"]).where(rows["paper"] != "", "; the paper gives none")
    lines = []
    for matter, own in rows.sort_values("said").groupby("matter"):
        alike = own["models"].nunique() == 1
        lines.append(f"{matter}: {' | '.join(own['said'] if alike else own['said'] + ' (' + own['models'] + ')')}")
    return lines


def departure_rows(records: Iterable[Record]) -> pd.DataFrame:
    """Return one row a distinct departure, as text: of, matter, ours, paper ("" for none), models; in a fixed order."""
    rows = []
    for record in records:
        for entry in record["departures"]:
            of = ", ".join(filter(None, [NAMED_STAGES.get(record["stage"]), entry.get("part"), entry.get("task")]))
            basis = f" ({entry['basis']})" if "basis" in entry else ""
            paper = "" if entry["paper"] is None else _shown(entry["paper"]) + basis
            model = entry.get("model") or record["parameters"].get("model")
            title = labels.model_title(model) if model else None
            rows.append((of, entry["matter"], _shown(entry["ours"]), paper, title))
    keys = ["of", "matter", "ours", "paper"]
    frame = pd.DataFrame(rows, columns=[*keys, "models"], dtype=str)
    return frame.groupby(keys)["models"].agg(lambda names: ", ".join(sorted(set(names.dropna())))).reset_index()


def _shown(value: Value) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
