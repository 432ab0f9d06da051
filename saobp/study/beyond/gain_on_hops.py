"""Questions of two hops and more, as one number a seed: High beside Original, and both beside the controls."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from saobp.study.beyond import accuracy_by_hops
from saobp.study.setup import plan
from saobp.study.statistics import Estimate, item_errors, mean_interval

WIDTH = 64  # of the planned study's primary endpoint


def difference(
    runs: Sequence[dict[str, Any]], name: str = "high", against: str = "original"
) -> tuple[Estimate, dict[int, float]] | None:
    """Compare an algorithm with another on questions of two hops and more: a mean over depths and hops, in points.

    The interval covers seeds and stories. A seed counts where both have the exam at every depth; the difference of
    each stands beside the estimate. None without such a seed.
    """
    shown: dict[tuple[str, int], dict[tuple[int, int], np.ndarray]] = {}
    for run in runs:
        cells = {(run["layers"], hops): right for hops, right in accuracy_by_hops.by_story(run).items() if hops > 1}
        shown.setdefault((run["algorithm"], run["seed"]), {}).update(cells)
    every = {cell for cells in shown.values() for cell in cells}
    means = {
        key: np.mean([*cells.values()], axis=0) for key, cells in shown.items() if every and len(cells) == len(every)
    }
    seeds = [seed for which, seed in means if which == name and (against, seed) in means]
    if not seeds:
        return None
    gaps = np.stack([means[name, seed] - means[against, seed] for seed in seeds])
    by_seed = dict(zip(seeds, gaps.mean(axis=1).tolist(), strict=True))
    shared, least = item_errors(gaps)
    return mean_interval([*by_seed.values()], item_error=shared, least=least, items=gaps.shape[1]), by_seed


def along(
    runs: Sequence[dict[str, Any]], name: str = "high", against: str = "original"
) -> tuple[Estimate, dict[int, float]] | None:
    """Return the difference of the mean over all checks of training, hops and depths, and each seed's; None without."""
    frame = accuracy_by_hops.curves(runs).query("hops > 1")
    means = frame.groupby(["algorithm", "seed"])["accuracy"].mean().unstack("algorithm")
    if not {name, against} <= set(means):
        return None
    gaps = (means[name] - means[against]).dropna()
    return (mean_interval(gaps.tolist()), gaps.to_dict()) if len(gaps) else None


def read(records: Sequence[dict[str, Any]], width: int = WIDTH) -> list[dict[str, Any]]:
    """Return the planned study's records of a width that the last analysis reads: its seeds in the plan's order.

    Before the seeds of the first analysis are all there, those that are.
    """
    study = plan.studies()["hops"]
    own = {record["parameters"]["seed"]: record for record in records if record["parameters"]["width"] == width}
    done = [seed for seed in study.model_extra["seeds"] if seed in own]
    reached = [n for n in study.primary.analyses if done[:n] == study.model_extra["seeds"][:n]]
    return [own[seed] for seed in done[: reached[-1] if reached else None]]


def seeds_of(runs: Sequence[dict[str, Any]]) -> dict[str, set[int]]:
    """Return the seeds of each algorithm, in the order of the runs."""
    held: dict[str, set[int]] = {}
    for run in runs:
        held.setdefault(run["algorithm"], set()).add(run["seed"])
    return held
