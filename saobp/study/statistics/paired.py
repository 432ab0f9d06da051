"""Paired comparison of two algorithms on the same items, and the correction for many comparisons."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

import numpy as np

from saobp.study.statistics.errors import Error


@dataclass(frozen=True)
class Difference:
    """Mean difference of two algorithms with its 95 % interval and two-sided p-value."""

    value: float
    low: float
    high: float
    p: float
    seeds: int
    items: int
    item_error: float = nan  # the part of its standard error that the seeds share: of the items alone
    mean_error: float = nan  # that of the items on the mean of these seeds: what the whole error is at least


def paired_difference(
    ours: Sequence[Sequence[float]] | np.ndarray, theirs: Sequence[Sequence[float]] | np.ndarray, *,
    level: float = 0.95,
) -> Difference:  # fmt: skip
    """Compare two algorithms on the same items, with seeds as a random effect.

    `ours` and `theirs` hold one row of item outcomes per seed (a single row for one seed). The covariance of two
    seeds' means over shared items, in closed form, is the error of the items. The spread over seeds adds the error of
    the seeds, in pairs where both have the same number of
    them; what the items do to one seed alone is in that spread and not counted twice. One seed against one seed
    covers the items only; one against several takes the others' spread for its own. The error is at least that of the
    items on the mean, lest seeds that agree by chance make it small. Interval and p-value are those of an `Error` of
    these parts. Where all items differ alike there is no interval (NaN ends), and p is that of the sign test.
    Raises ValueError if the items differ in number or there are none.
    """
    ours, theirs = np.atleast_2d(np.asarray(ours, float)), np.atleast_2d(np.asarray(theirs, float))
    if ours.shape[1] != theirs.shape[1] or ours.shape[1] == 0:
        raise ValueError(f"theirs: {theirs.shape[1]} items against {ours.shape[1]}; pairs need the same items")
    means, pairs = (ours.mean(axis=1), theirs.mean(axis=1)), len(ours) == len(theirs)
    signed = [ours - theirs] if pairs else [ours, -theirs]  # or shared items, separate seeds
    covariance = _of_means(np.concatenate(signed))
    return _summary(*means, covariance, [len(table) for table in signed], level, ours.shape[1])


def paired_correlations(
    ours: Sequence[np.ndarray] | np.ndarray, theirs: Sequence[np.ndarray] | np.ndarray, labels: np.ndarray, *,
    resamples: int = 2000, level: float = 0.95, seed: int = 0,
) -> Difference:  # fmt: skip
    """Compare two algorithms' correlations with the labels, in percent, on the same items.

    `ours` and `theirs` hold one entry a seed: a row of predictions, or a (run, item) table of the runs that
    started from one checkpoint, whose correlations are averaged. Pearson's r, and Matthews' for two classes,
    is computed anew on every draw of items; seeds are a random effect as in `paired_difference`, in pairs where
    both have the same number of them. A constant predictor has r = 0.
    """
    random, items = np.random.default_rng(seed), len(labels)
    whole = np.full((1, items), 1 / items)
    counts = np.concatenate([whole, _item_counts(items, resamples, random)])
    first, second = (
        np.stack([_mean_correlation(runs, labels, counts) for runs in _by_seed(side)], axis=1)
        for side in (ours, theirs)
    )
    signed = [first - second] if first.shape == second.shape else [first, -second]
    covariance = np.atleast_2d(np.cov(np.concatenate([table[1:] for table in signed], axis=1), rowvar=False, ddof=0))
    return _summary(first[0], second[0], covariance, [table.shape[1] for table in signed], level, items)


def item_errors(
    rows: Sequence[np.ndarray] | np.ndarray, labels: np.ndarray | None = None, *, resamples: int = 2000, seed: int = 0
) -> tuple[float, float]:
    """Return the standard errors of a mean score over the items, in its unit: what its seeds share, and of their mean.

    `rows` hold one entry a seed: the items' outcomes, or with `labels` the predictions that `paired_correlations`
    takes. What the items do to one seed alone is in the seeds' own spread and not in the first; of a single seed both
    are the whole error.
    """
    if labels is None:
        covariance = _of_means(np.atleast_2d(np.asarray(rows, float)))
    else:
        counts = _item_counts(len(labels), resamples, np.random.default_rng(seed))
        drawn = np.stack([_mean_correlation(runs, labels, counts) for runs in _by_seed(rows)], axis=1)
        covariance = np.atleast_2d(np.cov(drawn, rowvar=False, ddof=0))
    return _shared_error(covariance, [len(covariance)]), _mean_error(covariance, [len(covariance)])


def _by_seed(side: Sequence[np.ndarray] | np.ndarray) -> list[np.ndarray]:
    """A (run, item) table a seed; a single row of predictions is one seed."""
    rows = side if np.ndim(side[0]) else [side]
    return [np.atleast_2d(np.asarray(row, float)) for row in rows]


def _mean_correlation(runs: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The mean over some runs of r in percent, under each row of item weights."""
    return 100 * np.mean([_weighted_correlation(row, labels, weights) for row in runs], axis=0)


