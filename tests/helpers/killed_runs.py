"""Trains once to the end, then again and again under `kill -9` until it gets there; prints the
hashes of the weights.

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
from small_models import RECIPE, network, pretrain
from transformers import TrainerCallback


class Heartbeat(TrainerCallback):
    """Writes one byte a finished step into a pipe, so that the parent can kill at a step and not at
    a time.
    """

    def __init__(self, pipe: int):
        self.pipe = pipe

    def on_step_end(self, args, state, control, **kwargs):
        """Tell the parent."""
        os.write(self.pipe, b".")


def train(folder: Path, pipe: int) -> str:
    """Train, or continue, in this process and return the hash of the weights."""
    torch.set_num_threads(1)
    model = network(dropout=0.1)
    pretrain(model, folder, Heartbeat(pipe), measure=lambda model: {"loss": 1.0})
    state = {name: tensor.numpy().tobytes() for name, tensor in sorted(model.state_dict().items())}
    return hashlib.sha256(b"".join(state.values())).hexdigest()


def killed(folder: Path, result: Path, steps: int | None, delay: float = 0.0) -> bool:
    """Train in a child and kill it `delay` seconds after it took `steps` steps; say whether that
    was before its end.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        weights = train(folder, writer)
        result.with_suffix(".part").write_text(weights)
        result.with_suffix(".part").rename(result)
        os._exit(0)
    os.close(writer)
    taken = 0
    while (steps is None or taken < steps) and os.read(reader, 1):
        taken += 1
    if steps is not None:
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(reader)
    return not result.exists()


def main(folder: Path, runs: int, seed: int) -> None:
    """Print {"whole": hash, "killed": [hash of each killed run], "kills": [how often each was
    killed]}.
    """
    chance = random.Random(seed)
    folder.mkdir(exist_ok=True)
    start = time.perf_counter()
    killed(folder / "whole", folder / "whole.txt", None)
    step = (time.perf_counter() - start) / RECIPE.steps
    hashes, kills = [], []
    for run in range(runs):
        result, count = folder / f"{run}.txt", 0
        # twice somewhere in a run, before, while or after a checkpoint is written; then let it end
        for _ in range(2):
            count += killed(
                folder / str(run),
                result,
                chance.randint(1, RECIPE.steps // 3),
                chance.uniform(0, step),
            )
        if not result.exists():
            killed(folder / str(run), result, None)
        hashes.append(result.read_text())
        kills.append(count)
    print(
        json.dumps({"whole": (folder / "whole.txt").read_text(), "killed": hashes, "kills": kills})
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
