"""Where rounds of High lead to first order: the minimum of a convex function of one bias per key.

With the own message kept and messages -strength A_ik, settled beliefs obey b = -strength n(b), n(b)
the column sums of softmax(scores + b). That is the condition for the minimum of

    F(b) = sum_j logsumexp(scores_j + b) + |b|^2 / (2 strength)
"""

import numpy as np
import torch
from jaxtyping import Float
from scipy.optimize import minimize
from torch import Tensor

Scores = Float[Tensor, "query key"]
Bias = Float[Tensor, " key"]


def column_sums(scores: Scores, bias: Bias) -> Bias:
    """Return the attention that each key receives in total under a bias, n(b)."""
    return (scores + bias).softmax(-1).sum(-2)


def price(scores: Scores, bias: Bias, strength: float) -> Float[Tensor, ""]:
    """Return F(b), in nats; its gradient is n(b) + b / strength."""
    return (scores + bias).logsumexp(-1).sum() + bias @ bias / (2 * strength)


def hessian(scores: Scores, bias: Bias) -> Float[Tensor, "key key"]:
    """Return the derivative of the column sums, H(b); that of F's gradient is H + 1 / strength."""
    p = (scores + bias).softmax(-1)
    return p.sum(-2).diag() - p.T @ p


def damped_bias(scores: Scores, strength: float) -> Bias:
    """Return the damped step from b = 0, Newton's with the diagonal of the Hessian alone, in nats.

    b = -strength n / (1 + strength d), d = sum p (1 - p). It never exceeds n / d.
    """
    p = scores.softmax(-1)
    curvature = (p * (1 - p)).sum(-2)
    return -strength * p.sum(-2) / (1 + strength * curvature)


def settled_bias(scores: Scores, strength: float) -> Bias:
    """Return the one minimum of F, the bias of settled beliefs, in nats; `scores` are float64.

    At strength 0 it is 0.
    """
    if strength == 0:
        return torch.zeros(scores.shape[-1], dtype=scores.dtype)

    def value_and_gradient(b: np.ndarray) -> tuple[float, np.ndarray]:
        bias = torch.tensor(b)
        gradient = column_sums(scores, bias) + bias / strength
        return price(scores, bias, strength).item(), gradient.numpy()

    def curvature(b: np.ndarray) -> np.ndarray:
        return hessian(scores, torch.tensor(b)).numpy() + np.eye(len(b)) / strength

    # its mean: column sums are 1 on average
    start = np.full(scores.shape[-1], -float(strength))
    options = {"gtol": 1e-9}
    solution = minimize(
        value_and_gradient, start, jac=True, hess=curvature, method="trust-exact", options=options
    )
    return torch.tensor(solution.x)
