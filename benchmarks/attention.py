"""Time refined attention beside what one would use instead: `python benchmarks/attention.py
[--compile]`.

Writes benchmarks/attention.json: time and peak memory, forward and forward + backward, 128 to 8192
tokens. `--compile` adds FlexAttention and torch.compile of the operation at the first number of
threads; both need a C++ compiler. Also timed: why plain attention trains in float32 under autocast
on a CPU, and what High adds, as torch's operations.
"""

import argparse
import itertools
import json
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from companion.cost.length import DIRECTIONS, WAYS, forward, forward_and_backward, peak
from companion.cost.timing import THREADS, circumstances, fresh, interleaved
from companion.records import device
from companion.setup.paths import write_text
from saobp import saobp_attention
from saobp.fused.scores import in_quick_type

ROUNDS = {
    (1, 4, 128, 64): 101,
    (32, 4, 128, 64): 31,
    (1, 4, 512, 64): 51,
    (32, 4, 512, 64): 5,
    (1, 4, 2048, 64): 11,
    (32, 4, 2048, 64): 3,
    (1, 4, 8192, 64): 3,
}
"""Rounds of each shape (batch, heads, L, D)."""

LEAST = {(1, 4, 128, 64): 501, (1, 4, 512, 64): 201, (1, 4, 2048, 64): 31}
"""The same, of what High adds."""

MOST = {"literal": 2**24, "compiled": 2**24, "eager": 2**26}
"""Entries of a head's matrices, all sequences together, beyond which a way is left out: it would
keep ten GiB.
"""

PLAIN = ("sdpa", "eager", "literal", "high")


def ways(compiled: bool) -> dict[str, Callable[..., Tensor]]:
    """Return the ways by name; what a compiler needs is imported only here, since every process
    imports this file.
    """
    found = {name: WAYS[name] for name in PLAIN}
    if compiled:
        from torch.nn.attention.flex_attention import flex_attention

        found["flex"] = torch.compile(flex_attention, dynamic=False)
        found["compiled"] = torch.compile(saobp_attention, dynamic=False)
    return found


def one_shape(shape: tuple[int, ...], rounds: int, compiled: bool) -> list[dict]:
    """Time all ways in turns, in both directions; return a row for each."""
    entries, threads = shape[0] * shape[2] ** 2, torch.get_num_threads()
    known = {
        name: way for name, way in ways(compiled).items() if entries <= MOST.get(name, entries)
    }
    rows = {name: {"shape": list(shape), "threads": threads, "way": name} for name in known}
    for direction, prepare in DIRECTIONS.items():
        calls = {name: prepare(way, shape) for name, way in known.items()}
        calls = {name: call for name, call in calls.items() if name in PLAIN or runs(name, call)}
        for name, found in interleaved(calls, rounds, warm_up=min(rounds // 3, 3)).items():
            there = (peak, name, shape, direction, threads)
            rows[name][direction] = found | {
                "peak_mib": fresh(1, *there)[0] if name in PLAIN else None
            }
    for name, row in rows.items():
        row["finite"] = "forward" in row and bool(forward(known[name], shape)().isfinite().all())
    return [row for row in rows.values() if "forward" in row]


def runs(name: str, call: Callable[[], object]) -> bool:
    """Tell whether a compiled way runs here; FlexAttention has no gradient on a processor."""
    try:
        call()
    # whatever the compiler says
    except Exception as error:
        print(f"{name} left out: {str(error).splitlines()[0]}")
        return False
    return True


def in_bfloat16(*tensors: Tensor) -> Tensor:
    """Attend by torch's attention in bfloat16, as autocast would."""
    return scaled_dot_product_attention(*(tensor.bfloat16() for tensor in tensors)).float()


def widened(*tensors: Tensor) -> Tensor:
    """Attend on the same bfloat16 tensors as a model of ours does in training: in the quicker
    type.
    """
    narrow = (tensor.bfloat16() for tensor in tensors)
    return scaled_dot_product_attention(*in_quick_type(*narrow)).bfloat16().float()


def autocast(shape: tuple[int, ...] = (64, 4, 64, 32)) -> dict:
    """Time plain attention on bfloat16 tensors, widened and as they are, in turns."""
    ways = {"widened": widened, "bfloat16": in_bfloat16}
    calls = {name: forward_and_backward(way, shape) for name, way in ways.items()}
    return {"shape": list(shape), "ways": interleaved(calls)}


def least(shape: tuple[int, ...], rounds: int) -> dict:
    """Time what High adds, as torch's operations on one thread: a message, a column product and a
    division per entry.

    Of more than 512 tokens some rows of a head at a time, which stay in the cache.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    heads, length = shape[0] * shape[1], shape[2]
    together, rows = (heads, length) if length <= 512 else (1, 2**18 // length)
    matrix, room = torch.rand(2, together, rows, length)
    load, said = torch.empty(2, together, 1, length)

    def passes() -> None:
        load.fill_(1)
        for _ in range(heads // together * length // rows):
            torch.mul(matrix, 0.2, out=room).add_(1)
            torch.prod(room, -2, keepdim=True, out=said)
            load.mul_(said)
            torch.div(matrix, room, out=room)

    ways = {"sdpa": forward(scaled_dot_product_attention, shape), "passes": passes}
    ways |= {"high": forward(saobp_attention, shape)}
    found = {
        "device": device(),
        **circumstances(),
        "shape": list(shape),
        "ways": interleaved(ways, rounds),
    }
    torch.set_num_threads(threads)
    return found


def every_least() -> list[dict]:
    """Return `least` of each of its shapes."""
    return [least(shape, rounds) for shape, rounds in LEAST.items()]


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--compile", action="store_true", help="also time FlexAttention and torch.compile of ours"
    )
    parser.add_argument("--threads", type=int, nargs="+", default=[THREADS, 1])
    parser.add_argument("--longest", type=int, default=8192, help="leave out longer sequences")
    parser.add_argument(
        "--least", action="store_true", help="time the least alone, and keep the rest of the file"
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    if options.least:
        write_text(
            options.out,
            json.dumps(json.loads(options.out.read_text()) | {"least": every_least()}, indent=1)
            + "\n",
        )
        return
    torch.set_num_threads(options.threads[0])
    found = {
        "device": device(),
        **circumstances(),
        "rows": [],
        "bfloat16": autocast(),
        "least": every_least(),
    }
    for threads, (shape, rounds) in itertools.product(options.threads, ROUNDS.items()):
        if shape[2] <= options.longest:
            torch.set_num_threads(threads)
            found["rows"] += one_shape(
                shape, rounds, options.compile and threads == options.threads[0]
            )
            write_text(options.out, json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
