"""Pretrains a little model in as many processes as torchrun starts, and saves its weights from the first.

Run by test_training.py: torchrun --nproc-per-node N distributed_pretraining.py FOLDER ALGORITHM.
"""

import dataclasses
import os
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from small_models import RECIPE, RandomText, word_tokenizer

from saobp.study.data import masking
from saobp.study.training import architectures, regularizers, trainer

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    torch.set_num_threads(1)
    tokenizer = word_tokenizer()
    algorithm = sys.argv[2]
    network = architectures.refine_with(
        architectures.encoder("mini-twin", tokenizer, dropout=0.0, seed=1), algorithm, 0.2
    )
    regularizers.attach(network, algorithm, coefficient=1.0)  # strong, so that a share of it would be seen
    recipe = dataclasses.replace(RECIPE, steps=20, save_every=10)
    trainer.pretrain(
        network, RandomText(), masking.SeededMasking(tokenizer, 0.15, 1), recipe, folder=folder / "work", seed=1,
        measure=lambda model: {"loss": 1.0},
    )  # fmt: skip
    regularizers.detach(network)
    if os.environ.get("RANK", "0") == "0":
        save_file(
            {name: x.contiguous().clone() for name, x in network.state_dict().items()}, folder / "end.safetensors"
        )
