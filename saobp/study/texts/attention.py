"""What one step does to attention: column sums, entropy, sparsity and GTD of trained encoders, by task and seed."""

from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from saobp.measure import gtd_and_entropy
from saobp.study.beyond import strengths
from saobp.study.setup import tracked
from saobp.study.setup.labels import ATTENTION_MEASURES
from saobp.study.setup.schema import Record
from saobp.study.statistics import Estimate, mean_interval
from saobp.study.statistics.seeds import Read, seed_gaps

STUDY = "narrow"
FRESH = "scratch"  # the planned study, of the same models on seeds that none had seen
HALF = 0.5  # of a ratio of column sums


@cache
def runs() -> pd.DataFrame:
    """Return one row a trained encoder and task: algorithm, seed, task, and each measure of the matrix that is used."""
    rows = []
    for run in tracked.select(STUDY, "attention"):
        given, overall = run["parameters"], run["metrics"]["matrices"]["refined"]["overall"]
        rows.append([given["algorithm"], given["seed"], given["task"], *(overall[name] for name in ATTENTION_MEASURES)])
    return pd.DataFrame(rows, columns=["algorithm", "seed", "task", *ATTENTION_MEASURES])


def values(measure: str, algorithm: str) -> list[float]:
    """Return a measure of one algorithm for every task and seed."""
    return runs().query("algorithm == @algorithm")[measure].tolist()


def ratios(measure: str) -> pd.Series:
    """Return a measure of High over that of Original, for every task and seed that both have."""
    sides = runs().pivot(index=["task", "seed"], columns="algorithm", values=measure)
    return (sides["high"] / sides["original"]).dropna()


def difference(measure: str, name: str = "high", against: str = "original", task: str = "") -> Estimate:
    """Compare two algorithms seed by seed, on one task or on the mean of all."""
    own = tracked.select(STUDY, "attention", **({"task": task} if task else {}))
    read: Read = lambda run: run["metrics"]["matrices"]["refined"]["overall"][measure]  # noqa: E731
    return mean_interval([*seed_gaps(own, read, (name, against)).values()])


def fresh(measure: str, layer: int | None = None) -> Estimate:
    """Return High − Original on the fresh seeds, the mean over all tasks; of all layers, or of one (from 0)."""

    def read(run: Record) -> float:
        found = run["metrics"]["matrices"]["refined"]
        return found["overall"][measure] if layer is None else float(np.mean(found[measure][layer]))

    return mean_interval([*seed_gaps(tracked.select(FRESH, "attention"), read).values()])


def layers() -> range:
    """Return the layers of the encoders of the fresh seeds."""
    return range(len(tracked.select(FRESH, "attention")[0]["metrics"]["matrices"]["refined"]["gtd"]))


@cache
def steps() -> pd.DataFrame:
    """Return what the step changes in High's own softmax, a row a measure, task and seed: change, low, high (95 %)."""
    rows = [
        {"measure": name, **{key: run["parameters"][key] for key in ("task", "seed")}, **change}
        for run in tracked.select(STUDY, "attention", algorithm="high")
        for name, change in run["metrics"]["changes"].items()
    ]
    return pd.DataFrame(rows)[["measure", "task", "seed", "change", "low", "high"]]


def moved(measure: str, sign: int) -> int:
    """Count the tasks and seeds in which the step moves a measure in one direction, beyond the interval over texts."""
    found = steps().query("measure == @measure")
    return int((found["low"] > 0).sum() if sign > 0 else (found["high"] < 0).sum())


def heads_up(measure: str) -> tuple[int, int]:
    """Count the heads of High's encoders in which the step raises a measure on RACE-Middle, and all of their heads."""
    found = [run["metrics"]["matrices"] for run in tracked.select(STUDY, "attention", algorithm="high", task="race")]
    gaps = np.concatenate([np.ravel(m["refined"][measure]) - np.ravel(m["raw"][measure]) for m in found])
    return int((gaps > 0).sum()), len(gaps)


def tokens() -> pd.DataFrame:
    """Return the column sums of frequent tokens before and after the step, those that lose most first."""
    return pd.DataFrame(_beyond()["tokens"]).set_index("token")


def one_round(strength: float) -> dict[str, float]:
    """Return how far one round of messages is from the settled beliefs (share of the distance), and column sums."""
    return next(row for row in _beyond()["one_round"]["this model"] if row["strength"] == strength)


def heads() -> Estimate:
    """Return Spearman's correlation, over one encoder's heads, of the mass that is moved and the largest column sum."""
    found = pd.DataFrame(_beyond()["heads"])
    rho = found["moved"].corr(found["largest_column"], method="spearman")
    return Estimate(float(rho), np.nan, np.nan, 1, len(found))


def learned_up(study: str) -> tuple[int, int]:
    """Count the heads whose learned strength ends above its start, and all of them."""
    found = strengths.learned(_beyond(study)["strengths"])
    ends = found["step"].agg(["min", "max"])
    first, last = (found[found["step"] == end]["strength"].to_numpy() for end in ends)
    return int((last > first).sum()), len(last)


def gtd_without_structure(length: int = 64) -> tuple[float, float, float]:
    """Return GTD of uniform attention, of the identity, and of a head in which every query attends to one key."""
    import torch

    sink = torch.zeros(length, length)
    sink[:, 0] = 1
    examples = (torch.full((length, length), 1 / length), torch.eye(length), sink)
    return tuple(gtd_and_entropy.gtd(example).item() for example in examples)


def _beyond(study: str = STUDY) -> dict[str, Any]:
    return tracked.metrics(study, "beyond")[0]
