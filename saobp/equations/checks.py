"""What the refinement accepts, said in one line when it does not."""

import sys
from numbers import Integral, Real
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.autograd import forward_ad

from saobp.equations.factors import FACTORS, OWN, WITHOUT_MESSAGES

ROW_TOLERANCE = {
    torch.float64: 1e-3,
    torch.float32: 1e-3,
    torch.float16: 1e-2,
    torch.bfloat16: 2e-2,
}
"""How far a row may be from 1: the rounding of a softmax in that type, with room for long rows."""

WITHOUT_VALUES = (torch._C._TorchDispatchModeKey.FAKE, torch._C._TorchDispatchModeKey.PROXY)
"""Modes of FakeTensor, and of make_fx."""


def values_hidden() -> bool:
    """Say whether tensors hold no values to decide by: in torch.compile, jit.trace, torch.func,
    FakeTensorMode.
    """
    if (
        torch.compiler.is_compiling()
        or torch.jit.is_tracing()
        or torch._C._are_functorch_transforms_active()
    ):
        return True
    return watched() and any(
        torch._C._get_dispatch_mode(mode) is not None for mode in WITHOUT_VALUES
    )


def watched(*tensors: Tensor) -> bool:
    """Say whether every operation must be torch's own: a mode, a kind of tensor or forward mode
    looks at each.
    """
    own = any(type(tensor) not in (Tensor, nn.Parameter) for tensor in tensors)
    return own or torch._C._len_torch_dispatch_stack() > 0 or forward_ad._current_level >= 0


def quoted(value: Any) -> str:
    """Return what an error says was given, in one short line: an array's or a tensor's own words
    have several.
    """
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:80]} …"


