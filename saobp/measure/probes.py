"""Global token dependency without the matrix, from attention applied to random signs (Eq. 13).

The squared norm of a matrix M is the mean of |M z|^2 over vectors z of random signs, and A^t z is t
calls of attention with z as values. Where many queries share a key, the ones vector and the column
sums carry most of the norm of the paths G = sum of beta^(t-1) A^t. They are taken out of z and added
exactly: the column sums by a call of their own, ones without, as A 1 = 1.
Source: Hutchinson 1990, A stochastic estimator of the trace of the influence matrix.
"""

from __future__ import annotations

import torch
from torch import Tensor

from saobp.measure.row_blocks import Block, RowBlocks

FEWEST = 4
"""Least number of probes: two directions, and two vectors of signs for a standard error."""

LEAST_ERROR = 2e-5
"""Added to every standard error: what float32 leaves uncertain, and what a few directions do to one
that is as small.
"""

SKEW = 1.1
"""Factor of the standard error: squares are skewed, so that a low estimate comes with a low error."""

SAMPLED = 256
"""Rows, evenly spaced, whose column sums are the direction that is taken out."""

TOGETHER = 64
"""Sampled rows that are worked out at a time."""


class Probes:
    """Columns that the attention of a few heads is applied to, hop by hop."""

    def __init__(self, rows: RowBlocks, start: Tensor, count: int, beta: float, hops: int):
        self.beta, self.hops = beta, hops
        self.exact = count >= rows.length
        self.known = known_directions(rows)
        heads, length, self.count = start.shape
        # A^t times the columns, for t = 0 ... hops: side by side, (head, token, hops + 1, count)
        self.powers = start.new_empty(heads, length, hops + 1, self.count)
        self.powers[:, :, 0] = start

    def hop(self, block: Block, power: int) -> None:
        """Work out some rows of a power from those of the one before that their keys lie in."""
        product = torch.bmm(block.weights, self.powers[:, block.keys, power - 1])
        self.keep(block, power, product)

    def all_hops(self, block: Block) -> None:
        """Work out some rows of every power, where all powers of the rows before them are known."""
        start = block.rows.start
        known = self.powers[:, block.keys.start : start, :-1].flatten(2)
        split = known.shape[1]
        # one product with the powers of all hops; what the rows say to each other comes hop by hop
        products = torch.bmm(block.weights[..., :split], known)
        products = products.unflatten(2, (self.hops, self.count))
        among = block.weights[..., split:]
        for power in range(1, self.hops + 1):
            latest = self.powers[:, start : block.keys.stop, power - 1]
            self.keep(block, power, torch.baddbmm(products[:, :, power - 1], among, latest))

    def keep(self, block: Block, power: int, product: Tensor) -> None:
        """Put aside the rows of a power, from weights that were not divided by their totals."""
        tiny = torch.finfo(product.dtype).tiny
        self.powers[:, block.rows, power] = product.div_(block.total.clamp_min(tiny))

    def squares(self) -> tuple[Tensor, Tensor]:
        """Return the squared norm of all paths, as estimated, and its standard error, (head,)."""
        discounts = [self.beta ** (power - 1) for power in range(2, self.hops + 1)]
        later = self.powers[:, :, 2:].unbind(2)
        paths = sum(by * power for by, power in zip(discounts, later)).double()
        norms = paths.square().sum(-2)
        if self.exact:
            total = norms.sum(-1)
            return total, torch.zeros_like(total)
        known, random = norms[:, : self.known].sum(-1), norms[:, self.known :]
        if self.known == 1:
            known = known + sum(discounts) ** 2
        count = random.shape[-1]
        # the variance of z^T M z is at most 2 |M|^2, which pairs of probes give with less noise
        products = paths[..., self.known :].mT @ paths[..., self.known :]
        pairs = products.square().sum((-2, -1)) - random.square().sum(-1)
        bound = 2 * pairs / (count * (count - 1))
        variance = torch.maximum(random.var(-1), bound)
        return known + random.mean(-1), (variance / count).sqrt()


def known_directions(rows: RowBlocks) -> int:
    """Return how many directions are worked out; rows that see no key do not sum to 1."""
    return 1 if rows.visible.mask is None else 2


def first_columns(rows: RowBlocks, count: int, seeds: list[int]) -> Tensor:
    """Return what attention is applied to, (head, token, count): known directions, then random signs
    without them; all of the identity where that is as few.
    """
    if count >= rows.length:
        columns = torch.eye(rows.length, dtype=rows.query.dtype, device=rows.query.device)
        return columns.expand(rows.count, -1, -1)
    both, known = directions(rows), known_directions(rows)
    signs = random_signs(rows, count - known, seeds)
    signs -= both @ (both.mT @ signs)
    return torch.cat([both[..., 2 - known :], signs], -1)


def random_signs(rows: RowBlocks, count: int, seeds: list[int]) -> Tensor:
    """Draw -1 and 1, (head, token, count), of each head by its own seed."""
    signs = []
    for seed in seeds:
        generator = torch.Generator().manual_seed(seed)
        size = (rows.length, count)
        signs.append(torch.randint(0, 2, size, generator=generator, dtype=torch.int8))
    return torch.stack(signs).to(rows.query.device, rows.query.dtype).mul_(2).sub_(1)


def directions(rows: RowBlocks) -> Tensor:
    """Return two orthonormal directions, (head, token, 2): ones, and the column sums beside it."""
    step = -(-rows.length // SAMPLED)
    starts = range(0, rows.length, step * TOGETHER)
    blocks = [slice(start, start + step * TOGETHER, step) for start in starts]
    everyone = slice(0, rows.length)
    sums = sum(rows.plain(block, everyone).attention().sum(-2) for block in blocks)
    ones = torch.full_like(sums, rows.length**-0.5)
    sums = sums - sums.mean(-1, keepdim=True)
    norm = sums.norm(dim=-1, keepdim=True)
    # of even column sums rounding alone is left
    even = norm <= 1e-5 * rows.length**0.5
    return torch.stack([ones, torch.where(even, 0, sums / norm)], -1)


def dependency(direct: Tensor, indirect: Tensor, error: Tensor) -> tuple[Tensor, Tensor]:
    """Return Eq. 13 of two squared norms, and its standard error from that of the second."""
    both = direct + indirect
    slope = direct / both.square()
    return indirect / both, SKEW * slope * error + LEAST_ERROR * (error > 0)
