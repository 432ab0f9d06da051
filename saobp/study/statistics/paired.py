"""Paired comparison of two algorithms on the same items, and the correction for many comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from saobp.study.statistics.intervals import Error, Estimate

RESAMPLES = 2000  # draws of the items, of a correlation


def paired_difference(
    ours: Sequence[Sequence[float]] | np.ndarray, theirs: Sequence[Sequence[float]] | np.ndarray
) -> Estimate:
    """Compare two algorithms on the same items, with seeds as a random effect.

    `ours` and `theirs` hold one row of item outcomes per seed (a single row for one seed). The covariance of two
    seeds' means over shared items, in closed form, is the error of the items. The spread over seeds adds the error of
    the seeds, in pairs where both have the same number of them; what the items do to one seed alone is in that spread
    and not counted twice. One seed against one seed covers the items only; one against several takes the others'
    spread for its own. The error is at least that of the items on the mean, lest seeds that agree by chance make it
    small. Interval and p-value are those of an `Error` of these parts. Where all items differ alike there is no
    interval (NaN ends), and p is that of the sign test.
    Raises ValueError if the items differ in number or there are none.
    """
    ours, theirs = np.atleast_2d(np.asarray(ours, float)), np.atleast_2d(np.asarray(theirs, float))
    if ours.shape[1] != theirs.shape[1] or ours.shape[1] == 0:
        raise ValueError(f"theirs: {theirs.shape[1]} items against {ours.shape[1]}; pairs need the same items")
    parts = [ours - theirs] if len(ours) == len(theirs) else [ours, -theirs]  # or shared items, separate seeds
    return _summary([part.mean(axis=1) for part in parts], _of_means(np.concatenate(parts)), ours.shape[1])


def paired_correlations(
    ours: Sequence[np.ndarray] | np.ndarray, theirs: Sequence[np.ndarray] | np.ndarray, labels: np.ndarray, *,
    resamples: int = RESAMPLES,
) -> Estimate:  # fmt: skip
    """Compare two algorithms' correlations with the labels, in percent, on the same items.

    `ours` and `theirs` hold one entry a seed: a row of predictions, or a (run, item) table of the runs that
    started from one checkpoint, whose correlations are averaged. Pearson's r, and Matthews' for two classes,
    is computed anew on every draw of items; seeds are a random effect as in `paired_difference`, in pairs where
    both have the same number of them. A constant predictor has r = 0.
    """
    whole = np.full((1, len(labels)), 1 / len(labels))
    first, second = (
        np.vstack([_correlations(side, labels, counts) for counts in (whole, _item_counts(len(labels), resamples))])
        for side in (ours, theirs)
    )
    parts = [first - second] if first.shape == second.shape else [first, -second]
    return _summary([part[0] for part in parts], _of_draws(np.hstack([part[1:] for part in parts])), len(labels))


def item_errors(
    rows: Sequence[np.ndarray] | np.ndarray, labels: np.ndarray | None = None, *, resamples: int = RESAMPLES
) -> tuple[float, float]:
    """Return the standard errors of a mean score over the items, in its unit: what its seeds share, and of their mean.

    `rows` hold one entry a seed: the items' outcomes, or with `labels` the predictions that `paired_correlations`
    takes. What the items do to one seed alone is in the seeds' own spread and not in the first; of a single seed both
    are the whole error.
    """
    if labels is None:
        covariance = _of_means(np.atleast_2d(np.asarray(rows, float)))
    else:
        covariance = _of_draws(_correlations(rows, labels, _item_counts(len(labels), resamples)))
    return _errors(covariance, [len(covariance)])


def _correlations(side: Sequence[np.ndarray] | np.ndarray, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """r in percent under each row of item weights, a column a seed: the mean over the runs of one checkpoint."""
    seeds = (np.atleast_2d(np.asarray(runs, float)) for runs in (side if np.ndim(side[0]) else [side]))
    columns = [np.mean([_weighted_correlation(run, labels, weights) for run in runs], axis=0) for runs in seeds]
    return 100 * np.stack(columns, axis=1)


def _weighted_correlation(x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Pearson's r of x and y under each row of item weights; 0 where one of them is constant."""
    x, y = x - x.mean(), y - y.mean()
    mean_x, mean_y = weights @ x, weights @ y
    spread = np.sqrt((weights @ x**2 - mean_x**2).clip(0) * (weights @ y**2 - mean_y**2).clip(0))
    covariance = weights @ (x * y) - mean_x * mean_y
    return np.divide(covariance, spread, out=np.zeros_like(spread), where=spread > 1e-12)


def _summary(parts: list[np.ndarray], covariance: np.ndarray, items: int) -> Estimate:
    """Interval and two-sided p-value from the error and Student's law.

    `parts` are numbers by seed whose means add up to the difference: those of pairs, or ours and minus theirs;
    `covariance` is what the items give all of them, one row per seed.
    """
    value, seeds = float(sum(part.mean() for part in parts)), min(map(len, parts))
    shared, least = _errors(covariance, [len(part) for part in parts])
    between, few = _between(parts)
    error = Error.of(float(np.sqrt(between)), few, shared, least=least)
    sign_test = min(1.0, 2 * 0.5**items) if value else 1.0
    return replace(Estimate.of(value, error, seeds, items), over_items=(shared, least), sign_test=sign_test)


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


def _of_draws(drawn: np.ndarray) -> np.ndarray:
    return np.atleast_2d(np.cov(drawn, rowvar=False, ddof=0))


def _errors(covariance: np.ndarray, sides: Sequence[int]) -> tuple[float, float]:
    """The errors over the items of a sum of means over so many seeds each: what seeds share, and that of the sum.

    For the first the covariance of two different seeds of a side stands for the variance of one: what the items do to
    one seed alone is in the seeds' own spread. Of a single seed it is the whole.
    """
    weights, shared, end = np.concatenate([np.full(seeds, 1 / seeds) for seeds in sides]), covariance.copy(), 0
    for seeds in sides:
        block = shared[end : end + seeds, end : end + seeds]
        if seeds > 1:
            np.fill_diagonal(block, (block.sum() - np.trace(block)) / (seeds * (seeds - 1)))
        end += seeds
    return tuple(float(np.sqrt(max(0.0, weights @ matrix @ weights))) for matrix in (shared, covariance))


def _item_counts(items: int, resamples: int) -> np.ndarray:
    """Share of each item in draws of all items with replacement; quicker than a multinomial draw."""
    drawn = np.random.default_rng(0).integers(0, items, size=(resamples, items))
    drawn += items * np.arange(resamples)[:, None]
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
