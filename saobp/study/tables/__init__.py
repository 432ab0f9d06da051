"""The paper's tables, published beside ours, built from run records alone."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from saobp.study.paper import numbers as published_numbers
from saobp.study.paper.numbers import Published
from saobp.study.setup import labels, paths
from saobp.study.setup.schema import Record
from saobp.study.tables import context, measures, scores, setup
from saobp.study.tables.cells import Cell, Row
from saobp.study.tables.render import Table, refuse_unknown

TABLES = {
    1: measures.table1,
    2: partial(scores.of_encoders, 2),
    3: scores.table3,
    4: partial(setup.of_settings, 4),
    5: partial(setup.of_settings, 5),
    6: measures.table6,
    7: scores.table7,
    8: partial(scores.of_encoders, 8),
    9: setup.table9,
}
STAGES = {  # of the records that a table reads
    1: ("pretrain", "attention", "finetune"), 2: ("pretrain", "finetune"), 3: ("pretrain", "finetune"),
    4: ("pretrain",), 5: ("pretrain",), 6: ("pretrain", "finetune", "attention"), 7: ("pretrain", "decoder"),
    8: ("pretrain", "finetune"), 9: ("cost",),
}  # fmt: skip
OF_DECODERS = 7
FORMATS = {"csv": "to_csv", "md": "to_markdown", "tex": "to_latex"}

__all__ = ["FORMATS", "TABLES", "Cell", "Row", "Table", "relevant", "table", "write"]


def relevant(number: int, records: Sequence[Record]) -> list[Record]:
    """The records that Table `number` reads, of encoders or of decoders."""
    return [
        record
        for record in records
        if record["stage"] in STAGES[number]
        and labels.is_decoder(str(record["parameters"].get("model"))) == (number == OF_DECODERS)
    ]


def table(
    number: int, records: Sequence[Record], published: Published | None = None, *, first: Sequence[Record] = ()
) -> Table:
    """Build Table `number` (1 to 9) from the records of one study, under the rows of another, `first`, if any.

    Raises ValueError for another number, or for records of several studies.
    """
    if number not in TABLES:
        raise ValueError(f"number: the paper has no Table {number}; choose 1 to 9")
    study, used = context.profile(records), relevant(number, records)
    built = replace(TABLES[number](used, published or published_numbers.load()), study=study if records else "")
    return built.below(table(number, first, published)) if first else built


def write(
    number: int,
    records: Sequence[Record],
    folder: str | Path,
    formats: Sequence[str] = tuple(FORMATS),
    *,
    every: bool = False,
    first: Sequence[Record] = (),
) -> list[Path]:
    """Write table<number>.csv, .md and .tex into `folder`; returns their paths.

    The last two leave rows without a run out unless `every` is true; the CSV has them all.
    """
    refuse_unknown(formats, FORMATS)
    whole = table(number, records, first=first)
    built = {name: whole if every or name == "csv" else whole.with_runs() for name in formats}
    files = {name: Path(folder) / f"table{number}.{name}" for name in formats}
    return [paths.write_text(files[name], getattr(built[name], FORMATS[name])()) for name in formats]
