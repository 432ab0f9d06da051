"""Larger models by one recipe on one text: the refinement beside none, as the size grows (notebook 12)."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from saobp.study.beyond import strengths
from saobp.study.setup.recipes import Beyond, Larger
from saobp.study.setup.sizes import SIZES, strength_of
from saobp.study.statistics import mean_interval

Run = dict[str, Any]


def study(plan: Beyond, **given: Any) -> list[Run]:
    """Train each of a plan's larger models at λ = 0 and at its size's own, and follow it.

    `given` are text, held_out, tokenizer and folder, as in `strengths.run`, whose keys a run has; beside them "model",
    "learning_rate" and "precision", None where they are the recipe's.
    """
    return [
        {"model": one.model, "learning_rate": one.learning_rate, "precision": one.precision}
        | strengths.run(_planned(plan, one), strength, seed, **given)
        for one in plan.larger
        for seed in one.seeds
        for strength in (0.0, strength_of(one.model))
    ]


def _planned(plan: Beyond, one: Larger) -> Beyond:
    """The plan of one larger model: its name, and its own learning rate and precision where it has some."""
    rate, precision = one.of(plan.pretrain)
    recipe = replace(plan.pretrain, learning_rate=rate, precision=precision)
    return replace(plan, model=one.model, larger=[], pretrain=recipe)


def with_own(runs: Sequence[Run], swept: Sequence[Run], model: str) -> list[Run]:
    """Put before larger models' runs those of a study of strengths that are at λ = 0 and at its model's own."""
    kept = (0.0, strength_of(model))
    return [{"model": model} | run for run in swept if run["strength"] in kept] + list(runs)


def gaps(runs: Sequence[Run]) -> pd.DataFrame:
    """Compare the held-out loss at a size's own λ with that at λ = 0 of the same seeds, a row a recipe.

    Columns: model, learning_rate (NaN: the recipe's), precision ("": the recipe's), layers, hidden, strength (λ),
    seeds; plain and refined (loss, nats), difference, low, high (nats; 95 %, Student's t over seeds; NaN for one);
    before, after (what the fullest key holds in the softmax and after the step, 1 under uniform attention, of the
    refined model). A run that failed counts for nothing.
    """
    rows = []
    for (model, *recipe), ends, losses in paired(runs):
        size, (plain, refined) = SIZES[model], losses.mean()
        apart = mean_interval((losses.iloc[:, 1] - losses.iloc[:, 0]).tolist())
        shown = ends[(ends["strength"] == losses.columns[1]) & ends["seed"].isin(losses.index.get_level_values("seed"))]
        held = shown[["raw_largest_column", "refined_largest_column"]].mean()
        what = (model, *recipe, size.layers, size.hidden, losses.columns[1], len(losses))
        rows.append((*what, plain, refined, apart.value, apart.low, apart.high, *held))
    columns = ["model", "learning_rate", "precision", "layers", "hidden", "strength", "seeds", "plain", "refined"]
    frame = pd.DataFrame(rows, columns=[*columns, "difference", "low", "high", "before", "after"])
    return frame.astype({"learning_rate": float})


def paired(runs: Sequence[Run]) -> Iterator[tuple[tuple[Any, ...], pd.DataFrame, pd.DataFrame]]:
    """Yield each recipe (model, learning rate, precision) that has a pair: its runs' ends, and the losses of pairs.

    A pair is a seed that came to its end both ways on one processor: a row each, with columns λ = 0 and its own λ.
    """
    alike: dict[tuple[Any, ...], list[Run]] = {}
    for run in runs:
        alike.setdefault((run["model"], run.get("learning_rate"), run.get("precision") or ""), []).append(run)
    for recipe, found in alike.items():
        ends, both = strengths.sweep(found), [0.0, strength_of(recipe[0])]
        if not ends.empty and set(both) <= set(ends["strength"]):
            losses = ends.pivot(index=["seed", "processor"], columns="strength", values="loss")[both].dropna()
            if len(losses):
                yield recipe, ends, losses
