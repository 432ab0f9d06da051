"""A block of rows and all its sums in one compiled call, where torch would go over the block two dozen
times.
"""

from __future__ import annotations

import ctypes

import torch
from jaxtyping import Float64
from torch import Tensor

from saobp.fused.tiled import native
from saobp.fused.tiled.products import RANGE
from saobp.measure.row_blocks import MESSAGES, WEAK, WEIGHTS, Block, RowBlocks

LARGEST, TOTAL, SPREAD, SQUARES, ABOVE, MOVED = range(6)
"""Numbers of a row: its largest score; the sums of its weights, of weights times scores less the
largest, and of squared weights; how many weights are as large as an even share; and the sum of
absolute differences from the plain row.
"""


class Rows(ctypes.Structure):
    """What C is told of a block, see `statistics.c`."""

    _fields_ = [
        *(
            (name, ctypes.c_void_p)
            for name in (
                "scores",
                "weights",
                "refined",
                "said",
                "plain_columns",
                "refined_columns",
                "numbers",
                "spared",
                "changes",
                "spare",
            )
        ),
        *((name, ctypes.c_long) for name in ("heads", "rows", "keys", "length", "first", "spares")),
        ("range", ctypes.c_float),
        *((name, ctypes.c_int) for name in ("causal", "earlier", "own")),
    ]


def serves(rows: RowBlocks) -> bool:
    """Tell whether the blocks of these heads may be worked out here: nothing is hidden but later keys,
    and the strength is at most `WEAK`.
    """
    step, visible = rows.step, rows.visible
    hides = visible.mask is not None or visible.window is not None
    return not hides and (step is None or step.strongest <= WEAK) and native.serves(rows.query)


def measure(
    rows: RowBlocks, place: slice, columns: list[Float64[Tensor, "head L"]]
) -> tuple[list[Block], Float64[Tensor, "side number head query"]]:
    """Return some rows as they are, and refined where there is a step, and their numbers.

    Adds them to the column sums of each, and to what is said.
    """
    step, keys = rows.step, rows.keys(place)
    scores = rows.scores(place, keys)
    shape = scores.shape[1:]
    sides = [rows.buffer(number, *shape) for number in (WEIGHTS, MESSAGES)[: len(columns)]]
    numbers = columns[0].new_empty(len(sides), MOVED + 1, rows.count, shape[0])
    spare = scores.new_empty(5, shape[1])
    changes = spared = None
    if step is not None:
        changes = torch.expm1(-step.strength).expand(rows.count, 1, 1).flatten()
        changes = changes.to(scores.dtype).contiguous()
        spared = None if rows.spared is None else rows.spared.contiguous()
    places = [scores, sides[0], sides[1] if step else None, rows.received]
    places += [columns[0], columns[-1], numbers, spared, changes, spare]
    native.passes().saobp_statistics(
        Rows(
            *(None if tensor is None else tensor.data_ptr() for tensor in places),
            rows.count,
            *shape,
            rows.length,
            place.start,
            int(spared is not None and len(spared) > 1),
            RANGE,
            rows.visible.causal,
            step is not None and step.earlier,
            step is not None and not step.exclude_self,
        )
    )
    blocks = []
    for weights, sums in zip(sides, numbers, strict=True):
        largest, total = (sums[number, ..., None].to(scores.dtype) for number in (LARGEST, TOTAL))
        blocks.append(Block(place, keys, scores, weights, total, largest))
    return blocks, numbers
