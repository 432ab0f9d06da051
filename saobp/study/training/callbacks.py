"""What watches a training as the Trainer's callbacks: held-out checks, who trained on what, a bar over the steps."""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import torch
from torch import nn
from tqdm import tqdm
from transformers import TrainerCallback

from saobp.study.setup import records
from saobp.study.training.precision import Precision, own_precision


class FollowHeldOut(TrainerCallback):
    """Measures the held-out set on the schedule and keeps the curve with the checkpoints."""

    def __init__(self, measure: Callable[[nn.Module], dict[str, Any]], schedule: Sequence[int]):
        self.measure, self.schedule = measure, set(schedule)

    def on_train_begin(self, args, state, control, model=None, **kwargs):
        """Measure the untrained model, unless the run continues from a checkpoint."""
        earlier = [entry["heldout"]["seconds"] for entry in state.log_history if "heldout" in entry]
        self.clock = time.perf_counter() - max(earlier, default=0.0)
        if state.global_step == 0:
            self.on_step_end(args, state, control, model=model)

    def on_step_end(self, args, state, control, model=None, **kwargs):
        """Measure at a scheduled step, with no effect on the run: evaluation mode, no autocast, no random numbers."""
        if state.global_step not in self.schedule or not state.is_world_process_zero:
            return
        model.eval()
        with torch.no_grad(), own_precision(model):
            measured = self.measure(model)
        model.train()
        measured["seconds"] = round(time.perf_counter() - self.clock, 1)  # of training, earlier sittings included
        state.log_history.append({"step": state.global_step, "heldout": measured})


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
        """Open the bar where the run continues."""
        hidden = not state.is_world_process_zero
        self.bar = tqdm(
            total=state.max_steps, initial=state.global_step, desc=self.title, mininterval=5, disable=hidden
        )

    def on_step_end(self, args, state, control, **kwargs):
        """Move the bar to the step."""
        self.bar.update(state.global_step - self.bar.n)

    def on_log(self, args, state, control, logs=None, **kwargs):
        """Show the loss."""
        if logs and "loss" in logs:
            self.bar.set_postfix(loss=f"{logs['loss']:.3f}", refresh=False)

    def on_train_end(self, args, state, control, **kwargs):
        """Close the bar."""
        self.bar.close()
