"""The refinement inserted into a public encoder that has learned, by the plan: one arm, task and
seed per record.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import datasets
import torch
from annotated_types import Ge
from pydantic import field_validator
from transformers import Trainer
from transformers.trainer_pt_utils import LengthGroupedSampler

from companion import records
from companion.data import sources
from companion.data.encoding import collator, encode
from companion.data.task_rows import Task
from companion.evaluation import scoring
from companion.evaluation.heldout import flow
from companion.records.schema import Failed
from companion.setup.recipes import Finetuning, Seeds
from companion.setup.studies import STAND_INS, load_study
from companion.setup.typed_by_hand import Strict
from companion.studies import plan
from companion.training import finetuning
from companion.training.architectures import refine_with
from companion.training.departures import differs
from companion.training.trainer import quiet
from companion.training.watch import FollowHeldOut
from saobp.models import public

# of three seeds, by the splits that a mirror without their train splits leaves
FURTHER = ("race", "squad")


class Arm(Strict):
    """What a model is refined with; the factor "none" is plain attention."""

    factor: str
    # 0 of a factor that has none
    strength: Annotated[float, Ge(0)]


class Retrofit(plan.Question):
    """The plan's section `retrofit`."""

    model: str
    arms: dict[str, Arm]
    secondary_arms: dict[str, Arm]
    seeds: Seeds
    secondary_seeds: Seeds
    tasks: list[str]
    training: dict[str, Any]

    @field_validator("training")
    @classmethod
    def _in_one_precision(cls, training: dict[str, Any]) -> dict[str, Any]:
        if training.get("precision") not in ("bf16", "fp32"):
            raise ValueError("precision: name one of bf16, fp32, the same for every arm")
        return training


class SameOrder(Trainer):
    """Trainer whose batches of similar lengths come in an order that the seed alone sets, the same
    for every arm.
    """

    def _get_train_sampler(self, train_dataset=None) -> LengthGroupedSampler:
        lengths = [len(ids) for ids in self.train_dataset["input_ids"]]
        generator = torch.Generator().manual_seed(self.args.seed)
        batch = self.args.train_batch_size
        return LengthGroupedSampler(batch, lengths=lengths, generator=generator)


def finetune(
    task: Task, arm: Arm, encoder: Path, tokenizer: Any, recipe: Finetuning, seed: int, folder: Path
) -> dict:
    """Fine-tune the encoder with an arm on all of a task's training rows; return scores by epoch,
    or "failed".
    """
    spec = task.spec
    splits = (task.train, task.evaluation)
    train, reported = (encode(spec, rows, tokenizer, recipe.tokens(spec.name)) for rows in splits)
    model = refine_with(finetuning.with_head(task, encoder, recipe, seed), arm.factor, arm.strength)
    trainer = finetuning.trainer_of(model, task, train, tokenizer, recipe, seed, folder, SameOrder)
    epoch, last = finetuning.steps(recipe, spec.name, len(train))
    ends = range(epoch, last + 1, epoch)
    trainer.add_callback(
        FollowHeldOut(lambda model: finetuning.scored(trainer, task, "evaluation", reported), ends)
    )
    try:
        trainer.train()
    except Failed as failure:
        return {"failed": failure.failure()}
    attention = flow(model, collator(spec, tokenizer)([*reported.take(finetuning.SHOWN)]))
    epochs = [
        point | {"epoch": point.pop("step") // epoch} for point in finetuning.followed(trainer)
    ]
    course = [{"epoch": entry["epoch"], "scores": entry["scores"]} for entry in epochs]
    return {"epochs": course, "attention": attention, **epochs[-1]}


def run(
    study: Retrofit, seed: int, name: str, arm_name: str, path: Path, folder: Path
) -> dict[str, Any]:
    """Make one record of the study: one arm, one task, one seed. Returns the record."""
    arm, source = (study.arms | study.secondary_arms)[arm_name], sources.resolve("hub")
    splits = load_study(STAND_INS).finetune.splits
    recipe = Finetuning(groups={"all": [*study.tasks, *FURTHER]}, splits=splits, **study.training)
    parameters = {"model": study.model, "arm": arm_name, **arm.model_dump()}
    parameters |= {"task": name, "seed": seed}
    record = records.Run("retrofit", study_name="retrofit", parameters=parameters)
    quiet()
    encoder, tokenizer = public.locate(study.model), public.tokenizer(study.model)
    task = finetuning.task_of(name, recipe, source)
    # the last epoch is reported, so no row is set aside for choosing one
    task = replace(task, train=datasets.concatenate_datasets([task.train, task.development]))
    metrics = finetune(task, arm, encoder, tokenizer, recipe, seed, folder)
    metrics |= {"floor": scoring.floor(task), "configuration": study.training}
    ours = "all-MiniLM-L6-v2, pretrained without the refinement"
    apart = [differs("model", ours, "pretrained with it")]
    data = {"source": source.name, "splits": task.splits}
    return record.save(path, metrics, data=data, departures=apart, precision=recipe.precision)


def records_of(study: Retrofit) -> Iterator[plan.Entry]:
    """Yield the records of the plan, one per arm, task and seed: a seed's arms together, the
    secondary ones last.
    """
    units = [*product(study.seeds, study.tasks, study.arms)]
    units += product(study.secondary_seeds, study.tasks, study.secondary_arms)
    units += product(study.secondary_seeds, FURTHER, ("original", "high"))
    for seed, task, arm in units:
        name = f"13-retrofit-{study.model}-{arm}-{task}-{seed}"
        recipe = {"configuration": study.training}
        yield name, partial(run, study, seed, task, arm), recipe


if __name__ == "__main__":
    plan.command("retrofit", Retrofit, records_of)()
