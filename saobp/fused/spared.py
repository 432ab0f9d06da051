"""Which keys of each head are spared, worked out from query and key without the L x L matrix."""

from dataclasses import replace
from functools import lru_cache

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from saobp.equations.sparing import RULES, Spare, by_key, edges
from saobp.fused.tiled.heads import Call
from saobp.fused.tiled.plain import finds_shares

ENTRIES = 2**22
"""Scores that are worked out at a time for the shares of the keys."""


def with_spared(
    call: Call,
    spare: Spare,
    query: Float[Tensor, "batch head query width"],
    key: Float[Tensor, "batch head query width"],
    mask: Bool[Tensor, "batch query"] | None,
) -> Call:
    """Return a call that says which keys get no bias, (batch head, key); padded ones may be among
    them.

    Compiled passes, and torch's of short sequences, find the keys of a share while they refine.
    """
    batch, heads, length, _ = query.shape
    if isinstance(spare, Tensor):
        spared = by_key(spare, (batch, heads, length, length), query.device)
    elif spare in RULES and mask is None:
        # one row for all heads
        spared = at_the_edges(length, query.device, both=spare == "edges")
        return replace(call, spared=spared.expand(batch * heads, length))
    elif spare in RULES:
        spared = edges(mask, both=spare == "edges")[:, None]
    elif finds_shares(call, query):
        spared = query.new_zeros(batch * heads, length, dtype=torch.bool)
        return replace(call, spared=spared, share=float(spare))
    else:
        rows = length if mask is None else mask.sum(-1)[:, None, None]
        spared = column_sums(query, key, mask, call.scale) > float(spare) * rows
    spared = spared.expand(batch, heads, length).flatten(0, 1).contiguous()
    return replace(call, spared=spared)


@lru_cache(maxsize=64)
def at_the_edges(length: int, device: torch.device, *, both: bool) -> Bool[Tensor, " key"]:
    """Return True at the first of some keys, and with `both` at the last; made once, as short
    sequences are over as soon.
    """
    # what is made inside may not be saved for a gradient
    with torch.inference_mode(False):
        places = torch.zeros(length, dtype=torch.bool, device=device)
        places[0] = True
        places[-1] |= both
    return places


@torch.no_grad()
def column_sums(
    query: Float[Tensor, "batch head query width"],
    key: Float[Tensor, "batch head query width"],
    mask: Bool[Tensor, "batch query"] | None,
    scale: float,
) -> Float[Tensor, "batch head key"]:
    """Add up what the real queries attend to each key, some queries at a time."""
    wide = torch.promote_types(query.dtype, torch.float32)
    batch, heads, length, _ = query.shape
    sums = query.new_zeros(batch, heads, length, dtype=wide)
    keys = key.to(wide).mT
    together = max(1, ENTRIES // (batch * heads * length))
    for start in range(0, length, together):
        rows = slice(start, start + together)
        scores = (query[:, :, rows].to(wide) * scale) @ keys
        if mask is not None:
            scores = scores.masked_fill(~mask[:, None, None], -torch.inf)
        attention = scores.softmax(-1)
        if mask is not None:
            attention = attention.masked_fill(~mask[:, None, rows, None], 0)
        sums += attention.sum(-2)
    return sums
