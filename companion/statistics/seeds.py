"""Means over seeds, and the bound of a study that is read more than once."""

from collections.abc import Callable, Iterable, Sequence
from functools import cache, reduce
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from scipy.optimize import brentq

from companion.records.schema import Record
from companion.statistics.intervals import Estimate, mean_interval

# one number of a run; None where it has none
Read = Callable[[Record], float | None]
SIDES = ("high", "original")


def metric(*names: str) -> Read:
    """Return what reads one number of a run's metrics by its name, or by the names of the parts
    that it lies in.
    """
    return lambda run: reduce(lambda part, name: (part or {}).get(name), names, run["metrics"])


def by_side(runs: Iterable[Record], read: Read, sides: Sequence[str] = SIDES) -> pd.DataFrame:
    """Return a number of the runs of some algorithms, a row a seed and task, a column a
    side.

    Raises ValueError where a side has two runs of one seed and task.
    """
    rows = []
    for run in runs:
        parameters = run["parameters"]
        if parameters.get("algorithm") not in sides:
            continue
        value = read(run)
        if value is not None:
            task = str(parameters.get("task"))
            rows.append((parameters["seed"], task, parameters["algorithm"], float(value)))
    keys = ["seed", "task", "side"]
    table = pd.DataFrame(rows, columns=[*keys, "value"])
    if table.duplicated(keys).any():
        raise ValueError("runs: a side has two of one seed and task; compare one model at a time")
    wide = table.pivot(index=["seed", "task"], columns="side", values="value")
    return wide.reindex(columns=sides).astype(float)


def seed_gaps(
    runs: Iterable[Record],
    read: Read,
    sides: Sequence[str] = SIDES,
    *,
    log: bool = False,
) -> dict[Any, float]:
    """Return the first algorithm's number minus the second's, per seed: a mean over the tasks of
    both.

    A seed counts that has all tasks that any seed has in both.
    """
    wide = by_side(runs, read, sides)
    wide = np.log(wide) if log else wide
    gaps = (wide[sides[0]] - wide[sides[1]]).dropna()
    seeds = gaps.groupby("seed")
    return seeds.mean()[seeds.size() == gaps.index.unique("task").size].to_dict()


def seed_gap(
    runs: Iterable[Record], read: Read, sides: Sequence[str] = SIDES, *, log: bool = False
) -> Estimate | None:
    """Return the mean of `seed_gaps` over seeds with Student's interval; None without a seed of
    both.
    """
    gaps = seed_gaps(runs, read, sides, log=log)
    return mean_interval([*gaps.values()]) if gaps else None


def branch_gaps(runs: Iterable[Record], sides: Sequence[str] = SIDES) -> dict[Any, float]:
    """Return a branch's held-out loss (nats per token) minus another's, by the seed of each trunk
    that has both.

    ValueError where two trunks have one seed.
    """
    branches = []
    for run in runs:
        seed = {"seed": run["parameters"]["seed"]}
        for branch in run["metrics"]["branches"]:
            branches.append({"parameters": branch | seed, "metrics": branch})
    return seed_gaps(branches, metric("held_out"), sides)


def level_at(analyses: Sequence[int], seeds: int, level: float = 0.95) -> float | None:
    """Return the level of the interval at the analysis of so many seeds (see `bounds`); None
    without one.
    """
    limits = dict(zip(analyses, bounds(tuple(analyses), level), strict=True))
    return float(2 * stats.norm.cdf(limits[seeds]) - 1) if seeds in limits else None


@cache
def bounds(analyses: tuple[int, ...], level: float = 0.95) -> tuple[float, ...]:
    """Return the bound of |Z| at each analysis, whose seeds rise, else ValueError (O'Brien and
    Fleming 1979).

    C sqrt(n_K / n_k), where C makes the chance of ever crossing one 1 - `level`.
    """
    seeds = np.array(analyses, float)
    if len(seeds) == 0 or (np.diff(seeds, prepend=0) <= 0).any():
        listed = list(analyses)
        raise ValueError(f"analyses: {listed}; give the numbers of seeds of each reading, rising")
    shape = np.sqrt(seeds[-1] / seeds)
    low, high = stats.norm.isf((1 - level) / 2), stats.norm.isf((1 - level) / 2 / len(seeds)) + 1e-9
    if len(seeds) == 1:
        return (float(low),)
    constant = brentq(lambda c: _crossing(seeds, c * shape) - (1 - level), low, high, xtol=1e-6)
    return tuple((constant * shape).tolist())


def _crossing(seeds: np.ndarray, limits: np.ndarray, nodes: int = 801) -> float:
    """Chance that a sum of independent normal steps leaves its limits at one of the analyses
    (Armitage et al. 1969).
    """
    edges = limits * np.sqrt(seeds)
    grid = np.linspace(-edges[0], edges[0], nodes)
    density = stats.norm.pdf(grid, scale=np.sqrt(seeds[0]))
    for step, edge in zip(np.diff(seeds), edges[1:]):
        target = np.linspace(-edge, edge, nodes)
        kernel = stats.norm.pdf(target[:, None] - grid, scale=np.sqrt(step))
        grid, density = target, np.trapezoid(kernel * density, grid, axis=1)
    return float(1 - np.trapezoid(density, grid))
