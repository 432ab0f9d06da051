"""The factors by name: the paper's, the controls, and those of one's own, tried out before they are
trusted.
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

FACTORS = ("high", "low", "elemmul", "none", "sinkhorn", "uniform", "shuffled")
"""Names of the factors: the paper's three (Eq. 7, 16, 15), plain attention, and three controls."""

WITHOUT_MESSAGES = ("elemmul", "sinkhorn")
"""Factors that send no messages, so that there is nothing to repeat, to damp or to weigh by a
strength.
"""

BY_STRENGTH = ("high", "low", "uniform", "shuffled")
"""Factors that tend to the attention itself as the strength tends to 0, and have a slope there."""

Own = Callable[
    [
        Float[Tensor, "*batch query key"],
        Float[Tensor, "*#batch 1 1"],
        Bool[Tensor, "*#batch query key"],
    ],
    Float[Tensor, "*batch query key"],
]

OWN: dict[str, Own] = {}
"""Registered factors by name."""

BIDIRECTIONAL: set[str] = set()
"""Registered factors that no causal model may use."""


def register_factor(
    name: str, function: Own, *, causal: bool = True, sums_to_one: bool = True
) -> None:
    """Make a function a factor by name, for `refine`, `saobp_attention` and `apply`.

    `function(prior, strength, visible)` gets attention (..., L, L) in float32 or better, 0 where a
    pair is not visible, its rows queries; the strength, a tensor that broadcasts; and which pairs
    are visible: a real query at a real key, no later key in a causal model. It returns refined
    attention: rows of real queries sum to 1, nothing where nothing is visible. In a causal model
    row j must receive from rows i <= j only. All of this is tried here on small matrices.
    Generation with a key/value cache refuses factors of one's own: only column sums of messages are
    carried there.

    With `causal=False` every row may receive from all, as from column sums, and causal attention
    refuses the factor, where it would leak the future. With `sums_to_one=False` rows may sum to
    less, never to more: their values are averaged by what is left, and nothing divides by it.

    A name that was registered before gets the new function. Raises ValueError that names what the
    function does wrong, or a name that is saobp's own.
    """
    if not isinstance(name, str) or not name.isidentifier() or name in FACTORS:
        offered = repr(name) if isinstance(name, str) else type(name).__name__
        raise ValueError(f"name must be a new word, none of {', '.join(FACTORS)}; got {offered}")
    for switch, value in (("causal", causal), ("sums_to_one", sums_to_one)):
        if not isinstance(value, bool):
            raise ValueError(f"{switch} must be True or False; got {value!r}")
    for order in (False, True) if causal else (False,):
        _try(function, order, sums_to_one)
    OWN[name] = function
    if causal:
        BIDIRECTIONAL.discard(name)
    else:
        BIDIRECTIONAL.add(name)


def check_order(factor: str, causal: bool) -> None:
    """Refuse a factor in causal attention that was not registered for it with a ValueError."""
    if causal and factor in BIDIRECTIONAL:
        raise ValueError(
            f"factor {factor!r} was registered with causal=False: in causal attention later rows "
            "would change earlier ones"
        )


def _try(function: Own, causal: bool, sums_to_one: bool, length: int = 6) -> None:
    """Refine random attention, and again with rows changed that may reach nobody."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(2, 3, length, length, generator=generator, dtype=torch.float64)
    visible = torch.ones(length, length, dtype=torch.bool)
    visible = visible.tril() if causal else visible
    real = torch.ones(2, 1, length, dtype=torch.bool)
    real[1, :, 4:] = False
    visible = visible & real[..., :, None] & real[..., None, :]
    refined = _refined(function, scores, visible)
    if refined.shape != scores.shape:
        raise ValueError(
            f"function returned shape {tuple(refined.shape)} for attention of {tuple(scores.shape)}"
        )
    if not refined.isfinite().all() or (refined < 0).any():
        raise ValueError("function returned probabilities that are negative or no numbers")
    if (refined.masked_fill(visible, 0) != 0).any():
        raise ValueError(
            "function put mass on a key that its query may not see (padding, or the future)"
        )
    sums = refined.sum(-1)[visible.any(-1).expand(2, 3, length)]
    least = 1 - 1e-6 if sums_to_one else 0
    if sums.max() > 1 + 1e-6 or sums.min() < least:
        wanted = "not 1 (less is for sums_to_one=False)" if sums_to_one else "which is more than 1"
        raise ValueError(
            f"function returned rows that sum to {sums.min():.3f} … {sums.max():.3f}, {wanted}"
        )
    if (
        _refined(function, scores[1:, :, :4, :4], visible[1:, :, :4, :4]) - refined[1:, :, :4, :4]
    ).abs().max() > 1e-9:
        raise ValueError(
            "function let padding change the rows of real tokens: look at `visible`, not at the size"
        )
    if causal:
        changed = scores.clone()
        changed[..., 3:, :] = torch.randn(
            2, 3, length - 3, length, generator=generator, dtype=torch.float64
        )
        if (_refined(function, changed, visible) - refined)[..., :3, :].abs().max() > 1e-9:
            raise ValueError(
                "function let later rows change earlier ones: in a causal model it would leak the "
                "future; causal=False keeps it out of them"
            )


def _refined(function: Own, scores: Tensor, visible: Tensor) -> Tensor:
    prior = scores.masked_fill(~visible, -1e30).softmax(-1).masked_fill(~visible, 0)
    try:
        refined = function(prior, torch.tensor(0.5, dtype=prior.dtype), visible)
    # whatever a function of the caller's may raise, or no function at all
    except Exception as error:
        flaw = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(
            f"function must take (prior, strength, visible); calling it failed ({flaw})"
        ) from error
    if not isinstance(refined, Tensor):
        raise ValueError(
            f"function must return the refined attention, a tensor; got {type(refined).__name__}"
        )
    return refined
