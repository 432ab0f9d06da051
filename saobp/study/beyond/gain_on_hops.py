"""Questions of two hops and more, as one number a seed: High beside Original, and both beside the controls."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from saobp.study.beyond import accuracy_by_hops
from saobp.study.setup.labels import algorithm_title, counted
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
        cells = {
            (run["layers"], number): right for number, right in accuracy_by_hops.by_story(run).items() if number > 1
        }
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
    said = [f"{accuracy_by_hops.points(found)} over the {counted(len(seeds), 'seed')}" for found, _, seeds in parts]
    line = "High − Original at two hops and more, points: {} of all algorithms; {} added after, alone"
    return [line.format(*said)]


def control_words(runs: Sequence[dict[str, Any]]) -> list[str]:
    """Say of two hops and more how far High, each control and Original lie apart, over the control's seeds."""
    said = []
    for control in ("uniform", "shuffled"):
        seeds = seeds_of(runs).get(control, set())
        same, sides = [run for run in runs if run["seed"] in seeds], (("high", control), (control, "original"))
        apart = [_apart(same, *side) for side in (*sides, ("high", "original")) if difference(same, *side)]
        said += [f"over {counted(len(seeds), 'seed')} {', '.join(apart)}"] * bool(seeds and apart)
    head = "beside controls that hear of no path, at two hops and more, points, each interval at 95 % by itself: "
    return [head + "; ".join(said)] if said else []


def _apart(runs: Sequence[dict[str, Any]], name: str, against: str) -> str:
    found, *_ = difference(runs, name, against)
    return f"{algorithm_title(name)} − {algorithm_title(against)} {accuracy_by_hops.points(found)}"


def along_words(runs: Sequence[dict[str, Any]]) -> list[str]:
    """Say how far High, Uniform and Original lie apart on the way: two hops and more, mean over the checks of training.

    Shown beside the end, which decides; it says how soon, and was not asked before the runs were seen.
    """
    frame = accuracy_by_hops.curves(runs).query("hops > 1")
    means = frame.groupby(["algorithm", "seed"])["accuracy"].mean().unstack("algorithm")
    said = []
    for name, against in (("high", "original"), ("high", "uniform"), ("uniform", "original")):
        if {name, against} <= set(means) and len(gaps := (means[name] - means[against]).dropna()):
            sides = f"{algorithm_title(name)} − {algorithm_title(against)}"
            said.append(
                f"{sides} {accuracy_by_hops.points(mean_interval(gaps.tolist()))} over {counted(len(gaps), 'seed')}"
            )
    head = "how soon, asked after the runs were seen: two hops and more, mean over all checks of training, points: "
    return [head + "; ".join(said)] if said else []


def shared_seeds(runs: Sequence[dict[str, Any]]) -> set[int]:
    """Return the seeds that every algorithm of some runs has."""
    return set.intersection(*found.values()) if (found := seeds_of(runs)) else set()


def seeds_of(runs: Sequence[dict[str, Any]]) -> dict[str, set[int]]:
    """Return the seeds of each algorithm, in the order of the runs."""
    held: dict[str, set[int]] = {}
    for run in runs:
        held.setdefault(run["algorithm"], set()).add(run["seed"])
    return held
