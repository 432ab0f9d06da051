"""Refined attention on a GPU, by Triton's kernels: no L x L matrix is kept, nor made.

A sequence of at most `SHORT` tokens is one program a head; longer ones take three passes forward
and four back. Numbers are those of `saobp.fused.tiled.sweeps` up to rounding. Without Triton, or
with SAOBP_NATIVE=0 in the environment, those serve.
"""

import math
import os
from functools import cache
from typing import Any

import torch
from torch import Tensor

from saobp.fused.operation import refuse_second_derivatives
from saobp.fused.tiled.heads import Call

DEVICE = "cuda"
"""Type of the devices that have the kernels."""

SHORT = 128
"""Longest sequence whose matrix a program holds."""

ROOM = 256
"""Bytes that a token of a sequence in one tile may have: a GPU's fast memory holds it four times.
"""

WIDEST = 128
"""Widest heads that a tile has room for."""

TO_BITS = math.log2(math.e)
"""Of nats to units of log 2, in which a GPU takes powers."""

ROUNDING = {torch.float32: 1e-7, torch.bfloat16: 1e-4, torch.float16: 1e-4}
"""Largest error of one over a message, in proportion."""


@cache
def kernels() -> dict[str, Any] | None:
    """Return the kernels by name; None where they are switched off or there is no Triton."""
    if os.environ.get("SAOBP_NATIVE") == "0":
        return None
    try:
        from saobp.fused.gpu import backward, forward, short
    except ImportError:
        return None
    return (
        vars(forward)
        | vars(backward)
        | {"attend_short": short.attend, "gradients_short": short.gradients}
    )


def serves(call: Call, query: Tensor, value: Tensor) -> bool:
    """Tell whether a call is one for the kernels: the common case, on a GPU."""
    return (
        query.device.type == DEVICE
        and call.is_common
        and query.dtype in ROUNDING
        and max(query.shape[3], value.shape[3]) <= WIDEST
        and kernels() is not None
    )


class OnGpu(torch.autograd.Function):
    """Refined attention of query, key and value (batch, head, L, D) by the kernels."""

    @staticmethod
    def forward(ctx, call: Call, *inputs: Tensor) -> Tensor:
        out, *sums = attend(call, *inputs)
        ctx.save_for_backward(*inputs, *([out, *sums] if sums else ()))
        ctx.call = call
        return out

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple:
        refuse_second_derivatives()
        return None, *gradients(ctx.call, *ctx.saved_tensors, gradient)


@cache
def line_of(change: float, error: float) -> tuple[float, float, int]:
    """Return slope and height of the line nearest to one over a message, and the Newton steps from
    it to an error.

    Messages lie between 1 and 1 + change; each step squares the line's error.
    """
    ends, middle = 1 + change, 1 + change / 2
    slope = 2 / (ends + middle**2)
    far = max(1 - slope * ends, 1e-12)
    return slope, 2 * middle * slope, max(0, math.ceil(math.log2(math.log(error) / math.log(far))))


