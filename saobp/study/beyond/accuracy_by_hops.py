"""What the runs of `multihop` show: accuracy by hops and by path of relations, when it was learned, who differs.

On questions of two hops and more, as one number a seed: High beside Original, and both beside the controls. A run that
failed has no row; where all did, a frame is empty and keeps its columns.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from saobp.study.beyond import plan
from saobp.study.statistics import Estimate, holm, item_errors, mean_interval, paired_difference

KNOWN = 90.0  # percent right: a run knows such questions
RUN = ["layers", "algorithm", "seed"]
WIDTH = 64  # of the planned study's primary endpoint


def curves(runs: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return accuracy along training, on part of the exam: layers, algorithm, seed, step, hops, accuracy (percent)."""
    rows = [
        (*(run[key] for key in RUN), point["step"], int(hops), 100 * share)
        for run in runs
        for point in run["curve"]
        for hops, share in point["accuracy"].items()
    ]
    return pd.DataFrame(rows, columns=[*RUN, "step", "hops", "accuracy"])


def scores(runs: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return the exam's result: layers, algorithm, seed, hops, accuracy (percent), right, asked."""
    rows = [
        (*(run[key] for key in RUN), int(hops), 100 * float(np.mean(answers)), sum(answers), len(answers))
        for run in runs
        for hops, answers in run["outcomes"].items()
    ]
    return pd.DataFrame(rows, columns=[*RUN, "hops", "accuracy", "right", "asked"])


def differences(runs: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Compare every algorithm with Original on the same stories and seeds: one row a depth, algorithm and hops.

    Columns: layers, algorithm, hops, difference, low, high (points, 95 %), p, p_holm (over all rows), seeds. The
    interval covers seeds and stories; with one seed the stories alone.
    """
    rows = []
    for layers in dict.fromkeys(run["layers"] for run in runs):
        whole = [run for run in runs if run["layers"] == layers and not run.get("failed")]
        same = {(run["algorithm"], run["seed"]): by_story(run) for run in whole}
        for algorithm in dict.fromkeys(name for name, _ in same if name != "original"):
            seeds = [seed for name, seed in same if name == algorithm and ("original", seed) in same]
            for hops in same[algorithm, seeds[0]] if seeds else ():
                sides = ([same[name, seed][hops] for seed in seeds] for name in (algorithm, "original"))
                found = paired_difference(*map(np.stack, sides))
                rows.append((layers, algorithm, hops, found.value, found.low, found.high, found.p, len(seeds)))
    names = ["layers", "algorithm", "hops", "difference", "low", "high", "p", "seeds"]
    frame = pd.DataFrame(rows, columns=names)
    return frame.assign(p_holm=holm(frame["p"].tolist()))


def by_story(run: dict[str, Any]) -> dict[int, np.ndarray]:
    """Return what a run has right of each story of its exam, in percent, for each number of hops."""
    return {
        int(hops): 100 * np.reshape(answers, (-1, run["chains"])).mean(-1) for hops, answers in run["outcomes"].items()
    }


def by_path(runs: Sequence[dict[str, Any]], paths: Mapping[int, Sequence[str]]) -> pd.DataFrame:
    """Return what runs have right on each path of relations: layers, algorithm, seed, hops, path, accuracy (percent).

    `paths` are those of the exam that the runs were set (`questions.paths`); ValueError if it had another number of
    stories.
    """
    rows = [
        (*(run[key] for key in RUN), hops, path, right)
        for run in runs
        for hops, answers in by_story(run).items()
        for path, right in zip(paths.get(hops, ()), answers, strict=True)
    ]
    frame = pd.DataFrame(rows, columns=[*RUN, "hops", "path", "accuracy"])
    return frame.groupby([*RUN, "hops", "path"], sort=False, as_index=False)["accuracy"].mean()


def divided(found: pd.DataFrame) -> pd.DataFrame:
    """Return of what `by_path` finds the rows of runs that know some paths of a number of hops and others not."""
    known = found["accuracy"] >= KNOWN
    share = known.groupby([found[key] for key in (*RUN, "hops")]).transform("mean")
    return found[(share > 0) & (share < 1)]


def path_table(found: pd.DataFrame, number: int) -> pd.DataFrame:
    """Return percent right of the divided runs of a number of hops: a row a run, a column a path."""
    rows = divided(found).query("hops == @number")
    return rows.pivot_table(index=RUN, columns="path", values="accuracy", sort=False).sort_index(axis=1).round()


def gain(
    runs: Sequence[dict[str, Any]], name: str = "high", against: str = "original"
) -> tuple[Estimate, dict[int, float]] | None:
    """Compare an algorithm with another on questions of two hops and more: a mean over depths and hops, in points.

    The interval covers seeds and stories. A seed counts where both have the exam at every depth; the difference of
    each stands beside the estimate. None without such a seed.
    """
    shown = defaultdict(list)  # algorithm and seed -> percent right of each story, a row a depth and number of hops
    for run in runs:
        shown[run["algorithm"], run["seed"]] += [right for hops, right in by_story(run).items() if hops > 1]
    every = max(map(len, shown.values()), default=0)
    means = {key: np.mean(rows, axis=0) for key, rows in shown.items() if every and len(rows) == every}
    seeds = [seed for which, seed in means if which == name and (against, seed) in means]
    if not seeds:
        return None
    gaps = np.stack([means[name, seed] - means[against, seed] for seed in seeds])
    by_seed = dict(zip(seeds, gaps.mean(axis=1).tolist(), strict=True))
    shared, least = item_errors(gaps)
    return mean_interval([*by_seed.values()], item_error=shared, least=least, items=gaps.shape[1]), by_seed


def gain_along(
    runs: Sequence[dict[str, Any]], name: str = "high", against: str = "original"
) -> tuple[Estimate, dict[int, float]] | None:
    """Return the difference of the mean over all checks of training, hops and depths, and each seed's; None without."""
    frame = curves(runs).query("hops > 1")
    means = frame.groupby(["algorithm", "seed"])["accuracy"].mean().unstack("algorithm")
    if not {name, against} <= set(means):
        return None
    gaps = (means[name] - means[against]).dropna()
    return (mean_interval(gaps.tolist()), gaps.to_dict()) if len(gaps) else None


def planned(records: Sequence[dict[str, Any]], width: int = WIDTH) -> list[dict[str, Any]]:
    """Return the planned study's records of a width that the last analysis reads: its seeds in the plan's order.

    Before the seeds of the first analysis are all there, those that are.
    """
    study = plan.studies()["hops"]
    own = {record["parameters"]["seed"]: record for record in records if record["parameters"]["width"] == width}
    done = [seed for seed in study.model_extra["seeds"] if seed in own]
    reached = [n for n in study.primary.analyses if done[:n] == study.model_extra["seeds"][:n]]
    return [own[seed] for seed in done[: reached[-1] if reached else None]]
