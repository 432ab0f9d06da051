"""Means over seeds: with a spread that several cells lend one another, and without taking seeds for normal."""

from collections.abc import Sequence

import numpy as np
from scipy import stats

from saobp.study.statistics.errors import Error
from saobp.study.statistics.intervals import Estimate

DRAWS = 10_000


def seed_variance(cells: Sequence[Sequence[float]]) -> tuple[float, int]:
    """Return the variance between the seeds of a cell, and its degrees of freedom: seeds less cells.

    A cell (a task, a size) has one number per seed. The model: number = mean of its cell + seed, where seeds have one
    variance in all cells; cells of one seed have no part in it. What the items share over seeds is not in it. Raises
    ValueError where every cell has one seed: nothing shows a spread.
    Source: the estimate of restricted maximum likelihood in a one-way layout (Patterson and Thompson 1971).
    """
    known = [np.asarray(cell, float) for cell in cells if len(cell) > 1]
    freedom = sum(len(cell) - 1 for cell in known)
    if not freedom:
        raise ValueError("cells: none has two seeds, so nothing shows how far seeds lie apart")
    return float(sum(((cell - cell.mean()) ** 2).sum() for cell in known) / freedom), freedom


def borrow(cells: Sequence[Sequence[float]], item_errors: Sequence[float]) -> list[Estimate]:
    """Estimate each cell's mean, with the spread between seeds that all cells show together.

    `item_errors`: standard errors over the items, per cell, which its seeds share (0 where there are none). The
    interval covers another choice of seeds and of items. Raises as `seed_variance` does.
    """
    variance, freedom = seed_variance(cells)
    return [
        Estimate.of(float(np.mean(cell)), Error.of(float(np.sqrt(variance / len(cell))), freedom, items), len(cell))
        for cell, items in zip(cells, item_errors, strict=True)
    ]


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
