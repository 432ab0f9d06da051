"""Eq. 9-11 as they are written, in float64, as an attention function of transformers: the oracle
of every path.

`literal` makes a plain model attend by it: its own scores, mask and softmax, then for the modules
named the product over all messages. Nothing of `saobp` is used.
"""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, eager_mask, sdpa_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

NAME = "literal"

OVER_EAGER = f"{NAME}-eager"
"""In place of a model's own eager attention, whose masks are additive."""

HIDDEN = -5000.0
"""An additive mask hides a key at this number and below."""


def literal(
    model: nn.Module,
    refined: Iterable[str],
    strength: float | Tensor = 0.5,
    *,
    factor: str = "high",
    exclude_self: bool = True,
    **options: Any,
) -> nn.Module:
    """Make a plain model attend by Eq. 9-11 in the modules named, by a plain softmax elsewhere.

    `options` are those of `refined`.
    """
    eager = model.config._attn_implementation in ("eager", OVER_EAGER)
    model.set_attn_implementation(OVER_EAGER if eager else NAME)
    for name in refined:
        model.get_submodule(name).literal = (factor, strength, exclude_self, options)
    return model


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    position_bias: Tensor | None = None,
    **_: Any,
) -> tuple[Tensor, Tensor]:
    """Attend as transformers asks an attention function to; dropout is left out."""
    query, key, value = query.double(), key.double(), value.double()
    scores = scores_of(query, key, scaling, position_bias, attention_mask)
    shown = shown_pairs(module, scores, attention_mask, is_causal)
    attention = scores.masked_fill(~shown, -math.inf).softmax(-1)
    # a row that may look at nothing: nobody's business
    attention = attention.nan_to_num(0.0)
    if hasattr(module, "literal"):
        *settings, options = *module.literal, {}
        if isinstance(settings[-1], dict):
            options = settings.pop()
        attention = refined(attention, shown, *settings, **options)
    values = value.repeat_interleave(query.shape[1] // value.shape[1], 1)
    output = (attention @ values).transpose(1, 2).contiguous()
    return output.to(next_dtype(module, output)), attention


def next_dtype(module: nn.Module, output: Tensor) -> torch.dtype:
    """Return the type that the layers after an attention function compute in."""
    types = [parameter.dtype for parameter in module.parameters() if parameter.is_floating_point()]
    return types[0] if types else output.dtype


def scores_of(
    query: Tensor, key: Tensor, scaling: float | None, bias: Tensor | None, mask: Tensor | None
) -> Tensor:
    """Return the model's scores: scaled products, and whatever it adds to them."""
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    keys = key.repeat_interleave(query.shape[1] // key.shape[1], 1)
    scores = query @ keys.mT * scaling
    if bias is not None:
        scores = scores + bias.double()
    if mask is not None and mask.dtype != torch.bool:
        scores = scores + mask.double()
    return scores


def shown_pairs(
    module: nn.Module, scores: Tensor, mask: Tensor | None, is_causal: bool | None
) -> Tensor:
    """Return which query may look at which key, (batch, head, query, key)."""
    queries, keys = scores.shape[-2:]
    if mask is not None:
        shown = mask if mask.dtype == torch.bool else mask > HIDDEN
        return shown.expand(scores.shape)
    causal = module.is_causal if is_causal is None else is_causal
    shown = torch.ones(queries, keys, dtype=torch.bool)
    return (shown.tril(keys - queries) if causal else shown).expand(scores.shape)


def refined(
    attention: Tensor,
    shown: Tensor,
    factor: str,
    strength: float | Tensor,
    exclude_self: bool,
    *,
    spare: str | float | None = None,
    rounds: int = 1,
    damping: float = 0.0,
) -> Tensor:
    """Return the beliefs of Eq. 11: phi_j(k) times the product over rows i of the messages of Eq. 9.

    Row j receives messages from the rows that it may look at, or from all where looking is mutual.
    A row that may not look at itself is padding: it sends nothing and stays as it is. "elemmul" is
    Eq. 15.
    """
    length = attention.shape[-1]
    real = shown.diagonal(dim1=-2, dim2=-1)
    shown = shown & real[..., None]
    prior = torch.where(shown, attention, 0.0)
    if factor == "elemmul":
        product = torch.where(shown, prior @ prior.mT, 0.0)
        product = product / product.sum(-1, keepdim=True).clamp(min=1e-300)
        return torch.where(real[..., None], product, attention)
    mutual = (shown == shown.mT).all(-1, keepdim=True).all(-2, keepdim=True)
    sends = (shown | mutual) & real[..., None, :] & real[..., None]
    strength = torch.as_tensor(strength, dtype=torch.float64)
    strength = strength.reshape(-1, 1, 1) if strength.ndim else strength
    potential = (strength if factor == "high" else -strength).exp()
    silent = spared(prior, shown, real, spare)[..., None, :]
    beliefs = prior
    for _ in range(rounds):
        # Eq. 9; a message of exp(strength) to every label is no message
        messages = (beliefs + potential * (1 - beliefs)) / potential
        messages = torch.where(silent, 1.0, messages)
        rows = []
        for j in range(length):
            senders = sends[..., j, :, None]
            if exclude_self:
                senders = senders & (torch.arange(length) != j)[:, None]
            # what its gradient needs is worked out again: of all rows it fills the memory
            part = prior[..., j, :], messages, senders
            rows.append(checkpoint(row, *part, use_reentrant=False, preserve_rng_state=False))
        updated = torch.stack(rows, -2)
        updated = updated / updated.sum(-1, keepdim=True).clamp(min=1e-300)
        beliefs = (1 - damping) * updated + damping * beliefs
    return torch.where(real[..., None], beliefs, attention)


def row(prior: Tensor, messages: Tensor, senders: Tensor) -> Tensor:
    """Return one row of Eq. 11, not normalised: phi_j(k) times the messages of its senders."""
    return prior * torch.where(senders, messages, 1.0).prod(-2)


def spared(prior: Tensor, shown: Tensor, real: Tensor, spare: str | float | None) -> Tensor:
    """Return the keys that get no bias, (batch, head, key): those at an edge of their sequence, or
    with more than a share of what the rows that see them attend to.
    """
    if spare is None:
        return torch.zeros_like(real)
    if isinstance(spare, float):
        return prior.detach().sum(-2) > spare * shown.sum(-2)
    first = real & (real.cumsum(-1) == 1)
    last = real & (real.flip(-1).cumsum(-1).flip(-1) == 1)
    return first | last if spare == "edges" else first


def whole_mask(*args: Any, config: Any, **kwargs: Any) -> Tensor:
    """Build the mask of the plain model, boolean or additive as its own: some models read it.

    One that hides nothing is built too: parts that attend without the interface add it to their
    scores.
    """
    build = eager_mask if config._attn_implementation == OVER_EAGER else sdpa_mask
    return build(*args, config=config, **kwargs | {"allow_is_bidirectional_skip": False})


for name in (NAME, OVER_EAGER):
    ALL_ATTENTION_FUNCTIONS.register(name, attend)
    ALL_MASK_ATTENTION_FUNCTIONS.register(name, whole_mask)
