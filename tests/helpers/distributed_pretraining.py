"""Pretrains a little model in as many processes as torchrun starts, and saves its weights from the first.

Run by test_training.py: torchrun --nproc-per-node N distributed_pretraining.py FOLDER ALGORITHM.
"""

import os
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from small_models import network, pretrain

from saobp.study.training import regularizers

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    torch.set_num_threads(1)
    algorithm = sys.argv[2]
    model = regularizers.attach(network(algorithm), algorithm, coefficient=1.0)  # so strong that a share would be seen
    pretrain(model, folder / "work", steps=20, save_every=10, measure=lambda model: {"loss": 1.0})
    regularizers.detach(model)
    if os.environ.get("RANK", "0") == "0":
        weights = {name: values.contiguous().clone() for name, values in model.state_dict().items()}
        save_file(weights, folder / "end.safetensors")
