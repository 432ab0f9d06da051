"""The forms of attention that the study compares, each a change of plain softmax attention.

With scores s, p = softmax(s), n_k the sum of column k of p, and High's bias
B_jk = sum over i != j of log(1 - (1 - e^-strength) p_ik), High is softmax(s + B). The arms:

    detached           softmax(s + stop(B)): High without the gradient of its messages
    straight-through   p forwards, the gradient of High backwards
    rolled             softmax(s + B'), B' is B with each key's bias given to the next key
    temperature        softmax(t s), t such that the mean row entropy is High's
    plus-one           exp(s_jk) / (1 + sum over k of exp(s_jk))
    learned-bias       softmax(s + u.x_k), u a learned vector a head, x the layer's input
    settled            softmax(s + b) with b = -strength n(b), n(b) the column sums of that softmax
    damped             softmax(s - strength n / (1 + strength d)), d_k the column sum of p (1 - p)

`uniform` and `high` are the library's own; `original` and `warmup-1000` are plain attention.
"""

from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, sdpa_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from companion.training.architectures import refine_with
from saobp.equations.messages import key_bias, log_messages

Matrix = Float[Tensor, "*batch query key"]

# damped steps towards the settled bias, before the step that ends at it and carries the gradient
SETTLING_STEPS = 8
# halvings of the interval of inverse temperatures, whose ends are plain attention and nearly flat
HALVINGS = 10
LEAST_INVERSE = 0.02


def high_bias(attention: Matrix, strength: float) -> Matrix:
    """Return what the other rows say about each key, in nats (the sum in Eq. 11)."""
    return key_bias(log_messages(attention, strength))


def detached(scores: Matrix, strength: float) -> Matrix:
    """Return High's attention, whose messages pass no gradient."""
    attention = scores.detach().softmax(-1)
    return (scores + high_bias(attention, strength)).softmax(-1)


def straight_through(scores: Matrix, strength: float) -> Matrix:
    """Return plain attention with the gradient of High."""
    attention = scores.softmax(-1)
    refined = (scores + high_bias(attention, strength)).softmax(-1)
    return attention.detach() + (refined - refined.detach())


def rolled(scores: Matrix, strength: float) -> Matrix:
    """Return High's attention with each key's bias given to the next key, the last's to the first.

    The order of sentences is drawn, so that the next key is any other one.
    """
    bias = high_bias(scores.softmax(-1), strength)
    return (scores + bias.roll(1, -1)).softmax(-1)


def temperature(scores: Matrix, strength: float) -> Matrix:
    """Return attention flattened by one temperature a matrix to the mean row entropy of High.

    The temperature is a constant to the gradient. A matrix that High sharpens stays as it is.
    """
    with torch.no_grad():
        attention = scores.softmax(-1)
        target = _entropy((scores + high_bias(attention, strength)).softmax(-1))
        low = torch.full_like(target, LEAST_INVERSE)
        high = torch.ones_like(target)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            too_flat = _entropy((middle * scores).softmax(-1)) > target
            low = torch.where(too_flat, middle, low)
            high = torch.where(too_flat, high, middle)
        inverse = torch.where(_entropy(attention) >= target, 1.0, (low + high) / 2)
    return (inverse * scores).softmax(-1)


def _entropy(attention: Matrix) -> Float[Tensor, "*batch 1 1"]:
    """Return the sum of a matrix's row entropies, in nats."""
    return torch.special.entr(attention).sum((-2, -1), keepdim=True)


def plus_one(scores: Matrix, strength: float) -> Matrix:
    """Return softmax with one added to the denominator: a row may sum to less than 1."""
    total = scores.logsumexp(-1, keepdim=True)
    return torch.exp(scores - torch.logaddexp(total, torch.zeros_like(total)))


def damped(scores: Matrix, strength: float) -> Matrix:
    """Return attention after one step, shorter where the curvature is high (first order)."""
    load, curvature = _load_and_curvature(scores.softmax(-1))
    return (scores - strength * load / (1 + strength * curvature)).softmax(-1)


