"""Correlations over checkpoints and over seeds, with the caveat built in.

Checkpoints of one run are not independent: two unrelated learning curves correlate because both move. The
interval here is that of the *effective* number of points, which is smaller than the number plotted.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import atanh, sqrt, tanh

import numpy as np
from scipy import stats

MOST = 1 - 1e-12  # atanh(1) is infinite; a perfect line keeps a finite interval


@dataclass(frozen=True)
class Correlation:
    """Pearson's r with an interval for dependent points."""

    r: float
    low: float
    high: float
    p: float  # for the effective number of points
    points: int
    effective: float


def effective_sample_size(x: Sequence[float], y: Sequence[float]) -> float:
    """Number of independent points that carry as much about r as these (Bartlett 1935).

    n / (1 + 2 sum_k (1 - k/n) a_k b_k) with the autocorrelations a, b of the two series up to a quarter of
    their length, between 2 and n: n for white noise, towards 2 for two smooth trends.
    """
    x, y = _series(x, y)
    n = len(x)
    lags = range(1, max(2, n // 4 + 1))
    products = [(1 - k / n) * _lagged(x, k) * _lagged(y, k) for k in lags]
    inflation = 1 + 2 * sum(product for product in products if product > 0)
    return float(np.clip(n / inflation, 2, n))


def correlation(x: Sequence[float], y: Sequence[float]) -> Correlation:
    """Pearson's r of two series of checkpoints, with an interval that knows they are autocorrelated.

    Fisher's interval at the effective sample size. With three effective points or fewer the interval is
    [-1, 1] and p is 1: the series say nothing. Two curves that both saturate share a trend, which no
    effective size removes. Raises ValueError for fewer than three points or a constant series.
    """
    return _pearson(*_series(x, y), effective_sample_size(x, y), 0.95)


def across_runs(
    x: Sequence[float], y: Sequence[float], factors: Sequence[Sequence[Hashable]] = (), *, level: float = 0.95
) -> Correlation:
    """Pearson's r of independent runs, one point per run, without what `factors` explain of either series.

    The honest version of a correlation over checkpoints. A factor names a level per run (its algorithm, its
    pretraining seed): runs of one algorithm are alike, and runs of one seed start alike and read the same text. What
    the levels of all factors explain is taken out by least squares, and the interval counts one degree of freedom for
    each of them. A factor with a level of its own for every run tells nothing apart and is left out. With
    three points' worth or fewer left the interval is [-1, 1].
    """
    x, y = _series(x, y)
    recurring = [levels for levels in factors if len(set(levels)) < len(x)]
    levels = ([[level == name for name in dict.fromkeys(levels)] for level in levels] for levels in recurring)
    design = np.column_stack([np.ones(len(x)), *levels])
    kept = np.linalg.matrix_rank(design)
    x, y = (series - design @ np.linalg.lstsq(design, series)[0] for series in (x, y))
    return _pearson(*_series(x, y), float(len(x) - kept + 1), level)


def _pearson(x: np.ndarray, y: np.ndarray, effective: float, level: float) -> Correlation:
    """r with Fisher's interval and p-value for an effective number of points."""
    r = float(np.corrcoef(x, y)[0, 1])
    if effective <= 3:
        return Correlation(r, -1.0, 1.0, 1.0, len(x), effective)
    centre, error = atanh(float(np.clip(r, -MOST, MOST))), 1 / sqrt(effective - 3)
    reach = float(stats.norm.ppf(0.5 + level / 2)) * error
    p = float(2 * stats.norm.sf(abs(centre) / error))
    return Correlation(r, tanh(centre - reach), tanh(centre + reach), p, len(x), effective)


def _lagged(series: np.ndarray, lag: int) -> float:
    """Autocorrelation of a series at one lag."""
    centred = series - series.mean()
    return float((centred[lag:] * centred[:-lag]).sum() / (centred**2).sum())


def _series(x: Sequence[float], y: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.array(x, dtype=float), np.array(y, dtype=float)
    if len(x) != len(y):
        raise ValueError(f"y: {len(y)} points against {len(x)} of x; a correlation needs pairs")
    if len(x) < 3 or not np.isfinite(x).all() or not np.isfinite(y).all():
        raise ValueError(f"x: {len(x)} points; a correlation needs at least three finite pairs")
    for name, series in (("x", x), ("y", y)):
        if np.ptp(series) <= 1e-12 * max(1.0, np.abs(series).max()):
            raise ValueError(f"{name}: all points are equal; a correlation needs variation")
    return x, y
