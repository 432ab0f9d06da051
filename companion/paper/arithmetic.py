"""Arithmetic on printed numbers: what counts they can come from, and whether they differ by more
than chance.

Nothing here needs a model or a data set; notebook 09 applies it to the tables of the paper.
"""

import itertools
from math import ceil, floor, sqrt

import numpy as np
from scipy import stats

from companion.setup.sizes_and_strengths import Size
from companion.setup.tasks_and_metrics import HUB_ROWS, PRINTED, TASKS

# rows of the public evaluation splits, by the paper's column
ITEMS = {
    PRINTED[spec.name]: HUB_ROWS[spec.dataset, spec.config][spec.evaluation_split]
    for spec in TASKS.values()
    # a task of one's own is none of the paper's
    if (spec.dataset, spec.config) in HUB_ROWS
}
LABEL_COUNTS = {
    "MRPC": (129, 279),
    "RTE": (146, 131),
    "SST2": (428, 444),
    "WNLI": (40, 31),
    "QNLI": (2702, 2761),
    "MNLI": (3479, 3123, 3213),
    "QQP": (25545, 14885),
}
# of the 3,270 questions
BOOLQ_NO = 1237
LENGTH, VOCABULARY = 128, 30522


def grim(percent: float, items: int) -> list[int]:
    """Numbers of right answers out of `items` that print as `percent` with two decimals; empty if
    none does.

    Rounding half up or half to even both count. With few items nearly every number passes.
    Raises ValueError if `items` is not positive.
    Source: Brown and Heathers 2017 (GRIM).
    """
    if items < 1:
        raise ValueError(f"items: {items}; a percentage needs at least one item")
    half = 0.005 * (1 + 1e-9)
    low, high = (percent - half) / 100 * items, (percent + half) / 100 * items
    return [count for count in range(max(0, ceil(low)), min(items, floor(high)) + 1)]


def critical_correlation(points: int, p: float) -> float:
    """Smallest |r| of so many independent points whose two-sided p-value is below `p`."""
    t = float(stats.t.ppf(1 - p / 2, points - 2))
    return t / sqrt(points - 2 + t * t)


def points_needed(r: float, p: float) -> int:
    """Fewest independent points at which a correlation of size |r| has a two-sided p-value below
    `p`.

    Raises ValueError if `r` is 0 or no correlation short of 1: then no number of points settles it,
    or any does.
    """
    if not 0 < abs(r) < 1:
        raise ValueError(f"r: {r}; needs a correlation between 0 and 1 in size")
    return next(points for points in itertools.count(3) if critical_correlation(points, p) < abs(r))


def bound_for(comparisons: int) -> float:
    """Smallest |z| that counts at 5 % when so many are looked at together, two-sided
    (Bonferroni).
    """
    return float(stats.norm.ppf(1 - 0.05 / (2 * comparisons)))


def walks_above(points: int, r: float) -> float:
    """Share of 2,000 pairs of unrelated random walks of so many points whose |Pearson's r| is above
    `r`.
    """
    steps = np.random.default_rng(0).normal(size=(2000, 2, points))
    correlations = [abs(np.corrcoef(pair)[0, 1]) for pair in steps.cumsum(axis=2)]
    return float(np.mean(np.array(correlations) > r))


def attention_products(shape: Size) -> float:
    """Multiply-accumulates of attention's two products in all layers, over 128 tokens, in units of
    10^9.
    """
    return shape.layers * 2 * LENGTH**2 * shape.hidden / 1e9


def macs(shape: Size, algorithm: str, *, training: bool) -> float:
    """Multiply-accumulates of one forward pass over one sequence of 128 tokens, in units of 10^9.

    As a counter that cannot look into fused attention sees them: Original without its two attention
    products, High and Low with them, ElemMul with one more product of L x L matrices a head.
    Training has the pooler and the vocabulary head on top; the softmax and the messages themselves
    are not counted.
    """
    # the counter charges a layer norm five an element
    h, n, norm = shape.hidden, LENGTH, 5 * LENGTH * shape.hidden
    products = 2 * n * n * h * (algorithm != "Original") + shape.heads * n**3 * (
        algorithm == "ElemMul"
    )
    layer = 4 * n * h * h + 2 * n * h * shape.feedforward + 2 * norm + products
    heads = n * h * h + norm + n * h * VOCABULARY + 2 * h if training else 0
    return (shape.layers * layer + norm + h * h + heads) / 1e9
