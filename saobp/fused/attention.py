"""Refined attention from query, key and value in one operation, without the L x L matrix (Sec. 4,
App. C).
"""

import contextlib
import math
from functools import partial
from numbers import Real
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from saobp.equations import checks
from saobp.equations.checks import ROW_TOLERANCE, quoted
from saobp.equations.factors import check_order
from saobp.equations.masks import check_mask
from saobp.equations.messages import SATURATION, signed_strength
from saobp.equations.refine import refine
from saobp.equations.sparing import Spare, check_spare, check_spared_shape
from saobp.fused import gpu
from saobp.fused.dropout import Dropout
from saobp.fused.operation import RefinedAttention, attend, by_head
from saobp.fused.scores import in_quick_type
from saobp.fused.spared import with_spared
from saobp.fused.tiled.heads import Call
from saobp.fused.tiled.products import unit

MOST = torch.finfo(torch.float32).max


class How(NamedTuple):
    """How plain attention is taken, before it is refined."""

    # (batch, L) boolean, None where nothing is padded
    mask: Tensor | None
    causal: bool
    scale: float
    dropout: float


def saobp_attention(
    query: Float[Tensor, "batch head query width"],
    key: Float[Tensor, "batch group query width"],
    value: Float[Tensor, "batch group query value_width"],
    *,
    factor: str = "high",
    strength: float | Float[Tensor, "*heads"] = 0.2,
    mask: Bool[Tensor, "*rows query"] | None = None,
    is_causal: bool = False,
    exclude_self: bool = True,
    scale: float | None = None,
    dropout_p: float = 0.0,
    spare: Spare = None,
) -> Float[Tensor, "batch head query value_width"]:
    """Attend with refined attention: refine(softmax(scale query key^T)) value, dropout in between
    (Eq. 11).

    "high", "low" and "elemmul" keep no L x L matrix between forward and backward; a tile at a time
    is worked out, and again for the gradient. Memory grows with L, time with L^2. What does not fit
    tiles (controls, causal "elemmul", everything inside torch.compile or a transform of torch.func)
    gives its numbers through `saobp.refine` and keeps it. Tiles have no second derivatives (an
    error says so); `saobp.refine` has, and a model that is called with output_attentions=True. On a processor with a C compiler most of it is compiled
    once, see `saobp.fused.tiled.native`; on a GPU with Triton, by `saobp.fused.gpu`.

    Args:
        query: (batch, heads, L, D). Scores, messages and sums are in float32 or better, also under
            autocast.
        key: (batch, groups, L, D); the number of groups divides that of heads (grouped-query
            attention).
        value: (batch, groups, L, width of a value).
        factor: One of `saobp.refine`'s; "none" is plain attention.
        strength: The paper's lambda >= 0 in nats: number, or a tensor that broadcasts over (batch,
            heads) and
            may be learned. 0 is plain attention.
        mask: Real tokens, (L,) or (batch, L) boolean. The row of a padded query is its plain
            attention over
            real keys, 0 if it sees none; no real row depends on it. What is padded must be finite.
        is_causal: Queries see no later key and receive no message from a later query.
        exclude_self: Leave a query's own message out (Algorithm 1); False is Eq. 11 as printed.
        scale: Of the products; None is 1 / sqrt(D).
        dropout_p: Share of the refined probabilities set to 0, the rest growing in proportion.
        spare: Keys that get no bias, as for `saobp.refine`; a mask is (L,), (batch, L) or broadcasts
            to (batch, heads, L). A share takes one pass over the scores more where neither the
            compiled passes serve nor torch's of short sequences: these see the columns as they go.

    Raises:
        ValueError: One line that names the argument and what is wrong with it.

    Source: Lee et al. 2025, Eq. 7-11, Algorithm 1, Appendix C; tiles worked out twice after Dao et
        al. 2022.
    """
    check_inputs(
        query, key, value, scale, dropout_p, is_causal=is_causal, exclude_self=exclude_self
    )
    checks.check_factor(factor)
    checks.check_strength(strength, tuple(query.shape[:2]))
    check_order(factor, is_causal)
    check_spare(spare, factor, causal=is_causal)
    check_spared_shape(spare, (*query.shape[:3], query.shape[2]))
    mask = real_tokens(mask, query)
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else float(scale)
    if key.shape[1] != query.shape[1] or value.shape[1] != query.shape[1]:
        key, value = (x.repeat_interleave(query.shape[1] // x.shape[1], 1) for x in (key, value))
    how = How(mask, is_causal, scale, dropout_p)
    place = query.device.type
    narrow = torch.is_autocast_enabled(place)
    with torch.autocast(place, enabled=False) if narrow else contextlib.nullcontext():
        if factor == "none" or (not isinstance(strength, Tensor) and strength == 0):
            return plain(query, key, value, how)
        if not fits(factor, strength, how, query, key, value):
            refinement = {"factor": factor, "strength": strength, "exclude_self": exclude_self}
            refinement["spare"] = spare
            return materialised(query, key, value, refinement, how)
        # padding may hold NaN
        shown = query if mask is None else query.masked_fill(~mask[:, None, :, None], 0)
        refined = fused(shown, key, value, factor, strength, exclude_self, how, spare)
        return refined if mask is None else with_padding(refined, query, key, value, how)


def check_inputs(
    query: Tensor, key: Tensor, value: Tensor, scale: float | None, dropout: float, **switches: bool
) -> None:
    """Refuse shapes, types and numbers that the operation cannot serve with a ValueError."""
    tensors = query, key, value
    alike = all(
        isinstance(x, Tensor) and x.shape == query.shape and x.dtype == query.dtype for x in tensors
    )
    alike = alike and all(x.layout is torch.strided and x.device == query.device for x in tensors)
    if not (alike and query.dtype in ROW_TOLERANCE and query.ndim == 4 and query.numel()):
        check_tensors(*tensors)
    if scale is not None and (
        isinstance(scale, bool) or not isinstance(scale, Real) or not abs(scale) <= MOST
    ):
        raise ValueError(f"scale must be a number that float32 holds, or None; got {quoted(scale)}")
    if isinstance(dropout, bool) or not isinstance(dropout, Real) or not 0 <= dropout < 1:
        raise ValueError(f"dropout_p must lie in [0, 1); got {quoted(dropout)}")
    for name, switch in switches.items():
        if not isinstance(switch, bool):
            raise ValueError(f"{name} must be True or False; got {quoted(switch)}")


def check_tensors(query: Tensor, key: Tensor, value: Tensor) -> None:
    """Refuse tensors that do not belong together with a ValueError."""
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if isinstance(tensor, Tensor) and (
            tensor.layout != torch.strided or tensor.device != query.device
        ):
            raise ValueError(
                f"{name} must be a dense tensor on query's device; got {tensor.layout} on {tensor.device}"
            )
        if not isinstance(tensor, Tensor) or tensor.dtype not in ROW_TOLERANCE or tensor.ndim != 4:
            kind = (
                f"{tensor.dtype} {tuple(tensor.shape)}"
                if isinstance(tensor, Tensor)
                else type(tensor).__name__
            )
            raise ValueError(
                f"{name} must be a floating tensor (batch, heads, L, D) of 16 bits or more; got {kind}"
            )
        if 0 in tensor.shape or tensor.shape[0] != query.shape[0] or tensor.dtype != query.dtype:
            raise ValueError(f"{name} must not be empty, and share batch and type with query")
    heads, length, width = query.shape[1:]
    for name, tensor in (("key", key), ("value", value)):
        if tensor.shape[2] != length:
            raise ValueError(
                f"{name} has {tensor.shape[2]} tokens, query {length}; messages need a query of every token"
            )
        if heads % tensor.shape[1]:
            raise ValueError(
                f"{name} has {tensor.shape[1]} groups, which do not divide the {heads} heads"
            )
    if key.shape[-1] != width:
        raise ValueError(f"key has width {key.shape[-1]} and query {width}; they must be equal")


def real_tokens(mask: Tensor | None, query: Tensor) -> Tensor | None:
    """Return the mask as (batch, L), None where nothing is padded."""
    if mask is None:
        return None
    batch, heads, length, _ = query.shape
    check_mask(mask, torch.empty(batch, heads, length, length, device="meta"))
    mask = mask.to(query.device).expand(batch, length)
    return None if not checks.values_hidden() and bool(mask.all()) else mask


def fits(factor: str, strength: float | Tensor, how: How, *tensors: Tensor) -> bool:
    """Tell whether a refinement can be worked out in tiles.

    A causal A A^T cannot be taken apart into A (A^T V), nor can dropout reach its entries; the
    controls of `saobp.refine` look at whole matrices. Inside torch.compile it is the compiler that
    fuses; a transform of torch.func, a forward-mode derivative or a dispatch mode cannot look into
    the tiles.
    """
    if checks.values_hidden() or checks.watched(*tensors):
        return False
    if factor == "elemmul":
        return not how.causal and how.dropout == 0 and not isinstance(strength, Tensor)
    return factor in ("high", "low")


def fused(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    factor: str,
    strength: float | Tensor,
    exclude_self: bool,
    how: How,
    spare: Spare,
) -> Tensor:
    """Refine and attend in tiles; rows of padded queries are left undefined."""
    wide = torch.promote_types(query.dtype, torch.float32)
    if isinstance(strength, Tensor) and strength.numel() == 1 and not strength.requires_grad:
        number = float(strength)
        # NaN stays a tensor: a number is compared with limits
        strength = strength if math.isnan(number) else number
    if isinstance(strength, Tensor):
        strength = strength.to(query.device, wide).clamp(max=SATURATION)
        signed = signed_strength(
            factor, strength.reshape(()) if strength.numel() == 1 else strength
        )
        strongest, change = float(strength.detach().nan_to_num(0).max()), None
    else:
        strongest = min(float(strength), SATURATION)
        signed = signed_strength(factor, strongest)
        change = math.expm1(-signed)
    batch, heads, length, _ = query.shape
    call = Call(
        factor=factor,
        scale=how.scale,
        real=None if how.mask is None else how.mask.repeat_interleave(heads, 0),
        causal=how.causal,
        exclude_self=exclude_self,
        strongest=strongest,
        change=change,
        unit=unit(wide, query.device),
        dropout=Dropout.draw(how.dropout, (batch * heads, length), query.device),
    )
    if spare is not None:
        call = with_spared(call, spare, query, key, how.mask)
    if gpu.serves(call, query, value):
        return gpu.OnGpu.apply(call, query, key, value)
    if torch.is_grad_enabled():
        strengths = by_head(signed, query)
        if any(x.requires_grad for x in (query, key, value, strengths)):
            return RefinedAttention.apply(call, query, key, value, strengths)
    return attend(call, query, key, value, signed)[0]


def with_padding(refined: Tensor, query: Tensor, key: Tensor, value: Tensor, how: How) -> Tensor:
    """Put plain attention into the rows of padded queries, as `saobp.refine` leaves them."""
    mask = how.mask
    count = int((~mask).sum(1).max())
    # padded ones, then, where they are fewer, real
    order = mask.int().argsort(dim=1, stable=True)[:, :count]
    index = order[:, None, :, None].expand(-1, query.shape[1], -1, -1)
    taken = query.gather(2, index.expand(-1, -1, -1, query.shape[-1]))
    rows = plain(taken, key, value, how, positions=order)
    index = index.expand_as(rows)
    padded = ~mask.gather(1, order)[:, None, :, None]
    return refined.scatter(2, index, torch.where(padded, rows, refined.gather(2, index)))


def plain(
    query: Tensor, key: Tensor, value: Tensor, how: How, positions: Tensor | None = None
) -> Tensor:
    """Return plain attention, 0 for a query that sees no key; `positions` are those of the queries
    given.
    """
    attend = partial(
        functional.scaled_dot_product_attention, scale=how.scale, dropout_p=how.dropout
    )
    dtype, (query, key, value) = query.dtype, in_quick_type(query, key, value)
    if how.mask is None:
        return attend(query, key, value, is_causal=how.causal).to(dtype)
    visible = visible_keys(how.mask, how.causal, positions)
    blind = ~visible.any(-1, keepdim=True)
    return attend(query, key, value, attn_mask=visible | blind).masked_fill(blind, 0).to(dtype)


def visible_keys(mask: Tensor, causal: bool, positions: Tensor | None = None) -> Tensor:
    """Return True where a query, real or not, may look at a real key, (batch, 1, query or 1,
    key).
    """
    visible = mask[:, None, None, :]
    if not causal:
        return visible
    tokens = torch.arange(mask.shape[1], device=mask.device)
    positions = tokens[None] if positions is None else positions
    return visible & (tokens <= positions[:, None, :, None])


def materialised(query: Tensor, key: Tensor, value: Tensor, refinement: dict, how: How) -> Tensor:
    """Attend with `saobp.refine` of the whole L x L matrix."""
    wide = torch.promote_types(query.dtype, torch.float32)
    scores = (query.to(wide) * how.scale) @ key.to(wide).transpose(-1, -2)
    real = torch.ones_like(scores[:1, 0, 0], dtype=torch.bool) if how.mask is None else how.mask
    visible = visible_keys(real, how.causal)
    blind = ~visible.any(-1, keepdim=True)
    attention = scores.masked_fill(~(visible | blind), -torch.inf).softmax(-1).masked_fill(blind, 0)
    refined = refine(attention, **refinement, mask=how.mask, causal=how.causal)
    return (functional.dropout(refined, how.dropout) @ value.to(wide)).to(query.dtype)
