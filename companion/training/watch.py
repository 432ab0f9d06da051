"""What watches a training: held-out checks, who trained on what, a bar, and one line for whatever
goes wrong.
"""

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from accelerate.utils.memory import should_reduce_batch_size
from safetensors import SafetensorError
from torch import nn
from tqdm import tqdm
from transformers import TrainerCallback

from companion import records
from companion.evaluation.heldout import measuring
from companion.records.schema import Failed
from companion.training import checkpoints

# how the system, safetensors and torch's zip writer say that a disk or a quota is full
WRITE_ERRORS = (
    "No space left",
    "File too large",
    "Disk quota",
    "file write failed",
    "PytorchStreamWriter",
    "unexpected pos",
    "iostream error",
)


class FollowHeldOut(TrainerCallback):
    """Measures the held-out set on the schedule and keeps the curve with the checkpoints."""

    def __init__(self, measure: Callable[[nn.Module], dict[str, Any]], schedule: Iterable[int]):
        self.measure, self.schedule = measure, set(schedule)

    def on_train_begin(self, args, state, control, model=None, **kwargs):
        earlier = [entry["heldout"]["seconds"] for entry in state.log_history if "heldout" in entry]
        self.clock = time.perf_counter() - max(earlier, default=0.0)
        if state.global_step == 0:
            self.on_step_end(args, state, control, model=model)

    def on_step_end(self, args, state, control, model=None, **kwargs):
        """Measure at a scheduled step; where that draws random numbers, as a DataLoader does,
        dropout draws others.
        """
        if state.global_step in self.schedule and state.is_world_process_zero:
            with measuring(model):
                measured = self.measure(model)
            # of training, earlier sittings included
            seconds = round(time.perf_counter() - self.clock, 1)
            check = {**measured, "seconds": seconds}
            state.log_history.append({"step": state.global_step, "heldout": check})


class NoteSitting(TrainerCallback):
    """Notes in the log which code trains from here on, on which processor, in what precision."""

    def on_train_begin(self, args, state, control, **kwargs):
        sitting = {
            "commit": records.commit(),
            "device": records.device("bf16" if args.bf16 else "fp32"),
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        state.log_history.append({"step": state.global_step, "sitting": sitting})


class Progress(TrainerCallback):
    """One tqdm bar over the steps, with the loss; quiet enough for a log file."""

    def __init__(self, title: str):
        self.title = title

    def on_train_begin(self, args, state, control, **kwargs):
        self.bar = tqdm(
            total=state.max_steps,
            initial=state.global_step,
            desc=self.title,
            mininterval=5,
            disable=not state.is_world_process_zero,
        )

    def on_step_end(self, args, state, control, **kwargs):
        self.bar.update(state.global_step - self.bar.n)

    def on_log(self, args, state, control, logs=None, **kwargs):
        if logs and "loss" in logs:
            self.bar.set_postfix(loss=f"{logs['loss']:.3f}", refresh=False)

    def on_train_end(self, args, state, control, **kwargs):
        self.bar.close()


class TrainingFailed(Failed, RuntimeError):
    """Training cannot go on, or did not end well; the message says why, what is left, and what to
    do.
    """


class Diverged(TrainingFailed):
    """A model's loss or weights went where the same run would go again: nothing about the machine
    is to blame.
    """


class StopAtNaN(TrainerCallback):
    """Stops a run whose loss or weights are no numbers, before a checkpoint, or a table, can be
    filled with them.
    """

    def __init__(self, folder: Path):
        self.folder = folder

    def on_log(self, args, state, control, logs=None, **kwargs):
        # a mean over the steps since the last log, the one at a checkpoint before that is written
        loss = logs.get("loss", logs.get("train_loss", 0.0))
        if not math.isfinite(loss):
            reason = f"the loss is {loss} at step {state.global_step}"
            raise self._diverged(reason, args.learning_rate)

    def on_save(self, args, state, control, model=None, **kwargs):
        if not all(weights.isfinite().all() for weights in model.parameters()):
            reason = f"the weights are no numbers at step {state.global_step}"
            raise self._diverged(reason, args.learning_rate)

    on_train_end = on_save

    def _diverged(self, reason: str, rate: float) -> Diverged:
        last = checkpoints.newest_whole(self.folder) or "none"
        advice = f"lower the learning rate of {rate:g} or the strength"
        return Diverged(reason, f"; the last finite checkpoint is {last}: {advice}")


@contextlib.contextmanager
def trouble(folder: Path, batch: int) -> Iterator[None]:
    """Turn a failed write, or a lack of memory, into TrainingFailed, with what is left and what to
    do.
    """
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
