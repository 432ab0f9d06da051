"""What every caption must say: the profile, the data and how complete they are."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from saobp.study.data.splits import INVENTED
from saobp.study.setup import labels
from saobp.study.setup.benchmarks import TASKS
from saobp.study.setup.labels import joined
from saobp.study.tables.cells import Table

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
    "figure-glance": ("pretrain", "attention", "beyond"),
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
DEPARTURES = "Departures from the paper: "
NAMED_STAGES = {
    "finetune": "fine-tuning",
    "attention": "attention",
    "cost": "cost",
}  # before its departures; pretraining is not


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


def behind(
    records: Iterable[Record], rows: Iterable[tuple[str, str | None]], tasks: Iterable[str] | None = None
) -> list[Record]:
    """The records behind a table's rows, (model, algorithm or None for all) each, and the tasks of its columns.

    What a record says of other tasks, their splits and departures, is left out; so is one that is of other tasks alone.
    """
    rows, tasks = set(rows), None if tasks is None else set(tasks)
    chosen = [
        record for record in records
        for model, name in [(record["parameters"].get("model"), record["parameters"].get("algorithm"))]
        if rows & {(model, name), (model, None)}
    ]  # fmt: skip
    if tasks is None:
        return chosen
    return of_tasks(chosen, tasks)


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
    data = record.get("data") or {}
    kept = [split for split in data.get("splits") or [] if (split["dataset"], split.get("config")) not in places]
    words = [words for words in record.get("departures") or [] if words.partition(": ")[0] not in names]
    return record | {"data": data | {"splits": kept}, "departures": words}


def profile(records: Sequence[Record]) -> str:
    """The one profile that records come from ("none" without a record).

    Raises ValueError for records of several profiles: runs of different recipes must not share a cell.
    """
    names = sorted({record["profile"] for record in records})
    if len(names) > 1:
        raise ValueError(f"records: of several profiles ({', '.join(names)}); choose the records of one")
    return names[0] if names else "none"


def describe(records: Sequence[Record]) -> str:
    """Profile, source and completeness of the data, twins: the end of every caption."""
    parts = [f"Profile {profile(records)}."]
    if not records:
        return parts[0] + " No run yet."
    sources = sorted({str(record["data"].get("source")) for record in records if record.get("data")})
    if sources:
        parts.append(f"Data: {', '.join(sources)}" + _incomplete(records) + ".")
    if any(labels.is_twin(str(record["parameters"].get("model"))) for record in records):
        parts.append("A twin is a scaled-down model that stands in for the size in its name.")
    return " ".join(parts)


def _incomplete(records: Sequence[Record]) -> str:
    """Name every split that is not the published one, with both numbers of rows and what it is instead."""
    other = [split for split in splits(records) if not split.get("complete", True)]
    if other and all(str(split.get("note")).startswith(INVENTED) for split in other):
        return f", {INVENTED}, no split is the published one" + _drawn(other)
    partial = {_split_words(split) for split in other}
    if not partial:
        return ", splits complete"
    return "; not the published splits: " + ", ".join(sorted(partial))


def _drawn(splits: Sequence[Record]) -> str:
    """How many rows were drawn of each split, for what: "; rows drawn: 12 to train on, 32 to report"."""
    uses = {"train": "to train on", "evaluation": "to report"}
    counts = {use: {split["used"] for split in splits if split.get("role") == role and split.get("used")}
              for role, use in uses.items()}  # fmt: skip
    said = [
        labels.joined([f"{count:,}" for count in sorted(found)]) + f" {use}" for use, found in counts.items() if found
    ]
    return f"; rows drawn: {', '.join(said)}" if said else ""


def _split_words(split: Record) -> str:
    config = split.get("config")
    name = split["dataset"].split("/")[-1] + (f"/{config}" if config not in (None, "", "default") else "")
    total = split.get("published_rows")
    size = f"{split['rows']:,} of {total:,} rows" if total else f"{split['rows']:,} rows"
    note = re.sub(r" ?\([^)]*\)", "", str(split.get("note") or ""))  # in short: what stands in its brackets is left out
    return f"{name} {split['split']} ({'; '.join(filter(None, [size, note]))})"


def splits(records: Iterable[Record]) -> list[Record]:
    """All distinct splits behind some records, in a fixed order."""
    found = {}
    for record in records:
        for split in (record.get("data") or {}).get("splits") or []:
            found[(split["dataset"], str(split.get("config")), split["split"], split["rows"])] = split
    return [found[key] for key in sorted(found)]


def departures(records: Iterable[Record], matters: Sequence[str] = ()) -> list[str]:
    """All distinct departures from the paper's recipe that the records name, in a fixed order; of `matters`, if any.

    Those on one matter stand together, with the models that they are of: "steps: 60, not 245000 (BERT-Medium);
    120, not 150000 (BERT-Small)". Those of any other stage than pretraining name it first.
    """
    together: dict[str, dict[str, set[str]]] = {}
    for record in records:
        model = record["parameters"].get("model")
        for words in record.get("departures") or []:
            matter, mark, rest = _with_stage(words, record["stage"]).partition(": ")
            if matters and matter not in matters:
                continue
            of = together.setdefault(matter + mark, {}).setdefault(rest, set())
            of |= {labels.model_title(model)} if model else set()
    return [matter + labels.by_model(together[matter]) for matter in sorted(together)]


def _with_stage(words: str, stage: str) -> str:
    return f"{NAMED_STAGES[stage]}, {words}" if stage in NAMED_STAGES else words


def notes(records: Sequence[Record], covered: Sequence[str] = (), matters: Sequence[str] = ()) -> tuple[str, ...]:
    """What goes below a table: that its intervals, of what is `covered`, leave out pretraining; the departures."""
    words = departures(records, matters)
    listed = "; ".join(line.replace("; ", ", ") for line in words)  # a semicolon ends an entry
    found = (f"{DEPARTURES}{listed}.",) if words else ()
    trained = {record["parameters"].get("seed") for record in records}
    used = {record["parameters"].get("seed") for record in records if record["stage"] != "pretrain"} or trained
    if covered and len(used) == 1:
        alone = "One pretraining seed: intervals"
        later = f"What was run after pretraining is of one of its seeds ({next(iter(used))}): those intervals"
        said = alone if len(trained) == 1 else later
        found = (f"{said} cover {joined(covered)}, not pretraining.", *found)
    return found


def without_departures(table: Table) -> Table:
    """Leave out the note on departures, for a page that lists them once for all its tables."""
    return replace(table, notes=tuple(note for note in table.notes if not note.startswith(DEPARTURES)))
