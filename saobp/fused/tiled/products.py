"""Matrix products of a tile, the gradient of a softmax, and sums of logarithms."""

from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

LANES = 16
"""Columns that matrix products take at once; a width that is no multiple is slower than the next
one up.
"""

RANGE = 60.0
"""Largest spread, in nats, that products of float32 numbers carry without underflow of what
matters.
"""


class Wide(NamedTuple):
    """Rows of D numbers and one more, in memory a little wider, (head, L, ...), and its pieces."""

    whole: Tensor
    # the D numbers
    body: Tensor
    # the one more
    last: Tensor
    # both; what is beyond stays 0
    used: Tensor

    @classmethod
    def zeros(cls, like: Tensor) -> "Wide":
        """Return rows of zeros, as many and as wide as in `like` (head, L, D), and one more
        each.
        """
        count, length, width = like.shape
        whole = like.new_zeros(count, length, -(-(width + 1) // LANES) * LANES)
        used = whole[..., : width + 1]
        return cls(whole, whole[..., :width], used[..., width:], used)

    def at(self, rows: slice) -> "Wide":
        """Return some of the rows."""
        if rows.stop - rows.start == self.whole.shape[1]:
            return self
        return Wide(*(x[:, rows] for x in self))


@cache
def unit(dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return 1 on a device, made once."""
    with torch.inference_mode(False):
        return torch.ones((), dtype=dtype, device=device)


def average(weights: Tensor, values: Wide, keep: Tensor | None, out: Wide, beta: float = 0) -> None:
    """Put weights @ values, plus beta times what is there, into `out`; dropout spares the last
    column.
    """
    if keep is None:
        torch.baddbmm(out.whole, weights, values.whole, beta=beta, out=out.whole)
    else:
        out.last.baddbmm_(weights, values.last, beta=beta)
        out.body.baddbmm_(weights * keep, values.body, beta=beta)


def paired(gradient: Wide, values: Wide, keep: Tensor | None, out: Tensor) -> Tensor:
    """Return gradient @ values^T, what `average` hands back to its weights, in `out`."""
    if keep is None:
        return torch.bmm(gradient.used, values.used.mT, out=out)
    torch.bmm(gradient.body, values.body.mT, out=out).mul_(keep)
    return out.baddbmm_(gradient.last, values.last.mT)


def softmax_gradient(gradient: Tensor, probabilities: Tensor, out: Tensor) -> Tensor:
    """Return p (g - sum p g): from the gradient of a softmax's output to that of its scores, in
    `out`.
    """
    return torch.ops.aten._softmax_backward_data.out(
        gradient, probabilities, -1, probabilities.dtype, grad_input=out
    )


def log_sum(messages: Tensor, strongest: float) -> Tensor:
    """Sum the logarithms of messages (head, query, key) over the queries, (head, 1, key), in nats.

    A logarithm costs ten products: it is taken of as many messages together as float32 has the
    range for.
    """
    queries = messages.shape[-2]
    together = int(RANGE / max(strongest, RANGE / queries))
    if together < 2:
        return messages.log().sum(-2, keepdim=True)
    starts = range(0, queries, together)
    products = [
        messages[:, start : start + together].prod(-2, keepdim=True).log_() for start in starts
    ]
    return sum(products[1:], products[0])
