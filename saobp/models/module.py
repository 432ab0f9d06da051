"""The refinement of one attention module of a model: its options, its strength, what is seen of
it.
"""

import inspect
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from numbers import Real
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from saobp.equations.checks import (
    ROW_TOLERANCE,
    check_factor,
    check_options,
    check_strength,
    quoted,
)
from saobp.equations.factors import BIDIRECTIONAL, check_order
from saobp.equations.messages import per_matrix
from saobp.equations.refine import _refined, _same_where_zero
from saobp.equations.sparing import (
    check_saved,
    check_spare,
    spare_looks_ahead,
    spared_keys,
    strength_by_key,
)
from saobp.models.supported import is_causal_module, number_of_heads

LEARNABLE = ("high", "low")
"""Factors whose strength reaches the output smoothly, so that it can be learned."""


@dataclass(frozen=True)
class Options:
    """What `apply` was asked for, as it stands in the config field `saobp`."""

    factor: str = "high"
    # of all heads, or one a head
    strength: float | tuple[float, ...] = 0.2
    exclude_self: bool = True
    learn: str | None = None
    steps: int = 1
    damping: float = 0.0
    messages: str = "earlier"
    spare: str | float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "strength", as_numbers(self.strength))
        check_factor(self.factor)
        check_options(self.factor, self.steps, self.damping, 0, exclude_self=self.exclude_self)
        # a config holds no numpy
        object.__setattr__(self, "steps", int(self.steps))
        object.__setattr__(self, "damping", float(self.damping))
        check_saved(self.spare)
        check_spare(self.spare, self.factor, causal=False)
        if isinstance(self.spare, Real):
            object.__setattr__(self, "spare", float(self.spare))
        if self.learn not in (None, "head", "layer"):
            raise ValueError(f'learn must be None, "head" or "layer"; got {quoted(self.learn)}')
        if self.learn and self.factor not in LEARNABLE:
            raise ValueError(
                f"learn: the strength of factor {self.factor!r} cannot be learned; use high or low"
            )
        if self.learn and (
            self.strength == 0 or (isinstance(self.strength, tuple) and 0 in self.strength)
        ):
            raise ValueError(
                "learn: softplus reaches no strength of 0; start from a positive strength"
            )
        if self.learn == "layer" and isinstance(self.strength, tuple):
            raise ValueError(
                'learn="layer" has one strength a layer; give one number, not one a head'
            )
        if self.messages not in ("earlier", "all"):
            raise ValueError(f'messages must be "earlier" or "all"; got {quoted(self.messages)}')

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Unpickle, and refuse a factor that this process does not know with a ValueError."""
        check_factor(state["factor"])
        self.__dict__.update(state)

    def as_field(self) -> dict[str, Any]:
        """Return the options as they stand in a config, and in its JSON."""
        field = asdict(self)
        if isinstance(self.strength, tuple):
            field["strength"] = list(self.strength)
        return field


def as_numbers(strength: float | Sequence[float] | Tensor) -> float | tuple[float, ...]:
    """Return a strength as a float or a tuple of one a head, for a config to hold; ValueError if
    neither.
    """
    if isinstance(strength, Tensor):
        if strength.ndim > 1:
            raise ValueError(
                f"strength must be a number or one a head; got shape {tuple(strength.shape)}"
            )
        strength = strength.tolist()
    several = isinstance(strength, Sequence) and not isinstance(strength, str)
    for number in strength if several else [strength]:
        check_strength(number)
    return tuple(map(float, strength)) if several else float(strength)


class Watch:
    """The matrices of one thread's last forward pass through a model, in the order of the calls."""

    def __init__(self, refinements: "Sequence[Refinement]") -> None:
        self.pairs: list[tuple[Tensor, Tensor] | None] = [None] * len(refinements)
        self.owners = list(refinements)
        # of models within models that are running
        self.depth = 0

    def take(self, refinement: "Refinement", raw: Tensor, refined: Tensor) -> None:
        """Note one call; outside a pass (a layer called by itself or again, for its gradient) in
        the call's place.
        """
        if self.depth or refinement not in self.owners:
            self.owners.append(refinement)
            self.pairs.append((raw, refined))
        else:
            self.pairs[self.owners.index(refinement)] = (raw, refined)

    def begin(self, *_: Any) -> None:
        """Forget the last pass where a new one begins."""
        if self in _watches.get():
            if not self.depth:
                self.owners.clear()
                self.pairs.clear()
            self.depth += 1

    def end(self, *_: Any) -> None:
        """Note that a model has run, or failed."""
        if self in _watches.get():
            self.depth -= 1

    @contextmanager
    def over(self, models: Iterable[nn.Module]) -> Iterator[None]:
        """Watch the passes through any of `models` that this thread makes."""
        refinements = set(self.owners)
        handles = [model.register_forward_pre_hook(self.begin) for model in models]
        handles += [model.register_forward_hook(self.end, always_call=True) for model in models]
        token = _watches.set((*_watches.get(), self))
        for refinement in refinements:
            refinement.watches.add(self)
        try:
            yield
        finally:
            _watches.reset(token)
            for refinement in refinements:
                refinement.watches.discard(self)
            for handle in handles:
                handle.remove()


_watches: ContextVar[tuple[Watch, ...]] = ContextVar("saobp_watches", default=())


