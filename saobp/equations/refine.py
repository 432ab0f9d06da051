"""Refinement of attention probabilities (Eq. 7-11, 15, 16 and Algorithm 1): pure functions, only
torch.
"""

from functools import partial

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from saobp.equations import checks
from saobp.equations.controls import elementwise_product, flattened, shuffled_bias, sinkhorn
from saobp.equations.factors import BY_STRENGTH, FACTORS, OWN, check_order
from saobp.equations.masks import check_mask
from saobp.equations.messages import (
    key_bias,
    per_matrix,
    prefix_key_bias,
    propagate,
    seen_bias,
    signed_strength,
)
from saobp.equations.sparing import (
    Spare,
    check_spare,
    check_spared_shape,
    spared_keys,
    strength_by_key,
)

__all__ = ["FACTORS", "refine"]


def refine(
    attention: Float[Tensor, "*batch query key"],
    factor: str = "high",
    strength: float | Float[Tensor, "*heads"] = 0.2,
    *,
    mask: Bool[Tensor, "*rows key"] | None = None,
    causal: bool = False,
    exclude_self: bool = True,
    steps: int = 1,
    spare: Spare = None,
    damping: float = 0.0,
    seed: int = 0,
) -> Float[Tensor, "*batch query key"]:
    """Refine attention by belief propagation on the complete graph of its rows (Eq. 11).

    Under "high" a key that many queries attend to loses mass, under "low" it gains, by `strength`
    times its column sum in nats to first order. Uniform attention and permutations stay; with the
    self-message left out, equal loads alone do not make attention stay. Rows sum to 1, and under
    these two a zero stays a zero.

    Args:
        attention: Probabilities (..., L, L), rows are queries and sum to 1, before dropout.
            A row that holds NaN stays without a number.
        factor: "high" (Eq. 7), "low" (Eq. 16), "elemmul" (Eq. 15), "none", or a control: "sinkhorn"
            (columns
            divided by their sums), "uniform" (mixed with uniform attention to the entropy of
            "high"), "shuffled" ("high" with every column permuted among the rows heard, which
            equals "high"). Or one of your own, made known by `saobp.register_factor`.
        strength: The paper's lambda >= 0 in nats, saturating at 60: number, or a tensor that
            broadcasts over
            (..., heads) and may be learned. 0 returns the attention unchanged, whatever the factor;
            "elemmul" and "sinkhorn" know no other use of it.
        mask: Real tokens, (L,) or (batch, L) boolean, shared by the heads. A padded query sends no
            message,
            a padded key receives no mass; the row of a padded query keeps its values on real keys.
        causal: Row j receives messages from rows i < j only, so that nothing later reaches it.
        exclude_self: Leave a row's own message out (Algorithm 1); False is Eq. 11 as printed.
        steps: Rounds of messages; from the second on beliefs speak for `attention`, which stays the
            prior.
        spare: Keys that get no bias, though their queries send messages as the others do: "first"
            (the first real token of each sequence), "edges" (the first and the last), a share in
            (0, 1] (keys that receive more than that share of their head's attention), or a boolean
            mask, True for a spared key, (L,), (batch, L) or broadcasting to (..., L). Of a causal
            matrix only "first" and a mask: the others depend on later rows.
        damping: Share of the old belief that a round keeps, in [0, 1).
        seed: Of the permutations of "shuffled".

    Returns:
        Refined probabilities in the shape and type of `attention`, worked out in float32 or better.

    Raises:
        ValueError: One line that names the argument and what is wrong with it.

    Source: Lee et al. 2025, Eq. 7-11, 15, 16, Algorithm 1 and Appendix C.
    """
    checks.check_factor(factor)
    checks.check_shape(attention)
    checks.check_strength(strength, attention.shape[:-2])
    checks.check_options(factor, steps, damping, seed, causal=causal, exclude_self=exclude_self)
    check_order(factor, causal)
    check_spare(spare, factor, causal=causal)
    check_spared_shape(spare, attention.shape)
    if mask is not None:
        check_mask(mask, attention)
    visible = visibility(attention, mask, causal)
    checks.check_rows(attention, visible, causal)
    if factor == "none" or (not isinstance(strength, Tensor) and strength == 0):
        return _with_padding(attention, attention, mask, visible)
    with torch.autocast(attention.device.type, enabled=False):
        prior = attention.to(torch.promote_types(attention.dtype, torch.float32)).masked_fill(
            ~visible, 0
        )
        lam = per_matrix(strength, prior)
        rounds = {"steps": int(steps), "damping": float(damping)}
        lam_by_key = strength_by_key(lam, spared_keys(spare, prior, visible))
        refined = _refined(prior, factor, lam_by_key, visible, causal, exclude_self, seed, rounds)
        refined = _same_where_zero(factor, strength, lam, prior, refined)
    return _with_padding(refined.to(attention.dtype), attention, mask, visible)


