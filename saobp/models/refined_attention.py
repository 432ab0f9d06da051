"""The refined attention of one module: by the fused operation where nobody asks to see the
probabilities.

With a cache the rows of new tokens are refined with what the rows before them said (App. C).
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from saobp.equations.messages import (
    per_matrix,
    prefix_key_bias,
    propagate,
    seen_bias,
    signed_strength,
)
from saobp.equations.sparing import strength_by_key
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
    """Attend without refinement and return the probabilities.

    To `sdpa` an additive mask is a bias: a query from which it hides everything gets 0 from -inf, and
    a softmax of what finite numbers leave. Gradients are those of that softmax; where it hides by the
    lowest number of float32, the kernel that `sdpa` takes instead has larger ones.
    """
    mask, bias, hidden = call.mask, call.position_bias, None
    if mask is not None and mask.dtype != torch.bool:
        hidden = mask.isneginf().all(-1, keepdim=True)
        mask = mask.masked_fill(hidden, 0)
        bias, mask = mask, None
    causal = call.causal and call.mask is None
    raw = probabilities(query, key, mask, call.scaling, causal=causal, position_bias=bias)
    if hidden is not None:
        raw = raw.masked_fill(hidden, 0)
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
        alone, real, blind = padding_alone(call.mask, call.causal)
        if alone:
            output = fused_attention(refinement, query, key, value, call, real)
            return output if blind is None else output.masked_fill(blind[..., None, None], 0), None
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
        spare=refinement.options.spare,
    )
    return output.transpose(1, 2).contiguous()


def apply_to_values(
    weights: Tensor, value: Groups, dropout: float
) -> Float[Tensor, "batch query head dim"]:
    """Average the values by `weights`, dropped out after everything else, and round once."""
    wide = torch.promote_types(weights.dtype, value.dtype)
    values = per_head(value, weights.shape[1]).to(wide)
    weights = functional.dropout(weights.to(wide), dropout) if dropout else weights.to(wide)
    with torch.autocast(value.device.type, enabled=False):
        output = torch.matmul(weights, values)
    return output.to(value.dtype).transpose(1, 2).contiguous()


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

    A tile of rows at a time, so that a long prompt needs no L x L matrix; rows that look at later
    ones are one tile. Equal to the full forward.
    """
    new = rows_of(call, query, key.shape[-2])
    rows = layer.unsaid(new)
    sending = layer.take_in(rows)
    value = per_head(value, query.shape[1])
    tile = cache.TILE if sending is True else rows.query.shape[-2]
    outputs, weights = [], []
    for start in range(0, rows.query.shape[-2], tile):
        part = rows.part(slice(start, start + tile))
        raw, refined = refine_tile(layer, refinement, part, key, call, sending)
        outputs.append(apply_to_values(refined, value, call.dropout))
        weights.append((raw, refined) if call.keep else ())
    layer.remember(new)
    new_rows = slice(-query.shape[-2], None)
    output = torch.cat(outputs, 1)[:, new_rows].contiguous()
    if not call.keep:
        return output, None
    raw, refined = (torch.cat(parts, -2)[..., new_rows, :] for parts in zip(*weights))
    refinement.show(raw, refined)
    return output, refined.to(value.dtype)


def refine_tile(
    layer: cache.RefinedLayer,
    refinement: nn.Module,
    rows: cache.Rows,
    key: Tensor,
    call: Call,
    sending: bool | Tensor,
) -> tuple[Tensor, Tensor]:
    """Refine the rows that follow those whose messages the layer has, and add theirs (App. C)."""
    options, start = refinement.options, layer.summed
    sums, after = iter(layer.sums or [None] * options.steps), []

    def hear(messages: Tensor) -> Tensor:
        """Return the bias that each row receives, and keep the sums that the next row will start
        from.
        """
        before, total = next(sums), messages.sum(-2, keepdim=True)
        if before is not None:
            before = functional.pad(before, (0, messages.shape[-1] - before.shape[-1]))
        after.append(total if before is None else before + total)
        if sending is True:
            return prefix_key_bias(messages, exclude_self=options.exclude_self, carry=before)
        received = seen_bias(messages, sending, exclude_self=options.exclude_self)
        return received if before is None else received + before

    raw = probabilities(rows.query, key, rows.shown, call.scaling, position_bias=rows.bias)
    with torch.autocast(raw.device.type, enabled=False):
        # the first row sits at key `start`
        real = rows.shown.diagonal(start, -2, -1)[..., None]
        prior = raw.masked_fill(~(rows.shown & real), 0)
        strength = strength_by_key(per_matrix(refinement(raw.device), prior), layer.spared())
        strength = signed_strength(options.factor, strength)
        refined = propagate(prior, strength, hear, steps=options.steps, damping=options.damping)
    layer.note(start + rows.query.shape[-2], after)
    return raw, torch.where(real, refined, raw)


def rows_of(call: Call, query: Tensor, keys: int) -> cache.Rows:
    """Return the rows that a call adds to a cache, whose query comes with all keys so far."""
    batch, _, new, _ = query.shape
    shown = allowed_pairs(call.mask, new, keys, call.causal, query.device)
    bias = call.position_bias
    if call.mask is not None and call.mask.dtype != torch.bool:
        soft = call.mask.masked_fill(~shown, 0)
        bias = soft if bias is None else bias + soft
    if bias is not None:
        bias = bias[(None,) * (4 - bias.ndim)].expand(batch, -1, new, keys)
    return cache.Rows(query, shown.expand(batch, -1, new, keys), bias)
