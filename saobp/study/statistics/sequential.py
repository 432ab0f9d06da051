"""Interim analyses: how much wider an interval must be where a question is read more than once."""

from collections.abc import Sequence
from functools import cache

import numpy as np
from scipy import stats
from scipy.optimize import brentq


def level_at(analyses: Sequence[int], seeds: int, level: float = 0.95) -> float | None:
    """Return the level of the interval at the analysis of so many seeds (O'Brien and Fleming 1979); None without one.

    `analyses` are the numbers of seeds at each reading, rising; one reading gives `level` itself. The bounds fall with
    the root of the seeds, |Z_k| > C sqrt(n_K / n_k), and C makes the chance of ever crossing one 1 - `level`.
    Raises ValueError if the numbers do not rise.
    """
    limits = dict(zip(analyses, bounds(tuple(analyses), level), strict=True))
    return float(2 * stats.norm.cdf(limits[seeds]) - 1) if seeds in limits else None


@cache
def bounds(analyses: tuple[int, ...], level: float = 0.95) -> tuple[float, ...]:
    """Return the bound of |Z| at each analysis; the others are as in `level_at`."""
    seeds = np.array(analyses, float)
    if len(seeds) == 0 or (np.diff(seeds, prepend=0) <= 0).any():
        raise ValueError(f"analyses: {list(analyses)}; give the numbers of seeds of each reading, rising")
    shape = np.sqrt(seeds[-1] / seeds)
    low, high = stats.norm.isf((1 - level) / 2), stats.norm.isf((1 - level) / 2 / len(seeds)) + 1e-9
    if len(seeds) == 1:
        return (float(low),)
    constant = brentq(lambda c: _crossing(seeds, c * shape) - (1 - level), low, high, xtol=1e-6)
    return tuple((constant * shape).tolist())


def _crossing(seeds: np.ndarray, limits: np.ndarray, nodes: int = 801) -> float:
    """Chance that a sum of independent normal steps leaves its limits at one of the analyses (Armitage et al. 1969)."""
    edges = limits * np.sqrt(seeds)
    grid = np.linspace(-edges[0], edges[0], nodes)
    density = stats.norm.pdf(grid, scale=np.sqrt(seeds[0]))
    for step, edge in zip(np.diff(seeds), edges[1:]):
        target = np.linspace(-edge, edge, nodes)
        kernel = stats.norm.pdf(target[:, None] - grid, scale=np.sqrt(step))
        grid, density = target, np.trapezoid(kernel * density, grid, axis=1)
    return float(1 - np.trapezoid(density, grid))
