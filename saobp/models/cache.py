"""Column sums beside the keys and values of a decoder, so that a cached step equals the full
forward.

In a causal model row j receives messages from the rows before it (App. C): one sum of messages per
key and head. That sum belongs to the cache, and is reordered, cropped, repeated and selected with
the keys. A crop needs more than the sum, because what the cropped rows said must be taken back: the
layer keeps the sums as they were at a few marks and the queries since the oldest of them, and says
again what lies between a mark and the new end.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional
from transformers.cache_utils import (
    Cache,
    DummyLayer,
    DynamicCache,
    DynamicLayer,
    DynamicSlidingWindowLayer,
    EncoderDecoderCache,
)

from saobp.equations.checks import values_hidden
from saobp.equations.masks import real_queries
from saobp.fused.scores import senders, up_to_themselves

TILE = 128
"""Rows that are refined at a time, and the least distance between two marks."""

KEPT_MARKS = 3
"""Marks kept, besides the one at the end of the first call; a crop of 2 TILE rows finds one."""

CARRIED = ("high", "low")
"""Factors whose earlier rows reach a later one through column sums alone."""


OF_KEYS = ("real", "first", "looked")
"""What a layer knows of each key: whether it is a token, whether the first of its sequence, and
which row looked at it first.
"""


class Rows(NamedTuple):
    """Rows of one layer that follow each other, up to the last key: what their scores are made of."""

    query: Float[Tensor, "batch head row dim"]
    # True where a row may look at a key
    shown: Bool[Tensor, "batch head_or_1 row key"]
    # added to the scores
    bias: Float[Tensor, "batch head_or_1 row key"] | None

    def part(self, rows: slice) -> "Rows":
        """Return some of the rows."""
        return Rows(*(None if part is None else part[..., rows, :] for part in self))

    def up_to(self, end: int) -> "Rows":
        """Return the rows without the keys from `end` on, and without as many rows."""
        removed = self.shown.shape[-1] - end
        rows = self.part(slice(0, max(0, self.query.shape[-2] - removed)))
        bias = None if rows.bias is None else rows.bias[..., :end]
        return Rows(rows.query, rows.shown[..., :end], bias)

    def changed(self, change: Callable[[Tensor], Tensor]) -> "Rows":
        """Return the rows after a change of the batch dimension."""
        return Rows(*(None if part is None else change(part) for part in self))

    def followed_by(self, later: "Rows") -> "Rows":
        """Put later rows behind these, which see none of the keys that came with them."""
        room = (0, later.shown.shape[-1] - self.shown.shape[-1])
        bias = None
        if self.bias is not None or later.bias is not None:
            earlier_bias = functional.pad(self.bias_or_zeros(), room)
            bias = joined(earlier_bias, later.bias_or_zeros())
        query = torch.cat([self.query, later.query], -2)
        return Rows(query, joined(functional.pad(self.shown, room), later.shown), bias)

    def bias_or_zeros(self) -> Tensor:
        """Return what is added to the scores, which may be nothing."""
        if self.bias is not None:
            return self.bias
        return torch.zeros(self.shown.shape, dtype=self.query.dtype, device=self.query.device)


def version_of(keys: Tensor) -> int | None:
    """Return torch's count of changes to a tensor; None where it counts none."""
    return None if keys.is_inference() else keys._version


def joined(earlier: Tensor, later: Tensor) -> Tensor:
    """Put rows behind others; either may be the same for every head."""
    heads = max(earlier.shape[1], later.shape[1])
    parts = [part.expand(-1, heads, -1, -1) for part in (earlier, later)]
    return torch.cat(parts, -2)