def visibility(
    attention: Tensor, mask: Tensor | None, causal: bool
) -> Bool[Tensor, "*#batch query key"]:
    """Return True where a real query may look at a real key."""
    length = attention.shape[-1]
    visible = torch.ones(length, length, dtype=torch.bool, device=attention.device)
    visible = visible.tril() if causal else visible
    if mask is None:
        return visible
    mask = mask.to(attention.device)
    # one row a sequence, shared by whatever lies between batch and queries
    if mask.ndim == 2:
        mask = mask.reshape(mask.shape[0], *[1] * (attention.ndim - 3), length)
    return visible & mask[..., :, None] & mask[..., None, :]


def _refined(
    prior: Tensor,
    factor: str,
    strength: Tensor,
    visible: Tensor,
    causal: bool | Bool[Tensor, "*#batch query row"],
    exclude_self: bool,
    seed: int,
    rounds: dict,
) -> Tensor:
    """Choose the refinement that `factor` names; `causal` may say which rows each query receives
    messages from.
    """
    if factor in OWN:
        return OWN[factor](prior, strength, visible)
    if factor == "elemmul":
        return elementwise_product(prior, visible)
    if factor == "sinkhorn":
        return sinkhorn(prior, causal=causal)
    if factor not in FACTORS or factor == "none":
        raise ValueError(f"factor {factor!r} sends no messages; use one of {', '.join(FACTORS)}")
    given = isinstance(causal, Tensor)
    if given:
        hear = partial(seen_bias, seen=causal, exclude_self=exclude_self)
    else:
        hear = partial(prefix_key_bias if causal else key_bias, exclude_self=exclude_self)
    if factor == "shuffled":
        if given:
            raise ValueError(
                'mask: factor "shuffled" permutes all rows or the earlier ones; this mask shows others'
            )
        hear = partial(shuffled_bias, causal=causal, exclude_self=exclude_self, seed=seed)
    if factor == "uniform" and given and checks.values_hidden():
        raise ValueError(
            'mask: factor "uniform" reads it to know whose entropy to match, which a trace cannot'
        )
    refined = propagate(prior, signed_strength(factor, strength), hear, **rounds)
    return (
        flattened(prior, refined, visible, causal=given or causal)
        if factor == "uniform"
        else refined
    )


def _same_where_zero(
    factor: str, strength: float | Tensor, lam: Tensor, prior: Tensor, refined: Tensor
) -> Tensor:
    """Give exactly the prior where a head's strength is 0.

    Its gradient is that of the refined, which a learned strength needs; of the prior itself under a
    factor that is another matrix at 0, or that may be, as one of your own.
    """
    if not isinstance(strength, Tensor):
        return refined
    kept = prior.detach() + (refined - refined.detach()) if factor in BY_STRENGTH else prior
    return torch.where(lam == 0, kept, refined)


def _with_padding(
    refined: Tensor, attention: Tensor, mask: Tensor | None, visible: Tensor
) -> Tensor:
    """Give the rows of padded queries back as they came, nothing undefined, nothing on padded
    keys.
    """
    if mask is None:
        return refined
    keys = visible.any(-2, keepdim=True)
    given = attention.masked_fill(~keys, 0).nan_to_num(0, 0, 0)
    return torch.where(visible.any(-1, keepdim=True), refined, given)
