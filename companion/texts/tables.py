"""Numbers of the tables in `figures/`, cells and claims: the paper's beside ours, with interval,
runs and items.
"""

from itertools import pairwise

import pandas as pd

from companion import verdicts
from companion.setup import paths
from companion.statistics import Estimate
from companion.tables import render


def read(name: str) -> pd.DataFrame:
    """Return figures/NAME.csv; of a table it has a row a cell, of the claims a row a
    measurement.
    """
    return pd.read_csv(paths.figures() / f"{name}.csv")


def _one(name: str, **keys: str) -> pd.Series:
    """Return the one row of figures/NAME.csv whose columns have these values; ValueError for none
    or several.
    """
    frame = read(name)
    found = frame[(frame[[*keys]] == [*keys.values()]).all(axis=1)]
    if len(found) != 1:
        said = ", ".join(f"{column} {value!r}" for column, value in keys.items())
        raise ValueError(f"{name}.csv: {len(found)} rows with {said}")
    return found.iloc[0]


def cell(number: int, model: str, line: str, column: str) -> pd.Series:
    """Return a table's cell by its keys: published, ours, low, high, runs, …. Raises ValueError
    where there is none.
    """
    return _one(f"table{number}", model_key=model, line_key=line, column=column)


def claimed(claim: str, study: str, **part: str) -> Estimate:
    """Return what decides a claim in a study, or a part of it, deciding or not: that of a `key` or
    `without` something.

    ValueError for none or several.
    """
    row = _one("claims", claim=claim, study=study, **(part or {"role": "primary"}))
    return Estimate(*row[["estimate", "low", "high"]].astype(float), int(row["n"]))


def score_differences(model: str) -> dict[str, Estimate]:
    """Return High − Original of a size on each task of Table 8 that was run, by column: paired,
    over runs and items.

    ValueError where a column has several, of several studies: a text has to say which.
    """
    frame = read("table8").query("model_key == @model")
    found = frame.dropna(subset="difference").query("line_key == 'high'").set_index("column")
    if found.index.has_duplicates:
        raise ValueError(f"table8.csv: several rows of {model}, High, have a difference")
    columns = ["difference", "difference_low", "difference_high", "runs"]
    return {column: Estimate(*gap) for column, gap in found[columns].iterrows()}


def below_words(model: str) -> tuple[int, int]:
    """Count the tasks on which Original of a size scores below the bag of words, and those where
    both have a score.
    """
    frame = read("table8").query("model_key == @model or line_key == 'bag'")
    scores = (
        frame.assign(ours=pd.to_numeric(frame["ours"], errors="coerce"))
        .dropna(subset="ours")
        .set_index("column")
    )
    sides = [scores[scores["line_key"] == line]["ours"] for line in ("original", "bag")]
    words = pd.concat(sides, axis=1).dropna().drop("Avg", errors="ignore").to_numpy()
    return int((words[:, 0] < words[:, 1]).sum()), len(words)


def outcomes() -> pd.Series:
    """Return the outcome of each claim, by its id, in each study (figures/figure-claims.csv)."""
    return read("figure-claims").drop_duplicates(["claim", "study"]).set_index("claim")["outcome"]


def claims(*starts: str) -> list[str]:
    """Return the table of claims, cut before each claim of `starts`; ValueError for one that is
    none.
    """
    decided = verdicts.decided()
    named, table = [row.claim.id for row in decided], verdicts.shown(decided)
    cuts = [named.index(start) for start in starts]
    return [render.markdown(table[one:other]) for one, other in pairwise([*cuts, len(table)])]