class RefinedLayer(DynamicLayer):
    """Keys and values of one layer, and what the rows so far have said about each key.

    The sums belong to the keys as they were read: keys that somebody puts in their place, permutes or
    changes in place are refused. Not noticed is what torch counts no change of: a write through `.data`
    or numpy, or in place under `torch.inference_mode`. Values may be replaced, as in the plain model.

    `read` counts the rows so far; of a layer that shares another's keys, `keys` stays None. `seen` are
    the keys as the last call left them, and torch's count of changes to them. `sums` holds for each round of messages the column sums (batch, head, 1, key) in nats of the rows
    before `summed`; `real` which of those rows are tokens; `marks` the sums as they were at earlier
    positions; `rows` the rows from the oldest mark to the end. `looked` holds the first row that
    looked at each key, or None if no row looked at a later one.
    """

    def __init__(self, options: Any = None) -> None:
        super().__init__()
        self.options = options
        self.seen: tuple[Tensor, int | None] | None = None
        self.forget()

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy of the layer carries; its keys are other tensors."""
        return vars(self) | {"seen": self.is_untouched()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over what a layer carries; keys that were changed by hand stay known as such."""
        untouched = state.pop("seen")
        vars(self).update(state)
        self.seen = None
        if untouched:
            self.look()
        elif self.keys is not None:
            self.seen = (torch.empty(0), None)

    def look(self) -> None:
        """Note the keys as they are."""
        self.seen = None
        if self.keys is not None and not values_hidden():
            self.seen = (self.keys, version_of(self.keys))

    def is_untouched(self) -> bool:
        """Tell whether the keys are those that the last call left, unless nobody looked."""
        if self.seen is None or values_hidden():
            return True
        keys, version = self.seen
        return keys is self.keys and version == version_of(keys)

    def update(self, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Put new keys and values behind the others."""
        updated = super().update(*args, **kwargs)
        self.look()
        return updated

    def forget(self) -> None:
        """Start over, before the first token."""
        self.read, self.summed, self.sums = 0, 0, []
        self.real: Tensor | None = None
        self.first: Tensor | None = None
        self.looked: Tensor | None = None
        self.marks: dict[int, list[Tensor]] = {0: []}
        self.first_end = 0
        self.rows: Rows | None = None

    @property
    def queries(self) -> Tensor | None:
        """The queries of the rows that are kept."""
        return None if self.rows is None else self.rows.query

    def change(self, change: Callable[[Tensor], Tensor]) -> None:
        """Apply a change of the batch dimension to everything that is carried."""
        self.sums = [change(sums) for sums in self.sums]
        self.marks = {
            position: [change(sums) for sums in marked] for position, marked in self.marks.items()
        }
        if self.rows is not None:
            self.rows = self.rows.changed(change)
        for name in OF_KEYS:
            if getattr(self, name) is not None:
                setattr(self, name, change(getattr(self, name)))

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Follow the beams."""
        self.check_keys()
        super().reorder_cache(beam_idx)
        self.look()
        self.change(lambda carried: carried.index_select(0, beam_idx.to(carried.device)))

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Repeat every sequence."""
        self.check_keys()
        super().batch_repeat_interleave(repeats)
        self.look()
        self.change(lambda carried: carried.repeat_interleave(repeats, dim=0))

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep some of the sequences."""
        self.check_keys()
        super().batch_select_indices(indices)
        self.look()
        self.change(lambda carried: carried[indices, ...])

    def reset(self) -> None:
        """Drop keys, values and all that was said."""
        super().reset()
        self.seen = None
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
        self.check_keys()
        end = self.read + tokens_to_remove
        if tokens_to_remove < 0 and end > 0:
            self.rewind(end)
        super().crop(tokens_to_remove)
        self.look()
        if end <= 0:
            self.reset()

    def rewind(self, end: int) -> None:
        """Go back to the last mark from which the rows up to `end` can be said again."""
        oldest = self.read - self.rows.query.shape[-2]
        usable = [
            position for position in self.marks if position == end or oldest <= position < end
        ]
        if not usable:
            raise ValueError(
                f"crop: what the last {self.read - end} tokens said cannot be taken back; "
                f"crop fewer, or to {self.first_end} tokens, or start a new cache"
            )
        self.summed = max(usable)
        self.sums = [sums[..., : self.summed] for sums in self.marks[self.summed]]
        for name in OF_KEYS:
            if getattr(self, name) is not None:
                kept = getattr(self, name)[..., : self.summed]
                setattr(self, name, kept if self.summed else None)
        self.marks = {
            position: marked for position, marked in self.marks.items() if position <= self.summed
        }
        self.rows = self.rows.up_to(end)
        self.read = end

    def check_keys(self) -> None:
        """Raise ValueError unless the keys are those of the rows that were read; takes no longer for
        more keys.
        """
        keys = 0 if self.keys is None else self.get_seq_length()
        if keys == self.read and not self.is_untouched():
            raise ValueError(
                f"past_key_values: the {keys} keys of the cache were replaced or changed by hand, so that "
                "they are not those whose messages it sums up; start a new cache"
            )
        if keys == self.read or self.keys is None:
            return
        if self.read == 0:
            raise ValueError(
                "past_key_values: the cache holds keys whose rows sent no messages; start a new one, "
                "or pass use_cache=False"
            )
        raise ValueError(
            f"past_key_values: the cache holds {keys} keys of {self.read} tokens, so keys were "
            "taken out or put in by hand, and what they stand for in the sums of messages is not "
            "known; start a new cache, or remove the last tokens by crop()"
        )

    def unsaid(self, rows: Rows) -> Rows:
        """Put the rows whose messages were taken back by a crop before the new ones."""
        expected = self.read + rows.query.shape[-2]
        if rows.shown.shape[-1] != expected:
            raise ValueError(
                "past_key_values: a layer is called several times a pass, and has one set of sums; use_cache=False"
            )
        missing = self.read - self.summed
        return self.rows.part(slice(-missing, None)).followed_by(rows) if missing else rows

    def take_in(self, rows: Rows) -> bool | Tensor:
        """Note which of the rows to be said are tokens, and return from which of them each receives
        messages: from the earlier ones (True), or from those given.

        Each row must receive from all that were said: ValueError otherwise.
        """
        sent = real_queries(rows.shown)
        visible = rows.shown & sent[..., None]
        real = sent if self.real is None else torch.cat([self.real, sent], -1)
        ordinary = bool(up_to_themselves(visible, real).all())
        looked = None
        if not ordinary or self.looked is not None:
            looked = first_looks(visible, self.looked, self.summed)
            if self.read:
                new = visible[..., self.read - self.summed :, :]
                check_carried(new, real[..., : self.read], looked[..., : self.read])
        self.real, self.looked = real, looked
        if self.options.spare is not None:
            # a row that sees no key before its own
            first = sent & ~rows.shown.tril(self.summed - 1).any(-1)
            self.first = first if self.first is None else torch.cat([self.first, first], -1)
        if ordinary:
            return True
        sending = senders(rows.shown) if self.summed == 0 else visible[..., self.summed :]
        return torch.ones_like(visible) if sending is False else sending

    def spared(self) -> Tensor | None:
        """Return which keys (batch, head, 1, key) get no bias; None if all get theirs."""
        return None if self.options.spare is None else self.first[..., None, :]

    def note(self, end: int, sums: list[Tensor]) -> None:
        """Take in the column sums of the rows before `end`, and mark them now and then."""
        self.summed, self.sums = end, sums
        if end - max(self.marks) >= TILE:
            self.marks[end] = sums
        recent = sorted(self.marks.keys() - {self.first_end})
        for position in recent[:-KEPT_MARKS]:
            del self.marks[position]

    def remember(self, rows: Rows) -> None:
        """Keep the rows from the oldest mark on, which a crop may have to say again.

        With gradients they keep their graph, as the keys beside them do: later rows receive what
        they say.
        """
        self.read += rows.query.shape[-2]
        if self.rows is not None:
            rows = self.rows.followed_by(rows)
        if self.first_end == 0 and self.summed == self.read:
            self.first_end = self.read
            self.marks[self.read] = self.sums
        kept = self.read - min(self.marks.keys() - {self.first_end}, default=self.first_end)
        # a copy, or the view would keep the whole prompt alive
        if kept < rows.query.shape[-2]:
            rows = rows.part(slice(rows.query.shape[-2] - kept, None)).changed(torch.clone)
        self.rows = rows


def check_carried(visible: Tensor, real: Tensor, looked: Tensor) -> None:
    """Raise ValueError if one of the next rows does not receive what the sums of all so far hold.

    It must see all of their tokens from some place on, and no token before that place may have
    looked beyond it. `real` says which of the earlier rows are tokens, `looked` which row looked
    first at each of their keys.
    """
    start = real.shape[-1]
    place = torch.arange(start, device=visible.device)
    earlier = visible[..., :start]
    first = torch.where(earlier.any(-1), earlier.int().argmax(-1), start)[..., None]
    behind = place >= first
    hidden_sender = behind & (looked[..., None, :] < first)
    differs = earlier != (real[..., None, :] & behind)
    if bool(((differs | hidden_sender) & visible.any(-1, keepdim=True)).any()):
        raise ValueError(
            "past_key_values: the cache sums up what all earlier tokens said, and attention_mask hides some of "
            "them or shows later ones; use_cache=False"
        )


def first_looks(visible: Tensor, before: Tensor | None, start: int) -> Tensor:
    """Return the first row that looks at each key, (batch, head, key); `start` is the first of
    these rows, `before` the answer for the keys before it.
    """
    rows, keys = visible.shape[-2:]
    place = torch.arange(keys, device=visible.device)
    if before is None:
        before = place[:start].expand(*visible.shape[:-2], start)
    looks = start + torch.where(visible.any(-2), visible.int().argmax(-2), place - start)
    heads = max(before.shape[1], looks.shape[1])
    parts = [part.expand(-1, heads, -1) for part in (before, looks[..., start:])]
    return torch.cat(parts, -1)


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
        if type(layer) not in (DynamicLayer, DynamicSlidingWindowLayer, DummyLayer):
            raise ValueError(
                f"past_key_values: a cache with {type(layer).__name__} cannot carry the column sums; use_cache=False"
            )
        # of a layer that shares another's keys
        if type(layer) is not DummyLayer and layer.get_seq_length():
            raise ValueError(
                "past_key_values: the cache was filled without refinement (by another model, or a "
                "prefix), so that its rows sent no messages; start a new one"
            )
        layer = cache.layers[index] = RefinedLayer()
    if layer.options not in (None, options):
        raise ValueError(
            "past_key_values: the cache was filled under other options of saobp.apply; start a new one"
        )
    layer.check_keys()
    layer.options = options
    return layer
