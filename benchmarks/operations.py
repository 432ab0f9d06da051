"""Say where the time of an attention goes: `python benchmarks/operations.py NAME`, adding a profile
to operations.csv.

It imports torch and `saobp.saobp_attention` alone, so that it runs on an earlier commit, too:
PYTHONPATH names the code that is looked at, NAME how it is called.
"""

import argparse
import csv
from pathlib import Path

import torch
from torch.nn.functional import scaled_dot_product_attention
from torch.profiler import ProfilerActivity, profile, record_function

from saobp import saobp_attention

SHAPES = ((1, 4, 128, 64), (32, 4, 128, 64), (1, 4, 2048, 64))
BY = ("code", "way", "shape", "direction", "operation", "calls", "us")
# calls that are looked at; share of the time from which an operation has a row
CALLS, LEAST = 20, 0.02
# what runs between torch's operations
OWN = "Python, and compiled passes"


def operations(way, shape: tuple[int, ...], backward: bool) -> dict[str, tuple[float, float]]:
    """Return how often a call uses each operation, and the microseconds that these take."""
    inputs = [torch.randn(shape, requires_grad=backward) for _ in range(3)]

    def call() -> None:
        with record_function(OWN), torch.set_grad_enabled(backward):
            out = way(*inputs)
            if backward:
                out.sum().backward()

    for _ in range(3):
        call()
    with profile(activities=[ProfilerActivity.CPU]) as found:
        for _ in range(CALLS):
            call()
    return {
        event.key: (event.count / CALLS, event.self_cpu_time_total / CALLS)
        for event in found.key_averages()
    }


def main() -> None:
    """Look and add."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", help="what the code is called, such as its commit")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".csv"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    ways = {"sdpa": scaled_dot_product_attention, "high": saobp_attention}
    rows = []
    for shape in SHAPES:
        for backward in (False, True):
            for name, way in ways.items():
                found = operations(way, shape, backward)
                whole = sum(us for _, us in found.values())
                direction = "forward + backward" if backward else "forward"
                for key, (calls, us) in sorted(found.items(), key=lambda one: -one[1][1]):
                    if us > LEAST * whole:
                        size = " × ".join(map(str, shape))
                        rows.append(
                            (options.name, name, size, direction, key, f"{calls:g}", f"{us:.1f}")
                        )
    new = not options.out.exists()
    with options.out.open("a", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerows([BY, *rows] if new else rows)


if __name__ == "__main__":
    main()
