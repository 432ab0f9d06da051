"""Numbers of the tables in `figures/`, cells and claims: the paper's beside ours, with interval, runs and items."""

from functools import cache

import pandas as pd

from saobp.study.setup import paths
from saobp.study.statistics import Estimate


@cache
def rows(number: int) -> pd.DataFrame:
    """Return a table's cells, a row a cell."""
    return pd.read_csv(paths.figures() / f"table{number}.csv")


def cell(number: int, row: str, column: str) -> Estimate:
    """Return our number in a cell. Raises KeyError where the table has no such cell."""
    found = _cell(number, row, column)
    return Estimate(*(float(found[name]) for name in ("ours", "low", "high")), int(found["runs"]))


def claimed(claim: str, study: str, measurement: str = "") -> Estimate:
    """Return what `figures/claims.csv` has of a claim in a study: the measurement that decides, or one by its name.

    Raises KeyError where it has not exactly one.
    """
    frame = pd.read_csv(paths.figures() / "claims.csv")
    chosen = frame["measurement"] == measurement if measurement else frame["role"] == "primary"
    found = frame[(frame["claim"] == claim) & (frame["study"] == study) & chosen]
    if len(found) != 1:
        raise KeyError(f"claims.csv: {len(found)} measurements of {claim!r} in {study!r}")
    return Estimate(*found.iloc[0][["estimate", "low", "high"]].astype(float), int(found.iloc[0]["n"]))


def printed(number: int, row: str, column: str) -> float:
    """Return the paper's number in a cell."""
    return float(_cell(number, row, column)["published"])


def difference(number: int, column: str) -> Estimate:
    """Return High − Original of one column of scores in the model with most runs, with its paired 95 % interval."""
    found = score_differences(number).set_index("column").loc[column]
    return Estimate(found["difference"], found["difference_low"], found["difference_high"], int(found["runs"]))


def score_differences(number: int = 8) -> pd.DataFrame:
    """Return High − Original of each task that was run: column, difference, difference_low, difference_high, runs."""
    frame = rows(number)
    return frame[frame["difference"].notna() & frame["row"].str.endswith(" High")]


def gains_beyond_zero() -> tuple[int, int]:
    """Count our intervals of High − Original in figures/figure-gains.csv that leave out 0, and all of them."""
    frame = pd.read_csv(paths.figures() / "figure-gains.csv")
    ours = frame[frame["of"] == "ours"].dropna(subset=["low", "high"])
    return int(((ours["low"] > 0) | (ours["high"] < 0)).sum()), len(ours)


def below_words(number: int = 8) -> tuple[int, int]:
    """Count the tasks on which our Original scores below the bag of words, and the tasks where both have a score."""
    frame = rows(number)
    scores = frame.assign(ours=pd.to_numeric(frame["ours"], errors="coerce")).dropna(subset="ours").set_index("column")
    plain = scores[scores["row"].str.fullmatch("BERT-.* Original")]["ours"]  # of the sizes that have a run
    both = pd.concat([plain, scores[scores["row"] == "bag of words"]["ours"]], axis=1).dropna()
    words = both.drop("Avg", errors="ignore").to_numpy()
    return int((words[:, 0] < words[:, 1]).sum()), len(words)


def _cell(number: int, row: str, column: str) -> pd.Series:
    frame = rows(number)
    found = frame[(frame["row"] == row) & (frame["column"] == column)]
    if len(found) != 1:
        raise KeyError(f"table{number}.csv: {len(found)} cells {row!r}, {column!r}")
    return found.iloc[0]
