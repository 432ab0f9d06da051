"""Trains once to the end, then again and again under `kill -9` until it gets there; prints the hashes of the weights.

Run by test_training.py in a process of its own: python killed_runs.py FOLDER RUNS SEED.
"""

import hashlib
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import torch
from small_models import RECIPE, RandomText, word_tokenizer

from saobp.study import models, training


def train(folder: Path) -> str:
    """Train, or continue, in this process and return the hash of the weights."""
    torch.set_num_threads(1)
    tokenizer = word_tokenizer()
    network = models.refine_with(models.encoder("mini-twin", tokenizer, dropout=0.1, seed=1), "high", 0.2)
    masking = training.SeededMasking(tokenizer, 0.15, 1)
    text = RandomText()
    training.pretrain(network, text, masking, RECIPE, folder=folder, seed=1, measure=lambda model: {"loss": 1.0})
    state = {name: tensor.numpy().tobytes() for name, tensor in sorted(network.state_dict().items())}
    return hashlib.sha256(b"".join(state.values())).hexdigest()


def killed_after(seconds: float, folder: Path, result: Path) -> bool:
    """Train in a child, kill it after `seconds`, and say whether it was killed before it had finished."""
    child = os.fork()
    if child == 0:
        result.write_text(train(folder))
        os._exit(0)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return not result.exists()


def main(folder: Path, runs: int, seed: int) -> None:
    """Print {"whole": hash, "killed": [hash of each killed run], "kills": [how often each was killed]}."""
    start = time.perf_counter()
    chance = random.Random(seed)
    folder.mkdir(exist_ok=True)
    child = os.fork()
    if child == 0:
        (folder / "whole.txt").write_text(train(folder / "whole"))
        os._exit(0)
    os.waitpid(child, 0)
    duration = time.perf_counter() - start
    hashes, kills = [], []
    for run in range(runs):
        count, result = 0, folder / f"{run}.txt"
        while killed_after(duration * chance.uniform(0.3, 0.9) * (1 + count / 2), folder / str(run), result):
            count += 1
        hashes.append(result.read_text())
        kills.append(count)
    print(json.dumps({"whole": (folder / "whole.txt").read_text(), "killed": hashes, "kills": kills}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
