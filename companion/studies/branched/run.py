"""Branches of one trunk: a model that has started to learn, continued with each algorithm from the
same state.
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from torch.utils.data import Dataset

from companion import records
from companion.data import corpora, sources
from companion.data.masking import SeededMasking
from companion.evaluation import heldout
from companion.setup import paths, recipes
from companion.setup.recipes import Positive, Pretraining, Seeds
from companion.setup.studies import Study, load_study
from companion.studies import plan
from companion.training import checkpoints, departures, pretraining, trainer

MODEL = "mini-narrow"


class Branched(plan.Question):
    """The plan's section `branched`."""

    arms: list[str]
    trunks: Seeds
    training: str
    # nats of held-out loss
    below: float
    # steps between two looks at it
    every: Positive
    # of a branch
    steps: Positive


@dataclass(frozen=True)
class Trunk:
    """One trunk: its study, model and seed, the plan, where it works, and what all of its branches
    read.
    """

    study: Study
    model: str
    seed: int
    chosen: Branched
    folder: Path
    tokenizer: Any
    text: Dataset
    measure: heldout.HeldOut

    def home(self, name: str, *settings: Any) -> Path:
        """Return where one of its parts works; another recipe, text or setting gets another
        folder.
        """
        recipe = recipes.identity(self.study.recipe(self.model))
        return self.folder / checkpoints.marked(
            name, (recipe, self.chosen.every, self.text.fingerprint, *settings)
        )

    def train(
        self, algorithm: str, recipe: Pretraining, folder: Path, until: int | None = None
    ) -> tuple[Any, list[dict[str, Any]]]:
        """Train a model by a recipe, or continue from the newest checkpoint in `folder`; returns it
        and its log.
        """
        study, model, seed, tokenizer = self.study, self.model, self.seed, self.tokenizer
        network = pretraining.untrained(study, model, algorithm, seed, tokenizer)
        masking = SeededMasking(tokenizer, recipe.masking, seed)
        settings = {
            "folder": folder,
            "seed": seed,
            "measure": self.measure,
            "until": until,
            "schedule": [*range(0, recipe.steps + 1, recipe.save_every)],
        }
        return network, trainer.pretrain(network, self.text, masking, recipe, **settings)

    def grow(self) -> tuple[int, list[dict[str, Any]]]:
        """Train plain attention until the held-out loss is below the plan's, or to the recipe's
        end: step and log.
        """
        every = self.chosen.every
        recipe = self.study.recipe(self.model)
        recipe = recipe.changed(scheduler="constant_with_warmup", save_every=every)
        for step in range(every, recipe.steps + 1, every):
            _, log = self.train("original", recipe, self.home("trunk", self.chosen.below), step)
            # of a trunk that is there already, later than this step
            last = heldout.curve(log)[-1]
            if last["loss"] < self.chosen.below:
                break
        return last["step"], log

    def recipe(self, start: int) -> Pretraining:
        """Return the recipe of a trunk and its branch: the rate is whole until the branch's own
        last fifth.
        """
        return self.study.recipe(self.model).changed(
            steps=start + self.chosen.steps,
            scheduler="warmup_stable_decay",
            falling=max(1, self.chosen.steps // 5),
            save_every=self.chosen.every,
        )

    def branch(self, algorithm: str, start: int) -> dict[str, Any]:
        """Continue it with an algorithm and return the curve and the losses of each held-out
        sequence at its end.
        """
        home = self.home(algorithm, self.chosen.steps, start, self.study.strengths.get(self.model))
        grown = self.home("trunk", self.chosen.below) / f"checkpoint-{start}"
        if checkpoints.newest_whole(home) is None:
            with paths.new_folder(home / grown.name) as copied:
                shutil.copytree(grown, copied, dirs_exist_ok=True)
        network, log = self.train(algorithm, self.recipe(start), home)
        nats, tokens = self.measure.by_sequence(network)
        losses = {"nats": nats, "tokens": tokens, "held_out": sum(nats) / sum(tokens)}
        return {"algorithm": algorithm} | losses | heldout.summary(log)


def run(chosen: Branched, seed: int, path: Path, folder: Path) -> dict[str, Any]:
    """Make one record: a trunk and its branches, and what it tells of its recipe."""
    study, model = load_study("narrow"), MODEL
    parameters = {"model": model, "seed": seed}
    record = records.Run("branched", study_name="branched", parameters=parameters)
    trainer.quiet()
    source = sources.resolve(study.data)
    tokenizer, text, held_out = pretraining.texts(study, model, source)
    measure = pretraining.held_out_measure(study.recipe(model), tokenizer, held_out)
    trunk = Trunk(study, model, seed, chosen, folder, tokenizer, text, measure)
    start, log = trunk.grow()
    branches = [trunk.branch(arm, start) for arm in chosen.arms]
    metrics = {"start": start, "trunk": heldout.summary(log), "branches": branches}
    metrics |= recipe_of(chosen)
    apart = [
        departures.differs("study", "branches of one trunk that has started to learn"),
        departures.differs("steps of a branch", chosen.steps),
    ]
    apart += departures.departures(study, model, text, "high", seed, trunk.recipe(start))
    data = corpora.provenance(source, text, held_out)
    precision = metrics["trunk"]["sittings"][-1]["device"]["precision"]
    return record.save(path, metrics, data=data, departures=apart, precision=precision)


def recipe_of(chosen: Branched) -> dict[str, Any]:
    """Return all that a trunk and its branches depend on, as records tell it."""
    recipe = load_study("narrow").recipe(MODEL).model_dump()
    return {
        "recipe": recipe,
        "plan": chosen.model_dump(include={"arms", "below", "every", "steps"}),
    }


def records_of(chosen: Branched) -> Iterator[plan.Entry]:
    """Yield the records of the plan: one per trunk."""
    for seed in chosen.trunks:
        yield f"12-branched-{seed}", partial(run, chosen, seed), recipe_of(chosen)


if __name__ == "__main__":
    plan.command("branched", Branched, records_of)()
