"""What one attention matrix does: entropy (Eq. 2), global token dependency (Eq. 12-14), sparsity
(App. E).

Every function takes attention of shape (..., L, L), rows are queries, and an optional boolean mask,
(L,) or (batch, L), True at real tokens and shared by the heads. Padding is cut, not averaged over:
a padded matrix and its real block give the same number. A row may sum to less than 1 (its mass lay
on tokens that were cut), never to more. NaN comes back only where a number is undefined: for a
matrix without a real token, and where a docstring says so; NaN in, NaN out.
Source: Lee et al. 2025, Sec. 3 and 5, App. B and E; what the number cannot say is in notebook 03.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from saobp.equations import padding
from saobp.equations.checks import check_whole, quoted

Mask = Bool[Tensor, "*masks L"] | None


def row_entropy(
    attention: Float[Tensor, "*batch L L"], *, mask: Mask = None
) -> Float[Tensor, "*batch L"]:
    """Entropy of every query's distribution over keys (Eq. 2, first line).

    Nats, from 0 (one key) to the logarithm of the number of real tokens (uniform); NaN at padded
    queries.
    """
    attention, real = padding.cut(attention, mask)
    return (0 - _plogp(attention).sum(-1)).masked_fill(~real, math.nan)


def attention_entropy(
    attention: Float[Tensor, "*batch L L"], *, mask: Mask = None
) -> Float[Tensor, "*batch"]:
    """Mean entropy of the rows of an attention matrix (Eq. 2, second line).

    Nats, from 0 (every query picks one key) to the logarithm of the number of real tokens
    (uniform). Its gradient is finite also where an entry is exactly 0.
    """
    return _entropy(*padding.cut(attention, mask))


def indirect_attention(
    attention: Float[Tensor, "*batch L L"], beta: float = 0.9, hops: int = 4, *, mask: Mask = None
) -> Float[Tensor, "*batch L L"]:
    """Discounted sum of attention paths of 2 to `hops` steps, G in the paper (Eq. 12).

    Row sums are beta + beta^2 + ... + beta^(hops-1) for any row-stochastic matrix; padding is 0.
    """
    return _paths(attention, beta, hops, mask)[-1]


def gtd(
    attention: Float[Tensor, "*batch L L"], beta: float = 0.9, hops: int = 4, *, mask: Mask = None
) -> Float[Tensor, "*batch"]:
    """Global token dependency: the share of multi-hop paths in the squared norm of all paths (Eq.
    13).

    From s^2 / (L + s^2) up to, never at, 1, with s = beta + ... + beta^(hops-1): high where first
    hops that spread meet again in one token. Every idempotent matrix (uniform, identity, full sink)
    gives s^2 / (1 + s^2): the number does not tell collapse from spread, so read it beside the
    entropy.
    """
    attention, _, _, paths = _paths(attention, beta, hops, mask)
    return _dependency(attention, paths)


def indirect_entropy(
    attention: Float[Tensor, "*batch L L"], beta: float = 0.9, hops: int = 4, *, mask: Mask = None
) -> Float[Tensor, "*batch"]:
    """Mean entropy of where multi-hop paths end (Eq. 14).

    Nats, from 0 (one destination a query) to the logarithm of the number of real tokens.
    """
    _, real, _, paths = _paths(attention, beta, hops, mask)
    return _path_entropy(paths, real)


def cross_layer_gtd(
    layers: Sequence[Float[Tensor, "*batch head L L"]],
    beta: float = 0.9,
    hops: int = 4,
    *,
    mask: Mask = None,
) -> Float[Tensor, "*batch window"]:
    """GTD over windows of `hops` consecutive layers (Table 6; our reading, the paper gives no
    formula).

    The power A^t becomes the product of t consecutive layers' head-mean matrices, later layers on
    the left; one value for every first layer with `hops` - 1 layers above it. Equal layers give
    `gtd` of their matrix.
    Raises ValueError if there are fewer layers than `hops`.
    """
    check_paths(beta, hops)
    layers = list(layers)
    kinds = {
        (layer.shape, layer.dtype) if isinstance(layer, Tensor) else type(layer).__name__
        for layer in layers
    }
    if len(kinds) > 1 or any(not isinstance(layer, Tensor) or layer.dim() < 3 for layer in layers):
        raise ValueError(
            f"layers must be tensors (..., head, L, L), all alike; got {quoted(kinds)}"
        )
    if len(layers) < hops:
        raise ValueError(
            f"layers: {len(layers)} are fewer than hops={hops}; pass hops <= {len(layers)}"
        )
    means, dependencies = [padding.cut(layer, mask)[0].mean(-3) for layer in layers], []
    for start in range(len(means) - hops + 1):
        product, paths = means[start], torch.zeros_like(means[start])
        for step in range(1, hops):
            product = _product(means[start + step], product)
            paths = paths + beta**step * product
        dependencies.append(_dependency(means[start], paths))
    return torch.stack(dependencies, -1)


def sparsity(
    attention: Float[Tensor, "*batch L L"], *, threshold: float | None = None, mask: Mask = None
) -> Float[Tensor, "*batch"]:
    """Share of entries below a threshold (App. E, which gives none); None means 1/L with L real
    tokens.

    At the default threshold from 0 (uniform) to 1 - 1/L (one key a row). The future of a causal
    matrix counts as sparse. Entries less than 1e-5 (relatively) under the threshold do not count,
    so that rounding cannot make uniform attention the sparsest of all.
    """
    number = isinstance(threshold, Real) and not isinstance(threshold, bool)
    if threshold is not None and not (number and 0 < threshold <= 1):
        raise ValueError(
            f"threshold must lie in (0, 1] or be None for 1/L, got {quoted(threshold)}"
        )
    return _sparsity(*padding.cut(attention, mask), threshold)


def hoyer(attention: Float[Tensor, "*batch L L"], *, mask: Mask = None) -> Float[Tensor, "*batch"]:
    """Hoyer's sparsity of the rows, averaged: (sqrt(L) - |a|_1 / |a|_2) / (sqrt(L) - 1).

    From 0 (uniform rows) to 1 (one key a row), without a threshold. NaN with fewer than two real
    tokens.
    Source: Hoyer 2004, Non-negative matrix factorization with sparseness constraints, Sec. 3.1.
    """
    return _hoyer(*padding.cut(attention, mask))


def column_mass_maximum(
    attention: Float[Tensor, "*batch L L"], *, mask: Mask = None
) -> Float[Tensor, "*batch"]:
    """Attention that the most attended token receives: the largest column sum, in queries.

    From 1 (every token receives as much as it gives) to the number of real tokens (a full sink).
    """
    return _column_mass_maximum(*padding.cut(attention, mask))


def sink_rate(
    attention: Float[Tensor, "*batch L L"], *, sink: float = 0.3, mask: Mask = None
) -> Float[Tensor, "*batch"]:
    """Share of keys that receive more than `sink` of the attention of the queries that see them.

    From 0 (no sink) to 1. In a matrix with earlier keys and no later ones, only later queries see a
    key.
    Source: Gu et al. 2025, When attention sink emerges in language models, Sec. 3.
    """
    return _sink_rate(*padding.cut(attention, mask), sink)


def rank_one_distance(
    attention: Float[Tensor, "*batch L L"], *, mask: Mask = None
) -> Float[Tensor, "*batch"]:
    """Distance from the nearest matrix whose rows are equal, over the Frobenius norm.

    From 0 (all queries attend alike) to 1.
    Source: Dong et al. 2021, Attention is not all you need, Sec. 2.
    """
    return _rank_one_distance(*padding.cut(attention, mask))


def idempotence_gap(
    attention: Float[Tensor, "*batch L L"], *, mask: Mask = None
) -> Float[Tensor, "*batch"]:
    """Frobenius norm of A^2 - A: how far a second hop is from repeating the first.

    0 for uniform, identity and sink alike, where GTD takes its idempotent value.
    """
    attention, real = padding.cut(attention, mask)
    return _gap(attention, _product(attention, attention), real)


def effective_rank(
    attention: Float[Tensor, "*batch L L"], *, mask: Mask = None
) -> Float[Tensor, "*batch"]:
    """Exponential of the entropy of the normalised singular values.

    From 1 (all queries attend alike) to the number of real tokens (a permutation).
    Source: Roy and Vetterli 2007, The effective rank: a measure of effective dimensionality.
    """
    attention, real = padding.cut(attention, mask)
    undefined = ~real.any(-1) | attention.isnan().flatten(-2).any(-1)
    # a NaN would stop the whole batch
    singular = torch.linalg.svdvals(torch.nan_to_num(attention))
    share = singular / singular.sum(-1, keepdim=True)
    return _plogp(share).sum(-1).neg().exp().masked_fill(undefined, math.nan)


def measure(
    attention: Float[Tensor, "*batch L L"], beta: float = 0.9, hops: int = 4, *, mask: Mask = None
) -> dict[str, Float[Tensor, "*batch"]]:
    """Take the cheap diagnostics at once, sharing the matrix powers: all but the effective rank.

    The values are those of the functions of the same name; `entropy` is `attention_entropy`,
    `sparsity` the share below 1/L and `sparsity_fixed` below 0.01.
    """
    attention, real, square, paths = _paths(attention, beta, hops, mask)
    return {
        "gtd": _dependency(attention, paths),
        "indirect_entropy": _path_entropy(paths, real),
        "entropy": _entropy(attention, real),
        "sparsity": _sparsity(attention, real, None),
        "sparsity_fixed": _sparsity(attention, real, 0.01),
        "hoyer": _hoyer(attention, real),
        "column_mass_maximum": _column_mass_maximum(attention, real),
        "sink_rate": _sink_rate(attention, real, 0.3),
        "rank_one_distance": _rank_one_distance(attention, real),
        "idempotence_gap": _gap(attention, square, real),
    }


def _product(left: Tensor, right: Tensor) -> Tensor:
    """Multiply in the tensors' own type, which autocast would narrow."""
    with torch.autocast(left.device.type, enabled=False):
        return left @ right


