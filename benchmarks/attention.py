"""Time refined attention, forward and backward, beside torch's: `python benchmarks/attention.py [--compile]`.

Writes benchmarks/attention.json. `--compile` also times torch.compile of the operation; it needs a compiler.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from timing import THREADS, circumstances, interleaved, peak_above_now, profile
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from saobp import refine, saobp_attention
from saobp.study.paths import write_text
from saobp.study.records import device

SHAPES = {"short": (32, 4, 128, 64), "long": (1, 4, 4096, 64)}


def materialised(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Refine the whole matrix and let autograd keep what it wants."""
    return refine((query @ key.mT / query.shape[-1] ** 0.5).softmax(-1)) @ value


WAYS: dict[str, Callable[..., Tensor]] = {
    "sdpa": scaled_dot_product_attention,
    "high": saobp_attention,
    "low": partial(saobp_attention, factor="low"),
    "elemmul": partial(saobp_attention, factor="elemmul"),
    "materialised": materialised,
}


def forward_and_backward(attend: Callable[..., Tensor], shape: tuple[int, ...]) -> Callable[[], object]:
    """Return a call of an attention and its gradient on random inputs, the same for every attention."""
    generator = torch.Generator().manual_seed(0)
    *inputs, upstream = (torch.randn(shape, generator=generator) for _ in range(4))
    inputs = [x.requires_grad_() for x in inputs]
    return lambda: torch.autograd.grad(attend(*inputs), inputs, upstream)


def times(shape: tuple[int, ...], compiled: bool, names: list[str]) -> dict:
    """Time the named ways on one shape."""
    ways = {name: forward_and_backward(WAYS[name], shape) for name in names}
    if compiled:
        ways["compiled"] = forward_and_backward(torch.compile(saobp_attention, dynamic=False), shape)
    found = interleaved(ways)
    return {"shape": list(shape), "ways": found, "profile_of_high": profile(ways["high"])}


def memory(name: str, length: int) -> float:
    """Measure peak memory of a way in a process of its own, in MiB above the inputs."""
    command = [sys.executable, __file__, "--peak", name, str(length)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def peak(name: str, length: int) -> float:
    """Measure peak memory here, after a small call that loads what is loaded once."""
    forward_and_backward(WAYS[name], (1, 4, 64, 64))()
    return peak_above_now(forward_and_backward(WAYS[name], (1, 4, length, 64)))


def measure(compiled: bool) -> dict:
    """Measure times and memory."""
    few = ["sdpa", "high", "low", "elemmul"]
    peaks = {f"{name}_{length}": memory(name, length) for name in ("sdpa", "high") for length in (4096, 8192)}
    peaks["materialised_4096"] = memory("materialised", 4096)
    return {
        "device": device(),
        **circumstances(),
        "short": times(SHAPES["short"], compiled, [*few, "materialised"]),
        "long": times(SHAPES["long"], compiled, few),
        "peak_mib": peaks,
        "peak_share_of_materialised": peaks["high_4096"] / peaks["materialised_4096"],
        "peak_growth_4096_to_8192": peaks["high_8192"] / peaks["high_4096"],
    }


def main() -> None:
    """Measure and write, or measure one peak for the process that asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compile", action="store_true", help="also time torch.compile of the operation")
    parser.add_argument("--peak", nargs=2, metavar=("WAY", "LENGTH"), help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    torch.set_num_threads(THREADS)
    if options.peak:
        print(peak(options.peak[0], int(options.peak[1])))
        return
    text = json.dumps(measure(options.compile), indent=1)
    write_text(options.out, text + "\n")
    print(text)


if __name__ == "__main__":
    main()
