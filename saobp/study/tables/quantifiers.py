"""All, both, most, mean: how many parts of a statement have to hold, and the interval that decides it.

Each part (a size, a task) has a number that is above 0 if the statement holds there. That k parts hold is the same as
that the k-th largest of these numbers is above 0. Where the parts' 95 % intervals hold together, the k-th largest of
their lower ends and the k-th largest of their upper ends enclose it. Bonferroni's correction makes them hold together;
Holm's is sharper, but gives p-values and no intervals that do.
"""

from bisect import bisect_left
from collections.abc import Sequence
from math import inf, isnan, sqrt

import numpy as np
from scipy import stats

from saobp.study.statistics import Error, Estimate

NEEDED = {  # of so many parts
    "all": lambda parts: parts,
    "both": lambda parts: parts,
    "most": lambda parts: parts // 2 + 1,
    "mean": lambda parts: 1,
    "one": lambda parts: 1,
}
WHOLE = {"both": 2, "mean": 1, "one": 1}  # how many parts a quantifier speaks of; the others of any number
UNKNOWN = (float("-inf"), float("inf"))
NEAREST = 1 - 1e-9  # arctanh(1) is infinite
MANY = 10_000  # seeds that nobody trains


def reach(quantifier: str, intervals: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the interval of the weakest part that has to hold, from the (low, high) of every part.

    A lower end above 0 says that enough parts hold, an upper end below 0 that too many do not. A part that says
    nothing has the interval `UNKNOWN`. Raises ValueError for an unknown quantifier, or for another number of parts
    than it speaks of.
    """
    if quantifier not in NEEDED:
        raise ValueError(f"quantifier: {quantifier!r} is none of {', '.join(NEEDED)}")
    if not intervals or len(intervals) != WHOLE.get(quantifier, len(intervals)):
        raise ValueError(f"intervals: {quantifier!r} does not speak of {len(intervals)} parts")
    place = NEEDED[quantifier](len(intervals)) - 1
    lows, highs = (sorted(ends, reverse=True) for ends in zip(*intervals))
    return lows[place], highs[place]


def simultaneous(estimate: Estimate, looks: int, *, correlation: bool = False) -> tuple[float, float]:
    """Return an estimate's interval at 1 - 0.05 / `looks` (NaN ends where it has none).

    So many intervals of this level hold together at 95 % whatever they share (Bonferroni). A correlation's is
    widened as Fisher's z, which keeps it between -1 and 1; so is the error behind it.
    """
    if isnan(estimate.low) or isnan(estimate.high):
        return float("nan"), float("nan")
    ends = np.array([estimate.low, estimate.value, estimate.high])
    low, value, high = np.arctanh(ends.clip(-NEAREST, NEAREST)) if correlation else ends
    if estimate.error is None:
        wider = float(stats.norm.isf(0.025 / looks) / stats.norm.isf(0.025))
        below, above = wider * (value - low), wider * (high - value)
    else:
        below = above = estimate.error.reach(1 - 0.05 / looks)
    ends = np.array([value - below, value + above])
    low, high = np.tanh(ends) if correlation else ends
    return float(low), float(high)


def seeds_needed(estimate: Estimate, looks: int, *, least: float = 0.0, correlation: bool = False) -> int | None:
    """Return from how many seeds on the interval of `simultaneous` leaves `least`, if nothing but their number changes.

    The value, the spread over seeds and the error over items stay as they are; the items are shared by all seeds, so
    their error does not shrink. None where more than `MANY` seeds would be needed. A correlation over runs needs
    what Fisher's z needs, one draw a seed.
    """
    ends = np.array([estimate.low, estimate.value, estimate.high, least])
    low, value, high, least = np.arctanh(ends.clip(-NEAREST, NEAREST)) if correlation else ends
    error = estimate.error or Error(((float(high - low) / 2 / float(stats.norm.isf(0.025)), inf),))

    def reach(seeds: int) -> float:
        if correlation and estimate.error is None:
            return float(stats.norm.isf(0.025 / looks)) / sqrt(max(seeds - 3, 1e-9))
        return error.with_seeds(estimate.seeds, seeds).reach(1 - 0.05 / looks)

    if reach(MANY) >= abs(value - least):
        return None
    return bisect_left(range(MANY), True, lo=2, key=lambda seeds: reach(seeds) < abs(value - least))
