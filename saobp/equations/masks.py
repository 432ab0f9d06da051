"""Which masks are refused, and what an additive mask hides.

A mask of tokens is boolean, True for a real token. A mask of pairs is (batch or 1, head or 1, query or
1, key): boolean, True where a query may look at a key, or added to the scores (`shown_by`).
"""

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from saobp.equations.checks import values_hidden

HIDES = -5000.0
"""An additive mask hides a pair at this number and below, as all that is in use for hiding does: -inf,
the lowest number of any type, also cast to another, -1e9 and -1e4, also rounded to bfloat16 or beside a
bias. What lies above is a bias, however low.
"""


def check_boolean(mask: Tensor) -> None:
    """Refuse anything but a boolean tensor with a ValueError."""
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        kind = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise ValueError(
            f"mask must be a boolean tensor, True for a real token (mask.bool()); got {kind}"
        )


def check_tokens(mask: Tensor, tokens: int) -> None:
    """Refuse a mask that is not boolean, of one entry a token."""
    check_boolean(mask)
    if tuple(mask.shape) != (tokens,):
        raise ValueError(f"mask must have shape ({tokens},); got {tuple(mask.shape)}")


def check_mask(mask: Tensor, attention: Tensor) -> None:
    """Refuse a mask that is not boolean, (L,) or (batch, L), with a real token in each row."""
    check_boolean(mask)
    shapes = [(attention.shape[-1],)]
    if attention.ndim > 2:
        shapes.append((attention.shape[0], attention.shape[-1]))
    if tuple(mask.shape) not in shapes:
        expected = " or ".join(map(str, shapes))
        raise ValueError(f"mask must have shape {expected}; got {tuple(mask.shape)}")
    if not values_hidden() and not bool(mask.any(-1).all()):
        raise ValueError("mask must leave at least one real token in every sequence; one has none")


def refuse_padding(mask: Tensor | None, keys: int) -> None:
    """Raise ValueError unless a mask of tokens says of each key whether it is one."""
    # transformers would take it for a padding mask all the same
    if mask is not None and mask.ndim != 2:
        wrong = f"shape {tuple(mask.shape)}"
    # some decoders flatten (batch, query, key) to (batch, key)
    elif mask is not None and mask.shape[-1] > keys:
        wrong = f"{mask.shape[-1]} entries a sequence for {keys} keys"
    else:
        return
    form = "give (batch, key) for padding, or (batch, head or 1, query, key) for pairs"
    raise ValueError(f"attention_mask: has {wrong}; {form}")


def refuse_mask(module: nn.Module, mask: Any, query: Tensor, key: Tensor) -> None:
    """Raise ValueError unless a mask says of each query and key whether one may look at the
    other.
    """
    if mask is None:
        return
    name, (batch, heads, queries), keys = type(module).__name__, query.shape[:3], key.shape[2]
    shape = tuple(mask.shape) if isinstance(mask, Tensor) else None
    if shape is None or len(shape) != 4:
        kind = type(mask).__name__ if shape is None else f"a mask of shape {shape}"
        raise ValueError(
            f"attention_mask: {name} was handed {kind}; saobp needs (batch, head or 1, query, key)"
        )
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise ValueError(
            f"attention_mask: {name} was handed {mask.dtype} in four dimensions; "
            "make it boolean (True: may look) or add 0 and -inf"
        )
    fits = [size in (1, full) for size, full in zip(shape, (batch, heads, queries))]
    if not all(fits) or shape[3] != keys:
        raise ValueError(
            f"attention_mask: {name} was handed shape {shape}; "
            f"it must broadcast to (batch {batch}, heads {heads}, queries {queries}) and have {keys} keys"
        )


def check_pairs_of(mask: Tensor, query: Tensor) -> None:
    """Refuse a mask of pairs of another shape, or that is neither boolean nor added to scores."""
    batch, heads, length, _ = query.shape
    fits = all(size in (1, full) for size, full in zip(mask.shape, (batch, heads, length)))
    if not fits or mask.shape[-1] != length:
        raise ValueError(
            f"mask must have shape ({length},), ({batch}, {length}) or ({batch} or 1, {heads} or 1, "
            f"{length} or 1, {length}); got {tuple(mask.shape)}"
        )
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise ValueError(f"mask must be boolean or added to the scores; got {mask.dtype}")
    if mask.is_floating_point() and bool((mask.isnan() | mask.isposinf()).any()):
        raise ValueError("mask: holds NaN or +inf; add 0 where a query may look and -inf elsewhere")


def shown_by(
    mask: Float[Tensor, "#batch #head #query key"],
) -> Bool[Tensor, "#batch #head #query key"]:
    """Return True where an additive mask shows a key; `HIDES` and below hide it.

    Everything else is a bias and counts as it stands: a query whose number is -100 may still look,
    sends and receives messages, and a row of that number alone is plain attention. Who means to hide
    writes -inf, or a boolean mask.
    """
    return mask > HIDES


def check_pairs(mask: Tensor) -> None:
    """Refuse a mask of pairs, boolean or additive, (batch, head, query, key), that does not say
    which keys are hidden or which tokens are padding, with a ValueError.
    """
    if mask.is_floating_point():
        check_values(mask)
    queries, keys = mask.shape[-2:]
    # a row for every query, or for one
    if queries == 1 or keys < queries:
        return
    allowed = mask if mask.dtype == torch.bool else shown_by(mask)
    hidden = ~real_queries(allowed)[..., None, :]
    if bool((allowed[..., keys - queries :] & hidden).any()):
        raise ValueError(
            "attention_mask: hides a token from itself that others may look at; saobp would take it for padding"
        )


def check_values(mask: Tensor) -> None:
    """Refuse an additive mask with NaN or +inf with a ValueError."""
    if bool((mask.isnan() | mask.isposinf()).any()):
        raise ValueError(
            "attention_mask: holds NaN or +inf; add 0 where a query may look and -inf where it may not"
        )


def real_queries(
    allowed: Bool[Tensor, "#batch #head query key"],
) -> Bool[Tensor, "#batch #head query"]:
    """Return which queries are tokens: those that may look at themselves.

    A padded query has its own key masked, whatever else its row holds.
    """
    queries, keys = allowed.shape[-2:]
    rows = torch.arange(queries, device=allowed.device)
    # not a diagonal, which the TorchScript exporter of ONNX knows of numbers alone
    return allowed[..., rows, rows + keys - queries]
