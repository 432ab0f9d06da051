"""What several cells of runs say together of the spread between seeds, so that a cell of one seed can borrow it."""

from collections.abc import Sequence

import numpy as np
from scipy.optimize import minimize_scalar

from saobp.study.statistics.errors import Error
from saobp.study.statistics.intervals import Estimate


def seed_variance(cells: Sequence[Sequence[float]], item_variances: Sequence[float]) -> tuple[float, int]:
    """Return the variance between the seeds of a cell, by restricted maximum likelihood, and its degrees of freedom.

    A cell (a task, a size) has one number per seed. The model: number = mean of its cell + seed + items, where seeds
    have one variance in all cells and items the known `item_variances`, one per cell. Degrees of freedom: seeds less
    cells, of the cells with two seeds or more. Raises ValueError where every cell has one seed: nothing shows a spread.
    Source: Patterson and Thompson 1971, for a one-way layout with known sampling variances.
    """
    known = [(np.asarray(cell, float), noise) for cell, noise in zip(cells, item_variances, strict=True)]
    known = [(cell, noise) for cell, noise in known if len(cell) > 1]
    freedom = sum(len(cell) - 1 for cell, _ in known)
    if not freedom:
        raise ValueError("cells: none has two seeds, so nothing shows how far seeds lie apart")
    squares = np.array([((cell - cell.mean()) ** 2).sum() for cell, _ in known])
    counts, noises = np.array([len(cell) - 1 for cell, _ in known]), np.array([noise for _, noise in known])
    if not squares.sum():
        return 0.0, freedom

    def loss(variance: float) -> float:
        whole = np.maximum(variance + noises, 1e-300)
        return float((counts * np.log(whole) + squares / whole).sum())

    most = 10 * float((squares / counts).max())
    found = minimize_scalar(loss, bounds=(0.0, most), method="bounded", options={"xatol": 1e-9 * most}).x
    return (0.0 if loss(0.0) <= loss(found) else float(found)), freedom


def borrow(cells: Sequence[Sequence[float]], item_errors: Sequence[float]) -> list[Estimate]:
    """Estimate each cell's mean, with the spread between seeds that all cells show together.

    `item_errors`: standard errors over the items, per cell, which its seeds share (0 where there are none). The
    interval covers another choice of seeds and of items. Raises as `seed_variance` does.
    """
    variance, freedom = seed_variance(cells, np.square(item_errors))
    found = []
    for cell, items in zip(cells, item_errors, strict=True):
        value, error = float(np.mean(cell)), Error.of(float(np.sqrt(variance / len(cell))), freedom, items)
        reach = error.reach()
        found.append(Estimate(value, value - reach, value + reach, len(cell), error=error))
    return found
