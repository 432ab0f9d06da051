"""What several cells of runs say together of the spread between seeds, so that a cell of one seed can borrow it."""

from collections.abc import Sequence

import numpy as np

from saobp.study.statistics.errors import Error
from saobp.study.statistics.intervals import Estimate


def seed_variance(cells: Sequence[Sequence[float]]) -> tuple[float, int]:
    """Return the variance between the seeds of a cell, and its degrees of freedom: seeds less cells.

    A cell (a task, a size) has one number per seed. The model: number = mean of its cell + seed, where seeds have one
    variance in all cells; cells of one seed have no part in it. What the items share over seeds is not in it. Raises
    ValueError where every cell has one seed: nothing shows a spread.
    Source: the estimate of restricted maximum likelihood in a one-way layout (Patterson and Thompson 1971).
    """
    known = [np.asarray(cell, float) for cell in cells if len(cell) > 1]
    freedom = sum(len(cell) - 1 for cell in known)
    if not freedom:
        raise ValueError("cells: none has two seeds, so nothing shows how far seeds lie apart")
    return float(sum(((cell - cell.mean()) ** 2).sum() for cell in known) / freedom), freedom


def borrow(cells: Sequence[Sequence[float]], item_errors: Sequence[float]) -> list[Estimate]:
    """Estimate each cell's mean, with the spread between seeds that all cells show together.

    `item_errors`: standard errors over the items, per cell, which its seeds share (0 where there are none). The
    interval covers another choice of seeds and of items. Raises as `seed_variance` does.
    """
    variance, freedom = seed_variance(cells)
    return [
        Estimate.of(float(np.mean(cell)), Error.of(float(np.sqrt(variance / len(cell))), freedom, items), len(cell))
        for cell, items in zip(cells, item_errors, strict=True)
    ]
