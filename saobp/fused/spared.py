"""Which keys of each head are spared, worked out from query and key without the L x L matrix."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from saobp.equations.sparing import RULES, Spare, by_key, edges

ENTRIES = 2**22
"""Scores that are worked out at a time for the shares of the keys."""


def spared_by_head(
    spare: Spare,
    query: Float[Tensor, "batch head query width"],
    key: Float[Tensor, "batch head query width"],
    mask: Bool[Tensor, "batch query"] | None,
    scale: float,
) -> Bool[Tensor, "heads key"] | None:
    """Return which keys get no bias, for the heads of all sequences one after the other; None if
    all get theirs. Padded keys may be among them.
    """
    if spare is None:
        return None
    batch, heads, length, _ = query.shape
    if isinstance(spare, Tensor):
        spared = by_key(spare, (batch, heads, length, length), query.device)
    elif spare in RULES:
        real = query.new_ones(1, length, dtype=torch.bool) if mask is None else mask
        spared = edges(real, both=spare == "edges")[:, None]
    else:
        rows = length if mask is None else mask.sum(-1)[:, None, None]
        spared = column_sums(query, key, mask, scale) > float(spare) * rows
    return spared.expand(batch, heads, length).flatten(0, 1).contiguous()


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