def _weighted_correlation(x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Pearson's r of x and y under each row of item weights; 0 where one of them is constant."""
    x, y = x - x.mean(), y - y.mean()
    mean_x, mean_y = weights @ x, weights @ y
    spread = np.sqrt((weights @ x**2 - mean_x**2).clip(0) * (weights @ y**2 - mean_y**2).clip(0))
    covariance = weights @ (x * y) - mean_x * mean_y
    return np.divide(covariance, spread, out=np.zeros_like(spread), where=spread > 1e-12)


def _summary(
    ours: np.ndarray, theirs: np.ndarray, covariance: np.ndarray, sides: list[int], level: float, items: int
) -> Difference:
    """Interval and two-sided p-value from the error and Student's law; `ours`, `theirs` by seed.

    `covariance` is what the items give the seeds' scores, one row per seed: differences of pairs, or ours and minus
    theirs; `sides` are the numbers of seeds of these parts, whose means add up to the difference.
    """
    value, seeds = float(ours.mean() - theirs.mean()), min(len(ours), len(theirs))
    shared, least = _shared_error(covariance, sides), _mean_error(covariance, sides)
    between, few = _between([ours - theirs] if len(sides) == 1 else [ours, theirs])
    error = Error.of(float(np.sqrt(between)), few, shared, least=least)
    if error.size == 0:
        p = min(1.0, 2 * 0.5**items) if value else 1.0
        return Difference(value, nan, nan, p, seeds, items, shared, least)
    reach = error.reach(level)
    return Difference(value, value - reach, value + reach, error.p(value), seeds, items, shared, least)


def _between(parts: Sequence[np.ndarray]) -> tuple[float, int]:
    """The variance that seeds give a difference of means, and its degrees of freedom; none for one seed each.

    Of one seed against several the spread is not known, and that of the others stands for it.
    """
    known = [part for part in parts if len(part) > 1]
    if not known:
        return 0.0, 1
    spread = [part.var(ddof=1) if len(part) > 1 else known[0].var(ddof=1) for part in parts]
    return float(sum(each / len(part) for each, part in zip(spread, parts))), min(map(len, known)) - 1


def _of_means(table: np.ndarray) -> np.ndarray:
    """The covariance of the rows' means over the items, (seed, seed): that of the items, over their number."""
    return np.atleast_2d(np.cov(table, ddof=0)) / table.shape[1]


def _blocks(covariance: np.ndarray, sides: list[int]) -> list[np.ndarray]:
    ends = np.cumsum(sides)
    return [covariance[end - side : end, end - side : end] for end, side in zip(ends, sides)]


def _across(covariance: np.ndarray, sides: list[int]) -> float:
    """Twice the covariance of the two sides' means; 0 of one side."""
    return 2 * float(covariance[: sides[0], sides[0] :].mean()) if len(sides) == 2 else 0.0


def _mean_error(covariance: np.ndarray, sides: list[int]) -> float:
    """The error over the items of the mean of the seeds."""
    variance = sum(float(block.mean()) for block in _blocks(covariance, sides)) + _across(covariance, sides)
    return float(np.sqrt(max(0.0, variance)))


def _shared_error(covariance: np.ndarray, sides: list[int]) -> float:
    """The error over the items that all seeds share: the covariance of two seeds under the same items.

    What the items do to one seed alone is not in it: the seeds' own spread has that already.
    """
    variance = sum(map(_covariance_of_two, _blocks(covariance, sides))) + _across(covariance, sides)
    return float(np.sqrt(max(0.0, variance)))


def _covariance_of_two(covariance: np.ndarray) -> float:
    """The mean covariance of two different seeds; of a single one its variance."""
    seeds = len(covariance)
    if seeds == 1:
        return float(covariance[0, 0])
    return float((covariance.sum() - np.trace(covariance)) / (seeds * (seeds - 1)))


def _item_counts(items: int, resamples: int, random: np.random.Generator) -> np.ndarray:
    """Share of each item in draws of all items with replacement; quicker than a multinomial draw."""
    drawn = random.integers(0, items, size=(resamples, items)) + items * np.arange(resamples)[:, None]
    return np.bincount(drawn.ravel(), minlength=resamples * items).reshape(resamples, items) / items


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values so that the chance of any false finding stays below the level (Holm 1979).

    NaN (a comparison that was not made) stays NaN and does not count. The adjusted values keep the order of
    the given ones, are never smaller than them, and never above 1.
    """
    p = np.asarray(p_values, dtype=float)
    adjusted = np.full(len(p), np.nan)
    made = np.flatnonzero(~np.isnan(p))
    order = made[np.argsort(p[made], kind="stable")]
    steps = p[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(steps)) if len(order) else []
    return adjusted.tolist()
