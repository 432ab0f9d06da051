"""Column sums beside the keys and values of a decoder, so that a cached step equals the full
forward.

In a causal model row j receives messages from the rows before it (App. C): one sum of messages per
key and head. That sum belongs to the cache, and is reordered, cropped, repeated and selected with
the keys. A crop needs more than the sum, because what the cropped rows said must be taken back: the
layer keeps the sums as they were at a few marks and the queries since the oldest of them, and says
again what lies between a mark and the new end.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers.cache_utils import (
    Cache,
    DynamicCache,
    DynamicLayer,
    DynamicSlidingWindowLayer,
    EncoderDecoderCache,
)

from saobp.fused.scores import allowed_pairs, real_queries, up_to_themselves

TILE = 128
"""Rows that are refined at a time, and the least distance between two marks."""

KEPT_MARKS = 3
"""Marks kept, besides the one at the end of the first call; a crop of 2 TILE rows finds one."""

CARRIED = ("high", "low")
"""Factors whose earlier rows reach a later one through column sums alone."""


class RefinedLayer(DynamicLayer):
    """Keys and values of one layer, and what the rows so far have said about each key.

    `sums` holds for each round of messages the column sums (batch, head, 1, key) in nats of the
    rows before `said`; `real` which of those rows are tokens; `marks` the sums as they were at
    earlier positions; `queries` and `mask` the rows from the oldest mark to the end.
    """

    def __init__(self, options: Any = None) -> None:
        super().__init__()
        self.options = options
        self.forget()

    def forget(self) -> None:
        """Start over, before the first token."""
        self.said, self.sums = 0, []
        self.real: Tensor | None = None
        self.marks: dict[int, list[Tensor]] = {0: []}
        self.first_end = 0
        self.queries: Tensor | None = None
        self.mask: Tensor | None = None

    def change(self, change: Callable[[Tensor], Tensor]) -> None:
        """Apply a change of the batch dimension to everything that is carried."""
        self.sums = [change(sums) for sums in self.sums]
        self.marks = {
            position: [change(sums) for sums in marked] for position, marked in self.marks.items()
        }
        if self.queries is not None:
            self.queries, self.mask = change(self.queries), change(self.mask)
        if self.real is not None:
            self.real = change(self.real)

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Follow the beams."""
        super().reorder_cache(beam_idx)
        self.change(lambda carried: carried.index_select(0, beam_idx.to(carried.device)))

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Repeat every sequence."""
        super().batch_repeat_interleave(repeats)
        self.change(lambda carried: carried.repeat_interleave(repeats, dim=0))

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep some of the sequences."""
        super().batch_select_indices(indices)
        self.change(lambda carried: carried[indices, ...])

    def reset(self) -> None:
        """Drop keys, values and all that was said."""
        super().reset()
        self.forget()

    def crop(self, tokens_to_remove: int) -> None:
        """Remove the last tokens (-3: three) and take back what they said; ValueError if that lies
        too far back.
        """
        # the final size to some releases of transformers
        if tokens_to_remove > 0:
            raise ValueError(
                f"crop: give the number of tokens to remove as a negative number; got {tokens_to_remove}"
            )
        end = self.get_seq_length() + tokens_to_remove
        if tokens_to_remove < 0 and self.is_initialized and end > 0:
            self.rewind(end)
        super().crop(tokens_to_remove)
        if end <= 0:
            self.reset()

    def rewind(self, end: int) -> None:
        """Go back to the last mark from which the rows up to `end` can be said again."""
        oldest = self.get_seq_length() - self.queries.shape[-2]
        usable = [
            position for position in self.marks if position == end or oldest <= position < end
        ]
        if not usable:
            raise ValueError(
                f"crop: what the last {self.get_seq_length() - end} tokens said cannot be taken back; "
                f"crop fewer, or to {self.first_end} tokens, or start a new cache"
            )
        self.said = max(usable)
        self.sums = [sums[..., : self.said] for sums in self.marks[self.said]]
        self.real = self.real[..., : self.said] if self.said else None
        self.marks = {
            position: marked for position, marked in self.marks.items() if position <= self.said
        }
        self.queries = (
            self.queries[..., : end - oldest, :] if end > oldest else self.queries[..., :0, :]
        )
        self.mask = self.mask[..., : self.queries.shape[-2], :end]

    def unsaid(self, query: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Put the rows whose messages were taken back by a crop before the new ones."""
        missing = self.get_seq_length() - query.shape[-2] - self.said
        if missing == 0:
            return query, mask
        if missing < 0:
            raise ValueError(
                "past_key_values: a layer is called several times a pass, and has one set of sums; use_cache=False"
            )
        if self.queries is None or self.queries.shape[-2] < missing:
            raise ValueError(
                "past_key_values: the cache holds keys that no refined row belongs to; start a new one"
            )
        lowest = torch.finfo(mask.dtype).min
        earlier = functional.pad(
            self.mask[..., -missing:, :], (0, mask.shape[-1] - self.mask.shape[-1]), value=lowest
        )
        return torch.cat([self.queries[..., -missing:, :], query], -2), torch.cat(
            [earlier, mask], -2
        )

    def take_in(self, mask: Tensor) -> None:
        """Note which of the rows to be said are tokens; ValueError if a row needs more than the
        sums of all.
        """
        allowed = allowed_pairs(mask, *mask.shape[-2:], True, mask.device)
        rows = real_queries(allowed)
        real = rows if self.real is None else torch.cat([self.real, rows], -1)
        if not bool(up_to_themselves(allowed & rows[..., None], real).all()):
            if self.queries is None:
                raise ValueError(
                    "attention_mask: shows a token more or less than the tokens from some place up to itself, as a "
                    "prefix or packed sequences do, and no cache carries such messages; pass use_cache=False"
                )
            raise ValueError(
                "past_key_values: the cache sums up what all earlier tokens said, and attention_mask hides some of "
                "them or shows later ones; use_cache=False"
            )
        self.real = real

    def note(self, end: int, sums: list[Tensor]) -> None:
        """Take in the column sums of the rows before `end`, and mark them now and then."""
        self.said, self.sums = end, sums
        if end - max(self.marks) >= TILE:
            self.marks[end] = sums
        recent = sorted(self.marks.keys() - {self.first_end})
        for position in recent[:-KEPT_MARKS]:
            del self.marks[position]

    def remember(self, query: Tensor, mask: Tensor) -> None:
        """Keep the rows from the oldest mark on, which a crop may have to say again."""
        length = self.get_seq_length()
        query, mask = query.detach(), mask.detach()
        if self.queries is not None:
            lowest = torch.finfo(mask.dtype).min
            earlier = functional.pad(
                self.mask, (0, mask.shape[-1] - self.mask.shape[-1]), value=lowest
            )
            query, mask = torch.cat([self.queries, query], -2), torch.cat([earlier, mask], -2)
        if self.first_end == 0 and self.said == length:
            self.first_end = length
            self.marks[length] = self.sums
        rows = length - min(self.marks.keys() - {self.first_end}, default=self.first_end)
        # a copy, or the view would keep the whole prompt alive
        if rows < query.shape[-2]:
            query, mask = query[..., -rows:, :].clone(), mask[..., -rows:, :].clone()
        self.queries, self.mask = query, mask


def adopt(cache: Cache, index: int, options: Any) -> RefinedLayer | None:
    """Return the layer of `cache` that carries column sums, putting it there if the cache is still
    empty.

    Sliding-window layers become full ones: the mask keeps the window, a crop needs the keys. What
    no cache can carry has no layer, may fill a cache but not go on from it. Raises ValueError,
    naming the cache, if it cannot carry the sums.
    """
    cache = cache.self_attention_cache if isinstance(cache, EncoderDecoderCache) else cache
    if options.factor not in CARRIED or options.messages == "all":
        what = f"factor {options.factor!r}" if options.factor not in CARRIED else 'messages="all"'
        if cache.get_seq_length(index):
            raise ValueError(
                f"past_key_values: {what} needs every earlier row, which no cache holds; use_cache=False"
            )
        return None
    name = type(cache).__name__
    if type(cache) is not DynamicCache:
        raise ValueError(
            f"past_key_values: {name} cannot carry the column sums of a refined model; use_cache=False"
        )
    if cache.offloading:
        raise ValueError(
            "past_key_values: an offloaded cache cannot carry the column sums; use_cache=False"
        )
    while len(cache.layers) <= index:
        cache.layers.append(RefinedLayer())
    layer = cache.layers[index]
    if not isinstance(layer, RefinedLayer):
        if type(layer) not in (DynamicLayer, DynamicSlidingWindowLayer):
            raise ValueError(
                f"past_key_values: a cache with {type(layer).__name__} cannot carry the column sums; use_cache=False, "
                "without generate() where layers share their keys"
            )
        if layer.get_seq_length():
            raise ValueError(
                "past_key_values: the cache was filled without refinement; start a new one"
            )
        layer = cache.layers[index] = RefinedLayer()
    if layer.options not in (None, options):
        raise ValueError(
            "past_key_values: the cache was filled under other options of saobp.apply; start a new one"
        )
    layer.options = options
    return layer
