"""One step of belief propagation on attention, in log space (Eq. 7-11).

A row of attention is a variable whose labels are the keys. With c = 1 - e^-strength and rows that
sum to 1, the message of row i about key k (Eq. 9) is e^strength (1 - c A_ik); the constant
e^strength cancels when a row is normalised, so

    log b_j(k) = log A_jk + sum over i != j of log(1 - c A_ik) + const

The plain product of Eq. 11 overflows float32 at strength 0.2 and 512 tokens; the sum of logarithms
does not.
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

SATURATION = 60.0
"""Strength beyond which nothing changes, in nats: e^-60 and its gradient still have room in
float32.
"""


def signed_strength(factor: str, strength: float | Tensor) -> float | Tensor:
    """Return the exponent of Eq. 7 (High, positive: repels) or Eq. 16 (Low, negative: attracts)."""
    return -strength if factor == "low" else strength


def per_matrix(strength: float | Tensor, attention: Tensor) -> Tensor:
    """Return `strength` as a tensor (..., heads, 1, 1) in the type and on the device of
    `attention`.
    """
    strength = torch.as_tensor(strength, dtype=attention.dtype, device=attention.device)
    return strength.reshape(()) if strength.numel() == 1 else strength[..., None, None]


def log_messages(
    attention: Float[Tensor, "*batch query key"], strength: float | Float[Tensor, "*#batch 1 1"]
) -> Float[Tensor, "*batch query key"]:
    """Return what each query says about each key, log(1 - (1 - e^-strength) A_ik), in nats (Eq. 9).

    `strength` is signed: positive for High, negative for Low. The message lies between 0 (no mass,
    nothing to say) and -strength (all mass). A zero in `attention`, a padded or future entry say,
    is silent by itself.
    """
    strength = torch.as_tensor(strength, dtype=attention.dtype, device=attention.device)
    strength = strength.clamp(-SATURATION, SATURATION)
    # rounding may leave 1 + 1e-7, whose message may not exist
    attention = attention.clamp(max=1)
    if torch.onnx.is_in_onnx_export():
        # the TorchScript exporter knows no expm1; what is lost is a rounding of each message
        change = (torch.exp(-strength) - 1) * attention
    else:
        change = torch.expm1(-strength) * attention
    # there log1p loses digits: 1 + expm1(-20) has none left in float32
    strong = change < -0.5
    remaining = (1 - attention) + torch.exp(-strength) * attention
    return torch.where(strong, remaining.log(), torch.log1p(change.masked_fill(strong, 0)))


def key_bias(
    messages: Float[Tensor, "*batch query key"], *, exclude_self: bool = True
) -> Float[Tensor, "*batch query_or_1 key"]:
    """Add up what all queries say about each key (the sum in Eq. 11), in nats.

    One number a key, the same for every query, (..., 1, L); with `exclude_self` each query leaves
    out its own message (Algorithm 1), which makes it (..., L, L).
    """
    total = messages.sum(-2, keepdim=True)
    return total - messages if exclude_self else total


def prefix_key_bias(
    messages: Float[Tensor, "*batch query key"],
    *,
    exclude_self: bool = True,
    carry: Float[Tensor, "*batch 1 key"] | None = None,
) -> Float[Tensor, "*batch query key"]:
    """Add up what earlier queries say about each key: row j receives from rows i < j only (App. C),
    in nats.

    An exclusive running sum over queries, inclusive without `exclude_self`. Hearing later rows too
    would hand the future to the past: a later row's attention depends on later tokens. `carry` is
    the sum over queries that came before the first one here (a decoder's cache); the next is `carry
    + messages.sum(-2, keepdim=True)`.
    """
    heard = messages.cumsum(-2)
    # a shift, not a subtraction: the row's own message must not leave rounding behind
    if exclude_self:
        heard = functional.pad(heard[..., :-1, :], (0, 0, 1, 0))
    return heard if carry is None else heard + carry


def seen_bias(
    messages: Float[Tensor, "*batch query key"],
    seen: Bool[Tensor, "*#batch query row"],
    *,
    exclude_self: bool = True,
) -> Float[Tensor, "*batch query key"]:
    """Add up what the rows that a query may look at say about each key, in nats.

    The general case: `key_bias` where every query sees every row, `prefix_key_bias` where it sees
    the earlier ones. Costs a product of L x L matrices.
    """
    if exclude_self:
        row = torch.arange(seen.shape[-1], device=seen.device)
        seen = seen & (row != row[:, None])
    return seen.to(messages.dtype) @ messages


def belief(
    prior: Float[Tensor, "*batch query key"], bias: Float[Tensor, "*batch query_or_1 key"]
) -> Float[Tensor, "*batch query key"]:
    """Return prior times e^bias with rows normalised (Eq. 11).

    A key without prior mass keeps none and passes no gradient; a row without any (a padded query)
    stays zero.
    """
    support = prior > torch.finfo(prior.dtype).tiny
    scores = torch.where(support, prior, 1).log() + bias
    empty = ~support.any(-1, keepdim=True)
    scores = scores.masked_fill(~support, -torch.inf).masked_fill(empty, 0)
    return scores.softmax(-1).masked_fill(empty, 0)


def propagate(
    prior: Float[Tensor, "*batch query key"],
    strength: float | Float[Tensor, "*#batch 1 1"],
    hear: Callable[[Tensor], Tensor],
    *,
    steps: int = 1,
    damping: float = 0.0,
) -> Float[Tensor, "*batch query key"]:
    """Refine `prior` by `steps` rounds of messages (Eq. 9 and 11).

    `hear` turns the messages into a bias: `key_bias`, `prefix_key_bias` or a control. After the
    first round the beliefs replace the probabilities in the messages; the prior stays. `damping` is
    the share of the old belief that a round keeps, the first round's old belief being the prior.
    """
    current = prior
    for _ in range(steps):
        updated = belief(prior, hear(log_messages(current, strength)))
        current = torch.lerp(updated, current, damping) if damping else updated
    return current
