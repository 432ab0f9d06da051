"""Pretraining on transformers' Trainer: the paper's recipe, resumable after a kill, stopped by a
NaN.
"""

import contextlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import datasets
import torch
from filelock import FileLock
from safetensors.torch import load_model
from torch import nn
from torch.utils.data import Dataset
from tqdm import tqdm
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainerState, TrainingArguments
from transformers.utils import logging

from companion import records
from companion.data.masking import SeededMasking
from companion.evaluation import heldout
from companion.records import schema
from companion.setup import environment, paths
from companion.setup.recipes import Finetuning, Pretraining
from companion.training import checkpoints, devices, watch

# BERT's successors' AdamW
ADAM = {"adam_beta1": 0.9, "adam_beta2": 0.98, "adam_epsilon": 1e-6, "max_grad_norm": 1.0}
# processes that mask the next batches while an accelerator trains on one
LOADERS = 2
# nats; an untrained model guesses, so that only one gone astray does so much worse
WORSE = 0.5


def adamw(network: nn.Module, rate: float, decay: float) -> torch.optim.Optimizer:
    """Return AdamW as the Trainer has it, for a loop of one's own: no decay of biases and norms."""
    matrices = [weights for weights in network.parameters() if weights.ndim > 1]
    vectors = [weights for weights in network.parameters() if weights.ndim <= 1]
    groups = [
        {"params": matrices, "weight_decay": decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    betas = (ADAM["adam_beta1"], ADAM["adam_beta2"])
    return torch.optim.AdamW(groups, lr=rate, betas=betas, eps=ADAM["adam_epsilon"], fused=True)


def evaluation_steps(steps: int, evaluations: int) -> list[int]:
    """Return step 0, the last step, and geometrically spaced ones between: at least `evaluations`
    where steps allow.
    """
    inner = {steps}
    if evaluations > 2:
        inner = {round(steps ** (k / (evaluations - 2))) for k in range(evaluations - 1)}
    filler = (step for step in range(1, steps + 1) if step not in inner)
    while len(inner) + 1 < min(evaluations, steps + 1):
        inner.add(next(filler))
    return sorted({0, steps} | inner)


def quiet() -> None:
    """Silence transformers' load reports and shard bars: our own progress bar says what matters."""
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    datasets.disable_progress_bars()


def arguments(
    recipe: Pretraining, folder: Path, seed: int, until: int | None = None
) -> TrainingArguments:
    """Translate a recipe into the Trainer's arguments; `until` ends one of a constant rate before
    its last step.

    A logged loss is a mean over at most 50 steps; a checkpoint ends one, so that a continued run
    logs the same.
    """
    shared, most = devices.processes().num_processes, min(50, max(1, recipe.steps // 20))
    if recipe.batch % shared:
        raise ValueError(
            f"batch: {recipe.batch} sequences a step cannot be shared by {shared} processes"
        )
    return arguments_of(
        recipe,
        folder,
        seed,
        max_steps=until or recipe.steps,
        save_steps=recipe.save_every,
        logging_steps=max(n for n in range(1, most + 1) if recipe.save_every % n == 0),
        lr_scheduler_type=recipe.scheduler,
        lr_scheduler_kwargs={"num_decay_steps": recipe.decay} if recipe.decay else {},
        warmup_steps=recipe.warmup,
        per_device_train_batch_size=recipe.batch // shared,
        dataloader_drop_last=True,
        data_seed=seed,
        dataloader_num_workers=loaders(),
        remove_unused_columns=False,
        **ADAM,
    )


def loaders() -> int:
    """Return how many processes make batches beside a training run: none on a CPU, whose cores they
    would take.
    """
    if devices.place().type == "cpu":
        return 0
    environment.make_room_for_sockets()
    return LOADERS


def arguments_of(
    recipe: Pretraining | Finetuning, folder: Path, seed: int, **settings: Any
) -> TrainingArguments:
    """Return the Trainer's arguments that every training has, and those of its `own`.

    Raises ValueError for the precision "auto", which only early records have.
    """
    if recipe.precision == "auto":
        raise ValueError("precision: 'auto' stands only in early records: name bf16 or fp32")
    made = TrainingArguments(
        output_dir=str(folder),
        learning_rate=recipe.learning_rate,
        weight_decay=recipe.weight_decay,
        bf16=recipe.precision == "bf16",
        # which takes bfloat16 only when it is told so
        use_cpu=devices.place().type == "cpu",
        seed=seed,
        logging_nan_inf_filter=False,
        dataloader_pin_memory=torch.cuda.is_available(),
        disable_tqdm=True,
        report_to="none",
        **settings,
    )
    # and not what the environment says
    made.mixed_precision = "bf16" if made.bf16 else "no"
    # a process keeps to one: several take torchrun, and not a thread and a whole batch each
    if made.n_gpu > 1:
        made._n_gpu = 1
    return made


def pretrain(
    model: nn.Module,
    blocks: Dataset,
    collator: Callable,
    recipe: Pretraining,
    *,
    folder: Path,
    seed: int,
    measure: Callable[[nn.Module], dict],
    schedule: Sequence[int] | None = None,
    until: int | None = None,
    callbacks: tuple[TrainerCallback, ...] = (),
) -> list[dict[str, Any]]:
    """Pretrain a model in place, or continue where a killed run left its last whole checkpoint in
    `folder`.

    `measure` is called at the steps of `schedule`, else at the recipe's own; `until` is that of
    `arguments`. Returns the log: an entry a logged step ("loss", "learning_rate"), held-out check
    ("heldout") or sitting ("sitting").
    Raises TrainingFailed when the loss is no number, when memory does not hold a batch, or when a
    disk is full.
    """
    quiet()
    checks = schedule or evaluation_steps(recipe.steps, recipe.evaluations)
    observers = [
        watch.FollowHeldOut(measure, checks),
        watch.StopAtNaN(folder),
        checkpoints.SealCheckpoints(),
        watch.NoteSitting(),
        watch.Progress(folder.name),
        *callbacks,
    ]
    if isinstance(collator, SeededMasking):
        observers.append(collator)
    with alone(folder), watch.trouble(folder, recipe.batch):
        settings = arguments(recipe, folder, seed, until)
        trainer = Trainer(
            model, settings, train_dataset=blocks, data_collator=collator, callbacks=observers
        )
        trainer.remove_callback(PrinterCallback)
        try:
            log = run_to_the_end(trainer, recipe, folder)
        # without the autocast a model answers as where its weights are loaded
        finally:
            if heldout.WRAPPED in vars(model):
                model.forward = vars(model).pop(heldout.WRAPPED)
    losses = [point["loss"] for point in heldout.curve(log) if "loss" in point]
    if losses and losses[-1] > losses[0] + WORSE:
        raise watch.Diverged(
            f"the held-out loss rose from {losses[0]:.3g} to {losses[-1]:.3g} in {recipe.steps} steps",
            f": the run diverged; lower the learning rate of {recipe.learning_rate:g}",
        )
    return log


def attempt(*parts: Any, **options: Any) -> dict[str, Any]:
    """Pretrain, and return what a study of many runs keeps of one: "curve"; "failed", a `Failure`
    or None; "device".
    """
    try:
        log = pretrain(*parts, **options)
    except watch.Diverged as error:
        return {"curve": [], "failed": error.failure(), "device": records.device()}
    devices = [entry["sitting"]["device"] for entry in log if "sitting" in entry]
    return {"curve": heldout.curve(log), "failed": None, "device": devices[-1]}


def run_to_the_end(trainer: Trainer, recipe: Pretraining, folder: Path) -> list[dict[str, Any]]:
    """Train from the newest whole checkpoint, or from the start, and return the log."""
    start = checkpoints.newest_whole(folder, tqdm.write)
    if trainer.is_world_process_zero():
        # or one would count among the last two
        for path in filter(paths.damage, checkpoints.written(folder)):
            shutil.rmtree(path, ignore_errors=True)
    if start:
        state = TrainerState.load_from_json(str(start / "trainer_state.json"))
        refuse_of_another_version(start, state.log_history)
        # the Trainer would take one step more
        if state.global_step >= trainer.args.max_steps:
            load_model(trainer.model, start / "model.safetensors", strict=False)
            return state.log_history
        tqdm.write(f"continuing from {start.name}")
    trainer.train(resume_from_checkpoint=str(start) if start else False)
    made, steps = trainer.state.global_step, trainer.args.max_steps
    if made < steps:
        short = f"the text has fewer sequences than a batch of {recipe.batch}; take a smaller batch or more text"
        raise watch.TrainingFailed(f"only {made} of {steps} steps were made: {short}")
    return trainer.state.log_history


def refuse_of_another_version(checkpoint: Path, log: list[dict[str, Any]]) -> None:
    """Raise ValueError if what trained so far is not told as a record tells it."""
    for entry in log:
        if "sitting" not in entry:
            continue
        sitting = {"step": entry["step"], **entry["sitting"]}
        flaw = schema.flaw_in(schema.SITTING, sitting, "sitting")
        if flaw:
            remedy = f"delete {checkpoint.parent} and run again"
            raise ValueError(f"{checkpoint}: no checkpoint of this version ({flaw}): {remedy}")


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep a second run of the same recipe waiting; of the processes of one run the first waits for
    all.
    """
    # the system's: it ends with the process, however that dies
    lock = FileLock(paths.own_folder(folder) / ".lock")
    with lock if devices.processes().is_main_process else contextlib.nullcontext():
        # none looks for a checkpoint before the lock is there
        devices.processes().wait_for_everyone()
        yield
