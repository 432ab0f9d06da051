"""Training at other strengths than the paper's, at learned ones, and of larger models; `strengths`
reads the runs.
"""

import json
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import nn

import saobp
from companion.data.masking import SeededMasking
from companion.evaluation.heldout import HeldOut
from companion.setup import paths, recipes
from companion.setup.recipes import Beyond
from companion.setup.sizes_and_strengths import strength_of
from companion.studies.strengths import message_rounds
from companion.studies.strengths.read import TAUGHT
from companion.training import architectures, checkpoints, pretraining, trainer
from saobp.models.module import Refinement


def look(held_out: HeldOut, model: nn.Module) -> dict[str, Any]:
    """Measure loss, accuracy, raw and refined shape, and strengths (nats) of each layer's heads,
    one if they share.
    """
    tokens = held_out.shown["input_ids"].to(next(model.parameters()).device)
    raw, refined = map(message_rounds.shape, message_rounds.matrices(model, tokens))
    strengths = []
    for module in model.modules():
        if isinstance(module, Refinement):
            strength = torch.as_tensor(module(torch.device("cpu")))
            strengths.append(strength.detach().flatten().tolist())
    measures = {"loss": held_out(model)["loss"], "accuracy": held_out.accuracy(model)}
    return measures | {"raw": raw, "refined": refined, "strengths": strengths}


@dataclass(frozen=True)
class Inputs:
    """What all runs read: text to train on and held-out text, and where their results are kept."""

    text: Any
    held_out: Any
    tokenizer: Any
    folder: Path


def run(plan: Beyond, strength: float | str, seed: int, inputs: Inputs) -> dict[str, Any]:
    """Train one model at a strength, or with one of `TAUGHT` that starts from the size's own, and
    follow it.

    Returns strength, seed and what `trainer.attempt` does, with a "curve" of `look`. A finished run
    is read from `folder`; one that was cut off is continued.
    """
    recipe, tokenizer = plan.pretrain, inputs.tokenizer
    identity = (recipes.identity(recipe), inputs.text.fingerprint)
    name = checkpoints.marked(f"{plan.model}-{strength}-{seed}", identity)
    done = inputs.folder / f"{name}.json"
    if not done.exists():
        network = architectures.encoder(plan.model, tokenizer, dropout=recipe.dropout, seed=seed)
        learn = TAUGHT.get(strength)
        saobp.apply(network, "high", strength_of(plan.model) if learn else strength, learn=learn)
        held_out = pretraining.held_out_measure(recipe, tokenizer, inputs.held_out)
        masking = SeededMasking(tokenizer, recipe.masking, seed)
        settings = {
            "folder": inputs.folder / name,
            "seed": seed,
            "measure": partial(look, held_out),
        }
        result = trainer.attempt(network, inputs.text, masking, recipe, **settings)
        paths.write_text(done, json.dumps({"strength": strength, "seed": seed, **result}))
    return json.loads(done.read_text(encoding="utf-8"))


def study(plan: Beyond, inputs: Inputs) -> list[dict[str, Any]]:
    """Run every strength of a plan, and the learned ones, with every seed."""
    taught = [name for name, by in TAUGHT.items() if by in plan.learned]
    arms = product((*plan.strengths, *taught), plan.seeds)
    return [run(plan, strength, seed, inputs) for strength, seed in arms]


def larger(plan: Beyond, inputs: Inputs) -> list[dict[str, Any]]:
    """Train each of a plan's larger models at λ = 0 and at its size's own.

    A run has model, learning_rate and precision too, None where they are the recipe's.
    """
    runs = []
    for size in plan.larger:
        of_size = plan.changed(model=size.model, larger=[], pretrain=size.recipe(plan.pretrain))
        recipe = {
            "model": size.model,
            "learning_rate": size.learning_rate,
            "precision": size.precision,
        }
        for seed, strength in product(size.seeds, (0.0, strength_of(size.model))):
            runs.append(recipe | run(of_size, strength, seed, inputs))
    return runs