def settled(scores: Matrix, strength: float) -> Matrix:
    """Return attention at the fixed point b = -strength n(b) of High's first order.

    Damped steps come near the fixed point without a gradient. One step of Newton from there ends
    at it, and carries its gradient by the implicit function theorem.
    """
    with torch.no_grad():
        bias = torch.zeros_like(scores[..., :1, :])
        for _ in range(SETTLING_STEPS):
            load, curvature = _load_and_curvature((scores + bias).softmax(-1))
            bias = bias - (bias + strength * load) / (1 + strength * curvature)
        attention = (scores + bias).softmax(-1)
        hessian = torch.diag_embed(attention.sum(-2)) - attention.mT @ attention
        identity = torch.eye(scores.shape[-1], dtype=scores.dtype, device=scores.device)
        factor = torch.linalg.cholesky(identity + strength * hessian)
    load = (scores + bias).softmax(-1).sum(-2, keepdim=True)
    step = torch.cholesky_solve((bias + strength * load).mT, factor).mT
    return (scores + bias - step).softmax(-1)


def _load_and_curvature(attention: Matrix) -> tuple[Tensor, Tensor]:
    """Return the column sums of p and of p (1 - p), each (..., 1, key)."""
    load = attention.sum(-2, keepdim=True)
    return load, load - attention.square().sum(-2, keepdim=True)


class KeyBias(nn.Module):
    """A learned number for each key and head, linear in the layer's input, 0 at the start.

    The bias of a query projection adds such a number too, but only along the key projection.
    """

    def __init__(self, hidden: int, heads: int):
        super().__init__()
        self.direction = nn.Linear(hidden, heads, bias=False)
        nn.init.zeros_(self.direction.weight)
        self.bias: Tensor | None = None

    def look(self, module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        """Work out the biases (batch, head, 1, key) before the attention module runs."""
        self.bias = self.direction(inputs[0]).mT[..., None, :]


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    form: Any,
    strength: float,
    scaling: float,
    **kwargs: Any,
) -> tuple[Tensor, Tensor]:
    """Attend by one of the forms above; an attention function of transformers.

    Raises ValueError where there is a mask: no story has padding, and the forms know none.
    """
    if attention_mask is not None:
        raise ValueError("attention_mask: the arms of this study know no padding; leave it out")
    scores = query @ key.mT * scaling
    learned = getattr(module, KEY_BIAS, None)
    if learned is not None:
        scores = scores + learned.bias
    weights = form(scores, strength)
    return (weights @ value).transpose(1, 2).contiguous(), weights


def plain(scores: Matrix, strength: float) -> Matrix:
    """Return softmax attention."""
    return scores.softmax(-1)


# of the learned bias in an attention module
KEY_BIAS = "key_bias"
# arm -> its attention
FORMS = {
    "detached": detached,
    "straight-through": straight_through,
    "rolled": rolled,
    "temperature": temperature,
    "plus-one": plus_one,
    "learned-bias": plain,
    "settled": settled,
    "damped": damped,
}
# arm -> the library's own algorithm
ALGORITHMS = {
    "original": "original",
    "warmup-1000": "original",
    "high": "high",
    "uniform": "uniform",
}


def put_arm(network: nn.Module, arm: str, strength: float) -> nn.Module:
    """Give a BERT the attention of an arm, in place, and return it.

    Raises ValueError for an arm that there is not.
    """
    if arm in ALGORITHMS:
        return refine_with(network, ALGORITHMS[arm], strength)
    if arm not in FORMS:
        raise ValueError(f"arm '{arm}': is none of {', '.join([*ALGORITHMS, *FORMS])}")
    if arm == "learned-bias":
        _add_key_bias(network)
    name = f"learning-{arm}"
    ALL_ATTENTION_FUNCTIONS.register(name, partial(attend, form=FORMS[arm], strength=strength))
    # without one transformers would drop a mask in silence
    ALL_MASK_ATTENTION_FUNCTIONS.register(name, sdpa_mask)
    network.set_attn_implementation(name)
    return network


def _add_key_bias(network: nn.Module) -> None:
    """Give each attention module of a BERT a `KeyBias` of its own."""
    for layer in network.bert.encoder.layer:
        module = layer.attention.self
        learned = KeyBias(module.query.in_features, module.num_attention_heads)
        module.add_module(KEY_BIAS, learned)
        module.register_forward_pre_hook(learned.look)