def _paths(
    attention: Tensor, beta: float, hops: int, mask: Mask
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return A with padding cut, real tokens, A^2, and Eq. 12 as G_K = beta A^2 + beta^2 A^2 (A +
    G_{K-2}).
    """
    check_paths(beta, hops)
    attention, real = padding.cut(attention, mask)
    square = _product(attention, attention)
    paths = beta * square if hops % 2 == 0 else torch.zeros_like(square)
    flat = square.flatten(0, -3) if square.dim() > 2 else square.unsqueeze(0)
    # half the products of the plain power sum
    for _ in range((hops - 1) // 2):
        inner = (attention + paths).reshape(flat.shape)
        with torch.autocast(flat.device.type, enabled=False):
            paths = torch.baddbmm(flat, flat, inner, beta=beta, alpha=beta**2).reshape(square.shape)
    return attention, real, square, paths


def _dependency(direct: Tensor, indirect: Tensor) -> Tensor:
    """Put the two squared norms into Eq. 13."""
    direct, indirect = (
        torch.linalg.vector_norm(paths, dim=(-2, -1)).square() for paths in (direct, indirect)
    )
    return indirect / (direct + indirect)


def _path_entropy(paths: Tensor, real: Tensor) -> Tensor:
    """Entropy of Eq. 14; the rows of padded queries are all 0 and stay so."""
    total = paths.sum(-1, keepdim=True)
    return _entropy(paths / torch.where(total == 0, 1.0, total), real)


def _entropy(attention: Tensor, real: Tensor) -> Tensor:
    return (0 - _plogp(attention).sum((-2, -1))) / padding.count(real, attention)


def _sparsity(attention: Tensor, real: Tensor, threshold: float | None) -> Tensor:
    count = padding.count(real, attention)
    bound = (1 / count if threshold is None else torch.full_like(count, threshold)) * (1 - 1e-5)
    below = (attention < bound[..., None, None]).sum((-2, -1), dtype=torch.int32)
    # padding is below, too
    below = below - attention.shape[-1] ** 2
    share = (below + count.square()) / count.square()
    return share.masked_fill(attention.sum((-2, -1)).isnan(), math.nan)


def _hoyer(attention: Tensor, real: Tensor) -> Tensor:
    count = padding.count(real, attention)
    ratio = attention.sum(-1) / attention.norm(dim=-1).masked_fill(~real, 1.0)
    root = count.sqrt()
    return (root - ratio.sum(-1) / count) / (root - 1)


def _column_mass_maximum(attention: Tensor, real: Tensor) -> Tensor:
    return attention.sum(-2).amax(-1).masked_fill(~real.any(-1), math.nan)


def _sink_rate(attention: Tensor, real: Tensor, sink: float) -> Tensor:
    count = padding.count(real, attention)
    # queries at or after a key, and all of them
    later = real.flip(-1).cumsum(-1).flip(-1).to(attention.dtype)
    causal = (attention.triu(1) == 0).all((-2, -1)) & (attention.tril(-1) != 0).any((-2, -1))
    seen = torch.where(causal[..., None], later, count[..., None])
    received = attention.sum(-2) / seen.clamp_min(1)
    share = ((received > sink) & real).sum(-1) / count
    return share.masked_fill(attention.sum((-2, -1)).isnan(), math.nan)


def _rank_one_distance(attention: Tensor, real: Tensor) -> Tensor:
    count = padding.count(real, attention)
    mean = attention.sum(-2, keepdim=True) / count[..., None, None]
    gap = (attention - mean).masked_fill(~real[..., None], 0)
    return gap.norm(dim=(-2, -1)) / attention.norm(dim=(-2, -1))


def _gap(attention: Tensor, square: Tensor, real: Tensor) -> Tensor:
    return (square - attention).norm(dim=(-2, -1)).masked_fill(~real.any(-1), math.nan)


def _plogp(probabilities: Tensor) -> Tensor:
    """p log p with 0 log 0 = 0 and a finite slope there (torch.special.entr has an infinite
    one).
    """
    return probabilities * probabilities.clamp_min(torch.finfo(probabilities.dtype).tiny).log()


def check_paths(beta: float, hops: int) -> None:
    """Refuse a discount outside (0, 1] and fewer than two hops with a ValueError."""
    if isinstance(beta, bool) or not isinstance(beta, Real) or not 0 < beta <= 1:
        raise ValueError(f"beta must be a number in (0, 1], got {quoted(beta)}")
    check_whole("hops", hops, 2)
