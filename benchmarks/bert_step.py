"""Time a training step of BERT-Mini with refined attention against plain: `python benchmarks/bert_step.py`.

Writes benchmarks/bert_step.json. A step is 32 sequences of 128 tokens: forward, backward, clipping and AdamW,
in float32, vocabulary logits at masked positions only. Plain is transformers' `sdpa`, without a line of ours.
"""

import argparse
import copy
import json
from collections.abc import Callable
from pathlib import Path

import torch
from timing import THREADS, circumstances, interleaved
from torch import Tensor, nn

import saobp
from saobp.study.models import SparseBertForMaskedLM, bert_config
from saobp.study.paths import write_text
from saobp.study.records import device

BATCH, LENGTH, VOCABULARY, MASKED = 32, 128, 30522, 0.15


def batch() -> dict[str, Tensor]:
    """Return random tokens, 15 % of which are to be predicted."""
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(VOCABULARY, (BATCH, LENGTH), generator=generator)
    chosen = torch.rand(tokens.shape, generator=generator) < MASKED
    return {"input_ids": tokens, "labels": tokens.masked_fill(~chosen, -100)}


def step(model: nn.Module) -> Callable[[], None]:
    """Return a training step of a model."""
    inputs, optimiser = batch(), torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def call() -> None:
        model(**inputs).loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()

    return call


def measure(dropout: float) -> dict:
    """Time steps of the same model plain and refined, at one dropout."""
    torch.manual_seed(0)
    plain = SparseBertForMaskedLM(bert_config("mini", VOCABULARY, dropout=dropout)).train()
    ways = {"original": step(plain)}
    for factor in ("high", "elemmul"):
        ways[factor] = step(saobp.apply(copy.deepcopy(plain), factor, 0.2))
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
