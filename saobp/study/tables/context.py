"""Which records stand behind a table or figure: their profile, splits and departures."""

from collections.abc import Iterable, Sequence
from typing import Any

from saobp.study.setup import labels
from saobp.study.setup.benchmarks import TASKS
from saobp.study.setup.schema import Value

Record = dict[str, Any]
STAGES = {  # the stages behind a table or figure, which date and describe it
    "table1": ("pretrain", "attention", "finetune"),
    "table2": ("pretrain", "finetune"),
    "table3": ("pretrain", "finetune"),
    "table4": ("pretrain",),
    "table5": ("pretrain",),
    "table6": ("pretrain", "finetune", "attention"),
    "table7": ("pretrain", "decoder"),
    "table8": ("pretrain", "finetune"),
    "table9": ("cost",),
    "figure1": (),
    **{f"figure{number}": ("attention",) for number in (2, 4, 5, 6, 7, 8, "4-paper", "7-paper", "8-paper")},
    **{f"figure{number}": ("pretrain", "finetune", "attention") for number in (3, 9)},
    "figure-gains": ("pretrain", "finetune"),
    "figure-length": ("cost",),
    "figure-glance": ("pretrain", "attention", "beyond", "hops"),
    "figure-hops": ("beyond",),
    "figure-learning": ("beyond",),
    "figure-tokens": ("beyond",),
    "figure-strength": ("beyond",),
}
PARTS = {
    "figure-hops": "multihop",
    "figure-learning": "multihop",
    "figure-strength": "strengths",
    "figure-tokens": "tokens",
}  # of a record of notebook 12, which may have one
DECODER_ONLY = ("table7",)
NAMED_STAGES = {"finetune": "fine-tuning", "attention": "attention", "cost": "cost"}  # before their departures


def relevant(stem: str, records: Iterable[Record]) -> list[Record]:
    """The records that a table or figure ("table2", "figure4") reads; all of them for any other file."""
    stages = STAGES.get(stem)
    chosen = [record for record in records if stages is None or record["stage"] in stages]
    if stages is None:
        return chosen
    if stem in PARTS:
        return [record for record in chosen if record["metrics"].get(PARTS[stem])]
    wanted = stem in DECODER_ONLY
    return [r for r in chosen if labels.is_decoder(str(r["parameters"].get("model"))) == wanted]


def of_tasks(records: Iterable[Record], tasks: set[str]) -> list[Record]:
    """The records that are of some tasks, or of none as pretraining is, without what they say of other tasks."""
    return [_of_tasks(record, tasks) for record in records if not (own := tasks_of(record)) or own & tasks]


def tasks_of(record: Record) -> set[str]:
    """The tasks that a record is of; none for pretraining."""
    return {*(record["metrics"].get("tasks") or {}), *filter(None, [record["parameters"].get("task")])}


def _of_tasks(record: Record, tasks: set[str]) -> Record:
    """A record without the splits and departures of other tasks."""
    others = [spec for name, spec in TASKS.items() if name not in tasks]
    places, names = {(spec.dataset, spec.config) for spec in others}, {spec.name for spec in others}
    data = record["data"]
    kept = [split for split in data.get("splits") or [] if (split["dataset"], split.get("config")) not in places]
    own = [entry for entry in record["departures"] if entry.get("task") not in names]
    return record | {"data": data | {"splits": kept}, "departures": own}


def profile(records: Sequence[Record]) -> str:
    """The one profile that records come from ("none" without a record).

    Raises ValueError for records of several profiles: runs of different recipes must not share a cell.
    """
    names = sorted({record["profile"] for record in records})
    if len(names) > 1:
        raise ValueError(f"records: of several profiles ({', '.join(names)}); choose the records of one")
    return names[0] if names else "none"


def splits(records: Iterable[Record]) -> list[Record]:
    """All distinct splits behind some records, in a fixed order."""
    found = {}
    for record in records:
        for split in record["data"].get("splits") or []:
            found[(split["dataset"], str(split.get("config")), split["split"], split["rows"])] = split
    return [found[key] for key in sorted(found)]


def departures(records: Iterable[Record], matters: Sequence[str] = (), parts: Sequence[str | None] = ()) -> list[str]:
    """All distinct departures from the paper that the records name, one line per matter, in a fixed order.

    `matters` and `parts`: those alone, if any. Values on one matter stand together, with the models that they are of:
    "steps: 60, not 245000 (BERT-Medium) | 120, not 150000 (BERT-Small)".
    """
    together: dict[str, dict[str, set[str]]] = {}
    for (of, matter, ours, paper), models in departure_rows(records, matters, parts).items():
        said = f"{ours}, not {paper}" if paper else f"{ours}; the paper gives none"
        together.setdefault(", ".join(filter(None, [of, matter])), {})[said] = models
    return [f"{matter}: {labels.by_model(together[matter])}" for matter in sorted(together)]


def departure_rows(
    records: Iterable[Record], matters: Sequence[str] = (), parts: Sequence[str | None] = ()
) -> dict[tuple[str, str, str, str], set[str]]:
    """Map (what it is of, matter, ours, the paper's or "") to the names of the models, in a fixed order."""
    rows: dict[tuple[str, str, str, str], set[str]] = {}
    for record in records:
        for entry in record["departures"]:
            if (matters and entry["matter"] not in matters) or (parts and entry.get("part") not in parts):
                continue
            of = ", ".join(filter(None, [NAMED_STAGES.get(record["stage"]), entry.get("part"), entry.get("task")]))
            basis = f" ({entry['basis']})" if "basis" in entry else ""
            paper = "" if entry["paper"] is None else _shown(entry["paper"]) + basis
            model = entry.get("model") or record["parameters"].get("model")
            models = rows.setdefault((of, entry["matter"], _shown(entry["ours"]), paper), set())
            models |= {labels.model_title(model)} if model else set()
    return dict(sorted(rows.items()))


def _shown(value: Value) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
