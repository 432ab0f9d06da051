"""The refinement of one attention module of a model: its options, its strength, what is seen of it."""

from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from saobp.equations.messages import per_matrix
from saobp.equations.refine import _refined
from saobp.models.supported import number_of_heads

if TYPE_CHECKING:
    from saobp.models.apply import Options


class Refinement(nn.Module):
    """Submodule `saobp` of an attention module; holds a parameter only if the strength is learned."""

    def __init__(self, options: "Options", module: nn.Module) -> None:
        super().__init__()
        self.options = options
        self.layer: Any = None  # of the cache, between the start of the attention module and its attention function
        self.seen: Any = None  # where raw_attentions wants the matrices
        heads = number_of_heads(module) if options.learn == "head" or isinstance(options.strength, tuple) else 1
        if isinstance(options.strength, tuple) and len(options.strength) != heads:
            raise ValueError(f"strength has {len(options.strength)} entries, but {type(module).__name__} {heads} heads")
        if options.learn:
            like = next(parameter for parameter in module.parameters() if parameter.is_floating_point())
            self.offset = nn.Parameter(like.new_zeros(heads))

    def strength(self, device: torch.device) -> float | Float[Tensor, "#head"]:
        """Return the strength in nats: a number, or one a head (one of all heads if learned by layer)."""
        fixed = self.options.strength
        if self.options.learn:
            start = torch.tensor(fixed, dtype=torch.float32, device=device)
            inverse_softplus = start + torch.log(-torch.expm1(-start))
            return functional.softplus(self.offset.float() + inverse_softplus)
        return torch.tensor(fixed, device=device) if isinstance(fixed, tuple) else fixed

    def reset_unless_loaded(self) -> None:
        """Start a learned strength that no checkpoint gave a value."""
        if self.options.learn and not getattr(self.offset, "_is_hf_initialized", False):
            nn.init.zeros_(self.offset)

    def forward(
        self,
        attention: Float[Tensor, "batch head query key"],
        visible: Bool[Tensor, "#batch #head query key"],
        hears_earlier: bool,
    ) -> Float[Tensor, "batch head query key"]:
        """Refine attention where `visible` says that a real query looks at a real key; other rows stay."""
        options = self.options
        strength = self.strength(attention.device)
        if not isinstance(strength, Tensor) and strength == 0:
            return attention
        with torch.autocast(attention.device.type, enabled=False):
            prior = attention.masked_fill(~visible, 0)
            rounds = {"steps": options.steps, "damping": options.damping}
            lam = per_matrix(strength, prior)
            refined = _refined(prior, options.factor, lam, visible, hears_earlier, options.exclude_self, 0, rounds)
        return torch.where(visible.any(-1, keepdim=True), refined, attention)

    def show(self, raw: Tensor, refined: Tensor) -> None:
        """Leave the matrices where raw_attentions looks for them."""
        if self.seen is not None:
            pairs, place = self.seen
            pairs[place] = (raw.detach(), refined.detach())
