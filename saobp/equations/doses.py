"""A strength by dose: what a step does depends on the strength times the number of tokens."""

import math
from dataclasses import dataclass
from numbers import Real

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from saobp.equations.checks import check_strength, quoted, values_hidden
from saobp.equations.messages import per_matrix


@dataclass(frozen=True)
class Dose:
    """A strength that is divided by a number of tokens; made by `dose`."""

    dose: float

    def __post_init__(self) -> None:
        number = isinstance(self.dose, Real) and not isinstance(self.dose, bool)
        if not number or not 0 < self.dose < math.inf:
            raise ValueError(f"dose must be finite and above 0; got {quoted(self.dose)}")
        # a config holds no numpy
        object.__setattr__(self, "dose", float(self.dose))

    def __repr__(self) -> str:
        return f"saobp.dose({self.dose:g})"

    def over(self, tokens: Tensor, dtype: torch.dtype) -> Tensor:
        """Return the strength by numbers of tokens, 0 where there is none."""
        tokens = tokens.to(dtype)
        return torch.where(tokens > 0, self.dose / tokens, 0)


def dose(amount: float) -> Dose:
    """Return a strength that is `amount` ÷ the number of tokens, for `strength=` in `saobp.refine`,
    `saobp.saobp_attention` and `saobp.apply`.

    The tokens are those that the sender of a message may look at: in an encoder the real tokens of
    its sequence, whatever the padding. In a causal model message i has `amount` ÷ (i + 1), counted
    from the first real token, so that a cached step equals the full forward; there a row hears
    strengths that sum to about `amount` times the logarithm of its position. `amount` is in nats
    times tokens, finite and above 0; it is saved in the config, and cannot be learned.

    Raises ValueError if it is not such a number; and where it is used, if a sequence has no token.
    """
    return Dose(amount)


def check_strength_or_dose(
    strength: float | Tensor | Dose, heads: tuple[int, ...] | None = None
) -> None:
    """Refuse what is neither a strength, see `check_strength`, nor a dose with a ValueError."""
    if not isinstance(strength, Dose):
        check_strength(strength, heads)


def check_tokens(
    strength: float | Tensor | Dose, visible: Bool[Tensor, "*#batch query key"]
) -> None:
    """Refuse a dose where a sequence has no token with a ValueError."""
    if not isinstance(strength, Dose) or values_hidden():
        return
    if not bool(visible.flatten(-2).any(-1).all()):
        raise ValueError(
            f"strength: {strength} is divided by the number of real tokens, and a sequence has none; "
            "leave it out, or give a number"
        )


def strength_by_sender(
    strength: float | Tensor | Dose,
    prior: Float[Tensor, "*batch query key"],
    visible: Bool[Tensor, "*#batch query key"],
) -> Float[Tensor, "*#batch #query 1"]:
    """Return the strength of the messages of each query: the same for all, or a dose over the
    number of keys that are visible to it.
    """
    if not isinstance(strength, Dose):
        return per_matrix(strength, prior)
    return strength.over(visible.sum(-1, keepdim=True), prior.dtype)
