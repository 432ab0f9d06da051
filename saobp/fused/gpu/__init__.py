"""Refined attention on a GPU by Triton's kernels: no L x L matrix in either direction, and none in memory at all.

A sequence of at most `SHORT` tokens is one program a head; longer ones take three passes forward and four back. Numbers are
those of `saobp.fused.sweeps` up to rounding. Without Triton, or with SAOBP_NATIVE=0 in the environment, those serve.
"""

import os
from functools import cache
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from saobp.fused.heads import Call
from saobp.fused.operation import refuse_second_derivatives

SHORT = 128
"""Longest sequence whose matrix a program holds."""

WIDEST = 128
"""Widest heads that a tile has room for."""

TO_BITS = 1.4426950408889634
"""Of nats to units of log 2, in which a GPU takes powers."""


@cache
def kernels() -> dict[str, ModuleType] | None:
    """Return the modules of the kernels; None where they are switched off or there is no Triton."""
    if os.environ.get("SAOBP_NATIVE") == "0":
        return None
    try:
        from saobp.fused.gpu import backward, forward, short
    except ImportError:
        return None
    return {"backward": backward, "forward": forward, "short": short}


def serves(call: Call, query: Tensor, value: Tensor) -> bool:
    """Tell whether a call is one for the kernels: one strength of at most 0.5, no order, on a GPU."""
    return (
        query.device.type == "cuda"
        and call.change is not None
        and call.strongest <= 0.5
        and call.factor != "elemmul"
        and not call.causal
        and query.dtype in (torch.float32, torch.bfloat16, torch.float16)
        and max(query.shape[3], value.shape[3]) <= WIDEST
        and kernels() is not None
    )


class OnGpu(torch.autograd.Function):
    """Refined attention of query, key and value (batch, head, L, D) by the kernels."""

    @staticmethod
    def forward(ctx, call: Call, *inputs: Tensor) -> Tensor:
        results = attend(call, *inputs)
        ctx.save_for_backward(*inputs, *(results if len(results) > 1 else ()))
        ctx.call = call
        return results[0]

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple:
        refuse_second_derivatives()
        return None, *gradients(ctx.call, *ctx.saved_tensors, gradient)


