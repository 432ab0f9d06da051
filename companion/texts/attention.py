"""What one step does to attention: column sums, entropy, sparsity and GTD of trained encoders, by
task and seed.
"""

from functools import cache, partial

import numpy as np
import pandas as pd

from companion.beyond import strengths
from companion.records import tracked
from companion.setup.studies import ENCODERS, FRESH_ENCODERS
from companion.statistics import Estimate, estimates, geometric_interval, mean_interval
from companion.statistics.seeds import by_side, seed_gap, seed_gaps


def sides(measure: str, study: str = ENCODERS) -> pd.DataFrame:
    """Return a measure of the matrix that is used, a row a seed and task: "high", "original", their
    ratio and gap.
    """
    found = by_side(
        tracked.select(study, "attention"), partial(estimates.mean_of, name=measure)
    ).dropna()
    return found.assign(
        ratio=found["high"] / found["original"], gap=found["high"] - found["original"]
    )


def factor(measure: str) -> Estimate:
    """Return High / Original over fresh seeds, each the geometric mean over all tasks."""
    runs = tracked.select(FRESH_ENCODERS, "attention")
    gaps = seed_gaps(runs, partial(estimates.mean_of, name=measure), log=True)
    return geometric_interval(np.exp([*gaps.values()]))


def given(measure: str, study: str = ENCODERS) -> pd.DataFrame:
    """Return a measure before ("raw") and after ("refined") the step in High's own attention, a row
    a seed and task.
    """
    found = {}
    for run in tracked.select(study, "attention", algorithm="high"):
        matrices = run["metrics"]["matrices"]
        place = run["parameters"]["seed"], run["parameters"]["task"]
        found[place] = {side: matrices[side]["overall"][measure] for side in ("raw", "refined")}
    return pd.DataFrame.from_dict(found, orient="index").rename_axis(["seed", "task"])


def difference(measure: str, layer: int | None = None, study: str = ENCODERS) -> Estimate:
    """Return High − Original over seeds, each the mean over all tasks; of all layers, or of one
    (from 0).
    """
    layers = slice(None) if layer is None else slice(layer, layer + 1)
    return seed_gap(
        tracked.select(study, "attention"), partial(estimates.mean_of, name=measure, layers=layers)
    )


fresh = partial(difference, study=FRESH_ENCODERS)


def fresh_without(measure: str, seed: int, task: str) -> Estimate:
    """Return `fresh` where one seed's mean is over its other tasks than this one."""
    return mean_interval(
        sides(measure, FRESH_ENCODERS)["gap"].drop((seed, task)).groupby("seed").mean().tolist()
    )


@cache
def steps() -> pd.DataFrame:
    """Return what the step changes in High's own softmax, a row a measure, task and seed: change,
    low, high (95 %).
    """
    rows = [
        {"measure": name, **{key: run["parameters"][key] for key in ("task", "seed")}, **change}
        for run in tracked.select(ENCODERS, "attention", algorithm="high")
        for name, change in run["metrics"]["changes"].items()
    ]
    return pd.DataFrame(rows)[["measure", "task", "seed", "change", "low", "high"]]


def moved(measure: str, sign: int) -> int:
    """Count the tasks and seeds in which the step moves a measure in one direction, beyond the
    interval over texts.
    """
    found = steps().query("measure == @measure")
    return int((found["low"] > 0).sum() if sign > 0 else (found["high"] < 0).sum())


def heads_up(measure: str) -> tuple[int, int]:
    """Count the heads of High's encoders in which the step raises a measure on RACE-Middle, and all
    of their heads.
    """
    found = [
        run["metrics"]["matrices"]
        for run in tracked.select(ENCODERS, "attention", algorithm="high", task="race")
    ]
    gaps = np.concatenate(
        [np.ravel(m["refined"][measure]) - np.ravel(m["raw"][measure]) for m in found]
    )
    return int((gaps > 0).sum()), len(gaps)


def learned_up(study: str) -> tuple[int, int]:
    """Count the heads whose learned strength ends above its start, and all of them."""
    found = strengths.learned(tracked.metrics(study, "beyond")[0]["strengths"])
    went = found.groupby(["seed", "layer", "head"])["strength"].agg(["first", "last"])
    return int((went["last"] > went["first"]).sum()), len(went)


def all_seeds(measure: str) -> Estimate:
    """Return `difference` over the fresh seeds and those that were seen before them."""
    runs = [
        run for study in (ENCODERS, FRESH_ENCODERS) for run in tracked.select(study, "attention")
    ]
    return seed_gap(runs, partial(estimates.mean_of, name=measure))


def gtd_without_structure() -> list[float]:
    """Return GTD of uniform attention, of the identity, and of a head in which every query attends
    to one key.
    """
    import torch

    from saobp.measure.gtd_and_entropy import gtd

    identity = torch.eye(64)
    return [
        gtd(example).item()
        for example in (torch.full((64, 64), 1 / 64), identity, identity[:1].expand(64, 64))
    ]
