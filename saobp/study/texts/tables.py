"""Numbers of the tables in `figures/`, cells and claims: the paper's beside ours, with interval, runs and items."""

import re
from itertools import pairwise

import pandas as pd

from saobp.study.setup import labels, paths
from saobp.study.statistics import Estimate

MEASUREMENT = ["claim", "study", "measurement"]


def read(name: str) -> pd.DataFrame:
    """Return figures/NAME.csv; of a table it has a row a cell, of the claims a row a measurement."""
    return pd.read_csv(paths.figures() / f"{name}.csv")


def cell(number: int, row: str, column: str) -> pd.Series:
    """Return a table's cell: published, ours, low, high, runs, …. Raises KeyError where the table has no such cell."""
    found = read(f"table{number}").query("row == @row and column == @column")
    if len(found) != 1:
        raise KeyError(f"table{number}.csv: {len(found)} cells {row!r}, {column!r}")
    return found.iloc[0]


def claimed(claim: str, study: str, beside: str = "") -> Estimate:
    """Return what decides a claim in a study, or stands `beside` it under a name that starts so; KeyError for none."""
    found = read("claims").query("claim == @claim and study == @study")
    aside = found["role"] == "aside"
    found = found[aside & found["measurement"].str.startswith(f"{beside},") if beside else ~aside]
    if len(found) != 1:
        which = f"{beside!r} beside" if beside else "of"
        raise KeyError(f"claims.csv: {len(found)} measurements {which} {claim!r} in {study!r}")
    row = found.iloc[0]
    return Estimate(*row[["estimate", "low", "high"]].astype(float), int(row["n"]))


def score_differences() -> dict[str, Estimate]:
    """Return High − Original of each task of Table 8 that was run, by column: paired, over runs and items.

    KeyError where a column has several, of several sizes or studies: a text has to say which.
    """
    frame = read("table8")
    found = frame[frame["difference"].notna() & frame["row"].str.endswith(" High")].set_index("column")
    if found.index.has_duplicates:
        raise KeyError(f"table8.csv: several rows of High have a difference, {sorted(set(found['row']))}")
    columns = ["difference", "difference_low", "difference_high", "runs"]
    return {column: Estimate(*gap) for column, gap in found[columns].iterrows()}


def below_words() -> tuple[int, int]:
    """Count the tasks on which our Original scores below the bag of words, and the tasks where both have a score."""
    frame = read("table8")
    scores = frame.assign(ours=pd.to_numeric(frame["ours"], errors="coerce")).dropna(subset="ours").set_index("column")
    plain = scores[scores["row"].str.fullmatch("BERT-.* Original")]["ours"]  # of the sizes that have a run
    both = pd.concat([plain, scores[scores["row"] == "bag of words"]["ours"]], axis=1).dropna()
    words = both.drop("Avg", errors="ignore").to_numpy()
    return int((words[:, 0] < words[:, 1]).sum()), len(words)


def outcomes() -> pd.Series:
    """Return the outcome of each claim, by its title, in each study (figures/figure-claims.csv)."""
    return read("figure-claims").drop_duplicates(["title", "study"]).set_index("title")["outcome"]


def supported_in_part() -> int:
    """Count the supported outcomes of claims that name parts, sizes or tasks, of which some were not run."""
    text = (paths.figures() / "claims.md").read_text(encoding="utf-8")
    return len(re.findall(r"\| supported \([^)]*not run\)", text))


def contradicted() -> list[tuple[str, str]]:
    """Return the claims that are contradicted, each with n; "3 seeds", or "1 seed, its spread borrowed"."""
    deciding = read("figure-claims").query("decides and outcome == 'contradicted'")
    found = deciding.merge(read("claims")[[*MEASUREMENT, "n", "of"]], on=MEASUREMENT)
    lent = ((found["n"] == 1) & (found["of"] == "seeds")).map({True: ", its spread borrowed", False: ""})
    counts = [labels.counted(int(row.n), row.of.removesuffix("s")) for row in found.itertuples()]
    return [*zip(found["title"], counts + lent)]


def claims(*starts: str) -> tuple[list[str], str]:
    """Return the first table of claims.md, cut before each claim of `starts` (or ValueError), and what follows it."""
    _, table, *below = (paths.figures() / "claims.md").read_text(encoding="utf-8").strip().split("\n\n")
    _, _, *lines = table.splitlines()
    named = read("figure-claims").drop_duplicates(["claim", "study"])["claim"].tolist()
    cuts = [named.index(start) for start in starts]
    parts = ["\n".join([*table.splitlines()[:2], *lines[one:other]]) for one, other in pairwise([*cuts, len(lines)])]
    return parts, "\n\n".join(below)
