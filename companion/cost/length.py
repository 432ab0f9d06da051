"""Time and memory of attention, forward and backward, against length: fused, materialised, and
torch's own.
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from companion.cost import timing
from saobp import refine, saobp_attention

HEADS, HEAD_WIDTH = 4, 64


def eager(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Attend without refinement, the matrix spelled out."""
    return (query @ key.mT / query.shape[-1] ** 0.5).softmax(-1) @ value


def literal(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Refine as Algorithm 1 is printed, its loops vectorised; the product overflows float32 in long
    sequences.
    """
    attention = (query @ key.mT / query.shape[-1] ** 0.5).softmax(-1)
    grown = math.exp(0.2)
    messages = grown * attention.sum(-1, keepdim=True) + (1 - grown) * attention
    belief = attention * (messages.prod(-2, keepdim=True) / messages)
    return (belief / belief.sum(-1, keepdim=True)) @ value


def materialised(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Refine the whole matrix and let autograd keep what it wants."""
    return refine((query @ key.mT / query.shape[-1] ** 0.5).softmax(-1)) @ value


Attend, Shape = Callable[..., Tensor], tuple[int, ...]
WAYS: dict[str, Attend] = {"sdpa": scaled_dot_product_attention, "high": saobp_attention}
WAYS |= {way.__name__: way for way in (eager, literal, materialised)}


def _inputs(shape: Shape, count: int, dtype: torch.dtype) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator).to(timing.place(), dtype) for _ in range(count)]


def forward_and_backward(
    attend: Attend, shape: Shape, dtype: torch.dtype = torch.float32
) -> Callable[[], object]:
    """Return a call of an attention and its gradient on random inputs."""
    *inputs, upstream = _inputs(shape, 4, dtype)
    inputs = [x.requires_grad_() for x in inputs]
    return lambda: torch.autograd.grad(attend(*inputs), inputs, upstream)


def forward(
    attend: Attend, shape: Shape, dtype: torch.dtype = torch.float32
) -> Callable[[], Tensor]:
    """Return a call of an attention on the same random inputs, which want no gradient."""
    inputs = _inputs(shape, 3, dtype)
    return torch.inference_mode()(lambda: attend(*inputs))


DIRECTIONS = {"forward": forward, "forward_and_backward": forward_and_backward}


def peak(
    way: str, shape: Shape, direction: str = "forward_and_backward", threads: int = timing.THREADS
) -> float:
    """Measure the peak here, after a small call that loads what is loaded once."""
    torch.set_num_threads(threads)
    DIRECTIONS[direction](WAYS[way], (1, HEADS, 64, HEAD_WIDTH))()
    return timing.peak_above_now(DIRECTIONS[direction](WAYS[way], shape))


def by_length(
    lengths: Sequence[int], ways: Sequence[str], rounds: int, longest_materialised: int = 2048
) -> list[dict]:
    """Return one row a length and way: what `timing.interleaved` and `in_processes` (peak MiB)
    give, and the kernel.

    The materialised way stops at `longest_materialised`: it keeps several L x L matrices a head.
    """
    rows = []
    for length in lengths:
        shown = [way for way in ways if way != "materialised" or length <= longest_materialised]
        shape = (1, HEADS, length, HEAD_WIDTH)
        calls = {way: forward_and_backward(WAYS[way], shape) for way in shown}
        against = [way for way in shown if way in (ways[0], "materialised")]
        for way, numbers in timing.interleaved(calls, rounds, against=against).items():
            numbers |= {
                "kernel": timing.attention_kernel(calls[way]),
                "peak_mib": timing.in_processes(peak, way, shape),
            }
            rows.append({"length": length, "way": way, **numbers})
    return rows
