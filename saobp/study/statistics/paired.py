"""Paired comparison of two algorithms on the same items, and the correction for many comparisons."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

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
    with replacement for both algorithms at once; seeds likewise (S - 1 of S, which makes the variance over
    seeds unbiased), in pairs where both have the same number of seeds. One seed against one seed covers the
    items only. The p-value counts resamples on the far side of zero, so it is never 0. Raises ValueError if
    the items differ in number or there are none.
    """
    ours, theirs = np.atleast_2d(np.asarray(ours, float)), np.atleast_2d(np.asarray(theirs, float))
    if ours.shape[1] != theirs.shape[1] or ours.shape[1] == 0:
        raise ValueError(f"theirs: {theirs.shape[1]} items against {ours.shape[1]}; pairs need the same items")
    random = np.random.default_rng(seed)
    if len(ours) == len(theirs):
        draws = _draw(ours - theirs, resamples, random)
    else:
        draws = _draw_apart(ours, theirs, resamples, random)
    means = ours.mean(axis=1), theirs.mean(axis=1)
    return _summary(*means, draws, level, ours.shape[1])


def paired_correlations(
    ours: np.ndarray, theirs: np.ndarray, labels: np.ndarray, *, resamples: int = 2000, level: float = 0.95,
    seed: int = 0,
) -> Difference:  # fmt: skip
    """Compare two algorithms' correlations with the labels, in percent, on the same items.

    `ours` and `theirs` hold one row of predictions a seed. Pearson's r, and Matthews' for two classes, is
    computed anew on every draw of items; seeds are a random effect as in `paired_bootstrap`. A constant
    predictor has r = 0.
    """
    ours, theirs = np.atleast_2d(ours), np.atleast_2d(theirs)
    random = np.random.default_rng(seed)
    items = ours.shape[1]
    counts = _item_counts(items, resamples, random)
    sides = []
    for side in (ours, theirs):
        weights = _seed_weights(len(side), resamples, random)
        each = np.stack([_weighted_correlation(row, labels, counts) for row in side], axis=1)
        sides.append((weights * each).sum(axis=1))
    whole = np.full((1, items), 1 / items)
    first, second = (
        100 * np.concatenate([_weighted_correlation(row, labels, whole) for row in side]) for side in (ours, theirs)
    )
    return _summary(first, second, 100 * (sides[0] - sides[1]), level, items)


def _weighted_correlation(x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Pearson's r of x and y under each row of item weights; 0 where one of them is constant."""
    x, y = x - x.mean(), y - y.mean()
    mean_x, mean_y = weights @ x, weights @ y
    spread = np.sqrt((weights @ x**2 - mean_x**2).clip(0) * (weights @ y**2 - mean_y**2).clip(0))
    covariance = weights @ (x * y) - mean_x * mean_y
    return np.divide(covariance, spread, out=np.zeros_like(spread), where=spread > 1e-12)


def _summary(ours: np.ndarray, theirs: np.ndarray, draws: np.ndarray, level: float, items: int) -> Difference:
    """Interval and two-sided p-value from the bootstrap's error and Student's law; `ours`, `theirs` by seed.

    Counting draws beyond zero could give no p below 1 / draws, too coarse for a correction over many cells,
    and few seeds have heavier tails than a bootstrap over them shows.
    """
    value, error = float(ours.mean() - theirs.mean()), float(draws.std())
    seeds = min(len(ours), len(theirs))
    if error == 0:
        return Difference(value, value, value, 1.0 if value == 0 else 2 / (len(draws) + 1), seeds, items)
    law = stats.t(_freedom(ours, theirs, error))
    reach, p = float(law.ppf(0.5 + level / 2)) * error, float(2 * law.sf(abs(value) / error))
    return Difference(value, value - reach, value + reach, p, seeds, items)


def _freedom(ours: np.ndarray, theirs: np.ndarray, error: float) -> float:
    """Satterthwaite's degrees of freedom: the seeds' share of the variance has few, the items' many."""
    if min(len(ours), len(theirs)) < 2:
        return 1e6
    if len(ours) == len(theirs):
        between, few = (ours - theirs).var(ddof=1) / len(ours), len(ours) - 1
    else:
        between = ours.var(ddof=1) / len(ours) + theirs.var(ddof=1) / len(theirs)
        few = min(len(ours), len(theirs)) - 1
    share = min(1.0, between / error**2)
    return few / share**2 if share > 1e-3 else 1e6


def _draw(differences: np.ndarray, resamples: int, random: np.random.Generator) -> np.ndarray:
    """Means of a (seed, item) table under resampled seeds and items."""
    patterns, weights = _item_weights(differences, resamples, random)
    seeds = _seed_weights(len(differences), resamples, random)
    return np.einsum("rs,sp,rp->r", seeds, patterns, weights, optimize=True)


def _draw_apart(ours: np.ndarray, theirs: np.ndarray, resamples: int, random: np.random.Generator) -> np.ndarray:
    """The same where the two have different numbers of seeds: shared items, separate seeds."""
    patterns, weights = _item_weights(np.concatenate([ours, theirs]), resamples, random)
    first = _seed_weights(len(ours), resamples, random)
    second = _seed_weights(len(theirs), resamples, random)
    seeds = np.concatenate([first, -second], axis=1)
    return np.einsum("rs,sp,rp->r", seeds, patterns, weights, optimize=True)


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


def _seed_weights(seeds: int, resamples: int, random: np.random.Generator) -> np.ndarray:
    """Weights of S - 1 seeds drawn from S with replacement (Rao and Wu 1988)."""
    if seeds == 1:
        return np.ones((resamples, 1))
    return random.multinomial(seeds - 1, np.full(seeds, 1 / seeds), size=resamples) / (seeds - 1)


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