def home(module: nn.Module) -> tuple[torch.device, torch.dtype]:
    """Return where a parameter beside those of a module belongs, and its type, which is one to
    train in.

    A quantised module may have no floating parameter, and an offloaded one none that holds numbers.
    """
    parameters = list(module.parameters())
    parameters.sort(key=lambda parameter: (parameter.is_meta, parameter.dtype not in ROW_TOLERANCE))
    if not parameters:
        return torch.get_default_device(), torch.float32
    device, dtype = parameters[0].device, parameters[0].dtype
    hooks = [getattr(part, "_hf_hook", None) for part in module.modules()]
    executed = [
        hook.execution_device
        for hook in hooks
        if getattr(hook, "execution_device", None) is not None
    ]
    if device.type == "meta" and executed:
        device = torch.device(executed[0])
    return device, dtype if dtype in ROW_TOLERANCE else torch.float32


class Refinement(nn.Module):
    """Submodule `saobp` of an attention module; holds a parameter only if the strength is
    learned.
    """

    def __init__(self, options: Options, module: nn.Module) -> None:
        super().__init__()
        check_order(options.factor, is_causal_module(module))
        check_spare(options.spare, options.factor, causal=is_causal_module(module))
        self.options = options
        self.arguments = tuple(inspect.signature(type(module).forward).parameters)[1:]
        # which `apply` widens to all layers of the model
        self.of_layers: frozenset[str] = frozenset(self.arguments)
        self.watches: set[Watch] = set()
        heads = (
            number_of_heads(module)
            if options.learn == "head" or isinstance(options.strength, tuple)
            else 1
        )
        if isinstance(options.strength, tuple) and len(options.strength) != heads:
            raise ValueError(
                f"strength has {len(options.strength)} entries, but {type(module).__name__} {heads} heads"
            )
        if options.learn:
            device, dtype = home(module)
            self.offset = nn.Parameter(torch.zeros(heads, device=device, dtype=dtype))
            # PEFT hands one on where it takes an adapter off
            self.register_parameter("weight", None)

    def forward(self, device: torch.device) -> float | Float[Tensor, "#head"]:
        """Return the strength in nats: a number, or one a head (one of all heads if learned by
        layer).

        The forward pass, so that hooks that fetch an offloaded parameter run. Raises ValueError if
        it has no number.
        """
        fixed = self.options.strength
        if self.options.learn:
            if self.offset.is_meta and device.type != "meta":
                raise ValueError(
                    "learn: the strength is on the meta device and holds no number; "
                    "call saobp.apply after the weights are loaded"
                )
            starts = fixed if isinstance(fixed, tuple) else [fixed]
            inverse_softplus = [start + math.log(-math.expm1(-start)) for start in starts]
            start = torch.tensor(inverse_softplus, dtype=torch.float32, device=device)
            return functional.softplus(self.offset.float() + start)
        return torch.tensor(fixed, device=device) if isinstance(fixed, tuple) else fixed

    def reset_unless_loaded(self) -> None:
        """Start a learned strength that no checkpoint gave a value."""
        if self.options.learn and not getattr(self.offset, "_is_hf_initialized", False):
            nn.init.zeros_(self.offset)

    def refine(
        self,
        attention: Float[Tensor, "batch head query key"],
        visible: Bool[Tensor, "#batch #head query key"],
        sending: bool | Bool[Tensor, "#batch #head query row"],
    ) -> Float[Tensor, "batch head query key"]:
        """Refine attention where `visible` says that a real query looks at a real key; other rows
        stay.

        `sending` is what `saobp.fused.scores.senders` returns.
        """
        options = self.options
        strength = self(attention.device)
        if not isinstance(strength, Tensor) and strength == 0:
            return attention
        if options.factor in BIDIRECTIONAL and sending is not False:
            raise ValueError(
                "attention_mask: hides tokens from others that they see (or is traced), and factor "
                f"{options.factor!r} was registered with causal=False"
            )
        with torch.autocast(attention.device.type, enabled=False):
            prior = attention.masked_fill(~visible, 0)
            rounds = {"steps": options.steps, "damping": options.damping}
            lam = per_matrix(strength, prior)
            lam_by_key = strength_by_key(lam, self.spared(prior, visible, sending))
            refined = _refined(
                prior, options.factor, lam_by_key, visible, sending, options.exclude_self, 0, rounds
            )
            refined = _same_where_zero(options.factor, strength, lam, prior, refined)
        return torch.where(visible.any(-1, keepdim=True), refined, attention)

    def spared(
        self,
        prior: Float[Tensor, "batch head query key"],
        visible: Bool[Tensor, "#batch #head query key"],
        sending: bool | Bool[Tensor, "#batch #head query row"],
    ) -> Bool[Tensor, "#batch #head 1 key"] | None:
        """Return which keys get no bias; ValueError where that depends on what a query may not see."""
        spare = self.options.spare
        if spare_looks_ahead(spare) and sending is not False:
            raise ValueError(
                f"attention_mask: hides tokens from others that they see (or is traced), so that spare="
                f'{quoted(spare)} cannot be known; use spare="first"'
            )
        return spared_keys(spare, prior, visible)

    def watched(self) -> bool:
        """Tell whether raw_attentions wants the matrices of this thread."""
        return bool(self.watches) and any(watch in self.watches for watch in _watches.get())

    def show(self, raw: Tensor, refined: Tensor) -> None:
        """Leave the matrices where raw_attentions looks for them."""
        if self.watches:
            for watch in _watches.get():
                if watch in self.watches:
                    watch.take(self, raw.detach(), refined.detach())
