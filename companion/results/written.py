"""Numbers of the table of results as readers see them: looked up by key, rounded, with interval and
n.
"""

import pandas as pd

from companion.results import table
from companion.setup import labels
from companion.statistics import Estimate
from companion.tables import cells

# units that stand behind a number
NAMED = ("points", "nats", "percent")
# units of numbers that have no sign
UNSIGNED = ("r", "ratio", "ratio of steps", "ratio of times")


def estimate(row: pd.Series) -> Estimate:
    """Return a row's number with its interval and n."""
    return Estimate(row["estimate"], row["low"], row["high"], row["n"])


def effect(key: str, digits: int = 2, *, unit: bool = False) -> str:
    """Return a comparison with its plain interval: "+0.31 [−0.38, 1.00]", with its `unit` behind the
    number.

    A ratio and a correlation have no sign.
    """
    return of_row(table.find(key), digits, unit=unit)


def of_row(row: pd.Series, digits: int = 2, *, unit: bool = False) -> str:
    """Return the number of a row of the table, as `effect` does."""
    name = row["unit"] if unit and row["unit"] in NAMED else ""
    if row["unit"] in UNSIGNED or "−" not in row["contrast"]:
        return cells.measured(estimate(row), digits)
    return cells.effect(estimate(row), digits, name).replace("percent", "%")


def value(key: str, digits: int = 1, *, sign: bool = False) -> str:
    """Return a number alone, such as a level: "7.7"."""
    return cells.decimal(table.find(key)["estimate"], digits, "+" if sign else ",")


def size(key: str, digits: int = 1) -> str:
    """Return how large a number is, without its sign: for "falls by 0.7 points"."""
    return cells.decimal(abs(table.find(key)["estimate"]), digits, ",")


def count(key: str) -> str:
    """Return a count of how many: "19 of 21"."""
    row = table.find(key)
    return f"{row['estimate']:.0f} of {row['n']:,.0f}"


def n(key: str) -> str:
    """Return how many stand behind a number, and of what: "7 seeds", "1,500 pairs"."""
    row = table.find(key)
    return labels.counted(int(row["n"]), str(row["of_what"]).removesuffix("s"))


def outcome(key: str) -> str:
    """Return the one outcome of a row: "supported", "contradicted", "no effect" or "open"."""
    return str(table.find(key)["outcome"])


def expect(key: str, word: str) -> str:
    """Return nothing; ValueError where a row has another outcome than a sentence says of it."""
    now = outcome(key)
    if now != word:
        raise ValueError(f"{key} is {now or 'without an outcome'}, no longer {word}: write it anew")
    return ""
