"""Fine-tuning: one recipe for every algorithm, the epoch chosen on a slice of train, scored on the
reported split.
"""

import copy
import json
import time
from collections.abc import Callable
from math import ceil, inf
from pathlib import Path
from typing import Any

import datasets
import torch
import transformers
from torch import nn
from transformers import PreTrainedTokenizerFast, Trainer, TrainerCallback

import saobp  # noqa: F401  a refined checkpoint comes back refined only where saobp has been imported
from companion.data.encoding import collator, encode
from companion.data.sources import Source
from companion.data.task_rows import Task, load_task
from companion.evaluation.heldout import SHOWN, curve, flow, measuring
from companion.evaluation.scoring import floor, score
from companion.records import finite
from companion.records.schema import Failed
from companion.setup import paths
from companion.setup.recipes import Finetuning
from companion.statistics.trajectories import FOLLOWED
from companion.training import checkpoints
from companion.training.trainer import arguments_of, quiet
from companion.training.watch import FollowHeldOut, Progress, StopAtNaN

HEADS = {
    "choice": transformers.AutoModelForMultipleChoice,
    "span": transformers.AutoModelForQuestionAnswering,
}


def task_of(name: str, recipe: Finetuning, source: Source) -> Task:
    """Load a task with the recipe's limits and split mapping."""
    limits = (recipe.limit_train, recipe.limit_evaluation)
    return load_task(name, source, recipe.splits.get(name), limits)


def with_head(task: Task, checkpoint: Path, recipe: Finetuning, seed: int) -> nn.Module:
    """Put the task's untrained head on a pretrained model; the refinement that it was trained with
    stays on.
    """
    quiet()
    torch.manual_seed(seed)
    head = HEADS.get(task.spec.kind, transformers.AutoModelForSequenceClassification)
    return head.from_pretrained(
        checkpoint,
        trust_remote_code=False,
        num_labels=task.spec.num_labels,
        hidden_dropout_prob=recipe.dropout,
        attention_probs_dropout_prob=recipe.dropout,
    )


class KeepBest(TrainerCallback):
    """Keeps the weights of the epoch that does best on the development slice; the reported split
    plays no part.
    """

    def __init__(self, judge: Callable[[], float]):
        self.judge, self.best, self.epoch = judge, -inf, 0

    def on_epoch_end(self, args, state, control, model=None, **kwargs):
        value = self.judge()
        if not self.epoch or value > self.best:
            self.best, self.epoch = value, round(state.epoch)
            self.weights = copy.deepcopy(model.state_dict())


def trainer_of(
    model: nn.Module,
    task: Task,
    train: datasets.Dataset,
    tokenizer: PreTrainedTokenizerFast,
    recipe: Finetuning,
    seed: int,
    folder: Path,
    kind: type[Trainer] = Trainer,
) -> Trainer:
    """Return what fine-tunes a model on a task by a recipe: with a bar, and stopped by a loss that
    is no number.
    """
    name = task.spec.name
    settings = arguments_of(
        recipe,
        folder,
        seed,
        per_device_train_batch_size=recipe.batch,
        per_device_eval_batch_size=2 * recipe.batch,
        lr_scheduler_type="linear",
        # a share of all steps when below 1
        warmup_steps=recipe.warmup_share,
        num_train_epochs=recipe.epochs_of.get(name, recipe.epochs),
        logging_steps=10,
        save_strategy="no",
    )
    callbacks = [StopAtNaN(folder), Progress(f"{name} seed {seed}")]
    pad = collator(task.spec, tokenizer)
    made = kind(model, args=settings, train_dataset=train, data_collator=pad, callbacks=callbacks)
    made.remove_callback(transformers.PrinterCallback)
    return made


def steps(recipe: Finetuning, task: str, items: int) -> tuple[int, int]:
    """Return the steps of an epoch and of the whole training of a task on so many items."""
    epoch = ceil(items / recipe.batch)
    return epoch, epoch * recipe.epochs_of.get(task, recipe.epochs)


def finetune(
    task: Task,
    checkpoint: Path,
    tokenizer: PreTrainedTokenizerFast,
    recipe: Finetuning,
    *,
    seed: int,
    folder: Path,
) -> dict[str, Any]:
    """Fine-tune on one task with one seed; return its scores on the reported split, or {"failed":
    reason}.

    Score and attention are followed along it ("curve"), and choose nothing.
    """
    spec = task.spec
    train, development, reported = (
        encode(spec, rows, tokenizer, recipe.tokens(spec.name))
        for rows in (task.train, task.development, task.evaluation)
    )
    model, collate = with_head(task, checkpoint, recipe, seed), collator(spec, tokenizer)
    trainer = trainer_of(model, task, train, tokenizer, recipe, seed, folder)
    shown = collate([*reported.take(min(SHOWN, len(reported)))])

    def measure(model: nn.Module) -> dict[str, Any]:
        score = scored(trainer, task, "evaluation", reported)["headline"]
        return {"score": score, **flow(model, shown)}

    points = recipe.curve if spec.name in FOLLOWED else 0
    _, last = steps(recipe, spec.name, len(train))
    checks = [round(k * last / max(1, points - 1)) for k in range(points)]
    keep = KeepBest(lambda: scored(trainer, task, "development", development)["headline"])
    trainer.add_callback(keep)
    trainer.add_callback(FollowHeldOut(measure, checks))
    try:
        trainer.train()
        model.load_state_dict(keep.weights)
        scores = scored(trainer, task, "evaluation", reported)
    except Failed as failure:
        return {"failed": failure.failure()}
    precision = {"name": recipe.precision, "reason": "recipe", "seconds": {}}
    return {"epoch": keep.epoch, "curve": followed(trainer), "precision": precision, **scores}


def followed(trainer: Trainer) -> list[dict[str, Any]]:
    """Return what `FollowHeldOut` measured along a training, by "step"."""
    points = [dict(point) for point in curve(trainer.state.log_history)]
    for point in points:
        point.pop("seconds", None)
    return points


def scored(trainer: Trainer, task: Task, part: str, features: datasets.Dataset) -> dict[str, Any]:
    """Predict a part of a task, in the precision of the weights, and score it as its owners do."""
    # in bfloat16 options tie, and the first of them wins
    with measuring(trainer.model):
        outputs = trainer.predict(features).predictions
    return score(task.spec, outputs, getattr(task, part), features)


def finetune_all(
    names: list[str],
    checkpoint: Path,
    tokenizer: Any,
    recipe: Finetuning,
    source: Source,
    *,
    seed: int,
    folder: Path,
) -> tuple[dict[str, dict[str, Any]], list[dict[str, Any]]]:
    """Fine-tune on every task in turn, skipping those that an interrupted run has finished.

    Returns task -> scores, with `seconds` and the `floor` of a bag of words; and the completeness
    of the splits.
    """
    results, splits = {}, []
    for name in names:
        task = task_of(name, recipe, source)
        splits += task.splits
        dataset = (task.spec.dataset, task.spec.config)
        texts = [source.fingerprint(*dataset, split["split"]) for split in task.splits]
        # of other rows it would be another result
        done = folder / f"{checkpoints.marked(name, texts)}.json"
        if not done.exists():
            clock = time.perf_counter()
            result = finetune(task, checkpoint, tokenizer, recipe, seed=seed, folder=folder)
            result |= {"seconds": round(time.perf_counter() - clock, 1), "floor": floor(task)}
            paths.write_text(done, json.dumps(finite(result)))
        results[name] = json.loads(done.read_text(encoding="utf-8"))
    return results, splits
