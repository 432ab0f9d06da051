"""In what precision a model computes: bfloat16 while it trains where the processor has it, its own when measured."""

import contextlib
from collections.abc import Iterator

import torch
from torch import nn

KEPT = "_original_forward"  # where accelerate keeps the forward that it puts an autocast around


def bf16_is_native() -> bool:
    """Say whether the processor computes in bfloat16 itself; emulated, it is slower than float32."""
    if torch.cuda.is_available():
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def takes_bf16(precision: str) -> bool:
    """Say whether a recipe's precision ("auto", "bf16", "fp32") means bfloat16 autocast on this machine."""
    return precision == "bf16" or (precision == "auto" and bf16_is_native())


@contextlib.contextmanager
def own_precision(model: nn.Module) -> Iterator[None]:
    """Let a model that is being trained compute in the precision of its weights: no measurement on autocast's terms."""
    around = vars(model).get("forward")
    if KEPT in vars(model):
        model.forward = vars(model)[KEPT]
    try:
        yield
    finally:
        if around is not None:
            model.forward = around


def leave_autocast(model: nn.Module) -> None:
    """Take off the autocast that the Trainer leaves around a model's forward when training is over.

    With it a model would answer otherwise in the process that trained it than where its weights are loaded.
    """
    if KEPT in vars(model):
        model.forward = vars(model).pop(KEPT)
