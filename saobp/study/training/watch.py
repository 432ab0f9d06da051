"""What watches a training: held-out checks, who trained on what, a bar, and one line for whatever goes wrong."""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from accelerate.utils.memory import should_reduce_batch_size
from safetensors import SafetensorError
from torch import nn
from tqdm import tqdm
from transformers import TrainerCallback

from saobp.study.evaluation.heldout import measuring
from saobp.study.setup import records
from saobp.study.setup.schema import Failed
from saobp.study.training import checkpoints
from saobp.study.training.precision import Precision

# how the system, safetensors and torch's zip writer say that a disk or a quota is full
WRITE_ERRORS = (
    "No space left", "File too large", "Disk quota", "file write failed", "PytorchStreamWriter", "unexpected pos",
    "iostream error",
)  # fmt: skip


class FollowHeldOut(TrainerCallback):
    """Measures the held-out set on the schedule and keeps the curve with the checkpoints."""

    def __init__(self, measure: Callable[[nn.Module], dict[str, Any]], schedule: Iterable[int]):
        self.measure, self.schedule = measure, set(schedule)

    def on_train_begin(self, args, state, control, model=None, **kwargs):
        """Measure the untrained model, unless the run continues from a checkpoint."""
        earlier = [entry["heldout"]["seconds"] for entry in state.log_history if "heldout" in entry]
        self.clock = time.perf_counter() - max(earlier, default=0.0)
        if state.global_step == 0:
            self.on_step_end(args, state, control, model=model)

    def on_step_end(self, args, state, control, model=None, **kwargs):
        """Measure at a scheduled step; where that draws random numbers, as a DataLoader does, dropout draws others."""
        if state.global_step in self.schedule and state.is_world_process_zero:
            with measuring(model):
                measured = self.measure(model)
            seconds = round(time.perf_counter() - self.clock, 1)  # of training, earlier sittings included
            state.log_history.append({"step": state.global_step, "heldout": {**measured, "seconds": seconds}})


class NoteSitting(TrainerCallback):
    """Notes in the log which code trains from here on, on which processor, in what precision and why in that."""

    def __init__(self, chosen: Precision):
        self.chosen = chosen

    def on_train_begin(self, args, state, control, **kwargs):
        """Add an entry "sitting", with the first step and after each continuation."""
        sitting = {
            "commit": records.commit(),
            "device": records.device("bf16" if args.bf16 else "fp32"),
            "chosen": {"reason": self.chosen.reason, "seconds": self.chosen.seconds},
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        state.log_history.append({"step": state.global_step, "sitting": sitting})


class Progress(TrainerCallback):
    """One tqdm bar over the steps, with the loss; quiet enough for a log file."""

    def __init__(self, title: str):
        self.title = title

    def on_train_begin(self, args, state, control, **kwargs):
        hidden, done = not state.is_world_process_zero, state.global_step
        self.bar = tqdm(total=state.max_steps, initial=done, desc=self.title, mininterval=5, disable=hidden)

    def on_step_end(self, args, state, control, **kwargs):
        self.bar.update(state.global_step - self.bar.n)

    def on_log(self, args, state, control, logs=None, **kwargs):
        if logs and "loss" in logs:
            self.bar.set_postfix(loss=f"{logs['loss']:.3f}", refresh=False)

    def on_train_end(self, args, state, control, **kwargs):
        self.bar.close()


class TrainingFailed(Failed, RuntimeError):
    """Training cannot go on, or did not end well; the message says why, what is left, and what to do."""


class Diverged(TrainingFailed):
    """A model's loss or weights went where the same run would go again: nothing about the machine is to blame."""


class StopAtNaN(TrainerCallback):
    """Stops a run whose loss is not a number, before a table can be filled with it.

    The losses of single steps stay where they are computed until the next log: no step waits for a look at them.
    """

    def __init__(self, folder: Path):
        self.folder, self.rate = folder, 0.0
        self.losses: list[tuple[int, float, torch.Tensor]] = []  # since the last look: step, its rate, its loss

    def on_train_begin(self, args, state, control, model=None, lr_scheduler=None, **kwargs):
        """Listen to the model: after a step the scheduler holds the next one's rate."""

        def keep(model, args, output):
            if model.training and output.loss is not None:
                self.rate = lr_scheduler.get_last_lr()[0]
                self.losses.append((state.global_step + 1, self.rate, output.loss.detach()))

        self.listening = model.register_forward_hook(keep)

    def on_log(self, args, state, control, **kwargs):
        """Look at the losses since the last log; the Trainer's own NaN filter is off so that it shows them."""
        for step, rate, loss in self.losses:
            if not loss.isfinite():
                raise self._diverged(f"the loss is {loss.item()} at step {step}", rate)
        self.losses = []

    def on_save(self, args, state, control, model=None, **kwargs):
        """Look at losses and weights at every checkpoint, before later ones push the good one before it out."""
        self.on_log(args, state, control)
        if not all(weights.isfinite().all() for weights in model.parameters()):
            raise self._diverged(f"the weights are no numbers at step {state.global_step}", self.rate)

    def on_train_end(self, args, state, control, model=None, **kwargs):
        """Look once more, behind the last checkpoint, and listen no longer."""
        self.listening.remove()
        self.on_save(args, state, control, model=model)

    def _diverged(self, reason: str, rate: float) -> Diverged:
        last = checkpoints.newest_whole(self.folder) or "none"
        advice = f"the last finite checkpoint is {last}: lower the learning rate or the strength"
        return Diverged(reason, f" (learning rate {rate:.2e}); {advice}")


@contextlib.contextmanager
def trouble(folder: Path, batch: int) -> Iterator[None]:
    """Turn a failed write, or a lack of memory, into TrainingFailed, with what is left and what to do."""
    try:
        yield
    except TrainingFailed:
        raise
    except (OSError, MemoryError, SafetensorError, RuntimeError) as error:
        if isinstance(error, MemoryError) or should_reduce_batch_size(error):
            raise TrainingFailed(
                f"batch: there is no memory for {batch} sequences at a time: take fewer or shorter ones, or share them "
                "by more processes"
            ) from None
        if not any(sign in str(error) for sign in WRITE_ERRORS):
            raise
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise TrainingFailed(
            f"{folder}: a checkpoint could not be written ({reason}); the last whole one is "
            f"{checkpoints.newest_whole(folder) or 'none'}: free space there and give the same command again"
        ) from None
