"""Refinements to set beside belief propagation: Eq. 15, and three controls for "is it the
multi-hop?".
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

NEWTON_STEPS = 12
"""Rounds that bring the entropy of `flattened` to its target; eight reach the rounding of float32.
"""

UNSEEN = 1e-30
"""Mass of a column below which a key counts as unseen: float32 and float64 agree on it, far from
both their ends.
"""


def elementwise_product(
    attention: Float[Tensor, "*batch query key"], visible: Bool[Tensor, "*#batch query key"]
) -> Float[Tensor, "*batch query key"]:
    """Return A A^T with rows normalised, BP-ElemMul (Eq. 15).

    The mass that query j puts on token k is how alike the two attend, so the prior A_jk is dropped,
    and neither the mask nor causality survives the product: both are applied again, and the rows
    normalised after that.
    """
    kernel = (attention @ attention.transpose(-1, -2)).masked_fill(~visible, 0)
    # the diagonal alone is at least 1/L in a real row
    total = kernel.sum(-1, keepdim=True)
    return kernel / total.masked_fill(total == 0, 1)


def sinkhorn(
    attention: Float[Tensor, "*batch query key"],
    *,
    causal: bool | Bool[Tensor, "*#batch query row"] = False,
) -> Float[Tensor, "*batch query key"]:
    """Divide each column by its sum and normalise the rows: half a Sinkhorn step and the other
    half.

    Balances the load of the keys with no factor graph at all. A causal row divides by the sum over
    the rows up to and including its own; `causal` may also say which rows each query sees. A key
    with less than `UNSEEN` of all mass keeps none: what a float32 softmax leaves of it is chance,
    and division would blow it up.
    """
    if isinstance(causal, Tensor):
        column = causal.to(attention.dtype) @ attention
    else:
        column = attention.cumsum(-2) if causal else attention.sum(-2, keepdim=True)
    unseen = column <= UNSEEN
    balanced = (attention / column.masked_fill(unseen, 1)).masked_fill(unseen, 0)
    total = balanced.sum(-1, keepdim=True)
    return balanced / total.masked_fill(total == 0, 1)


def flattened(
    attention: Float[Tensor, "*batch query key"],
    target: Float[Tensor, "*batch query key"],
    visible: Bool[Tensor, "*#batch query key"],
    *,
    causal: bool = False,
) -> Float[Tensor, "*batch query key"]:
    """Mix each matrix with uniform attention until its mean row entropy is that of `target`.

    (1 - share) A + share / L, one share in [0, 1] a matrix; 0 where the target has less entropy
    than A, since mixing can only add. A causal matrix takes one share a row, lest later rows set
    the share of earlier ones. The share is a constant to the gradient, so none reaches the
    strength.
    """
    flat = visible / visible.sum(-1, keepdim=True).clamp(min=1).to(attention.dtype)
    flat, matched = flat.expand_as(attention), (-1,) if causal else (-2, -1)
    tiny = torch.finfo(attention.dtype).tiny
    # Newton's method for entropy(mixture) = entropy(target), which is concave in the share
    with torch.no_grad():
        wanted = torch.special.entr(target).sum(matched, keepdim=True)
        share = torch.zeros_like(wanted)
        for _ in range(NEWTON_STEPS):
            mixture = torch.lerp(attention, flat, share)
            missing = wanted - torch.special.entr(mixture).sum(matched, keepdim=True)
            slope = ((attention - flat) * mixture.clamp(min=tiny).log()).sum(matched, keepdim=True)
            share = (share + missing / slope.clamp(min=tiny)).clamp(0, 1)
    return torch.lerp(attention, flat, share)


def shuffled_bias(
    messages: Float[Tensor, "*batch query key"], *, causal: bool, exclude_self: bool, seed: int
) -> Float[Tensor, "*batch query_or_1 key"]:
    """Add up the messages after permuting every column among the rows that a query receives
    messages from.

    After the shuffle no row's messages belong together, so no path query -> row -> key is left. The
    sum does not care who speaks: this equals `key_bias` and `prefix_key_bias` up to rounding, in
    every round, which is the point of the control. The permutation of a column is shared by all
    matrices; a causal row permutes its earlier rows anew, one row after the other, so that form is
    slow.
    """
    generator = torch.Generator().manual_seed(int(seed))
    order = torch.rand(messages.shape[-2:], generator=generator).to(messages.device)
    if not causal:
        moved = messages.gather(-2, order.argsort(-2).expand_as(messages))
        total = moved.sum(-2, keepdim=True)
        return total - messages if exclude_self else total
    heard = []
    for row in range(messages.shape[-2]):
        earlier = messages[..., : row if exclude_self else row + 1, :]
        moved = earlier.gather(-2, order[: earlier.shape[-2]].argsort(-2).expand_as(earlier))
        heard.append(moved.sum(-2))
    return torch.stack(heard, -2)
