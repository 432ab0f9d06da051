"""Training at other strengths than the paper's, at learned ones, and of larger models; `strengths`
reads the runs.
"""

import json
from functools import partial
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
    used = [
        module(torch.device("cpu")) for module in model.modules() if isinstance(module, Refinement)
    ]
    strengths = [torch.as_tensor(strength).detach().flatten().tolist() for strength in used]
    found = {"loss": held_out(model)["loss"], "accuracy": held_out.accuracy(model)}
    return found | {"raw": raw, "refined": refined, "strengths": strengths}


def run(
    plan: Beyond,
    strength: float | str,
    seed: int,
    *,
    text: Any,
    held_out: Any,
    tokenizer: Any,
    folder: Path,
) -> dict[str, Any]:
    """Train one model at a strength, or with one of `TAUGHT` that starts from the size's own, and
    follow it.

    Returns strength, seed and what `trainer.attempt` does, with a "curve" of `look`. A finished run
    is read from `folder`; one that was cut off is continued.
    """
    recipe = plan.pretrain
    name = checkpoints.marked(
        f"{plan.model}-{strength}-{seed}", (recipes.identity(recipe), text.fingerprint)
    )
    done = folder / f"{name}.json"
    if not done.exists():
        network = architectures.encoder(plan.model, tokenizer, dropout=recipe.dropout, seed=seed)
        learn = TAUGHT.get(strength)
        saobp.apply(network, "high", strength_of(plan.model) if learn else strength, learn=learn)
        measure = partial(look, pretraining.held_out_measure(recipe, tokenizer, held_out))
        masking = SeededMasking(tokenizer, recipe.masking, seed)
        found = trainer.attempt(
            network, text, masking, recipe, folder=folder / name, seed=seed, measure=measure
        )
        paths.write_text(done, json.dumps({"strength": strength, "seed": seed, **found}))
    return json.loads(done.read_text(encoding="utf-8"))


def study(plan: Beyond, **given: Any) -> list[dict[str, Any]]:
    """Run every strength of a plan, and the learned ones, with every seed; `given` as in `run`."""
    taught = [name for name, by in TAUGHT.items() if by in plan.learned]
    return [
        run(plan, strength, seed, **given)
        for strength in (*plan.strengths, *taught)
        for seed in plan.seeds
    ]


def larger(plan: Beyond, **given: Any) -> list[dict[str, Any]]:
    """Train each of a plan's larger models at λ = 0 and at its size's own; `given` as in `run`.

    A run has model, learning_rate and precision too, None where they are the recipe's.
    """
    runs = []
    for one in plan.larger:
        own = plan.changed(model=one.model, larger=[], pretrain=one.recipe(plan.pretrain))
        named = {"model": one.model, "learning_rate": one.learning_rate, "precision": one.precision}
        levels = (0.0, strength_of(one.model))
        runs += [named | run(own, level, seed, **given) for seed in one.seeds for level in levels]
    return runs
