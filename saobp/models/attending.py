"""The refined attention of one module: by the fused operation where nobody asks to see the probabilities."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from saobp.fused.attention import saobp_attention
from saobp.fused.scores import allowed_pairs, padding_alone, per_head, probabilities, remembered, senders, visible_pairs

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
    keep: bool  # the probabilities are to be returned


def plain_attention(
    refinement: nn.Module | None, query: Heads, key: Groups, value: Groups, call: Call
) -> tuple[Tensor, Tensor]:
    """Attend without refinement and return the probabilities."""
    raw = probabilities(query, key, call.mask, call.scaling, causal=call.causal, position_bias=call.position_bias)
    if refinement is not None:
        refinement.show(raw, raw)
    return apply_to_values(raw, value, call.dropout), raw.to(value.dtype)


def refined_attention(
    refinement: nn.Module, query: Heads, key: Groups, value: Groups, call: Call
) -> tuple[Tensor, Tensor | None]:
    """Attend with refined probabilities, fused if nobody asks for them and the mask is padding alone."""
    options = refinement.options
    hears_earlier = call.causal and options.messages == "earlier"
    one_step = options.steps == 1 and not options.damping
    fusible = options.factor in FUSED and one_step and call.causal == hears_earlier
    if fusible and not call.keep and call.position_bias is None:
        alone, real = padding_alone(call.mask, call.causal)
        if alone:
            return fused_attention(refinement, query, key, value, call, real), None
    raw = probabilities(query, key, call.mask, call.scaling, causal=call.causal, position_bias=call.position_bias)
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
    if query.dtype != value.dtype:  # autocast leaves rotated queries wide
        query, key = query.to(value.dtype), key.to(value.dtype)
    output = saobp_attention(
        query, key, value,
        factor=refinement.options.factor,
        strength=refinement(query.device),
        mask=real,
        is_causal=call.causal,
        exclude_self=refinement.options.exclude_self,
        scale=call.scaling,
        dropout_p=call.dropout,
    )  # fmt: skip
    return output.transpose(1, 2).contiguous()


def apply_to_values(weights: Tensor, value: Groups, dropout: float) -> Float[Tensor, "batch query head dim"]:
    """Average the values by `weights`, dropped out after everything else."""
    weights = functional.dropout(weights.to(value.dtype), dropout) if dropout else weights.to(value.dtype)
    return torch.matmul(weights, per_head(value, weights.shape[1])).transpose(1, 2).contiguous()
