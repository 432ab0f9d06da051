"""Larger models by one recipe on one text: the refinement beside none, as the size grows (notebook 12)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from saobp.study import labels, models, strengths
from saobp.study.labels import counted
from saobp.study.recipes import Beyond
from saobp.study.statistics import mean_interval

Run = dict[str, Any]


def study(plan: Beyond, **given: Any) -> list[Run]:
    """Train each of a plan's larger models at λ = 0 and at its size's own, and follow it; "model" says which it is.

    `given` are text, held_out, tokenizer and folder, as in `strengths.run`, whose keys a run has.
    """
    return [
        {"model": model} | strengths.run(replace(plan, model=model), strength, seed, **given)
        for model, seeds in plan.larger.items()
        for seed in seeds
        for strength in (0.0, models.strength_of(model))
    ]


def with_own(runs: Sequence[Run], swept: Sequence[Run], model: str) -> list[Run]:
    """Put before larger models' runs those of a study of strengths that are at λ = 0 and at its model's own."""
    kept = (0.0, models.strength_of(model))
    return [{"model": model} | run for run in swept if run["strength"] in kept] + list(runs)


def gaps(runs: Sequence[Run]) -> pd.DataFrame:
    """Compare the held-out loss at a size's own λ with that at λ = 0 of the same seeds, one row a model.

    Columns: model, layers, hidden, strength (λ), seeds; plain and refined (loss, nats), difference, low, high (nats;
    95 %, Student's t over seeds; NaN for one); before, after (what the fullest key holds in the softmax and after the
    step, 1 under uniform attention, of the refined model). A run that failed counts for nothing.
    """
    named = dict.fromkeys(run["model"] for run in runs)
    ends = {model: strengths.sweep([run for run in runs if run["model"] == model]) for model in named}
    rows = [_gap(model, end) for model, end in ends.items() if not _paired(model, end).empty]
    columns = ["model", "layers", "hidden", "strength", "seeds", "plain", "refined", "difference", "low", "high"]
    return pd.DataFrame(rows, columns=[*columns, "before", "after"])


def _paired(model: str, ends: pd.DataFrame) -> pd.DataFrame:
    """The losses of the seeds that came to their end both ways: a row a seed, a column a strength."""
    both = [0.0, models.strength_of(model)]
    if ends.empty or not set(both) <= set(ends["strength"]):
        return pd.DataFrame()
    return ends.pivot(index="seed", columns="strength", values="loss")[both].dropna()


def _gap(model: str, ends: pd.DataFrame) -> tuple[Any, ...]:
    """One row of `gaps`, from what a model's runs show at their end."""
    size, losses = models.SIZES[model], _paired(model, ends)
    plain, refined = losses.mean()
    apart = mean_interval((losses.iloc[:, 1] - losses.iloc[:, 0]).tolist())
    shown = ends[(ends["strength"] == losses.columns[1]) & ends["seed"].isin(losses.index)]
    held = shown[["raw_largest_column", "refined_largest_column"]].mean()
    what = (model, size.layers, size.hidden, losses.columns[1], len(losses))
    return (*what, plain, refined, apart.value, apart.low, apart.high, *held)


def words(found: pd.DataFrame) -> list[str]:
    """Say of each size how far its own λ lies from λ = 0 in held-out loss, and what the fullest key holds."""
    said = []
    for row in found.itertuples():
        one = row.seeds == 1
        gap, low, high = (round(value, 3) + 0.0 for value in (row.difference, row.low, row.high))  # no minus before 0
        interval = "" if one else f" [{low:.3f}, {high:.3f}]"
        seeds = "one seed, so no interval" if one else counted(row.seeds, "seed")
        said.append(
            f"{labels.model_title(row.model)}, {row.layers} layers of {row.hidden}: held-out loss {row.plain:.3f} nats "
            f"at λ = 0; at λ = {row.strength:g} {gap:+.3f}{interval}, {seeds}; fullest key {row.before:.3g} "
            f"before the step, {row.after:.3g} after"
        )
    return said