def first_line(error: Exception) -> str:
    """Return the first line of what an error says, or its name where it says nothing."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def check_whole(name: str, number: int, least: int) -> None:
    """Refuse anything but a whole number of at least `least` with a ValueError that names it; True
    is none.
    """
    if isinstance(number, bool) or not isinstance(number, Integral) or number < least:
        raise ValueError(f"{name} must be a whole number of at least {least}; got {quoted(number)}")


def check_factor(factor: str) -> None:
    """Refuse a factor that is neither one of `FACTORS` nor registered with a ValueError."""
    if not isinstance(factor, str) or factor not in (*FACTORS, *OWN):
        raise ValueError(
            f"factor must be one of {', '.join((*FACTORS, *OWN))}; got {quoted(factor)}"
        )


def check_strength(strength: float | Tensor, heads: tuple[int, ...] | None = None) -> None:
    """Refuse a strength that is not a finite number >= 0, or a tensor of such, with a ValueError.

    A tensor may be learned, and training may leave NaN or infinity in it: these pass, and give NaN
    or the strongest messages that there are. `heads` is the leading shape (..., heads) that a tensor
    has to broadcast to; None skips that check.
    """
    if isinstance(strength, Tensor):
        _check_strengths(strength, heads)
    elif isinstance(strength, bool) or not isinstance(strength, Real):
        raise ValueError(
            f"strength must be a number or a floating tensor; got {type(strength).__name__}"
        )
    # or of numpy
    elif (
        not 0 <= (strength.item() if hasattr(strength, "item") else strength) <= sys.float_info.max
    ):
        raise ValueError(f"strength must be finite and not negative; got {quoted(strength)}")


def _check_strengths(strength: Tensor, heads: tuple[int, ...] | None) -> None:
    if strength.layout != torch.strided or strength.is_meta:
        raise ValueError(
            "strength must be a dense tensor that holds numbers; got a sparse or meta tensor"
        )
    if not strength.is_floating_point() or strength.dtype.itemsize < 2:
        raise ValueError(f"strength must be a floating tensor; got {strength.dtype}")
    if heads is not None and strength.numel() != 1:
        padded = (1,) * (len(heads) - strength.ndim) + tuple(strength.shape)
        if len(padded) != len(heads) or any(a not in (1, b) for a, b in zip(padded, heads)):
            raise ValueError(
                f"strength of shape {tuple(strength.shape)} does not broadcast to the heads {tuple(heads)}"
            )
    # reading them would break the graph
    if values_hidden():
        return
    if bool((strength < 0).any()):
        raise ValueError("strength must not be negative; the tensor holds an entry that is")


def check_shape(attention: Tensor) -> None:
    """Refuse anything but a dense floating tensor (..., L, L) with L >= 1 with a ValueError."""
    if not isinstance(attention, Tensor) or not attention.is_floating_point():
        kind = attention.dtype if isinstance(attention, Tensor) else type(attention).__name__
        raise ValueError(f"attention must be a floating tensor of probabilities; got {kind}")
    if attention.layout != torch.strided or attention.is_meta:
        raise ValueError(
            "attention must be a dense tensor that holds numbers; got a sparse or meta tensor"
        )
    if attention.ndim < 2 or attention.shape[-1] != attention.shape[-2] or not attention.shape[-1]:
        raise ValueError(
            f"attention must have shape (..., L, L), not empty; got {tuple(attention.shape)}"
        )


def check_masses(attention: Float[Tensor, "*batch query key"]) -> None:
    """Refuse scores, counts and weights after dropout with a ValueError; NaN passes, and what holds
    no values.
    """
    if (
        not values_hidden()
        and attention.numel()
        and bool((attention.sum(-1) > 1.02).any() | (attention < 0).any())
    ):
        cause = "a row sums to more than 1 or has a negative entry"
        raise ValueError(
            f"attention must hold probabilities: {cause}; pass the softmax, in eval mode"
        )


def check_rows(
    attention: Float[Tensor, "*batch query key"],
    visible: Bool[Tensor, "*#batch query key"],
    causal: bool,
) -> None:
    """Refuse a type without room for them, and rows that are no distributions over the visible
    keys, by ValueError.

    `visible` is True where a real query may look at a real key. Rows of padded queries are not
    looked at, and rows with NaN pass.
    """
    if attention.dtype not in ROW_TOLERANCE or not attention.numel():
        given = f"{attention.dtype} {tuple(attention.shape)}"
        raise ValueError(f"attention must be of 16 bits or more and not empty; got {given}")
    if values_hidden():
        return
    tolerance = ROW_TOLERANCE[attention.dtype]
    rows = visible.any(-1)
    seen = attention.detach().masked_fill(~visible, 0)
    if bool((seen < 0).any()):
        raise ValueError("attention must hold probabilities; it has a negative entry")

    def off(values: Tensor) -> float:
        gaps = (values.sum(-1, dtype=torch.float64) - 1).abs() * rows
        return gaps.masked_fill(gaps.isnan(), 0).max().item()

    if not (gap := off(seen)) <= tolerance:
        if causal and off(attention.detach()) <= tolerance:
            raise ValueError(
                "attention puts mass on future keys; with causal=True there may be none"
            )
        raise ValueError(
            f"attention rows must sum to 1 over the keys they may see; one is off by {gap:.3g} "
            f"(tolerance {tolerance:g}): pass probabilities before dropout, and the mask they were made with"
        )


def check_options(factor: str, steps: int, damping: float, seed: int, **switches: bool) -> None:
    """Refuse steps < 1, damping outside [0, 1), a seed that is no integer, switches that are no
    booleans.
    """
    for name, value in switches.items():
        if not isinstance(value, bool):
            raise ValueError(f"{name} must be True or False; got {quoted(value)}")
    check_whole("steps", steps, 1)
    if isinstance(damping, bool) or not isinstance(damping, Real) or not 0 <= damping < 1:
        raise ValueError(f"damping must lie in [0, 1); got {quoted(damping)}")
    if isinstance(seed, bool) or not isinstance(seed, Integral) or not -(2**63) <= seed < 2**63:
        raise ValueError(f"seed must be a whole number of 64 bits; got {quoted(seed)}")
    if factor in (*WITHOUT_MESSAGES, *OWN) and (steps != 1 or damping != 0):
        name = "steps" if steps != 1 else "damping"
        raise ValueError(f"{name} does not apply to factor {factor!r}, which sends no messages")
