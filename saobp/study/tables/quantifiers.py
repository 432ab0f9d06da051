"""All, both, most, mean: how many parts of a statement have to hold, and the interval that decides it.

Each part (a size, a task) has a number that is above 0 if the statement holds there. That k parts hold is the same as
that the k-th largest of these numbers is above 0. Where the parts' 95 % intervals hold together, the k-th largest of
their lower ends and the k-th largest of their upper ends enclose it. Bonferroni's correction makes them hold together;
Holm's is sharper, but gives p-values and no intervals that do.
"""

from collections.abc import Sequence
from math import isnan

import numpy as np
from scipy import stats

from saobp.study.statistics import Estimate

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
    """Return an estimate's interval at 1 - 0.05 / `looks`, by Student's law (NaN ends where it has none).

    So many intervals of this level hold together at 95 % whatever they share (Bonferroni). A correlation's is
    widened as Fisher's z, which keeps it between -1 and 1.
    """
    if isnan(estimate.low) or isnan(estimate.high):
        return float("nan"), float("nan")
    law = stats.t(estimate.freedom)
    wider = float(law.isf(0.025 / looks) / law.isf(0.025))
    ends = np.array([estimate.low, estimate.value, estimate.high])
    low, value, high = np.arctanh(ends.clip(-NEAREST, NEAREST)) if correlation else ends
    ends = np.array([value - wider * (value - low), value + wider * (high - value)])
    low, high = np.tanh(ends) if correlation else ends
    return float(low), float(high)
