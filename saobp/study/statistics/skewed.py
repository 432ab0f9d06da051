"""Intervals of a mean that do not take the differences of seeds for normal: by permutation, and by BCa."""

from collections.abc import Sequence

import numpy as np
from scipy import stats

DRAWS = 10_000


def sign_flip_interval(values: Sequence[float], level: float = 0.95, *, seed: int = 0) -> tuple[float, float]:
    """Return the centres that a sign-flip test of these differences does not reject.

    A centre is rejected where flipping the signs of the deviations from it leaves a mean as far out in fewer than 1 -
    `level` of the draws; the means of random subsets are where that changes. Exact where differences are symmetric,
    whatever their law. With five values or fewer no interval of 95 % exists: infinite ends. Source: Hartigan 1969.
    """
    values, tail = np.asarray(values, float), 0.5 - level / 2
    if 0.5 ** len(values) > tail:
        return float("-inf"), float("inf")
    chosen = np.random.default_rng(seed).random((DRAWS, len(values))) < 0.5
    chosen = chosen[chosen.any(axis=1)]
    low, high = np.quantile(chosen @ values / chosen.sum(axis=1), [tail, 1 - tail])
    return float(low), float(high)


def bca_interval(values: Sequence[float], level: float = 0.95, *, seed: int = 0) -> tuple[float, float]:
    """Return the bias-corrected and accelerated bootstrap interval of the mean (Efron 1987); for ten values or more."""
    found = stats.bootstrap(
        (np.asarray(values, float),), np.mean, confidence_level=level, n_resamples=DRAWS, method="BCa", rng=seed
    )
    return tuple(map(float, found.confidence_interval))
