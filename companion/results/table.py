"""The table of results: every row from the tracked records, the plan and the printed numbers, once."""

import difflib
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import pandas as pd

from companion.results import (
    answers_by_hops,
    attention_measures,
    commands_and_prose,
    decoder_losses,
    example_head,
    gtd_correlations,
    inserted_step,
    learning_rates,
    losses,
    one_round,
    printed_numbers,
    spared_keys,
    steps_to_learn,
    task_gains,
    times,
)
from companion.results.row import COLUMNS, Row
from companion.results.study import Study, tracked_studies
from companion.setup import paths

# each yields the rows of one study, from its records
OF_A_STUDY = (
    attention_measures.rows,
    one_round.rows,
    losses.rows,
    decoder_losses.rows,
    task_gains.rows,
    inserted_step.rows,
    answers_by_hops.rows,
    steps_to_learn.rows,
    spared_keys.rows,
    gtd_correlations.rows,
    times.rows,
)
# each yields rows that are of no study
OTHERS = (
    steps_to_learn.of_both_exams,
    learning_rates.rows,
    times.on_a_gpu,
    gtd_correlations.without_structure,
    printed_numbers.rows,
    example_head.rows,
    commands_and_prose.commands,
    commands_and_prose.novel,
)
FILE = "results.csv"


def of(studies: Iterable[Study]) -> list[Row]:
    """Return the rows of some studies, a study after the other.

    Raises ValueError where two rows have one key.
    """
    table = [row for study in studies for rows in OF_A_STUDY for row in rows(study)]
    refuse_twins(table)
    return table


@cache
def rows() -> tuple[Row, ...]:
    """Return every row of the tracked studies, and those that are of no study; once per process."""
    table = of(tracked_studies())
    for others in OTHERS:
        table += others()
    refuse_twins(table)
    return tuple(table)


def refuse_twins(rows: Sequence[Row]) -> None:
    """Raise ValueError that names the first key that two rows have."""
    seen = set()
    for row in rows:
        if row.key in seen:
            raise ValueError(
                f"results: two rows have the key {row.key}: name one of them otherwise"
            )
        seen.add(row.key)


def frame(rows: Iterable[Row]) -> pd.DataFrame:
    """Return rows as the file has them, in the order of their keys."""
    cells = [[getattr(row, name) for name in COLUMNS] for row in rows]
    table = pd.DataFrame(cells, columns=COLUMNS).sort_values("key", ignore_index=True)
    # a level that counts nothing has no n
    return table.assign(n=table["n"].astype("Int64").replace(0, pd.NA))


def write(folder: Path) -> Path:
    """Write results.csv into a folder and return its path."""
    text = frame(rows()).to_csv(index=False, float_format="%.9g", lineterminator="\n")
    return paths.write_text(Path(folder) / FILE, text)


@cache
def read() -> pd.DataFrame:
    """Return the tracked results.csv, by key."""
    table = pd.read_csv(paths.figures() / FILE, index_col="key")
    words = table.select_dtypes(exclude="number").columns
    return table.assign(**{name: table[name].fillna("") for name in words})


def find(key: str) -> pd.Series:
    """Return the row of a key. Raises ValueError that names it and the nearest keys where there is
    none.
    """
    table = read()
    if key not in table.index:
        near = difflib.get_close_matches(key, table.index, cutoff=0.0)
        raise ValueError(f"results.csv: no row {key!r}; the nearest are {', '.join(near)}")
    return table.loc[key]
