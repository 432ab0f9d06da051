"""Pretrains a little model in two processes, told of each other as torchrun tells them; the first
saves its weights.

Run by test_pretraining.py: python distributed_pretraining.py FOLDER. Both are forked with their
imports done.
"""

import os
import socket
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from small_models import network, pretrain
from torch.multiprocessing import start_processes

from companion.training import regularizers

PROCESSES = 2


def train(folder: Path) -> dict[str, torch.Tensor]:
    """Train twenty steps with a penalty so strong that a share of it would be seen; return the
    weights.
    """
    torch.set_num_threads(1)
    model = regularizers.attach(network("eigen_reg"), "eigen_reg", coefficient=1.0)
    more = {
        "scheduler": "constant_with_warmup",
        "learning_rate": 2e-3,
        "measure": lambda model: {"loss": 1.0},
    }
    pretrain(model, folder / "work", steps=20, save_every=10, **more)
    regularizers.detach(model)
    return {name: values.contiguous().clone() for name, values in model.state_dict().items()}


def member(rank: int, port: int, folder: Path) -> None:
    """Be one of the processes; leave `ready-RANK` before training begins."""
    places = {
        "RANK": rank,
        "LOCAL_RANK": rank,
        "WORLD_SIZE": PROCESSES,
        "LOCAL_WORLD_SIZE": PROCESSES,
    }
    os.environ |= {name: str(value) for name, value in places.items()}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    (folder / f"ready-{rank}").touch()
    weights = train(folder)
    if rank == 0:
        save_file(weights, folder / "end.safetensors")


def main(folder: Path) -> None:
    """Fork the processes and wait for them; an error if one of them failed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    start_processes(member, (port, folder), PROCESSES, start_method="fork")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
