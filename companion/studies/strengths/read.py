"""Other strengths than the paper's, learned ones, and larger models: what the runs of
`strength_training` show.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from companion.records import kinds
from companion.setup.sizes_and_strengths import SIZES, strength_of
from companion.statistics import holm, mean_interval

Run = dict[str, Any]
BY_HEAD, BY_LAYER = "learned", "learned-by-layer"
# strengths that are parameters, and what has one of its own
TAUGHT = {BY_HEAD: "head", BY_LAYER: "layer"}
# of larger models
RECIPE = ["model", "learning_rate", "precision"]


def sweep(runs: Sequence[Run]) -> pd.DataFrame:
    """Return the end of each run that did not fail: strength, seed, processor, loss, accuracy (0 to
    1), shapes.
    """
    kind = kinds(run["device"]["name"] for run in runs)
    ends = [
        {
            "strength": run["strength"],
            "seed": run["seed"],
            "processor": kind[run["device"]["name"]],
            **run["curve"][-1],
        }
        for run in runs
        if run["curve"]
    ]
    return pd.json_normalize(ends, sep="_").drop(
        columns=["step", "strengths", "seconds"], errors="ignore"
    )


def learned(runs: Sequence[Run], name: str = BY_HEAD) -> pd.DataFrame:
    """Return where learned strengths of a name in `TAUGHT` went: seed, step, layer, head (from 1),
    strength (nats).
    """
    rows = [
        (run["seed"], point["step"], layer, head, value)
        for run in runs
        if run["strength"] == name
        for point in run["curve"]
        for layer, heads in enumerate(point["strengths"], 1)
        for head, value in enumerate(heads, 1)
    ]
    return pd.DataFrame(rows, columns=["seed", "step", "layer", "head", "strength"])


def against_plain(swept: pd.DataFrame) -> pd.DataFrame:
    """Compare the held-out loss at every strength with that at λ = 0, over two or more seeds that
    every strength has.

    Runs on another kind of processor than those at λ = 0 are left out: kinds of processor compute
    apart.
    Columns: strength, p_holm (Student's t over seeds; over all rows).
    """
    losses = pd.DataFrame()
    if len(swept) and len(plain := swept[swept["strength"] == 0.0]):
        comparable = swept[swept["processor"].isin(plain["processor"])]
        losses = comparable.pivot(
            index=["seed", "processor"], columns="strength", values="loss"
        ).dropna()
    others = [*losses.columns.drop(0.0)] if len(losses) > 1 else []
    p = [mean_interval((losses[strength] - losses[0.0]).tolist()).p for strength in others]
    return pd.DataFrame({"strength": others, "p_holm": holm(p)})


def by_size(record: dict[str, Any]) -> list[Run]:
    """Return a record's runs of larger models, before them those of its own model at λ = 0 and at
    the model's own.
    """
    found, model = record["metrics"], record["parameters"]["model"]
    own = [run for run in found["strengths"] if run["strength"] in (0.0, strength_of(model))]
    return [{"model": model} | run for run in own] + found["larger"]


def end(run: Run) -> float:
    """Return the held-out loss of a run at its end (nats)."""
    return run["curve"][-1]["loss"]


def pairs(runs: Sequence[Run], read: Callable[[Run], float] = end) -> pd.DataFrame:
    """Return one row a seed that came to its end at λ = 0 and at its size's own λ, on one
    processor.

    Columns: `RECIPE` (learning_rate NaN and precision "": the study's), seed, processor, plain and
        refined (by `read`).
    """
    key, ended = [*RECIPE, "seed", "processor"], [run for run in runs if run["curve"]]
    kind = kinds(run["device"]["name"] for run in ended)
    rows = [
        (
            *map(run.get, RECIPE),
            run["seed"],
            kind[run["device"]["name"]],
            run["strength"] > 0,
            read(run),
        )
        for run in ended
    ]
    frame = pd.DataFrame(rows, columns=[*key, "refined", "value"]).astype({"learning_rate": float})
    frame["precision"] = frame["precision"].fillna("")
    plain, other = (
        frame[frame["refined"] == side].drop(columns="refined") for side in (False, True)
    )
    return plain.rename(columns={"value": "plain"}).merge(
        other.rename(columns={"value": "refined"}), on=key
    )


def gaps(runs: Sequence[Run]) -> pd.DataFrame:
    """Compare the held-out loss at a size's own λ with that at λ = 0 of the same seeds, a row a
    recipe.

    Columns: `RECIPE`, layers, hidden, strength (λ), seeds, plain, refined, difference, low, high
        (nats, over seeds).
    """
    rows = []
    for recipe, own in pairs(runs).groupby(RECIPE, sort=False, dropna=False):
        size, apart = SIZES[recipe[0]], mean_interval((own["refined"] - own["plain"]).tolist())
        what = (*recipe, size.layers, size.hidden, strength_of(recipe[0]), len(own))
        rows.append(
            (*what, own["plain"].mean(), own["refined"].mean(), apart.value, apart.low, apart.high)
        )
    columns = [
        *RECIPE,
        "layers",
        "hidden",
        "strength",
        "seeds",
        "plain",
        "refined",
        "difference",
        "low",
        "high",
    ]
    return pd.DataFrame(rows, columns=columns).astype({"learning_rate": float})
