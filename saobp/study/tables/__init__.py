"""The paper's tables, published beside ours, built from run records alone."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from saobp.study.paper import numbers
from saobp.study.setup import labels, paths
from saobp.study.setup.schema import Record
from saobp.study.statistics import estimates
from saobp.study.tables import scores, setup
from saobp.study.tables.cells import Cell, corrected
from saobp.study.tables.render import Table, refuse_unknown

TABLES = {  # what makes it, and the stages of the records that it reads
    1: (scores.table, ("pretrain", "attention", "finetune")),
    2: (scores.table, ("pretrain", "finetune")),
    3: (scores.table, ("pretrain", "finetune")),
    4: (setup.of_settings, ("pretrain",)),
    5: (setup.of_settings, ("pretrain",)),
    6: (scores.correlations, ("pretrain", "finetune", "attention")),
    7: (scores.table, ("pretrain", "decoder")),
    8: (scores.table, ("pretrain", "finetune")),
    9: (setup.of_cost, ("cost",)),
}
OF_DECODERS = 7
FORMATS = {"csv": "to_csv", "md": "to_markdown", "tex": "to_latex"}

__all__ = ["FORMATS", "TABLES", "Cell", "Table", "relevant", "table", "write"]


def relevant(number: int, records: Sequence[Record]) -> list[Record]:
    """The records that Table `number` reads, of encoders or of decoders."""
    return [
        record
        for record in records
        if record["stage"] in TABLES[number][1]
        and labels.is_decoder(str(record["parameters"].get("model"))) == (number == OF_DECODERS)
    ]


def table(number: int, records: Sequence[Record], *, first: Sequence[Record] = (), study: str = "") -> Table:
    """Build Table `number` (1 to 9) from the records of one study, under the rows of another, `first`, if any.

    `study`: its name where records say another's, as those of a planned study do that trains like `narrow`. Perplexity
    is of one text, and p-values are corrected, over the rows of both.

    Raises ValueError for another number, or for records of several studies.
    """
    if number not in TABLES:
        raise ValueError(f"number: the paper has no Table {number}; choose 1 to 9 or claims")
    study = study or estimates.study_of(records)
    runs, above = scores.of_one_text(relevant(number, [*first, *records])), len(relevant(number, first))
    make, paper = TABLES[number][0], numbers.load()
    built = replace(make(number, runs[above:], paper), studies=(study,) if records else ())
    if first:
        built = built.below(replace(make(number, runs[:above], paper), studies=(estimates.study_of(first),)))
    return replace(built, cells=corrected(built.cells), given=scores.given(runs))


def write(
    number: int,
    records: Sequence[Record],
    folder: str | Path,
    formats: Sequence[str] = tuple(FORMATS),
    *,
    every: bool = False,
    first: Sequence[Record] = (),
    study: str = "",
) -> list[Path]:
    """Write table<number>.csv, .md and .tex into `folder`; returns their paths.

    The last two leave rows without a run out unless `every` is true; the CSV has them all.
    """
    refuse_unknown(formats, FORMATS)
    whole = table(number, records, first=first, study=study)
    built = {name: whole if every or name == "csv" else whole.with_runs() for name in formats}
    files = {name: Path(folder) / f"table{number}.{name}" for name in formats}
    return [paths.write_text(files[name], getattr(built[name], FORMATS[name])()) for name in formats]
