"""Other strengths than the paper's, learned ones, and larger models (notebook 12): what their runs show.

The same text and masks at each λ; `strength_training` makes the runs.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from saobp.study.setup.sizes_and_strengths import SIZES, strength_of
from saobp.study.statistics import holm, mean_interval

Run = dict[str, Any]
BY_HEAD, BY_LAYER = "learned", "learned-by-layer"
TAUGHT = {BY_HEAD: "head", BY_LAYER: "layer"}  # strengths that are parameters, and what has one of its own


def sweep(runs: Sequence[Run]) -> pd.DataFrame:
    """Return one row a run: strength, seed, processor, loss, accuracy (0 to 1), raw_ and refined_ shapes at the end.

    A run that failed has no row.
    """
    ends = [
        {"strength": run["strength"], "seed": run["seed"], "processor": run["device"]["name"], **run["curve"][-1]}
        for run in runs
        if run["curve"]
    ]
    return pd.json_normalize(ends, sep="_").drop(columns=["step", "strengths", "seconds"], errors="ignore")


def learned(runs: Sequence[Run], name: str = BY_HEAD) -> pd.DataFrame:
    """Return where learned strengths of a name in `TAUGHT` went; a failed run nowhere.

    Columns: seed, step, layer, head (from 1; 1 alone where a layer's heads share theirs), strength (nats).
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


def by_seed(swept: pd.DataFrame) -> pd.DataFrame:
    """Return the held-out losses of the seeds that every strength has, a row a seed and processor, a column a strength.

    Runs on another kind of processor than those at λ = 0 are left out: kinds of processor compute apart.
    """
    plain = swept[swept["strength"] == 0.0]["processor"]
    comparable = swept[swept["processor"].isin(plain)] if len(plain) else swept
    return comparable.pivot(index=["seed", "processor"], columns="strength", values="loss").dropna()


def against_plain(swept: pd.DataFrame) -> pd.DataFrame:
    """Compare the held-out loss at every strength with that at λ = 0 of the same seeds and processor.

    There is no row without two seeds.
    Columns: strength, difference, low, high (nats; 95 %, Student's t over seeds), p, p_holm (over all rows), seeds.
    """
    losses, rows = pd.DataFrame() if swept.empty else by_seed(swept), []
    for strength in losses.columns.drop(0.0) if 0.0 in losses and len(losses) > 1 else ():
        found = mean_interval((losses[strength] - losses[0.0]).tolist())
        rows.append((strength, found.value, found.low, found.high, found.p, found.seeds))
    frame = pd.DataFrame(rows, columns=["strength", "difference", "low", "high", "p", "seeds"])
    return frame.assign(p_holm=holm(frame["p"].tolist()))


def by_size(record: dict[str, Any]) -> list[Run]:
    """Return a record's runs of larger models, before them those of its own model at λ = 0 and at the model's own."""
    found, model = record["metrics"], record["parameters"]["model"]
    own = [run for run in found["strengths"] if run["strength"] in (0.0, strength_of(model))]
    return [{"model": model} | run for run in own] + found["larger"]


def gaps(runs: Sequence[Run]) -> pd.DataFrame:
    """Compare the held-out loss at a size's own λ with that at λ = 0 of the same seeds, a row a recipe.

    Columns: model, learning_rate (NaN: the recipe's), precision ("": the recipe's), layers, hidden, strength (λ),
    seeds; plain and refined (loss, nats), difference, low, high (nats; 95 %, Student's t over seeds; NaN for one).
    A run that failed counts for nothing.
    """
    rows = []
    for (model, *recipe), losses in paired(runs):
        size, (plain, refined) = SIZES[model], losses.mean()
        apart = mean_interval((losses.iloc[:, 1] - losses.iloc[:, 0]).tolist())
        what = (model, *recipe, size.layers, size.hidden, losses.columns[1], len(losses))
        rows.append((*what, plain, refined, apart.value, apart.low, apart.high))
    columns = ["model", "learning_rate", "precision", "layers", "hidden", "strength", "seeds", "plain", "refined"]
    return pd.DataFrame(rows, columns=[*columns, "difference", "low", "high"]).astype({"learning_rate": float})


def paired(runs: Sequence[Run]) -> Iterator[tuple[tuple[Any, ...], pd.DataFrame]]:
    """Yield each recipe (model, learning rate, precision) that has a pair, and the losses of its pairs.

    A pair is a seed that came to its end both ways on one processor: a row each, with columns λ = 0 and its own λ.
    """
    alike = defaultdict(list)
    for run in runs:
        alike[run["model"], run.get("learning_rate"), run.get("precision") or ""].append(run)
    for recipe, found in alike.items():
        ends, both = sweep(found), [0.0, strength_of(recipe[0])]
        if not ends.empty and set(both) <= set(ends["strength"]):
            losses = ends.pivot(index=["seed", "processor"], columns="strength", values="loss")[both].dropna()
            if len(losses):
                yield recipe, losses
