"""Attention statistics in the log of a training, by a callback of transformers' Trainer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from transformers import TrainerCallback

from saobp.equations.checks import check_whole
from saobp.measure.observed import Seen, observed, refinement_of
from saobp.models.supported import self_attention_modules, without_cache


class AttentionCallback(TrainerCallback):
    """Log what attention does while a model trains, every so many steps, layer by layer.

    Logged are `attention/layer_1/...` and so on: `column_sum` (the largest, in queries),
    `row_entropy` (nats), `sink_rate` (share of keys), `max_logit` (the largest, nats), `gtd`; means
    over heads and sequences. The first sequences of the first batch are measured each time, in eval
    mode, so that the curves show the model and not the data. A refined model is measured as it
    attends.

        from transformers import Trainer, TrainingArguments

        arguments = TrainingArguments("out", max_steps=200)
        trainer = Trainer(model, arguments, train_dataset=texts)
        trainer.add_callback(saobp.AttentionCallback(trainer, every=50))
        trainer.train()
        for entry in trainer.state.log_history:
            if "attention/layer_1/gtd" in entry:
                print(entry["step"], entry["attention/layer_1/gtd"])

    Args:
        trainer: Whose log it writes to, and so to all that the log is reported to.
        every: Steps from one measurement to the next.
        sequences: How many sequences of the first batch are measured.
        probes: As for `saobp.attention_statistics`; 0 leaves GTD out.

    Raises:
        ValueError: In one line, for numbers that mean nothing and, when training starts, for a model
            whose attention cannot be observed.
    """

    def __init__(self, trainer: Any, every: int = 50, sequences: int = 4, probes: int = 16):
        check_whole("every", every, 1)
        check_whole("sequences", sequences, 1)
        self.trainer, self.every = trainer, int(every)
        self.sequences, self.probes = int(sequences), probes
        self.batch: dict[str, Tensor] = {}

    def on_train_begin(self, args, state, control, model: nn.Module, **_: Any) -> None:
        """Keep a few sequences of the batch that the model sees first."""
        # refuses what cannot be observed before hours of training
        with observed(model, lambda call: None):
            for module in self_attention_modules(model):
                refinement_of(module)
        self.batch = {}
        self.handle = model.register_forward_pre_hook(self._keep, with_kwargs=True)

    def _keep(self, model: nn.Module, args: tuple, kwargs: Mapping[str, Any]) -> None:
        for name, value in kwargs.items():
            if isinstance(value, Tensor) and value.ndim:
                self.batch[name] = value[: self.sequences].clone()
        self.handle.remove()

    def on_step_end(self, args, state, control, model: nn.Module, **_: Any) -> None:
        """Measure and log, if it is the step."""
        if state.global_step % self.every or not self.batch or not state.is_world_process_zero:
            return
        numbers = measured(model, self.batch, self.probes)
        self.trainer.log({f"attention/{name}": value for name, value in numbers.items()})


def measured(model: nn.Module, batch: Mapping[str, Tensor], probes: int = 16) -> dict[str, float]:
    """Return the means that are logged, of one pass in eval mode; the model is as before after it."""
    numbers: dict[str, Tensor] = {}

    def observe(call: Seen) -> None:
        statistics = call.statistics(probes=probes, **refinement_of(call.module))
        by_name = {
            "column_sum": statistics.column_sum.amax(-1).nanmean(),
            "row_entropy": statistics.row_entropy.nanmean(),
            "sink_rate": statistics.sink_rate.nanmean(),
            "max_logit": statistics.max_logit.nan_to_num(-torch.inf).amax(),
        }
        if probes:
            by_name["gtd"] = statistics.gtd.nanmean()
        numbers.update({f"layer_{call.layer + 1}/{name}": x for name, x in by_name.items()})

    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        with torch.no_grad(), observed(model, observe):
            model(**batch, **without_cache(model))
    finally:
        for module in training:
            module.training = True
    return {name: value.item() for name, value in numbers.items()}
