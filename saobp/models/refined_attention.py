"""The refined attention of one module: by the fused operation where nobody asks to see the
probabilities.

With a cache the rows of new tokens are refined with what the rows before them said (App. C).
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from saobp.equations.messages import per_matrix, prefix_key_bias, propagate, signed_strength
from saobp.fused.attention import saobp_attention
from saobp.fused.scores import (
    allowed_pairs,
    padding_alone,
    per_head,
    probabilities,
    remembered,
    senders,
    visible_pairs,
)
from saobp.models import cache

FUSED = ("high", "low", "elemmul")
"""Factors that the fused operation computes without forming the matrix."""

Heads = Float[Tensor, "batch head token dim"]
Groups = Float[Tensor, "batch group key dim"]


class Call(NamedTuple):
    """What one call of the attention function asks for, besides query, key and value."""

    mask: Tensor | None
    scaling: float | None
    dropout: float
    causal: bool
    position_bias: Tensor | None
    # the probabilities are to be returned
    keep: bool


def plain_attention(
    refinement: nn.Module | None, query: Heads, key: Groups, value: Groups, call: Call
) -> tuple[Tensor, Tensor]:
    """Attend without refinement and return the probabilities."""
    raw = probabilities(
        query, key, call.mask, call.scaling, causal=call.causal, position_bias=call.position_bias
    )
    if refinement is not None:
        refinement.show(raw, raw)
    return apply_to_values(raw, value, call.dropout), raw.to(value.dtype)


def refined_attention(
    refinement: nn.Module, query: Heads, key: Groups, value: Groups, call: Call
) -> tuple[Tensor, Tensor | None]:
    """Attend with refined probabilities, fused if nobody asks for them and the mask is padding
    alone.
    """
    options = refinement.options
    hears_earlier = call.causal and options.messages == "earlier"
    one_step = options.steps == 1 and not options.damping
    fusible = options.factor in FUSED and one_step and call.causal == hears_earlier
    if fusible and not call.keep and call.position_bias is None:
        alone, real = padding_alone(call.mask, call.causal)
        if alone:
            return fused_attention(refinement, query, key, value, call, real), None
    raw = probabilities(
        query, key, call.mask, call.scaling, causal=call.causal, position_bias=call.position_bias
    )
    allowed = allowed_pairs(call.mask, *raw.shape[-2:], call.causal, raw.device)
    sending: bool | Tensor = hears_earlier
    if call.mask is not None and options.messages == "earlier":
        sending = remembered(call.mask, "senders", lambda: senders(allowed))
    refined = refinement.refine(raw, visible_pairs(allowed), sending)
    refinement.show(raw, refined)
    output = apply_to_values(refined, value, call.dropout)
    return output, refined.to(value.dtype) if call.keep else None


def fused_attention(
    refinement: nn.Module, query: Heads, key: Groups, value: Groups, call: Call, real: Tensor | None
) -> Tensor:
    """Attend by the fused operation, which keeps no probabilities."""
    real = None if real is None else real.expand(query.shape[0], -1)
    # autocast leaves rotated queries wide
    if query.dtype != value.dtype:
        query, key = query.to(value.dtype), key.to(value.dtype)
    output = saobp_attention(
        query,
        key,
        value,
        factor=refinement.options.factor,
        strength=refinement(query.device),
        mask=real,
        is_causal=call.causal,
        exclude_self=refinement.options.exclude_self,
        scale=call.scaling,
        dropout_p=call.dropout,
    )
    return output.transpose(1, 2).contiguous()


def apply_to_values(
    weights: Tensor, value: Groups, dropout: float
) -> Float[Tensor, "batch query head dim"]:
    """Average the values by `weights`, dropped out after everything else."""
    weights = (
        functional.dropout(weights.to(value.dtype), dropout) if dropout else weights.to(value.dtype)
    )
    return torch.matmul(weights, per_head(value, weights.shape[1])).transpose(1, 2).contiguous()


def attend_with_cache(
    layer: cache.RefinedLayer,
    refinement: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    call: Call,
) -> tuple[Tensor, Tensor | None]:
    """Attend the new rows to all keys of the cache, hearing every earlier row through its column
    sums.

    A tile of rows at a time, so that a long prompt needs no L x L matrix. Equal to the full
    forward.
    """
    new = query.shape[-2]
    mask = additive(call, query, key.shape[-2])
    queries, masks = layer.unsaid(query, mask)
    layer.take_in(masks)
    value = per_head(value, query.shape[1])
    outputs, weights = [], []
    for start in range(0, queries.shape[-2], cache.TILE):
        rows = slice(start, start + cache.TILE)
        raw, refined = refine_tile(
            layer, refinement, queries[..., rows, :], key, masks[..., rows, :], call
        )
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
    layer: cache.RefinedLayer,
    refinement: nn.Module,
    query: Tensor,
    key: Tensor,
    mask: Tensor,
    call: Call,
) -> tuple[Tensor, Tensor]:
    """Refine the rows that follow those whose messages the layer has, and add theirs (App. C)."""
    options, start = refinement.options, layer.said
    sums, after = iter(layer.sums or [None] * options.steps), []

    def hear(messages: Tensor) -> Tensor:
        """Return the bias that each row receives, and keep the sums that the next row will start
        from.
        """
        before, total = next(sums), messages.sum(-2, keepdim=True)
        if before is not None:
            before = functional.pad(before, (0, messages.shape[-1] - before.shape[-1]))
        after.append(total if before is None else before + total)
        return prefix_key_bias(messages, exclude_self=options.exclude_self, carry=before)

    raw = probabilities(query, key, mask, call.scaling)
    allowed = allowed_pairs(mask, *raw.shape[-2:], True, raw.device)
    with torch.autocast(raw.device.type, enabled=False):
        # the first row sits at key `start`
        rows = allowed.diagonal(start, -2, -1)[..., None]
        prior = raw.masked_fill(~(allowed & rows), 0)
        strength = signed_strength(options.factor, per_matrix(refinement(raw.device), prior))
        refined = propagate(prior, strength, hear, steps=options.steps, damping=options.damping)
    layer.note(start + query.shape[-2], after)
    return raw, torch.where(rows, refined, raw)


def additive(call: Call, query: Tensor, length: int) -> Tensor:
    """Return the mask of the new rows in additive form, one for each sequence."""
    mask = call.mask
    allowed = allowed_pairs(mask, query.shape[-2], length, True, query.device)
    if mask is None or mask.dtype == torch.bool:
        mask = torch.zeros(allowed.shape, dtype=query.dtype, device=query.device)
    mask = mask.masked_fill(~allowed, torch.finfo(mask.dtype).min)
    return mask.expand(query.shape[0], -1, query.shape[-2], -1)
