"""Attention of new tokens with a cache: their rows are refined with what the rows before them said (App. C)."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from saobp.equations.messages import per_matrix, prefix_key_bias, propagate, signed_strength
from saobp.fused.scores import allowed_pairs, per_head, probabilities
from saobp.models import cache
from saobp.models.attending import Call


class Carry:
    """Adds up messages round by round on top of what the earlier rows said (App. C)."""

    def __init__(self, sums: list[Tensor], steps: int, exclude_self: bool) -> None:
        self.before = iter(sums or [None] * steps)
        self.after: list[Tensor] = []
        self.exclude_self = exclude_self

    def __call__(self, messages: Tensor) -> Tensor:
        """Return the bias that each row receives, and keep the sums that the next row will start from."""
        before = next(self.before)
        if before is not None:
            before = functional.pad(before, (0, messages.shape[-1] - before.shape[-1]))
        total = messages.sum(-2, keepdim=True)
        self.after.append(total if before is None else before + total)
        return prefix_key_bias(messages, exclude_self=self.exclude_self, carry=before)


def attend_with_cache(
    layer: cache.RefinedLayer, refinement: nn.Module, query: Tensor, key: Tensor, value: Tensor, call: Call
) -> tuple[Tensor, Tensor | None]:
    """Attend the new rows to all keys of the cache, hearing every earlier row through its column sums.

    A tile of rows at a time, so that a long prompt needs no L x L matrix. Equal to the full forward.
    """
    new = query.shape[-2]
    mask = additive(call, query, key.shape[-2])
    queries, masks = layer.unsaid(query, mask)
    layer.take_in(masks)
    value = per_head(value, query.shape[1])
    outputs, weights = [], []
    for start in range(0, queries.shape[-2], cache.TILE):
        rows = slice(start, start + cache.TILE)
        raw, refined = refine_tile(layer, refinement, queries[..., rows, :], key, masks[..., rows, :], call)
        refined = refined.to(value.dtype)
        outputs.append(functional.dropout(refined, call.dropout) @ value)
        weights.append((raw, refined) if call.keep else ())
    layer.remember(query, mask)
    output = torch.cat(outputs, -2)[..., -new:, :].transpose(1, 2).contiguous()
    if not call.keep:
        return output, None
    raw, refined = (torch.cat(parts, -2)[..., -new:, :] for parts in zip(*weights))
    refinement.show(raw, refined)
    return output, refined


def refine_tile(
    layer: cache.RefinedLayer, refinement: nn.Module, query: Tensor, key: Tensor, mask: Tensor, call: Call
) -> tuple[Tensor, Tensor]:
    """Refine the rows that follow those whose messages the layer has, and add theirs."""
    options = refinement.options
    start = layer.said
    raw = probabilities(query, key, mask, call.scaling)
    allowed = allowed_pairs(mask, *raw.shape[-2:], True, raw.device)
    with torch.autocast(raw.device.type, enabled=False):
        rows = allowed.diagonal(start, -2, -1)[..., None]  # the first row sits at key `start`
        prior = raw.masked_fill(~(allowed & rows), 0)
        strength = signed_strength(options.factor, per_matrix(refinement(raw.device), prior))
        hear = Carry(layer.sums, options.steps, options.exclude_self)
        refined = propagate(prior, strength, hear, steps=options.steps, damping=options.damping)
    layer.note(start + query.shape[-2], hear.after)
    return raw, torch.where(rows, refined, raw)


def additive(call: Call, query: Tensor, length: int) -> Tensor:
    """Return the mask of the new rows in additive form, one for each sequence."""
    mask = call.mask
    allowed = allowed_pairs(mask, query.shape[-2], length, True, query.device)
    if mask is None or mask.dtype == torch.bool:
        mask = torch.zeros(allowed.shape, dtype=query.dtype, device=query.device)
    mask = mask.masked_fill(~allowed, torch.finfo(mask.dtype).min)
    return mask.expand(query.shape[0], -1, query.shape[-2], -1)
