"""The paper's tables, published beside ours, built from run records alone."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from companion.paper import numbers
from companion.records.schema import Record
from companion.setup import labels, paths
from companion.statistics import estimates, holm
from companion.tables import scores, sizes_schedules_cost
from companion.tables.cells import Cell
from companion.tables.render import Table, refuse_unknown

# what makes it, and the stages of the records that it reads
TABLES = {
    1: (scores.table, ("pretrain", "attention", "finetune")),
    2: (scores.table, ("finetune",)),
    3: (scores.table, ("pretrain", "finetune")),
    4: (sizes_schedules_cost.of_settings, ("pretrain",)),
    5: (sizes_schedules_cost.of_settings, ("pretrain",)),
    6: (scores.correlations, ("pretrain", "finetune", "attention")),
    7: (scores.table, ("pretrain", "decoder")),
    8: (scores.table, ("finetune",)),
    9: (sizes_schedules_cost.of_cost, ("cost",)),
}
FORMATS = {"csv": Table.to_csv, "md": Table.to_markdown, "tex": Table.to_latex}

__all__ = ["FORMATS", "TABLES", "Cell", "Table", "coverage", "relevant", "table", "write"]


def relevant(number: int, records: Sequence[Record]) -> list[Record]:
    """The records that Table `number` reads, of encoders or, for Table 7, of decoders."""
    read = [record for record in records if record["stage"] in TABLES[number][1]]
    return [
        run
        for run in read
        if labels.is_decoder(str(run["parameters"].get("model"))) == (number == 7)
    ]


def table(
    number: int, records: Sequence[Record], *, first: Sequence[Record] = (), study: str = ""
) -> Table:
    """Build Table `number` (1 to 9) from the records of one study, under the rows of another,
    `first`, if any.

    `study`: its name where records say another's, as those of a planned study do that trains like
        `narrow`. Raises ValueError for another number, or for records of several studies.
    """
    if number not in TABLES:
        raise ValueError(f"number: the paper has no Table {number}; choose 1 to 9 or claims")
    study = study or estimates.study_of(records)
    runs, above = (
        scores.of_one_text(relevant(number, [*first, *records])),
        len(relevant(number, first)),
    )
    make, paper = TABLES[number][0], numbers.load()
    studies = (study,) if records else ()
    names = {run["study"] for run in runs[above:]} - {study}
    studies += tuple(name for name in estimates.BESIDE if name in names)
    built = replace(make(number, runs[above:], paper), studies=studies)
    if first:
        built = built.below(
            replace(make(number, runs[:above], paper), studies=(estimates.study_of(first),))
        )
    compared = {place: cell for place, cell in built.cells.items() if cell.difference}
    adjusted = zip(compared.items(), holm([cell.difference.p for cell in compared.values()]))
    corrected = {place: replace(cell, adjusted_p=p) for (place, cell), p in adjusted}
    return replace(built, cells=built.cells | corrected, caption_values=scores.caption_values(runs))


def coverage(built: Iterable[Table]) -> pd.DataFrame:
    """Return one row per number that the paper prints in these tables: table, model, line and
    column, whether we have one (`ours`), and if not, why (`reason`).

    A scaled-down model counts for the size that it is scaled from.
    """
    cells = pd.concat([table.data() for table in built])
    printed = cells[(cells["published"] != "") & (cells["model_key"] != "")]
    printed = printed.assign(
        model=printed["model_key"].map(labels.published_model), ours=printed["ours"].notna()
    )
    groups = printed.groupby(["table", "model", "line", "column"], sort=False)
    return groups.agg({"ours": "any", "reason": "last"}).reset_index()


def write(table: Table, folder: str | Path, formats: Sequence[str] = tuple(FORMATS)) -> list[Path]:
    """Write table<number>.csv, .md and .tex."""
    refuse_unknown(formats, FORMATS)
    texts = {name: FORMATS[name](table) for name in formats}
    return [
        paths.write_text(Path(folder) / f"table{table.number}.{name}", text)
        for name, text in texts.items()
    ]