class Launch:
    """A call's tensors and sizes as the kernels take them."""

    def __init__(self, call: Call, query: Tensor, key: Tensor, value: Tensor, *given: Tensor):
        self.tensors = [x if x.stride(-1) == 1 else x.contiguous() for x in (query, key, value, *given)]
        self.batch, self.heads, self.length, self.width = query.shape
        self.depth, self.scale, self.call = value.shape[3], call.scale, call
        bits = call.dropout and (call.dropout.query_bits, call.dropout.key_bits)
        nothing = self.tensors[0]  # where a kernel is told not to look
        self.real = nothing if call.real is None else call.real[:: self.heads].contiguous().view(torch.uint8)
        self.bits = bits or (nothing, nothing)
        self.drops = (call.dropout.threshold, 1 / (1 - call.dropout.probability)) if call.dropout else (0, 1.0)
        self.steps = [step for x in self.tensors for step in x.stride()[:3]]
        self.options = {
            "WIDTH": _room(self.width),
            "PADDED": call.real is not None,
            "PRECISION": "tf32x3" if query.dtype is torch.float32 else "tf32",
        }
        self.whole = {"DEPTH": _room(self.depth), "DROPS": call.dropout is not None, "OWN": not call.exclude_self}

    def grid(self, block: int) -> tuple[int, int]:
        """Return a program for each block of a head."""
        return -(-self.length // block), self.batch * self.heads

    def rows(self, depth: int, like: Tensor) -> Tensor:
        """Return room for (batch, head, L, depth), a token's heads side by side."""
        return like.new_empty(self.batch, self.length, self.heads, depth).transpose(1, 2)

    def numbers(self) -> Tensor:
        """Return room for a number of each row, (batch, head, L)."""
        return self.real.new_empty(self.batch, self.heads, self.length, dtype=torch.float32)


def _room(width: int) -> int:
    return max(16, 1 << (width - 1).bit_length())


def blocks(length: int, width: int, wide: bool, back: bool) -> dict[str, Any]:
    """Return how many queries and keys a tile has, and how many warps work on it."""
    size = 64 if wide or back or width > 64 else 128
    return {"QUERIES": size, "KEYS": 64, "num_warps": 4, "num_stages": 2 if wide else 3}


def attend(call: Call, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
    """Return the output (batch, head, L, D) and, of longer sequences, row sums, loads and normalisers (batch, head, L)."""
    of, made = Launch(call, query, key, value), kernels()
    (query, key, value), out = of.tensors, of.rows(of.depth, value)
    scale, sizes = call.scale * TO_BITS, (of.length, of.width, of.depth, of.heads)
    if of.length <= SHORT:
        made["short"].attend[of.grid(SHORT)](
            query, key, value, of.real, *of.bits, out, scale, call.change, *sizes, *of.drops, *of.steps,
            **of.options, **of.whole, **_one_tile(of, back=False),
        )  # fmt: skip
        return [out]
    sums, loads, normalisers = (of.numbers() for _ in range(3))
    tiles, forward = (
        blocks(of.length, max(of.width, of.depth), query.dtype is torch.float32, back=False),
        made["forward"],
    )
    asked = of.length, of.width, of.heads, *of.steps[:6]
    given = of.options | tiles
    forward.row_sums[of.grid(tiles["QUERIES"])](query, key, of.real, sums, scale, *asked, **given)
    forward.key_loads[of.grid(tiles["KEYS"])](query, key, of.real, sums, loads, scale, call.change, *asked, **given)
    forward.means[of.grid(tiles["QUERIES"])](
        query, key, value, of.real, *of.bits, sums, loads, normalisers, out, scale, call.change, *sizes, *of.drops,
        *of.steps, **given, **of.whole,
    )  # fmt: skip
    return [out, sums, loads, normalisers]


def gradients(call: Call, query: Tensor, key: Tensor, value: Tensor, *kept: Tensor) -> list[Tensor]:
    """Return the gradients of query, key and value from those three, the results of `attend` and the output's."""
    of, made = Launch(call, query, key, value, kept[-1]), kernels()
    results = [of.rows(x.shape[3], x) for x in (query, key, value)]
    scale, sizes = call.scale * TO_BITS, (of.length, of.width, of.depth, of.heads)
    if of.length <= SHORT:
        made["short"].gradients[of.grid(SHORT)](
            *of.tensors, of.real, *of.bits, *results, scale, call.scale, call.change, *sizes, *of.drops, *of.steps,
            **of.options, **of.whole, **_one_tile(of, back=True),
        )  # fmt: skip
        return results
    (mean, *sums, _), (dots, heard, rests) = kept, (of.numbers() for _ in range(3))
    tiles, backward = (
        blocks(of.length, max(of.width, of.depth), query.dtype is torch.float32, back=True),
        made["backward"],
    )
    options, grid = of.options | of.whole | tiles, of.grid(64)
    backward.products[grid](
        mean, of.tensors[3], dots, of.length, of.depth, of.heads, *of.steps[9:], QUERIES=64, DEPTH=of.whole["DEPTH"]
    )
    inputs, rest = (*of.tensors, of.real, *of.bits, *sums, dots, heard), (call.change, *sizes, *of.drops, *of.steps)
    backward.to_values[grid](*inputs, results[2], scale, *rest, **options)
    backward.to_queries[grid](*inputs, rests, results[0], scale, call.scale, *rest, **options)
    backward.to_keys[grid](*inputs, rests, results[1], scale, call.scale, *rest, **options)
    return results


def _one_tile(of: Launch, *, back: bool) -> dict[str, int]:
    places = _room(of.length)
    return {"PLACES": places, "num_warps": {16: 1, 32: 2, 64: 4, 128: 8}[places] * (2 if back and places == 128 else 1)}
