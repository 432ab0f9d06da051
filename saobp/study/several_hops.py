"""Questions of two hops and more, as one number a seed: High beside Original, and both beside the controls."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from saobp.study.hops import by_story, points
from saobp.study.labels import algorithm_title, counted
from saobp.study.statistics import Estimate, item_errors, mean_interval


def difference(
    runs: Sequence[dict[str, Any]], name: str = "high", against: str = "original"
) -> tuple[Estimate, list[int], dict[int, float]] | None:
    """Compare an algorithm with another on questions of two hops and more: a mean over depths and hops, in points.

    The interval covers seeds and stories. A seed counts where both have the exam at every depth; the depths, and the
    difference of each seed, stand beside the estimate. None without such a seed.
    """
    shown: dict[tuple[str, int], dict[tuple[int, int], np.ndarray]] = {}
    for run in runs:
        cells = {(run["layers"], hops): right for hops, right in by_story(run).items() if hops > 1}
        shown.setdefault((run["algorithm"], run["seed"]), {}).update(cells)
    every = sorted({cell for cells in shown.values() for cell in cells})
    means = {
        key: np.mean([*cells.values()], axis=0) for key, cells in shown.items() if every and len(cells) == len(every)
    }
    seeds = [seed for which, seed in means if which == name and (against, seed) in means]
    if not seeds:
        return None
    gaps = np.stack([means[name, seed] - means[against, seed] for seed in seeds])
    by_seed = dict(zip(seeds, gaps.mean(axis=1).tolist(), strict=True))
    shared, least = item_errors(gaps)
    found = mean_interval([*by_seed.values()], item_error=shared, least=least, items=gaps.shape[1])
    return found, sorted({layers for layers, _ in every}), by_seed


def added_words(runs: Sequence[dict[str, Any]]) -> list[str]:
    """Say of High − Original at two hops and more what the seeds of all algorithms show, and the seeds added, alone.

    Seeds are added where the first leave a question open, so the first were seen before; the added ones were not.
    Nothing is said where every algorithm has the same seeds.
    """
    first = shared_seeds(runs)
    parts = [difference([run for run in runs if (run["seed"] in first) == among]) for among in (True, False)]
    if None in parts:
        return []
    said = [f"{points(found)} over the {counted(len(seeds), 'seed')}" for found, _, seeds in parts]
    line = "High − Original at two hops and more, points: {} of all algorithms; {} added after, alone"
    return [line.format(*said)]


def control_words(runs: Sequence[dict[str, Any]]) -> list[str]:
    """Say of two hops and more how far High lies from each control, and the control from Original, in points."""
    said = []
    for control in ("uniform", "shuffled"):
        for name, against in (("high", control), (control, "original")):
            if found := difference(runs, name, against):
                estimate, _, seeds = found
                sides = f"{algorithm_title(name)} − {algorithm_title(against)}"
                said.append(f"{sides} {points(estimate)} over {counted(len(seeds), 'seed')}")
    head = "beside controls that hear of no path, at two hops and more, points: "
    return [head + "; ".join(said)] if said else []


def shared_seeds(runs: Sequence[dict[str, Any]]) -> set[int]:
    """Return the seeds that every algorithm of some runs has."""
    held: dict[str, set[int]] = {}
    for run in runs:
        held.setdefault(run["algorithm"], set()).add(run["seed"])
    return set.intersection(*held.values()) if held else set()
