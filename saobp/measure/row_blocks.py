"""Rows of attention a block at a time, plain and refined, from query and key: never the L x L matrix.

A block holds the scores of some queries of a few heads with all the keys that they may look at. What
a refined row hears of others is a sum over rows, so that a causal sequence needs one sweep over its
blocks; where every row hears all others, a sweep before adds up what they say (Eq. 11).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from saobp.equations.masks import HIDES
from saobp.equations.messages import log_messages
from saobp.fused.tiled.heads import BLOCKED
from saobp.fused.tiled.products import RANGE
from saobp.fused.tiled.tiles import buffer, queries_per_tile, scratch_for

WEAK = 1.0
"""Largest strength, in nats, at which log1p(-c p) keeps its digits whatever p is."""

SCORES, WEIGHTS, MESSAGES, SPARE = 10, 11, 12, 13
"""Numbers of the scratch buffers that a block lies in; the last is for whoever works on a block."""


@dataclass(frozen=True)
class Visibility:
    """Which keys the queries of a few heads of one sequence may look at."""

    causal: bool
    # a query sees keys that are less than this many tokens away
    window: int | None
    # of the real tokens in the sequence, in order
    places: Tensor
    # (head or 1, query or 1, key): boolean, True where a query may look, or added to the scores
    mask: Tensor | None

    def tile(self, rows: slice, keys: slice) -> Tensor | None:
        """Return the mask between some queries and some keys, (head or 1, query or 1, key)."""
        if self.mask is None:
            return None
        mask = self.mask if self.mask.shape[1] == 1 else self.mask[:, self.places[rows]]
        return mask[..., self.places[keys]]

    def hidden(self, rows: slice, keys: slice) -> Tensor | None:
        """Return True where a query may not look at a key, (head or 1, query, key); None if all may."""
        queries, others = self.places[None, rows, None], self.places[keys]
        parts = []
        if self.causal:
            parts.append(others > queries)
        if self.window is not None:
            parts.append((queries - others).abs() >= self.window)
        mask = self.tile(rows, keys)
        if mask is not None:
            parts.append(~mask if mask.dtype == torch.bool else mask <= HIDES)
        hidden = None
        for part in parts:
            hidden = part if hidden is None else hidden | part
        return None if hidden is None else hidden.expand(-1, queries.shape[1], -1)

    def ends(self, *, both: bool) -> Tensor:
        """Return the tokens that see none before them, or after them too, (head or 1, 1, token)."""
        length = len(self.places)
        if self.mask is None:
            ends = torch.zeros(1, length, dtype=torch.bool, device=self.places.device)
            ends[:, [0, -1] if both else [0]] = True
            return ends[:, None]
        parts = []
        for row in range(length):
            hidden = self.hidden(slice(row, row + 1), slice(0, length))
            end = hidden[..., :row].all(-1)
            if both:
                end = end | hidden[..., row + 1 :].all(-1)
            parts.append(end)
        return torch.cat(parts, -1)[:, None]


@dataclass(frozen=True)
class Step:
    """One step of the refinement on a few heads."""

    # signed, in nats, (head, 1, 1)
    strength: Tensor
    # the largest of them without its sign
    strongest: float
    exclude_self: bool
    # a row hears the rows before it, not all others
    earlier: bool
    # keys that get no bias, (head or 1, 1, key)
    spared: Tensor | None = None
    # a key that receives more than this share of the attention of all rows gets no bias
    share: float | None = None


@dataclass
class Block:
    """Some rows of attention: its weights over their totals."""

    rows: slice
    keys: slice
    # scores less the largest of their row, in nats, (head, query, key)
    scores: Tensor
    # their exponentials
    weights: Tensor
    # sums of the weights, (head, query, 1)
    total: Tensor
    # largest score of each row, (head, query, 1)
    largest: Tensor

    def attention(self) -> Tensor:
        """Divide the weights by their totals, in place, and return them; a row without a key is 0."""
        tiny = torch.finfo(self.total.dtype).tiny
        return self.weights.div_(self.total.clamp_min(tiny))


class RowBlocks:
    """The attention of a few heads of one sequence, (head, token, width), in blocks of rows."""

    def __init__(
        self, query: Tensor, key: Tensor, scale: float, visible: Visibility, step: Step | None
    ):
        self.query, self.key, self.scale = query, key, scale
        self.visible, self.step = visible, step
        self.count, self.length = query.shape[:2]
        self.scratch = scratch_for(query)
        # keys that get no bias, (head or 1, 1, key)
        self.spared = None if step is None else step.spared
        # what is said about each key: by all rows, or by those of the blocks so far
        self.received = query.new_zeros(self.count, 1, self.length, dtype=torch.float64)

    def blocks(self) -> list[slice]:
        """Cut the queries into blocks."""
        size = queries_per_tile(self.length)
        starts = range(0, self.length, size)
        return [slice(start, min(start + size, self.length)) for start in starts]

    def keys(self, rows: slice) -> slice:
        """Return the keys that some of these queries may look at."""
        start, stop, window = 0, self.length, self.visible.window
        if window is not None:
            start, stop = max(0, rows.start - window + 1), min(stop, rows.stop + window - 1)
        return slice(start, rows.stop if self.visible.causal else stop)

    def buffer(self, number: int, rows: int, keys: int) -> Tensor:
        """Return scratch space (head, query, key) that the next block of this thread overwrites."""
        return buffer(self.scratch, number, (self.count, rows, keys), self.query, self.query.dtype)

    def scores(self, rows: slice, keys: slice) -> Tensor:
        """Return the scores of some rows, with nothing hidden or added."""
        queries, others = self.query[:, rows], self.key[:, keys]
        scores = self.buffer(SCORES, queries.shape[1], others.shape[1])
        return torch.baddbmm(scores, queries, others.mT, beta=0, alpha=self.scale, out=scores)

    def plain(self, rows: slice, keys: slice | None = None) -> Block:
        """Return some rows of the softmax of the scores."""
        keys = self.keys(rows) if keys is None else keys
        scores = self.scores(rows, keys)
        mask = self.visible.tile(rows, keys)
        if mask is not None and mask.dtype != torch.bool:
            scores.add_(mask.clamp(min=BLOCKED))
        # a plain causal row hides nothing before the block
        simple = mask is None and self.visible.window is None
        start = max(rows.start, keys.start) if simple else keys.start
        hidden = self.visible.hidden(rows, slice(start, keys.stop))
        if hidden is not None:
            scores[..., start - keys.start :].masked_fill_(hidden, BLOCKED)
        return self.weighed(rows, keys, scores, WEIGHTS)

    def weighed(self, rows: slice, keys: slice, scores: Tensor, number: int) -> Block:
        """Return a block by its scores, its weights in a buffer; a row without a key weighs 0."""
        largest = scores.amax(-1, keepdim=True)
        scores.sub_(largest)
        weights = torch.exp(scores, out=self.buffer(number, *scores.shape[1:]))
        if self.visible.mask is not None:
            weights.masked_fill_(largest <= BLOCKED / 2, 0)
        return Block(rows, keys, scores, weights, weights.sum(-1, keepdim=True), largest)

    def listen(self, block: Block) -> tuple[Tensor, Tensor]:
        """Return the attention of a plain block, in place of its weights, and its messages."""
        attention, step = block.attention(), self.step
        messages = self.buffer(MESSAGES, *attention.shape[1:])
        if step.strongest > WEAK:
            messages.copy_(log_messages(attention, step.strength))
        else:
            torch.mul(attention, torch.expm1(-step.strength), out=messages).log1p_()
        if self.spared is not None:
            messages.masked_fill_(self.spared[..., block.keys], 0)
        return attention, messages

    def gather(self) -> None:
        """Add up what all rows say about each key, where every row hears all others."""
        columns = torch.zeros_like(self.received)
        for rows in self.blocks():
            block = self.plain(rows)
            attention, messages = self.listen(block)
            columns[..., block.keys] += attention.sum(-2, keepdim=True)
            self.received[..., block.keys] += messages.sum(-2, keepdim=True)
        share = self.step.share
        if share is not None:
            self.spared = columns > share * self.length
            self.received.masked_fill_(self.spared, 0)

    def forget(self) -> None:
        """Be ready to go over the blocks once more."""
        if self.step and self.step.earlier:
            self.received.zero_()

    def refine(self, block: Block) -> Block:
        """Return the refined rows of a plain block (Eq. 11), whose weights are its attention then.

        The blocks of a causal sequence must come in order.
        """
        step, scores = self.step, block.scores
        attention, messages = self.listen(block)
        received = self.received[..., block.keys]
        most = received.amax(-1, keepdim=True)
        if step.strongest * self.length > RANGE and bool((most - received).amax() > RANGE):
            # a zero stays a zero, also where the rest of its row loses nearly all
            tiny = torch.finfo(attention.dtype).tiny
            scores.masked_fill_(attention <= tiny, BLOCKED)
        # the keys that keep mass must not lose digits to a bias of hundreds of nats
        scores.add_((received - most).to(scores.dtype))
        if step.earlier:
            received += self.in_turn(scores, messages)
        elif step.exclude_self:
            scores.sub_(messages)
        return self.weighed(block.rows, block.keys, scores, MESSAGES)

    def in_turn(self, scores: Tensor, messages: Tensor) -> Tensor:
        """Add to the scores what each row of a block hears of those before it; return the sum."""
        heard = torch.zeros_like(messages[:, 0])
        for score, message in zip(scores.unbind(1), messages.unbind(1)):
            if not self.step.exclude_self:
                heard.add_(message)
                score.add_(heard)
            else:
                score.add_(heard)
                heard.add_(message)
        return heard[:, None]
