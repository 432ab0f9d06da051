"""Other strengths than the paper's, learned ones, and larger models: what the runs of
`strength_training` show.
"""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from companion.records import kinds
from companion.setup.sizes_and_strengths import strength_of
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
    ends = []
    for run in runs:
        if run["curve"]:
            arm = {"strength": run["strength"], "seed": run["seed"]}
            ends.append(arm | {"processor": kind[run["device"]["name"]]} | run["curve"][-1])
    frame = pd.json_normalize(ends, sep="_")
    return frame.drop(columns=["step", "strengths", "seconds"], errors="ignore")


def learned(runs: Sequence[Run], name: str = BY_HEAD) -> pd.DataFrame:
    """Return where learned strengths of a name in `TAUGHT` went: seed, step, layer, head (from 1),
    strength (nats).
    """
    rows = []
    for run in runs:
        if run["strength"] != name:
            continue
        for point in run["curve"]:
            for layer, heads in enumerate(point["strengths"], 1):
                for head, value in enumerate(heads, 1):
                    rows.append((run["seed"], point["step"], layer, head, value))
    return pd.DataFrame(rows, columns=["seed", "step", "layer", "head", "strength"])


def against_plain(swept: pd.DataFrame) -> pd.DataFrame:
    """Compare the held-out loss at every strength with that at λ = 0, over two or more seeds that
    every strength has.

    Runs on another kind of processor than those at λ = 0 are left out: kinds of processor compute
    apart.
    Columns: strength, p_holm (Student's t over seeds; over all rows).
    """
    strengths, p = [], []
    if len(swept) and (swept["strength"] == 0.0).any():
        plain = swept[swept["strength"] == 0.0]
        comparable = swept[swept["processor"].isin(plain["processor"])]
        wide = comparable.pivot(index=["seed", "processor"], columns="strength", values="loss")
        losses = wide.dropna()
        if len(losses) > 1:
            strengths = [*losses.columns.drop(0.0)]
            differences = losses[strengths].sub(losses[0.0], axis=0)
            p = [mean_interval(differences[strength].tolist()).p for strength in strengths]
    return pd.DataFrame({"strength": strengths, "p_holm": holm(p)})


def by_size(record: dict[str, Any]) -> list[Run]:
    """Return a record's runs of larger models, before them those of its own model at λ = 0 and at
    the model's own.
    """
    metrics, model = record["metrics"], record["parameters"]["model"]
    runs = [run for run in metrics["strengths"] if run["strength"] in (0.0, strength_of(model))]
    return [{"model": model} | run for run in runs] + metrics["larger"]


def end(run: Run) -> float:
    """Return the held-out loss of a run at its end (nats)."""
    return run["curve"][-1]["loss"]


def pairs(runs: Sequence[Run]) -> pd.DataFrame:
    """Return one row a seed that came to its end at λ = 0 and at its size's own λ, on one
    processor.

    Columns: `RECIPE` (learning_rate NaN and precision "": the study's), seed, processor, plain and
        refined (by `end`).
    """
    key = [*RECIPE, "seed", "processor"]
    ended = [run for run in runs if run["curve"]]
    kind = kinds(run["device"]["name"] for run in ended)
    rows = []
    for run in ended:
        recipe = [run.get(name) for name in RECIPE]
        processor = kind[run["device"]["name"]]
        rows.append((*recipe, run["seed"], processor, run["strength"] > 0, end(run)))
    frame = pd.DataFrame(rows, columns=[*key, "refined", "value"]).astype({"learning_rate": float})
    frame["precision"] = frame["precision"].fillna("")
    sides = {}
    for side, name in ((False, "plain"), (True, "refined")):
        values = frame[frame["refined"] == side].drop(columns="refined")
        sides[name] = values.rename(columns={"value": name})
    return sides["plain"].merge(sides["refined"], on=key)
