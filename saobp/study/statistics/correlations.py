"""Correlations over checkpoints, which are not independent, and over runs, with an interval that knows it."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import atanh, sqrt, tanh

import numpy as np
from scipy import stats

NEARLY_ONE = 1 - 1e-12  # atanh(1) is infinite; a perfect line keeps a finite interval


@dataclass(frozen=True)
class Correlation:
    """Pearson's r with an interval for dependent points."""

    r: float
    low: float
    high: float
    points: int
    effective: float  # points that carry as much, were they independent


def effective_sample_size(x: Sequence[float], y: Sequence[float]) -> float:
    """Number of independent points that carry as much about r as these (Bartlett 1935).

    n / (1 + 2 sum_k (1 - k/n) a_k b_k) with the autocorrelations a, b of the two series up to a quarter of
    their length, between 2 (smooth trends) and n (white noise).
    """
    x, y = _unit(x, y)
    n = len(x)
    products = [(1 - k / n) * (x[k:] @ x[:-k]) * (y[k:] @ y[:-k]) for k in range(1, max(2, n // 4 + 1))]
    return float(np.clip(n / (1 + 2 * sum(product for product in products if product > 0)), 2, n))


def correlation(x: Sequence[float], y: Sequence[float]) -> Correlation:
    """Pearson's r of one run's two series of checkpoints, with Fisher's interval at their effective sample size.

    With three effective points or fewer the interval is [-1, 1]: the series say nothing. A trend that both share no
    effective size removes. Raises ValueError for fewer than three points or a constant series.
    """
    return _pearson(x, y, effective_sample_size(x, y))


def across_runs(x: Sequence[float], y: Sequence[float], factors: Sequence[Sequence[Hashable]] = ()) -> Correlation:
    """Pearson's r of independent runs, one point per run, without what `factors` explain of either series.

    A factor names a level per run (its algorithm, its pretraining seed): runs of one level are alike. What the levels
    explain is taken out by least squares, at a degree of freedom each. A factor with a level of its own for every run
    is left out. With three points' worth or fewer left the interval is [-1, 1].
    """
    recurring = [levels for levels in factors if len(set(levels)) < len(x)]
    levels = ([[level == name for name in dict.fromkeys(levels)] for level in levels] for levels in recurring)
    design = np.column_stack([np.ones(len(x)), *levels])
    x, y = (series - design @ np.linalg.lstsq(design, series)[0] for series in _unit(x, y))
    return _pearson(x, y, float(len(x) - np.linalg.matrix_rank(design) + 1))


def _pearson(x: Sequence[float], y: Sequence[float], effective: float) -> Correlation:
    """r with Fisher's 95 % interval for an effective number of points."""
    r = float(np.dot(*_unit(x, y)).clip(-1, 1))
    if effective <= 3:
        return Correlation(r, -1.0, 1.0, len(x), effective)
    centre, reach = atanh(min(max(r, -NEARLY_ONE), NEARLY_ONE)), float(stats.norm.isf(0.025)) / sqrt(effective - 3)
    return Correlation(r, tanh(centre - reach), tanh(centre + reach), len(x), effective)


def _unit(x: Sequence[float], y: Sequence[float]) -> list[np.ndarray]:
    """Both series with mean 0 and length 1. Raises ValueError for fewer than three finite pairs, or a constant."""
    series = [np.array(each, dtype=float) for each in (x, y)]
    if len(x) != len(y) or len(x) < 3 or not np.isfinite(series).all():
        raise ValueError(f"x, y: {len(x)} and {len(y)} points; a correlation needs at least three finite pairs")
    for name, each in zip("xy", series):
        if np.ptp(each) <= 1e-12 * max(1.0, np.abs(each).max()):
            raise ValueError(f"{name}: all points are equal; a correlation needs variation")
        each -= each.mean()
        each /= np.linalg.norm(each)
    return series
