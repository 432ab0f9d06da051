"""Paired comparison of two algorithms on the same items, and the correction for many comparisons."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

import numpy as np

from saobp.study.statistics.errors import Error

FEW = 64  # distinct outcome columns up to which counting them is quicker than drawing items


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


def paired_bootstrap(
    ours: Sequence[Sequence[float]] | np.ndarray,
    theirs: Sequence[Sequence[float]] | np.ndarray,
    *,
    resamples: int = 2000,
    level: float = 0.95,
    seed: int = 0,
) -> Difference:
    """Compare two algorithms on the same items, with seeds as a random effect.

    `ours` and `theirs` hold one row of item outcomes a seed (a single row for one seed). Items are drawn
    with replacement for both algorithms at once; the covariance of two seeds under the same draws is the error
    of the items. The spread over seeds adds the error of the seeds, in pairs where both have the same number of
    them; what the items do to one seed alone is in that spread and not counted twice. One seed against one seed
    covers the items only; one against several takes the others' spread for its own. The error is at least that of the
    items on the mean, lest seeds that agree by chance make it small. Interval and p-value are those of an `Error` of
    these parts. Where all items differ alike there is no interval (NaN ends), and p is that of the sign test.
    Raises ValueError if the items differ in number or there are none.
    """
    ours, theirs = np.atleast_2d(np.asarray(ours, float)), np.atleast_2d(np.asarray(theirs, float))
    if ours.shape[1] != theirs.shape[1] or ours.shape[1] == 0:
        raise ValueError(f"theirs: {theirs.shape[1]} items against {ours.shape[1]}; pairs need the same items")
    random = np.random.default_rng(seed)
    means = ours.mean(axis=1), theirs.mean(axis=1)
    if len(ours) == len(theirs):
        drawn = [_item_means(ours - theirs, resamples, random)]
    else:  # shared items, separate seeds
        both = _item_means(np.concatenate([ours, theirs]), resamples, random)
        drawn = [both[:, : len(ours)], -both[:, len(ours) :]]
    return _summary(*means, drawn, level, ours.shape[1])


def paired_correlations(
    ours: Sequence[np.ndarray] | np.ndarray, theirs: Sequence[np.ndarray] | np.ndarray, labels: np.ndarray, *,
    resamples: int = 2000, level: float = 0.95, seed: int = 0,
) -> Difference:  # fmt: skip
    """Compare two algorithms' correlations with the labels, in percent, on the same items.

    `ours` and `theirs` hold one entry a seed: a row of predictions, or a (run, item) table of the runs that
    started from one checkpoint, whose correlations are averaged. Pearson's r, and Matthews' for two classes,
    is computed anew on every draw of items; seeds are a random effect as in `paired_bootstrap`, in pairs where
    both have the same number of them. A constant predictor has r = 0.
    """
    random, items = np.random.default_rng(seed), len(labels)
    whole = np.full((1, items), 1 / items)
    counts = np.concatenate([whole, _item_counts(items, resamples, random)])
    first, second = (
        np.stack([_mean_correlation(runs, labels, counts) for runs in _by_seed(side)], axis=1)
        for side in (ours, theirs)
    )
    drawn = [first - second] if first.shape == second.shape else [first, -second]
    return _summary(first[0], second[0], [table[1:] for table in drawn], level, items)


def item_errors(
    rows: Sequence[np.ndarray] | np.ndarray, labels: np.ndarray | None = None, *, resamples: int = 2000, seed: int = 0
) -> tuple[float, float]:
    """Return the standard errors of a mean score over the items, in its unit: what its seeds share, and of their mean.

    `rows` hold one entry a seed: the items' outcomes, or with `labels` the predictions that `paired_correlations`
    takes. What the items do to one seed alone is in the seeds' own spread and not in the first; of a single seed both
    are the whole error.
    """
    random = np.random.default_rng(seed)
    if labels is None:
        drawn = _item_means(np.atleast_2d(np.asarray(rows, float)), resamples, random)
    else:
        counts = _item_counts(len(labels), resamples, random)
        drawn = np.stack([_mean_correlation(runs, labels, counts) for runs in _by_seed(rows)], axis=1)
    return _shared_error([drawn]), _mean_error([drawn])


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


def _summary(ours: np.ndarray, theirs: np.ndarray, drawn: list[np.ndarray], level: float, items: int) -> Difference:
    """Interval and two-sided p-value from the error and Student's law; `ours`, `theirs` by seed.

    `drawn` are (draw, seed) tables of what the drawn items give, whose sum over the tables is the difference: one
    where seeds are paired, else ours and minus theirs.
    Counting draws beyond zero could give no p below 1 / draws, too coarse for a correction over many cells,
    and few seeds have heavier tails than a bootstrap over them shows.
    """
    value, seeds = float(ours.mean() - theirs.mean()), min(len(ours), len(theirs))
    shared, least = _shared_error(drawn), _mean_error(drawn)
    between, few = _between([ours - theirs] if len(drawn) == 1 else [ours, theirs])
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


def _mean_error(drawn: list[np.ndarray]) -> float:
    """The error over the items of the mean of the seeds, from (draw, seed) tables whose sum is the score."""
    return float(np.std(sum(table.mean(axis=1) for table in drawn)))


def _shared_error(drawn: list[np.ndarray]) -> float:
    """The error over the items that all seeds share, from (draw, seed) tables whose sum is the score.

    It is the covariance of two seeds under the same items. What the items do to one seed alone is not in it: the
    seeds' own spread has that already.
    """
    variance = sum(_covariance_of_two(table) for table in drawn)
    if len(drawn) == 2:
        both = [table.mean(axis=1) for table in drawn]
        variance += 2 * np.cov(*both, ddof=0)[0, 1]
    return float(np.sqrt(max(0.0, variance)))


def _covariance_of_two(drawn: np.ndarray) -> float:
    """The mean covariance of two different columns; of a single one its variance."""
    covariance = np.atleast_2d(np.cov(drawn, rowvar=False, ddof=0))
    seeds = len(covariance)
    if seeds == 1:
        return float(covariance[0, 0])
    return float((covariance.sum() - np.trace(covariance)) / (seeds * (seeds - 1)))


def _item_means(table: np.ndarray, resamples: int, random: np.random.Generator) -> np.ndarray:
    """The means of a (seed, item) table's rows under resampled items: (draw, seed)."""
    patterns, weights = _item_weights(table, resamples, random)
    return weights @ patterns.T


def _item_weights(table: np.ndarray, resamples: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Distinct item columns, and how often each is drawn: items with equal outcomes need only be counted."""
    patterns, counts = np.unique(table, axis=1, return_counts=True)
    if len(counts) > FEW:
        return table, _item_counts(table.shape[1], resamples, random)
    total = counts.sum()
    return patterns, random.multinomial(total, counts / total, size=resamples) / total


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
