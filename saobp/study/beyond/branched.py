"""Branches of one trunk: the same model that has started to learn, continued with each algorithm.

What runs from scratch differ in most is when they start to learn; a branch starts after that, from the same weights,
optimizer state and data order. Arms, trunks and steps are those of the plan's section `branched`.
"""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from saobp.study.beyond import plan
from saobp.study.data import corpora, sources
from saobp.study.data.masking import SeededMasking
from saobp.study.evaluation import heldout
from saobp.study.setup import paths, records
from saobp.study.setup.recipes import Positive, Pretraining, Seeds
from saobp.study.setup.studies import Study, load_study
from saobp.study.training import checkpoints, pretraining, trainer


class Branched(plan.Question):
    """The plan's section `branched`."""

    arms: list[str]
    trunks: Seeds
    training: str
    below: float  # nats of held-out loss
    every: Positive  # steps between two looks at it
    steps: Positive  # of a branch


class Text:
    """What every branch of a study reads: tokenizer, training text, held-out text, the measure on it."""

    def __init__(self, study: Study, model: str):
        self.source = sources.resolve(study.data)
        self.tokenizer, self.text, self.held_out = pretraining.texts(study, model, self.source)
        self.measure = pretraining.held_out_measure(study, model, self.tokenizer, self.held_out)


def train(
    study: Study, model: str, algorithm: str, seed: int, recipe: Pretraining, text: Text, folder: Path
) -> tuple[Any, list[dict[str, Any]]]:
    """Train a model by a recipe, or continue from the newest checkpoint in `folder`; returns it and its log."""
    network = pretraining.untrained(study, model, algorithm, seed, text.tokenizer)
    schedule = [*range(0, recipe.steps + 1, recipe.save_every)]
    masking, given = SeededMasking(text.tokenizer, recipe.masking, seed), {"folder": folder, "seed": seed}
    log = trainer.pretrain(network, text.text, masking, recipe, measure=text.measure, schedule=schedule, **given)
    return network, log


def grow(
    study: Study, model: str, seed: int, chosen: Branched, text: Text, folder: Path
) -> tuple[int, list[dict[str, Any]]]:
    """Train plain attention until the held-out loss is below the plan's, and return that step and the log.

    A trunk that never gets there is returned at the last step of the study's recipe.
    """
    recipe = replace(study.recipe(model), scheduler="constant_with_warmup", save_every=chosen.every)
    for step in range(chosen.every, recipe.steps + 1, chosen.every):
        part = replace(recipe, steps=step, warmup=min(recipe.warmup, step))
        _, log = train(study, model, "original", seed, part, text, folder)
        last = heldout.curve(log)[-1]  # of a trunk that is there already, later than this step
        if last["loss"] < chosen.below:
            break
    return last["step"], log


def branch(
    study: Study, model: str, algorithm: str, seed: int, start: int, chosen: Branched, text: Text, folder: Path
) -> dict[str, Any]:
    """Continue a trunk with an algorithm and return its curve and the losses of each held-out sequence at its end."""
    own, trunk = folder / algorithm, folder / "trunk" / f"checkpoint-{start}"
    if checkpoints.newest_whole(own) is None:
        with paths.new_folder(own / trunk.name) as copied:
            shutil.copytree(trunk, copied, dirs_exist_ok=True)
    recipe = replace(
        study.recipe(model), scheduler="warmup_stable_decay", steps=start + chosen.steps, save_every=chosen.every
    )
    network, log = train(study, model, algorithm, seed, recipe, text, own)
    nats, tokens = text.measure.by_sequence(network)
    found = heldout.summary(log)
    return {"algorithm": algorithm, "nats": nats, "tokens": tokens, "held_out": sum(nats) / sum(tokens), **found}


def run(study: Study, model: str, seed: int, chosen: Branched, path: Path, folder: Path) -> dict[str, Any]:
    """Make one record: a trunk and its branches."""
    record = records.Run("branched", profile="branched", parameters={"model": model, "seed": seed})
    trainer.quiet()
    text = Text(study, model)
    start, log = grow(study, model, seed, chosen, text, folder / "trunk")
    branches = [branch(study, model, arm, seed, start, chosen, text, folder) for arm in chosen.arms]
    metrics = {"start": start, "trunk": heldout.summary(log), "branches": branches}
    departures = [{"matter": "study", "ours": "branches of one trunk that has started to learn", "paper": None}]
    data = corpora.provenance(text.source, text.text, text.held_out)
    precision = metrics["trunk"]["sittings"][-1]["device"]["precision"]
    return record.save(path, metrics, data=data, departures=departures, precision=precision)


def records_of(chosen: Branched) -> Iterator[tuple[str, plan.Make]]:
    """Yield the records of the plan: one per trunk."""
    study = load_study("narrow")
    yield from ((f"12-branched-{seed}", partial(run, study, "mini-narrow", seed, chosen)) for seed in chosen.trunks)


if __name__ == "__main__":
    plan.command("branched", Branched, records_of)
