"""Tiles of refined attention: a few heads and queries at a time, small enough to stay in the cache.

`saobp.fused.tiled.sweeps` walks over these tiles forwards and, recomputing them, backwards. Between
the two only vectors of length L per head are kept: what all queries together say about each key,
and the rows' normalisers.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from saobp.fused.dropout import Dropout
from saobp.fused.tiled.products import Wide
from saobp.fused.tiled.tiles import buffer, is_single, queries_per_tile, scratch_for

BLOCKED = -1e30
"""Score of a pair that may not look at each other; finite, so that a row without any pair stays
defined.
"""


@dataclass(frozen=True)
class Call:
    """What one call is told apart from its tensors."""

    # "high", "low" or "elemmul"
    factor: str
    scale: float
    # (head, L) boolean, None where nothing is padded
    real: Tensor | None
    causal: bool
    exclude_self: bool
    # the largest strength, in nats
    strongest: float
    # e^-strength - 1, signed, where all real queries share it
    change: float | None
    # 1, in the type of the probabilities
    unit: Tensor
    dropout: Dropout | None
    # (head, L) boolean, keys that get no bias; None where all get theirs
    spared: Tensor | None = None
    # above 0: forward fills in `spared`, keys that receive more than this share of all attention
    share: float = 0

    @property
    def is_common(self) -> bool:
        """One strength of at most 0.5 and no order: what compiled passes, kernels and
        `saobp.fused.tiled.plain` do.
        """
        return (
            self.change is not None
            and self.strongest <= 0.5
            and self.factor != "elemmul"
            and not self.causal
        )

    def changes(self, part: slice) -> float | Tensor:
        """Return `change` for each key of a few heads, 0 for a spared one: a number, or (head, 1,
        key).
        """
        if self.spared is None:
            return self.change
        return self.unit.new_tensor(self.change).masked_fill(self.spared[part, None], 0)


class Heads:
    """A few heads of one call: query, key and value (head, L, D), strength (head, 1, 1), and their
    tiles.
    """

    def __init__(
        self, call: Call, part: slice, inputs: tuple[Tensor, ...], shift: Tensor | None = None
    ):
        self.dtype = dtype = torch.promote_types(inputs[0].dtype, torch.float32)
        self.call, self.part = call, part
        self.query, self.key, self.value, self.strength = (
            x if x.dtype == dtype else x.to(dtype) for x in inputs
        )
        self.count, self.length = self.value.shape[:2]
        self.real = None if call.real is None else call.real[part]
        self.spared = None if call.spared is None else call.spared[part, None]
        # e^-strength - 1, where all messages have it
        self.shared = call.change if self.real is None else None
        if self.real is not None:
            # a padded query is silent
            self.strength = self.strength * self.real[:, :, None]
        # -log of the scores' normalisers: those known, those found here
        self.shift, self.shifts = shift, {}
        self.scratch = scratch_for(self.value)
        self.all = slice(0, self.length) if is_single(self.length) else None
        # the buffer of the scores: attention's own, unless they are still needed
        self.raw = 1
        # tile whose attention and messages are in their buffers
        self.current: slice | None = None
        # tile in buffer 4
        self.kept: slice | None = None

    def tiles(self) -> list[slice]:
        """Cut the queries into tiles."""
        if self.all:
            return [self.all]
        size = queries_per_tile(self.length)
        return [
            slice(start, min(start + size, self.length)) for start in range(0, self.length, size)
        ]

    def keys(self, rows: slice) -> int:
        """Return how many keys the queries of a tile may see."""
        return rows.stop if self.call.causal else self.length

    def change(self, rows: slice) -> Tensor:
        """Return e^-strength - 1 of a tile, -c of Eq. 9, (head, query or 1, 1)."""
        return torch.expm1(-self.of(rows, self.strength))

    def of(self, rows: slice, tensor: Tensor) -> Tensor:
        """Return what belongs to the queries of a tile; the tensor itself if it is one number a
        head.
        """
        return tensor if tensor.shape[1] in (1, rows.stop - rows.start) else tensor[:, rows]

    def buffer(self, number: int, rows: slice, dtype: torch.dtype | None = None) -> Tensor:
        """Return scratch space (head, query, key) for a tile, which nobody has filled; one number,
        one memory.
        """
        shape = (self.count, rows.stop - rows.start, self.keys(rows))
        return buffer(self.scratch, number, shape, self.value, dtype or self.dtype)

    def wide(self, name: str) -> Wide:
        """Return scratch space for rows of D + 1 numbers, the same for the same name."""
        space = self.scratch.get((name, self.dtype))
        if space is None or space.body.shape != self.value.shape:
            with torch.inference_mode(False):
                space = self.scratch[name, self.dtype] = Wide.zeros(self.value)
        return space

    def attention(self, rows: slice) -> Tensor:
        """Return the attention of a tile before refinement, in buffer 1, over its scores unless
        `raw` says otherwise.

        With several tiles the rows' normalisers are kept, and a tile seen again is one exponential.
        """
        scores, out = self.scores(rows), self.buffer(1, rows)
        if self.all:
            return torch.softmax(scores, -1, out=out)
        if self.shift is not None:
            return torch.exp(scores, out=out)
        largest = scores.amax(-1, keepdim=True)
        total = torch.exp(scores.sub_(largest), out=out).sum(-1, keepdim=True)
        self.shifts[rows.start] = -(largest + total.log())
        return out.div_(total)

    def found_shift(self) -> Tensor | None:
        """Return, and use from here on, minus the log normalisers of all rows; None with one
        tile.
        """
        if self.shift is None and self.shifts:
            self.shift = torch.cat([self.shifts[rows.start] for rows in self.tiles()], 1)
        return self.shift

    def scores(self, rows: slice) -> Tensor:
        """Return masked attention scores of a tile, less the rows' log normalisers if known, in
        buffer `raw`.
        """
        keys, out = self.keys(rows), self.buffer(self.raw, rows)
        key = self.key if keys == self.length else self.key[:, :keys]
        start, beta = (out, 0) if self.shift is None else (self.shift[:, rows], 1)
        torch.baddbmm(
            start, self.of(rows, self.query), key.mT, beta=beta, alpha=self.call.scale, out=out
        )
        if self.real is not None:
            out.masked_fill_(~self.real[:, None, :keys], BLOCKED)
        if self.call.causal:
            size = rows.stop - rows.start
            later = torch.ones(size, size, dtype=torch.bool, device=out.device).triu_(1)
            out[..., rows].masked_fill_(later, BLOCKED)
        return out

    def messages(self, rows: slice) -> tuple[Tensor, Tensor]:
        """Return attention and messages over e^strength, 1 - c A_ik, of a tile (Eq. 9), in buffers
        1 and 2.

        The tile worked on last is not computed again, so a second sweep should start where the
        first ended.
        """
        attention, messages = self.buffer(1, rows), self.buffer(2, rows)
        if self.current == rows:
            return attention, messages
        self.current = rows
        self.attention(rows)
        # 1 - c A has no digits left where A is 1; the interpolation has
        if self.call.strongest > 0.5:
            decay = torch.exp(-self.of(rows, self.strength))
            torch.lerp(self.call.unit, decay, attention.clamp_(max=1), out=messages)
        elif self.shared is not None:
            torch.add(self.call.unit, attention, alpha=self.shared, out=messages)
        else:
            torch.mul(attention, self.change(rows), out=messages).add_(1)
        if self.spared is not None:
            messages.masked_fill_(self.spared[..., : messages.shape[-1]], 1)
        return attention, messages

    def unspared(self, by_key: Tensor) -> Tensor:
        """Set what belongs to spared keys (head, query or 1, key) to 0, in place, and return it."""
        if self.spared is None:
            return by_key
        return by_key.masked_fill_(self.spared[..., : by_key.shape[-1]], 0)

    def keep(self, rows: slice) -> Tensor | None:
        """Return the dropout of a tile, in buffer 4, where it may be already; None without."""
        dropout = self.call.dropout
        if dropout is None:
            return None
        out = self.buffer(4, rows)
        if self.kept != rows:
            self.kept = rows
            bits, scratch = (self.buffer(number, rows, torch.int32) for number in (5, 6))
            dropout.keep(self.part, rows, bits, scratch, out)
        return out


class Means:
    """Output of a few heads (head, L, D), and the sums of their rows' weights (head, L, 1) where
    they are kept.
    """

    def __init__(self, heads: Heads, out: Tensor, total: Tensor | None):
        self.heads, self.out, self.total = heads, out, total

    def add(self, rows: slice, weights: Tensor) -> None:
        """Average the values by the weights of a tile, which dropout spoils."""
        heads, out = self.heads, self.heads.of(rows, self.out)
        total, keep = weights.sum(-1, keepdim=True), heads.keep(rows)
        if keep is not None:
            weights.mul_(keep)
        if self.total is not None:
            heads.of(rows, self.total).copy_(total)
        seen = heads.of(slice(0, weights.shape[-1]), heads.value)
        if out.dtype == weights.dtype:
            torch.bmm(weights, seen, out=out).div_(total)
        else:
            torch.div(weights @ seen, total, out=out)


class Gradients:
    """Gradients of a few heads with respect to query, key, value (head, L, D) and strength (head,
    1, 1).
    """

    def __init__(self, heads: Heads, results: tuple[Tensor, ...], *, strength: bool):
        self.heads, self.wants_strength, self.seen = heads, strength, False
        self.query, self.key, self.value, self.strength = results

    def add_scores(self, rows: slice, gradient: Tensor) -> None:
        """Take in the gradient with respect to the scores of a tile."""
        heads, keys = self.heads, slice(0, gradient.shape[-1])
        scale, query = heads.call.scale, heads.of(rows, self.query)
        torch.baddbmm(query, gradient, heads.of(keys, heads.key), beta=0, alpha=scale, out=query)
        beta, of_rows = float(self.seen), heads.of(rows, heads.query)
        heads.of(keys, self.key).baddbmm_(gradient.mT, of_rows, beta=beta, alpha=scale)
        self.seen = True

    def add_strength(self, rows: slice, by_change: Tensor) -> None:
        """Take in the gradient with respect to e^-strength in a tile's messages; padded queries
        send none.
        """
        by_query = by_change.sum(-1, keepdim=True) * -torch.exp(
            -self.heads.of(rows, self.heads.strength)
        )
        if self.heads.real is not None:
            by_query = by_query * self.heads.real[:, rows, None]
        self.strength += by_query.sum(-2, keepdim=True)
