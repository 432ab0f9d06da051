"""Time BERT-Mini with refined attention against plain, training and inference: `python benchmarks/bert_step.py`.

Writes benchmarks/bert_step.json. A training step is 32 sequences of 128 tokens: forward, backward, clipping and AdamW,
in float32, vocabulary logits at masked positions only. Inference is the encoder without its vocabulary head. Plain is
transformers' `sdpa`, without a line of ours.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from saobp.study.cost.timing import THREADS, circumstances, interleaved
from saobp.study.cost.whole_model import batch, build, call_of
from saobp.study.setup.paths import write_text
from saobp.study.setup.records import device

BATCH, LENGTH, VOCABULARY = 32, 128, 30522
INFERENCE = {(1, 128): 201, (8, 128): 61, (32, 128): 21, (1, 512): 61}
"""Rounds of each batch of (sequences, tokens)."""


def measure(phase: str, size: tuple[int, int], dropout: float, ways: Sequence[str], rounds: int) -> dict:
    """Time the same model plain and refined, in turns."""
    inputs = batch(*size, VOCABULARY)
    calls = {way: call_of(phase, build("mini", VOCABULARY, way, dropout=dropout), inputs) for way in ways}
    return {"dropout": dropout, "batch": list(size), "ways": interleaved(calls, rounds)}


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=THREADS)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    found: dict[str, Any] = {"device": device(), **circumstances(), "batch": [BATCH, LENGTH], "vocabulary": VOCABULARY}
    for name, dropout in (("without_dropout", 0.0), ("with_dropout", 0.1)):
        found[name] = measure("train", (BATCH, LENGTH), dropout, ("original", "high", "elemmul"), 15)
    for size, rounds in INFERENCE.items():
        name = "inference_{}_x_{}".format(*size)
        found[name] = measure("inference", size, 0.0, ("original", "high", "low"), rounds)
    write_text(options.out, json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
