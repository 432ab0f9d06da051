"""From query, key and a mask to plain probabilities, and to which pairs of tokens are real.

A mask is what transformers hands over: None, boolean (True = may look) or additive (`shown_by`: -5000
and below = may not look, all else is a bias), (batch or 1, head or 1, query or 1, key). With a cache
the queries are the last of the keys. A query that may look at nothing, as padding before the first
token of a decoder, attends to nothing: its probabilities are 0.
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from saobp.equations.checks import values_hidden
from saobp.equations.masks import real_queries, shown_by


def probabilities(
    query: Float[Tensor, "batch head query dim"],
    key: Float[Tensor, "batch group key dim"],
    mask: Tensor | None,
    scaling: float | None = None,
    *,
    causal: bool = False,
    position_bias: Tensor | None = None,
) -> Float[Tensor, "batch head query key"]:
    """Return softmax(query key^T scaling + mask), in float32 or better even under autocast.

    So are the products: float16 overflows before they are scaled, and bfloat16 keeps two digits. The
    row of a query that may look at nothing is 0.
    """
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    wide = torch.promote_types(query.dtype, torch.float32)
    query, key = query.to(wide) * scaling, per_head(key, query.shape[1]).to(wide)
    with torch.autocast(query.device.type, enabled=False):
        scores = torch.matmul(query, key.transpose(-1, -2))
    if position_bias is not None:
        scores = scores + position_bias
    lowest = torch.finfo(scores.dtype).min
    if mask is not None and mask.dtype != torch.bool:
        scores = scores + mask.clamp(min=torch.finfo(mask.dtype).min)
    allowed = allowed_pairs(mask, query.shape[-2], key.shape[-2], causal, scores.device)
    attention = scores.masked_fill(~allowed, lowest).softmax(-1)
    blind = blind_queries(mask, *allowed.shape[-2:])
    return attention if blind is None else attention.masked_fill(blind[..., None], 0)


def per_head(
    states: Float[Tensor, "batch group key dim"], heads: int
) -> Float[Tensor, "batch head key dim"]:
    """Repeat grouped keys or values so that every query head has its own."""
    groups = states.shape[1]
    return states if groups == heads else states.repeat_interleave(heads // groups, dim=1)


def allowed_pairs(
    mask: Tensor | None, queries: int, keys: int, causal: bool, device: torch.device
) -> Bool[Tensor, "#batch #head query key"]:
    """Return True where a query may look at a key; without a mask a causal query sees itself and
    the past.
    """
    if mask is None:
        pairs = torch.ones(queries, keys, dtype=torch.bool, device=device)
        return (pairs.tril(keys - queries) if causal else pairs)[None, None]
    allowed = mask if mask.dtype == torch.bool else shown_by(mask)
    return allowed.expand(*allowed.shape[:-2], queries, keys)


def blind_queries(
    mask: Tensor | None, queries: int, keys: int
) -> Bool[Tensor, "#batch #head query"] | None:
    """Return which queries may look at nothing under a mask; None if there are none."""

    def blind() -> Tensor | None:
        rows = ~allowed_pairs(mask, queries, keys, False, mask.device).any(-1)
        return rows if values_hidden() or bool(rows.any()) else None

    return None if mask is None else remembered(mask, "blind", blind)


def visible_pairs(
    allowed: Bool[Tensor, "#batch #head query key"],
) -> Bool[Tensor, "#batch #head query key"]:
    """Return True where a real query may look at a key; whole rows of padded queries are False."""
    return allowed & real_queries(allowed)[..., None]


def senders(
    allowed: Bool[Tensor, "#batch #head query key"],
) -> bool | Bool[Tensor, "#batch #head query row"]:
    """Return which rows send each query messages: all (False), the earlier ones (True), or given
    ones (True there).

    A query receives messages from the rows that it may look at: any other would tell it what is
    hidden from it. Where looking is mutual nothing is, and all rows send, as in `saobp.refine`.
    Rows that see the tokens from some place up to themselves, in a window or a packed sequence say,
    get nothing from earlier rows beyond that place.
    A token that is hidden from itself counts as padding and sends nothing.
    """
    visible, real = visible_pairs(allowed), real_queries(allowed)
    mutual = (visible == visible.transpose(-1, -2)).all(-1, keepdim=True).all(-2, keepdim=True)
    if values_hidden():
        return visible | mutual
    if bool(mutual.all()):
        return False
    return True if bool(up_to_themselves(visible, real).all()) else visible | mutual


def up_to_themselves(
    visible: Bool[Tensor, "#batch #head query key"], real: Bool[Tensor, "#batch #head key"]
) -> Bool[Tensor, "#batch #head query"]:
    """Tell which queries see the real tokens from some place up to themselves and no others; padded
    queries do.
    """
    queries, keys = visible.shape[-2:]
    place = torch.arange(keys, device=visible.device)
    first = visible.int().argmax(-1, keepdim=True)
    expected = real[..., None, :] & (place >= first) & (place <= place[keys - queries :, None])
    return ((visible == expected) | ~visible.any(-1, keepdim=True)).all(-1)


def remembered(mask: Tensor | None, question: Any, answer: Callable[[], Any]) -> Any:
    """Ask once about a mask: all layers of a forward pass are handed the same one.

    The answer is kept on the mask; a mask that torch changes in place is looked at again. One
    changed through numpy or `.data` is not, as torch counts no such change.
    """
    # which counts no versions
    if mask is None or values_hidden() or mask.is_inference():
        return answer()
    version, known = getattr(mask, "_saobp", (None, {}))
    if version != mask._version:
        known = {}
        mask._saobp = (mask._version, known)
    if question not in known:
        known[question] = answer()
    return known[question]


def padding_alone(
    mask: Tensor | None, causal: bool
) -> tuple[bool, Bool[Tensor, "batch key"] | None, Bool[Tensor, "batch query"] | None]:
    """Tell whether `mask` says nothing but padding (and causality), which tokens it calls real, and
    which padded queries may look at nothing, though there are real keys for them; None for none.
    """
    if mask is None:
        return True, None, None
    learned = mask.requires_grad and torch.is_grad_enabled()
    if (
        values_hidden()
        or learned
        or mask.shape[1] != 1
        or mask.shape[-2] not in (1, mask.shape[-1])
    ):
        return False, None, None
    return remembered(mask, causal, lambda: _padding_alone(mask, causal))


def _padding_alone(mask: Tensor, causal: bool) -> tuple[bool, Tensor | None, Tensor | None]:
    length = mask.shape[-1]
    allowed = allowed_pairs(mask, length, length, causal, mask.device)[:, 0]
    real = allowed.diagonal(0, -2, -1)
    expected = real[:, None, :].expand_as(allowed)
    expected = expected.tril() if causal else expected
    blind = ~allowed.any(-1) & expected.any(-1)
    agrees = (allowed == expected) | blind[..., None]
    # a bias between 0 and the lowest number is more than padding
    if mask.dtype != torch.bool:
        agrees = agrees & ((mask[:, 0] == 0) | ~allowed)
    if not bool(agrees.all() & real.any(-1).all()):
        return False, None, None
    return True, real, blind if bool(blind.any()) else None


def in_quick_type(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Widen bfloat16 tensors on a CPU, if the first trains: there the backward pass of torch's
    fused attention takes longer in bfloat16 than in float32 (`benchmarks/attention.py`). Others are
    returned as they are.
    """
    slow = (
        tensors[0].dtype is torch.bfloat16
        and tensors[0].device.type == "cpu"
        and tensors[0].requires_grad
    )
    return tuple(tensor.float() for tensor in tensors) if slow else tensors
