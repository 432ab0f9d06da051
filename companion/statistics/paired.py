"""Paired comparison of two algorithms on the same items, and the correction for many
comparisons.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from math import sqrt

import numpy as np

from companion.statistics.intervals import Error, Estimate

# draws of the items, of a correlation
RESAMPLES = 2000
# one entry a seed
Rows = Sequence[np.ndarray] | np.ndarray


def paired_difference(ours: Rows, theirs: Rows, labels: np.ndarray | None = None) -> Estimate:
    """Compare two algorithms on the same items, with seeds as a random effect.

    `ours` and `theirs` hold one entry a seed (a single row for one seed): the outcomes of the
    items, whose mean is the score. With `labels` the score is Pearson's r with them in percent, 0
    for a constant predictor; an entry is then a row of predictions, or a (run, item) table of the
    runs from one checkpoint, whose correlations are averaged.

    The `Error` has two parts, together at least that of the items on the mean: of the items, the
    covariance of two seeds' scores over shared items (closed form, or over draws of the items), and
    of the seeds, their spread, in pairs where both sides have as many; one seed against several
    takes the others' spread for its own. Where all items differ alike there is no interval (NaN
    ends), and p is that of the sign test. Raises ValueError if the items differ in number or there
    are none.
    """
    items = [np.shape(side[0])[-1] if np.ndim(side[0]) else len(side) for side in (ours, theirs)]
    if items[0] != items[1] or items[0] == 0:
        raise ValueError(f"theirs: {items[1]} items against {items[0]}; pairs need the same items")
    (left, over), (right, others) = (_scores(side, labels) for side in (ours, theirs))
    if len(left) == len(right):
        parts, drawn = [left - right], over - others
    # shared items, separate seeds
    else:
        parts, drawn = [left, -right], np.vstack([over, -others])
    value, seeds = float(sum(part.mean() for part in parts)), min(map(len, parts))
    shared, least = _errors(drawn, labels, [len(part) for part in parts])
    # of a seed on each side
    spread, freedom = 0.0, 1
    several = [part for part in parts if len(part) > 1]
    if several:
        for part in parts:
            known = part if len(part) > 1 else several[0]
            spread += known.var(ddof=1) / len(part)
        freedom = min(map(len, several)) - 1
    error = Error.of(sqrt(spread), freedom, shared, least=least)
    sign_test = min(1.0, 2 * 0.5 ** items[0]) if value else 1.0
    estimate = Estimate.of(value, error, seeds, items[0])
    return replace(estimate, over_items=(shared, least), sign_test=sign_test)


def item_errors(rows: Rows, labels: np.ndarray | None = None) -> tuple[float, float]:
    """Return the standard errors of a mean score over the items, in its unit: what its seeds share,
    and of their mean.

    `rows` and `labels` are those of `paired_difference`. Of a single seed both are the whole error.
    """
    _, drawn = _scores(rows, labels)
    return _errors(drawn, labels, [len(drawn)])


def _scores(side: Rows, labels: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Each seed's score, and what shows its error over the items: the outcomes, or the scores of
    draws of the items.
    """
    if labels is None:
        outcomes = np.atleast_2d(np.asarray(side, float))
        return outcomes.mean(axis=1), outcomes
    weights = _item_shares(len(labels))
    scores = []
    for seed in side if np.ndim(side[0]) else [side]:
        runs = np.atleast_2d(np.asarray(seed, float))
        scores.append(np.mean([_weighted(run, labels, weights) for run in runs], axis=0))
    percent = 100 * np.stack(scores)
    return percent[:, 0], percent[:, 1:]


@lru_cache(maxsize=2)
def _item_shares(items: int) -> np.ndarray:
    """Share of each item: of all alike, then in draws of all items with replacement (quicker than a
    multinomial).
    """
    drawn = np.random.default_rng(0).integers(0, items, size=(RESAMPLES, items))
    drawn += items * np.arange(RESAMPLES)[:, None]
    counts = np.bincount(drawn.ravel(), minlength=RESAMPLES * items).reshape(drawn.shape)
    return np.vstack([np.ones(items), counts]) / items


def _weighted(x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Pearson's r of x and y under each row of item weights; 0 where one of them is constant."""
    x, y = x - x.mean(), y - y.mean()
    mean_x, mean_y = weights @ x, weights @ y
    variance_x = (weights @ x**2 - mean_x**2).clip(0)
    variance_y = (weights @ y**2 - mean_y**2).clip(0)
    spread = np.sqrt(variance_x * variance_y)
    covariance = weights @ (x * y) - mean_x * mean_y
    return np.divide(covariance, spread, out=np.zeros_like(spread), where=spread > 1e-12)


def _errors(
    drawn: np.ndarray, labels: np.ndarray | None, sides: Sequence[int]
) -> tuple[float, float]:
    """The errors over the items of a sum of means over so many seeds each: what seeds share, and
    that of the sum.

    For the first the covariance of two seeds of a side stands for the variance of one, whose own is
    in their spread.
    """
    covariance = np.atleast_2d(np.cov(drawn, ddof=0))
    if labels is None:
        covariance /= drawn.shape[1]
    weights = np.repeat(1 / np.array(sides), sides)
    shared, end = covariance.copy(), 0
    for seeds in sides:
        block = shared[end : end + seeds, end : end + seeds]
        if seeds > 1:
            np.fill_diagonal(block, (block.sum() - np.trace(block)) / (seeds * (seeds - 1)))
        end += seeds
    variances = (weights @ matrix @ weights for matrix in (shared, covariance))
    return tuple(float(np.sqrt(max(0.0, variance))) for variance in variances)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values so that the chance of any false finding stays below the level (Holm 1979);
    NaN does not count.
    """
    p = np.asarray(p_values, dtype=float)
    # NaN is sorted last
    order = np.argsort(p, kind="stable")[: np.isfinite(p).sum()]
    steps = p[order] * np.arange(len(order), 0, -1)
    adjusted = np.full(len(p), np.nan)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(steps))
    return adjusted.tolist()
