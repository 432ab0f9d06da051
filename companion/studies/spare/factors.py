"""Two factors that only this study needs: the bias on the sink alone, and the damped step."""

from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

import saobp
from saobp.equations.messages import belief, log_messages, seen_bias

Attention = Float[Tensor, "*batch query key"]
Visible = Bool[Tensor, "*#batch query key"]


def sink_alone(prior: Attention, strength: Tensor, visible: Visible) -> Attention:
    """Refine as High does, with a bias on the first token alone: the complement of `spare="first"`.

    Sequences start at key 0, as those that are padded on the right do.
    """
    messages = log_messages(prior[..., :1], strength)
    bias = seen_bias(messages, visible, exclude_self=True)
    # none on any other key
    return belief(prior, functional.pad(bias, (0, prior.shape[-1] - 1)))


def damped(prior: Attention, strength: Tensor, visible: Visible) -> Attention:
    """Take the damped step, with the bias -strength n / (1 + strength d) on every key.

    n is the key's column sum and d = sum p (1 - p) over the rows that a query receives from, its
    own included: the diagonal of the Hessian of the column sums.
    """
    column_sum = seen_bias(prior, visible, exclude_self=False)
    curvature = seen_bias(prior * (1 - prior), visible, exclude_self=False)
    return belief(prior, -strength * column_sum / (1 + strength * curvature))


def register() -> None:
    """Make both known to `saobp.apply`."""
    saobp.register_factor("sink_alone", sink_alone)
    saobp.register_factor("damped", damped)
