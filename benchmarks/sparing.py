"""Time High with spared keys beside High: `python benchmarks/sparing.py`.

Writes benchmarks/sparing.json: a row for each shape, direction and way of sparing, with the ratio
to High of the same round, in time of the processor on one thread, which does not count what else
runs. Which keys have more than a share is told by their messages, which High works out anyway.
"""

import argparse
import json
import time
from functools import partial
from pathlib import Path

import torch

from companion.cost.length import DIRECTIONS
from companion.cost.timing import circumstances, interleaved
from companion.records import device
from companion.setup.paths import write_text
from saobp import saobp_attention

ROUNDS = {
    (32, 4, 128, 64): 61,
    (32, 4, 128, 32): 61,
    (1, 4, 512, 64): 201,
    (1, 4, 512, 32): 201,
}
"""Rounds of each shape (batch, heads, L, D)."""

SPARED = {"high": None, "first": "first", "edges": "edges", "share": 0.3}
"""Ways of sparing; the first is High, to which the others are compared."""


def rows_of(shape: tuple[int, ...], rounds: int) -> list[dict]:
    """Time all ways of sparing in turns, in both directions."""
    rows = []
    for direction, prepare in DIRECTIONS.items():
        calls = {
            name: prepare(partial(saobp_attention, spare=spare), shape)
            for name, spare in SPARED.items()
        }
        measured = interleaved(calls, rounds, clock=time.process_time)
        for name, times in measured.items():
            row = {"shape": list(shape), "threads": 1}
            rows.append(row | {"direction": direction, "spare": name, **times})
    return rows


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    measured = {"device": device(), **circumstances(), "rows": []}
    torch.set_num_threads(1)
    for shape, rounds in ROUNDS.items():
        measured["rows"] += rows_of(shape, rounds)
        write_text(options.out, json.dumps(measured, indent=1) + "\n")


if __name__ == "__main__":
    main()
