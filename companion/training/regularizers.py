"""The baselines of Table 3: penalties on a model's attention, which its own loss has while it
trains.

`attach` gives a model one of them by name and `detach` takes it off; the attention itself stays
plain.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from saobp import attention_entropy

# of the module in a model
NAME = "regularizer"


class EntropyRegularizer(nn.Module):
    """Entropy-Reg: holds each head's mean row entropy near a learned share of its maximum.

    Jha and Reagen 2025 (arXiv 2501.03489v2), Algorithm 1: with E_max = log T and a head's entropy
    E, the deviation is E - theta E_max, and counts squared once it exceeds `tolerance` (their
    gamma) times E_max; mean over heads, then layers. The thresholds theta are learned, one a head,
    and kept as the distance from where they start, so that weight decay pulls them there and not to
    zero. `coefficient` is that of the penalty in the loss; None is the authors', 1e-5 up to 256
    tokens and 5e-5 beyond.
    """

    # of the thresholds, in (0, 1); not given there
    START = 0.5

    def __init__(
        self, layers: int, heads: int, *, coefficient: float | None = None, tolerance: float = 0.2
    ):
        super().__init__()
        self.coefficient, self.tolerance = coefficient, tolerance
        self.offset = nn.Parameter(torch.zeros(layers, heads))

    def forward(
        self,
        attentions: Sequence[Float[Tensor, "batch head query key"]],
        real: Bool[Tensor, "batch query"] | None = None,
    ) -> Float[Tensor, ""]:
        """Return the penalty in squared nats, times the coefficient, of one forward pass; padded
        rows do not count.
        """
        length = attentions[0].shape[-1]
        most = torch.log(torch.tensor(float(length)))
        entropies = [attention_entropy(layer.float(), mask=real).mean(0) for layer in attentions]
        entropies = torch.stack(entropies)
        deviation = entropies - (self.START + self.offset.float()) * most.to(entropies)
        charged = deviation * (deviation.abs() > self.tolerance * most.to(entropies))
        coefficient = self.coefficient or (1e-5 if length <= 256 else 5e-5)
        return coefficient * charged.square().mean()


class SpectrumRegularizer(nn.Module):
    """Eigen-Reg: keeps the eigenvalues of each head's query-key product close together and their
    mean where it began.

    After Bao et al. 2024 (arXiv 2402.02098), who minimise the scale of the eigenspectrum while
    keeping its mean. A reconstruction: their exact penalty and coefficient are not in the paper at
    hand. Per head, with the hidden width d, W = W_Q^T W_K and S = (W + W^T) / 2, the penalty is

        Var(S) + (mean eigenvalue - its start)^2,   Var(S) = |S|_F^2 / d - (tr W / d)^2,

    averaged over heads and layers; W (d x d) is never formed. Biases do not enter.
    `projections` are each layer's (query, key) linear maps, `coefficient` is that of the penalty in
    the loss; ours.
    """

    def __init__(
        self,
        projections: Sequence[tuple[nn.Linear, nn.Linear]],
        heads: int,
        *,
        coefficient: float | None = None,
    ):
        super().__init__()
        self.heads, self.coefficient = heads, coefficient or 0.01
        # not ours to save
        self.projections = [(query.weight, key.weight) for query, key in projections]
        with torch.no_grad():
            self.register_buffer("start", self.moments()[0].clone())

    def moments(self) -> tuple[Float[Tensor, "layer head"], Float[Tensor, "layer head"]]:
        """Return mean and variance of the eigenvalues of every head's S."""
        moments = []
        for weights in self.projections:
            query, key = (weight.unflatten(0, (self.heads, -1)).float() for weight in weights)
            width, mixed = query.shape[-1], key @ query.mT
            mean = (query * key).sum((-2, -1)) / width
            squares = ((query @ query.mT) * (key @ key.mT)).sum((-2, -1))
            squares = squares + (mixed * mixed.mT).sum((-2, -1))
            moments.append((mean, squares / 2 / width - mean.square()))
        means, variances = map(torch.stack, zip(*moments))
        return means, variances

    def forward(self, attentions: None = None, real: None = None) -> Float[Tensor, ""]:
        """Return the penalty, times the coefficient; it is of the weights alone."""
        mean, variance = self.moments()
        return self.coefficient * (variance + (mean - self.start.to(mean)).square()).mean()


def attach(model: nn.Module, algorithm: str, coefficient: float | None = None) -> nn.Module:
    """Give a `SparseBertForMaskedLM` the penalty that an algorithm stands for, if it stands for
    one, in place.
    """
    heads = model.config.num_attention_heads
    if algorithm == "entropy_reg":
        layers = model.config.num_hidden_layers
        model.add_module(NAME, EntropyRegularizer(layers, heads, coefficient=coefficient))
    elif algorithm == "eigen_reg":
        attentions = [layer.attention.self for layer in model.bert.encoder.layer]
        projections = [(attention.query, attention.key) for attention in attentions]
        model.add_module(NAME, SpectrumRegularizer(projections, heads, coefficient=coefficient))
    return model


def detach(model: nn.Module) -> nn.Module:
    """Take the penalty off a model, in place, so that it is saved and used as any other."""
    model._modules.pop(NAME, None)
    return model
