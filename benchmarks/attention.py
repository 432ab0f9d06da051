"""Time refined attention, forward and backward, beside torch's: `python benchmarks/attention.py [--compile]`.

Writes benchmarks/attention.json. `--compile` also times torch.compile of the operation; it needs a compiler.
Also timed is why plain attention trains in float32 under autocast on a CPU.
"""

import argparse
import json
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from saobp import saobp_attention
from saobp.fused.scores import in_quick_type
from saobp.study.cost.length import WAYS, forward_and_backward, memory
from saobp.study.cost.timing import THREADS, circumstances, interleaved, profile
from saobp.study.setup.paths import write_text
from saobp.study.setup.records import device

SHAPES = {"short": (32, 4, 128, 64), "long": (1, 4, 4096, 64), "bfloat16": (64, 4, 64, 32)}


def times(shape: tuple[int, ...], compiled: bool, names: list[str]) -> dict:
    """Time each of the named ways on one shape, in turns with sdpa and nothing else between."""
    ways = {name: forward_and_backward(WAYS[name], shape) for name in names}
    if compiled:
        ways["compiled"] = forward_and_backward(torch.compile(saobp_attention, dynamic=False), shape)
    base = forward_and_backward(WAYS["sdpa"], shape)
    pairs = {name: interleaved({"sdpa": base, name: way}) for name, way in ways.items()}
    found = {"sdpa": pairs["high"]["sdpa"]} | {name: pair[name] for name, pair in pairs.items()}
    return {"shape": list(shape), "ways": found, "profile_of_high": profile(ways["high"])}


def in_bfloat16(*tensors: Tensor) -> Tensor:
    """Attend by torch's attention in bfloat16, as autocast would."""
    return scaled_dot_product_attention(*(tensor.bfloat16() for tensor in tensors)).float()


def widened(*tensors: Tensor) -> Tensor:
    """Attend on the same bfloat16 tensors as a model of ours does in training: in the quicker type."""
    narrow = (tensor.bfloat16() for tensor in tensors)
    return scaled_dot_product_attention(*in_quick_type(*narrow)).bfloat16().float()


def autocast(shape: tuple[int, ...]) -> dict:
    """Time plain attention on bfloat16 tensors, widened and as they are, in turns."""
    ways = {"widened": widened, "bfloat16": in_bfloat16}
    return {
        "shape": list(shape),
        "ways": interleaved({name: forward_and_backward(way, shape) for name, way in ways.items()}),
    }


def measure(compiled: bool) -> dict:
    """Measure times and memory."""
    few = ["high", "low", "elemmul"]
    peaks = {f"{name}_{length}": memory(name, length) for name in ("sdpa", "high") for length in (4096, 8192)}
    peaks["materialised_4096"] = memory("materialised", 4096)
    medians = {name: peak["median"] for name, peak in peaks.items()}
    return {
        "device": device(),
        **circumstances(),
        "short": times(SHAPES["short"], compiled, [*few, "materialised"]),
        "long": times(SHAPES["long"], compiled, few),
        "bfloat16": autocast(SHAPES["bfloat16"]),
        "peak_mib": peaks,
        "peak_share_of_materialised": medians["high_4096"] / medians["materialised_4096"],
        "peak_growth_4096_to_8192": medians["high_8192"] / medians["high_4096"],
    }


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compile", action="store_true", help="also time torch.compile of the operation")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    torch.set_num_threads(THREADS)
    text = json.dumps(measure(options.compile), indent=1)
    write_text(options.out, text + "\n")
    print(text)


if __name__ == "__main__":
    main()
