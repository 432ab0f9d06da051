"""Time a training step of BERT-Mini with refined attention against plain: `python benchmarks/bert_step.py`.

Writes benchmarks/bert_step.json. A step is 32 sequences of 128 tokens: forward, backward, clipping and AdamW,
in float32, vocabulary logits at masked positions only. Plain is transformers' `sdpa`, without a line of ours.
"""

import argparse
import json
from pathlib import Path

import torch

from saobp.study.cost.timing import THREADS, circumstances, interleaved
from saobp.study.cost.whole_model import batch, build, training_step
from saobp.study.setup.paths import write_text
from saobp.study.setup.records import device

BATCH, LENGTH, VOCABULARY = 32, 128, 30522
WAYS = ("original", "high", "elemmul")


def measure(dropout: float) -> dict:
    """Time steps of the same model plain and refined, at one dropout."""
    inputs = batch(BATCH, LENGTH, VOCABULARY)
    ways = {way: training_step(build("mini", VOCABULARY, way, dropout=dropout), inputs) for way in WAYS}
    return {"dropout": dropout, "ways": interleaved(ways)}


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    torch.set_num_threads(THREADS)
    found = {"device": device(), **circumstances(), "batch": [BATCH, LENGTH], "vocabulary": VOCABULARY}
    found |= {"without_dropout": measure(0.0), "with_dropout": measure(0.1)}
    text = json.dumps(found, indent=1)
    write_text(options.out, text + "\n")
    print(text)


if __name__ == "__main__":
    main()