class Launch:
    """A call's tensors, sizes and options as the kernels take them."""

    def __init__(self, call: Call, query: Tensor, key: Tensor, value: Tensor, *gradients: Tensor):
        self.inputs = [
            x if x.stride(-1) == 1 else x.contiguous() for x in (query, key, value, *gradients)
        ]
        self.batch, self.heads, self.length, self.width = query.shape
        self.depth, self.scale = value.shape[3], (call.scale * TO_BITS,)
        self.is_short = (
            self.length <= SHORT and max(self.width, self.depth) * query.element_size() <= ROOM
        )
        slope, height, steps = line_of(call.change, ROUNDING[query.dtype])
        self.lines = (call.change, slope, height)
        self.sizes = (self.length, self.width, self.depth, self.heads)
        # where nobody looks
        self.real, self.spared = self.inputs[0], self.inputs[0]
        self.bits, self.drops = self.inputs[:1] * 2, (0, 1.0)
        if call.spared is not None:
            self.spared = call.spared.contiguous().view(torch.uint8)
        if call.real is not None:
            self.real = call.real[:: self.heads].contiguous().view(torch.uint8)
        if call.dropout is not None:
            self.bits = [call.dropout.query_bits, call.dropout.key_bits]
            self.drops = (call.dropout.threshold, 1 / (1 - call.dropout.probability))
        self.spares = {"SPARES": call.spared is not None}
        self.steps = [step for x in self.inputs for step in x.stride()[:3]]
        self.tile = {"WIDTH": room(self.width), "PADDED": call.real is not None}
        self.tile["PRECISION"] = "tf32x3" if query.dtype is torch.float32 else "tf32"
        self.whole = {"DEPTH": room(self.depth), "STEPS": steps, "DROPS": call.dropout is not None}
        self.whole |= {"OWN": not call.exclude_self, **self.spares}

    def ragged(self, *blocks: int) -> bool:
        """Tell whether blocks of rows or columns reach beyond those of a head."""
        rest = any(self.length % block for block in blocks)
        return rest or self.width != self.tile["WIDTH"] or self.depth != self.whole["DEPTH"]

    def grid(self, block: int) -> tuple[int, int]:
        """Return a program for each block of a head."""
        return -(-self.length // block), self.batch * self.heads

    def rows(self, depth: int, like: Tensor) -> Tensor:
        """Return room for (batch, head, L, depth), a token's heads side by side."""
        return like.new_empty(self.batch, self.length, self.heads, depth).transpose(1, 2)

    def numbers(self, count: int) -> list[Tensor]:
        """Return room for as many numbers of each row, (batch, head, L) each."""
        return [
            *self.real.new_empty(count, self.batch, self.heads, self.length, dtype=torch.float32)
        ]

    def blocks(self, *, back: bool) -> dict[str, Any]:
        """Return how many queries and keys a tile has, and how many warps work on it."""
        wide = self.inputs[0].dtype is torch.float32
        queries = 64 if wide or back or max(self.width, self.depth) > 64 else 128
        options = {"QUERIES": queries, "KEYS": 64, "RAGGED": self.ragged(queries, 64)}
        return options | {"num_warps": 4, "num_stages": 1 if wide else 2}

    def one_block(self, *, back: bool) -> dict[str, Any]:
        """Return how many tokens a tile has that holds a sequence, and how many warps work on it.

        Forward, two programs share a multiprocessor where there are more of them: each has half of
        its registers.
        """
        places = room(self.length)
        options = {
            "PLACES": places,
            "RAGGED": self.ragged(places),
            "num_warps": max(1, places // 16),
        }
        several = (
            self.batch * self.heads > processors(self.real.device)
            and self.inputs[0].dtype is not torch.float32
        )
        return options | ({"maxnreg": 128} if places == SHORT and several and not back else {})


@cache
def processors(device: torch.device) -> int:
    """Return how many multiprocessors a GPU has."""
    return torch.cuda.get_device_properties(device).multi_processor_count


def room(width: int) -> int:
    """Return the power of two that a tile's side has."""
    return max(16, 1 << (width - 1).bit_length())


def attend(call: Call, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
    """Return the output (batch, head, L, D) and, where L is long, row sums, loads and normalisers
    (batch, head, L).
    """
    of, run = Launch(call, query, key, value), kernels()
    out, rest = of.rows(of.depth, value), (*of.scale, *of.lines, *of.sizes, *of.drops, *of.steps)
    if of.is_short:
        options = of.tile | of.whole | of.one_block(back=False)
        run["attend_short"][of.grid(SHORT)](
            *of.inputs, of.real, of.spared, *of.bits, out, *rest, **options
        )
        return [out]
    (sums, loads, normalisers), tile = of.numbers(3), of.tile | of.blocks(back=False)
    by_query, by_key = of.grid(tile["QUERIES"]), of.grid(tile["KEYS"])
    scores_of, sizes = (*of.inputs[:2], of.real), (of.length, of.width, of.heads, *of.steps[:6])
    run["row_sums"][by_query](*scores_of, sums, *of.scale, *sizes, **tile)
    run["key_loads"][by_key](
        *scores_of, of.spared, sums, loads, *of.scale, call.change, *sizes, **tile, **of.spares
    )
    run["means"][by_query](
        *of.inputs,
        of.real,
        of.spared,
        *of.bits,
        sums,
        loads,
        normalisers,
        out,
        *rest,
        **tile,
        **of.whole,
    )
    return [out, sums, loads, normalisers]


def gradients(call: Call, query: Tensor, key: Tensor, value: Tensor, *kept: Tensor) -> list[Tensor]:
    """Return the gradients of query, key and value from those three, what `attend` kept and the
    output's.
    """
    of, run = Launch(call, query, key, value, kept[-1]), kernels()
    results = to_query, to_key, to_value = [of.rows(x.shape[3], x) for x in (query, key, value)]
    rest = (*of.scale, call.scale, *of.lines, *of.sizes, *of.drops, *of.steps)
    if of.is_short:
        options = of.tile | of.whole | of.one_block(back=True)
        run["gradients_short"][of.grid(SHORT)](
            *of.inputs, of.real, of.spared, *of.bits, *results, *rest, **options
        )
        return results
    mean, *sums = kept[:-1]
    dots, heard, rests = of.numbers(3)
    options = of.tile | of.whole | of.blocks(back=True)
    by_query, by_key = of.grid(options["QUERIES"]), of.grid(options["KEYS"])
    inputs = (*of.inputs, of.real, of.spared, *of.bits, *sums, dots, heard)
    sizes = (of.length, of.depth, of.heads, *of.steps[9:])
    run["products"][by_query](
        mean, of.inputs[3], dots, *sizes, QUERIES=options["QUERIES"], DEPTH=options["DEPTH"]
    )
    run["to_values"][by_key](*inputs, to_value, *rest, **options)
    run["to_queries"][by_query](*inputs, rests, to_query, *rest, **options)
    run["to_keys"][by_key](*inputs, rests, to_key, *rest, **options)
    return results
