"""Spared keys: those that get no bias, so that a sink that a trained model needs is not drained.

A spared key still sends messages as a query; only what is said about it as a key is left out.
"""

from numbers import Real

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from saobp.equations.checks import quoted
from saobp.equations.factors import BY_STRENGTH

RULES = ("first", "edges")
"""Ways of sparing by place: the first real token of each sequence, and the first and the last."""

Spare = str | float | Bool[Tensor, "*rows key"] | None
"""A rule, a share of all attention, a mask (True: spared), or nothing spared."""


def check_spare(spare: Spare, factor: str, *, causal: bool) -> None:
    """Refuse an unknown way of sparing, and one that a factor or a causal model cannot follow, with
    a ValueError.
    """
    if spare is None:
        return
    if isinstance(spare, Tensor):
        known = spare.dtype == torch.bool
    elif isinstance(spare, str):
        known = spare in RULES
    else:
        known = isinstance(spare, Real) and not isinstance(spare, bool) and 0 < spare <= 1
    if not known:
        received = spare.dtype if isinstance(spare, Tensor) else quoted(spare)
        raise ValueError(
            'spare must be None, "first", "edges", a share in (0, 1] or a boolean mask of keys '
            f"(True: no bias); got {received}"
        )
    # plain attention has no bias either way
    if factor not in (*BY_STRENGTH, "none"):
        raise ValueError(
            f"spare does not apply to factor {factor!r}, which adds no bias to a key; "
            f"use {', '.join(BY_STRENGTH)}"
        )
    if causal and spare_looks_ahead(spare):
        why = (
            "the last token moves as the sequence grows"
            if spare == "edges"
            else "a key's share depends on later rows"
        )
        raise ValueError(
            f'spare={quoted(spare)} cannot be known in a causal model: {why}; use "first"'
        )


def check_saved(spare: Spare) -> None:
    """Refuse a way of sparing that a config cannot hold with a ValueError."""
    if isinstance(spare, Tensor):
        raise ValueError(
            'spare: a mask of keys cannot be saved with a model; give saobp.apply "first", "edges" '
            "or a share, or call saobp.refine or saobp.saobp_attention"
        )


def spare_looks_ahead(spare: Spare) -> bool:
    """Tell whether which keys are spared depends on later rows."""
    return not (spare is None or isinstance(spare, Tensor) or spare == "first")


def check_spared_shape(spare: Spare, shape: tuple[int, ...]) -> None:
    """Refuse a mask that is not (L,), (batch, L) or as many-dimensional as the keys of `shape`
    (..., L, L), with a ValueError.
    """
    if not isinstance(spare, Tensor):
        return
    keys = (*shape[:-2], shape[-1])
    expected = [keys[-1:], (keys[0], keys[-1])] if len(keys) > 1 else [keys]
    aligned = spare.ndim == len(keys) and spare.shape[-1] == keys[-1]
    broadcasts = aligned and all(size in (1, full) for size, full in zip(spare.shape, keys))
    if tuple(spare.shape) not in expected and not broadcasts:
        # of one matrix, or of one head, two of them are the same
        names = " or ".join(dict.fromkeys(map(str, [*expected, keys])))
        raise ValueError(f"spare must have shape {names}; got {tuple(spare.shape)}")


def by_key(
    spare: Tensor, shape: tuple[int, ...], device: torch.device
) -> Bool[Tensor, "*lead key"]:
    """Return a mask with the dimensions of the keys of `shape` (..., L, L); two stand for (batch,
    L), as in `mask`.
    """
    spare, dimensions = spare.to(device), len(shape) - 1
    if spare.ndim == 2 and dimensions > 2:
        return spare.reshape(spare.shape[0], *[1] * (dimensions - 2), spare.shape[1])
    return spare


def spared_keys(
    spare: Spare,
    attention: Float[Tensor, "*batch query key"],
    visible: Bool[Tensor, "*#batch query key"],
) -> Bool[Tensor, "*#batch 1 key"] | None:
    """Return which keys get no bias; None if all get theirs.

    `attention` is plain and 0 where a pair is not `visible`. First is a real token that sees none
    before itself, last one that sees none after it. A share is the mean of what the real queries
    that may look at a key attend to it: what else a sequence is packed with says nothing.
    """
    if spare is None:
        return None
    if isinstance(spare, Tensor):
        return by_key(spare, attention.shape, attention.device)[..., None, :]
    if spare in RULES:
        real = visible.diagonal(0, -2, -1)
        spared = ~visible.tril(-1).any(-1)
        if spare == "edges":
            spared = spared | ~visible.triu(1).any(-1)
        return (spared & real)[..., None, :]
    rows = visible.sum(-2, keepdim=True)
    return attention.detach().sum(-2, keepdim=True) > float(spare) * rows


def strength_by_key(
    strength: Float[Tensor, "*#batch 1 1"], spared: Bool[Tensor, "*#batch 1 key"] | None
) -> Float[Tensor, "*#batch 1 #key"]:
    """Return the strength of the messages about each key: 0 about a spared one."""
    return strength if spared is None else strength.masked_fill(spared, 0)


def edges(real: Bool[Tensor, "*batch key"], *, both: bool) -> Bool[Tensor, "*batch key"]:
    """Return the first real token of each sequence, and with `both` the last."""
    spared = real & (real.cumsum(-1) == 1)
    if both:
        spared = spared | real & (real.flip(-1).cumsum(-1).flip(-1) == 1)
    return spared
