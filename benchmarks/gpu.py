"""Time refined attention on a GPU beside what one would use instead: `python benchmarks/gpu.py
[--compile]`.

Writes benchmarks/gpu.json: time and peak memory, forward and forward + backward, in bfloat16 and
float32. `--compile` adds FlexAttention. Two times are taken: of calls that wait in line, as the
layers of a model do, and of the GPU alone, which replays a call as a graph. Of short sequences the
first is that of the processor, which starts the kernels.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from attention import ways

from companion.cost.length import DIRECTIONS, forward_and_backward
from companion.cost.timing import circumstances, interleaved, peak_above_now
from companion.records import device
from companion.setup.paths import write_text
from saobp import saobp_attention
from saobp.fused import gpu

SHAPES = (
    (1, 4, 128, 64),
    (32, 4, 128, 64),
    (256, 4, 128, 64),
    (32, 4, 512, 64),
    (8, 4, 2048, 64),
    (8, 4, 4096, 64),
    (8, 4, 8192, 64),
)
MOST = {"literal": 2**28, "eager": 2**29, "compiled": 0}
"""Entries of all matrices beyond which a way is left out."""

IN_LINE_ONLY = ("literal",)
"""Ways whose gradient waits for the processor, so that no graph can replay it."""

FLEX = (512, 4096)
"""Lengths at which FlexAttention is timed: each takes some seconds to compile."""

CALLS, ROUNDS = 10, 15


def replayed(call: Callable[[], object]) -> Callable[[], object]:
    """Return what replays the GPU's part of a call."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def several(call: Callable[[], object], count: int) -> Callable[[], object]:
    """Return a number of calls in a row."""

    def calls() -> None:
        for _ in range(count):
            call()

    return calls


def times(calls: dict[str, Callable[[], object]], count: int) -> dict[str, dict[str, Any]]:
    """Time so many calls in a row, in turns; a time is that of one of them."""
    found = interleaved(calls, ROUNDS)
    for one in found.values():
        one["median_ms"] /= count
        one["fastest_ms"] /= count
        one["quartiles_ms"] = [end / count for end in one["quartiles_ms"]]
    return found


def shares(call: Callable[[], object]) -> dict[str, float]:
    """Return the microseconds that each kernel of a call takes."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as found:
        call()
        torch.cuda.synchronize()
    return {event.key[:60]: event.self_device_time_total for event in found.key_averages()}


def one_shape(shape: tuple[int, ...], dtype: torch.dtype, compiled: bool) -> list[dict[str, Any]]:
    """Time all ways in turns, in both directions; return a row for each."""
    entries = shape[0] * shape[1] * shape[2] ** 2
    known = {
        name: way for name, way in ways(compiled).items() if entries <= MOST.get(name, entries)
    }
    rows = {
        name: {"shape": list(shape), "dtype": str(dtype).removeprefix("torch."), "way": name}
        for name in known
    }
    count = max(1, min(CALLS, 2**28 // entries))
    for direction, prepare in DIRECTIONS.items():
        calls = {name: prepare(way, shape, dtype) for name, way in known.items()}
        peaks = {name: peak_above_now(call) for name, call in calls.items() if call() is not None}
        calls = {name: several(call, count) for name, call in calls.items()}
        in_line = times(calls, count)
        alone = times(
            {name: replayed(call) for name, call in calls.items() if name not in IN_LINE_ONLY},
            count,
        )
        for name in calls:
            rows[name][direction] = in_line[name] | {
                "peak_mib": peaks[name],
                "alone": alone.get(name),
            }
    return [*rows.values()]


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--compile", action="store_true", help="also time FlexAttention")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    if not torch.cuda.is_available():
        parser.exit(2, "gpu.py: torch finds no GPU here; attention.py times a processor\n")
    found: dict[str, Any] = {
        "device": device(),
        **circumstances(),
        "compiled": gpu.kernels() is not None,
        "rows": [],
    }
    for dtype in (torch.bfloat16, torch.float32):
        for shape in SHAPES:
            compiled = options.compile and dtype is torch.bfloat16 and shape[2] in FLEX
            found["rows"] += one_shape(shape, dtype, compiled)
            write_text(options.out, json.dumps(found, indent=1) + "\n")
            torch.cuda.empty_cache()
        high = forward_and_backward(saobp_attention, (8, 4, 4096, 64), dtype)
        found[f"kernels_{dtype}".replace("torch.", "")] = shares(high)
        write_text(options.out, json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
