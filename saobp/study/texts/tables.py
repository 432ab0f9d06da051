"""Numbers of the tables in `figures/`, cells and claims: the paper's beside ours, with interval, runs and items."""

from functools import cache
from itertools import pairwise

import pandas as pd

from saobp.study.setup import paths
from saobp.study.statistics import Estimate
from saobp.study.tables import render

DECIDED = "§"  # beside an outcome that is another without one algorithm or size
LEFT_OUT = "Left out"  # the column of the table of sensitivity that says what was left out


@cache
def rows(number: int) -> pd.DataFrame:
    """Return a table's cells, a row a cell."""
    return pd.read_csv(paths.figures() / f"table{number}.csv")


def cell(number: int, row: str, column: str) -> Estimate:
    """Return our number in a cell. Raises KeyError where the table has no such cell."""
    found = _cell(number, row, column)
    return Estimate(*(float(found[name]) for name in ("ours", "low", "high")), int(found["runs"]))


def claimed(claim: str, study: str) -> Estimate:
    """Return the measurement that decides a claim in a study (`figures/claims.csv`). KeyError where not exactly one."""
    found = pd.read_csv(paths.figures() / "claims.csv").query("claim == @claim and study == @study and role != 'aside'")
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


def below_words() -> tuple[int, int]:
    """Count the tasks on which our Original scores below the bag of words, and the tasks where both have a score."""
    frame = rows(8)
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


def outcomes() -> pd.Series:
    """Return the outcome of each claim, by its title, in each study (figures/figure-claims.csv)."""
    found = pd.read_csv(paths.figures() / "figure-claims.csv").drop_duplicates(["title", "study"])
    return found.set_index("title")["outcome"]


def contradicted() -> list[tuple[str, str]]:
    """Return the claims that are contradicted, each with n; "3 seeds", or "1 seed, its spread borrowed"."""
    blocks = (paths.figures() / "claims.md").read_text(encoding="utf-8").split("\n\n")
    table = next(_read(block) for block in blocks if block.startswith("|"))
    methods = _deciding(pd.read_csv(paths.figures() / "claims.csv"))["method"]
    lent = methods.str.contains("borrowed", na=False).map({True: ", its spread borrowed", False: ""})
    table = table.assign(n=table["n"] + lent.tolist())[table["Outcome"].str.startswith("contradicted")]
    return [*zip(table["Claim"], table["n"])]


def claims(*starts: str) -> tuple[list[str], str]:
    """Return figures/claims.md in two parts: its first table, `marked` and cut before each claim of `starts`; the rest.

    Raises ValueError for a start that is no claim.
    """
    blocks = (paths.figures() / "claims.md").read_text(encoding="utf-8").strip().split("\n\n")
    found = {place: _read(block) for place, block in enumerate(blocks) if block.startswith("|")}
    left_out, first = [table for table in found.values() if LEFT_OUT in table], min(found)
    measurements = pd.read_csv(paths.figures() / "claims.csv")
    table, names = marked(found[first], measurements, *left_out), _deciding(measurements)["claim"].tolist()
    cuts = [names.index(start) for start in starts]
    table["Ours [95 %]"] = table["Ours [95 %]"].str.replace(", ", ",\N{NO-BREAK SPACE}")  # in one line
    parts = [render.markdown(table[one:other]) for one, other in pairwise([*cuts, len(table)])]
    return parts, "\n\n".join(blocks[first + 1 :])


def marked(table: pd.DataFrame, measurements: pd.DataFrame, left_out: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return the table of claims with `DECIDED`, and with the study where a claim has two rows of one scope.

    `measurements`: claims.csv, in the order of the table. `left_out`: number and outcome with all algorithms and sizes,
    and without one. Raises ValueError where the table has other rows than the measurements.
    """
    deciding = _deciding(measurements)
    if len(deciding) != len(table):
        raise ValueError(f"claims.md has {len(table)} rows and claims.csv {len(deciding)}")
    changing = set()
    for title, _, whole, without in left_out.itertuples(index=False) if left_out is not None else ():
        (number, outcome), (_, other) = whole.rsplit(", ", 1), without.rsplit(", ", 1)
        changing |= {(title, number)} if outcome != other else set()
    signs = [DECIDED * (key in changing) for key in zip(table["Claim"], table["Ours [95 %]"])]
    twice = table.duplicated(["Claim", "Scope"], keep=False) & (table["Scope"] != "–")
    studies = [f" ({study})" * two for study, two in zip(deciding["study"].astype(str), twice)]
    gaps = [" " * (bool(sign) and outcome[-1] not in "†‡") for sign, outcome in zip(signs, table["Outcome"])]
    return table.assign(Outcome=table["Outcome"] + gaps + signs, Scope=table["Scope"] + studies)


def _deciding(measurements: pd.DataFrame) -> pd.DataFrame:
    return measurements[measurements["role"] != "aside"].drop_duplicates(["claim", "study"])


def _read(table: str) -> pd.DataFrame:
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines())
    return pd.DataFrame(rows, columns=head)
