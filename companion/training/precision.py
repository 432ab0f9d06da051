"""On what, in how many processes and in what precision a model trains: of two precisions in the
faster.
"""

import copy
import json
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

import torch
from accelerate import PartialState
from filelock import FileLock
from torch import Tensor, nn

from companion import records
from companion.setup import paths
from companion.training import regularizers

# timed in each precision, in turns, after one that is not
STEPS = 3


@dataclass(frozen=True)
class Precision:
    """What a model trains in, and why: "recipe", "no bfloat16" on the processor, or the `seconds`
    of a step in each.
    """

    # "bf16" (autocast) or "fp32"
    name: str
    reason: str
    seconds: dict[str, float] = field(default_factory=dict)


def place() -> torch.device:
    """Return where the Trainer puts a model: on the accelerator, if there is one."""
    return torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")


def processes() -> PartialState:
    """Return Accelerate's view of who shares a run: `num_processes`, `is_main_process`,
    `wait_for_everyone()`.
    """
    return PartialState(cpu=place().type == "cpu")


def has_bf16() -> bool:
    """Say whether the processor claims to compute in bfloat16; one that does may be slower in it
    than in float32.
    """
    if torch.cuda.is_available():
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def choose(wanted: str, model: nn.Module, batch: Mapping[str, Tensor]) -> Precision:
    """Return what to train a model in: what its recipe says ("bf16", "fp32"), or of "auto" the
    faster on this machine.

    Both are timed once for a machine and a shape; runs that start together share the times, in the
    build's cache.
    """
    if wanted != "auto":
        return Precision(wanted, "recipe")
    if not has_bf16():
        return Precision("fp32", "no bfloat16")
    file = paths.cache() / "precision.json"
    trained = (
        weight
        for name, weight in model.named_parameters()
        if not name.startswith(regularizers.NAME)
    )
    # of a penalty's model as of the others beside it
    weights = sum(weight.numel() for weight in trained)
    shape, device = "x".join(map(str, batch["input_ids"].shape)), records.device()["name"]
    key = f"{device}, {torch.get_num_threads()} threads, {type(model).__name__} {weights}, {shape}"
    with FileLock(paths.own_folder(file.parent) / "precision.lock"):
        known = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
        if key not in known:
            seconds = timed(model, batch)
            known[key] = asdict(Precision(min(seconds, key=seconds.get), "faster", seconds))
            paths.write_text(file, json.dumps(known, indent=1))
    return Precision(**known[key])


def timed(
    model: nn.Module, batch: Mapping[str, Tensor], names: Sequence[str] = ("fp32", "bf16")
) -> dict[str, float]:
    """Return the median seconds of a training step (forward and backward) in each precision, on a
    copy of a model.
    """
    device, seconds = place(), {name: [] for name in names}
    given = {name: values.to(device) for name, values in batch.items()}
    probe = copy.deepcopy(model).to(device).train()
    with torch.random.fork_rng():
        for _ in range(1 + STEPS):
            for name, taken in seconds.items():
                start = time.perf_counter()
                with torch.autocast(device.type, torch.bfloat16, enabled=name == "bf16"):
                    loss = probe(**given)["loss"]
                loss.backward()
                # a GPU has finished when it hands over a number
                loss.item()
                taken.append(time.perf_counter() - start)
    return {name: round(statistics.median(taken[1:]), 5) for name, taken in seconds.items()}
