"""What the runs of `multihop` that did not fail show: accuracy by hops and path, when it was
learned, who differs.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from companion.statistics import Estimate, item_errors, mean_interval
from companion.studies import plan

# step at which accuracy along training is read
EARLY = 1000
# percent right: a run knows such questions
KNOWN = 90.0
RUN = ["layers", "algorithm", "seed"]
# of the planned study's primary endpoint
WIDTH = 64


def curves(runs: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return accuracy along training, on part of the exam: layers, algorithm, seed, step, hops,
    accuracy (percent).
    """
    rows = []
    for run in runs:
        arm = [run[key] for key in RUN]
        for point in run["curve"]:
            for hops, share in point["accuracy"].items():
                rows.append((*arm, point["step"], int(hops), 100 * share))
    return pd.DataFrame(rows, columns=[*RUN, "step", "hops", "accuracy"])


def scores(runs: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return the exam's result: layers, algorithm, seed, hops, accuracy (percent), right, asked."""
    rows = []
    for run in runs:
        arm = [run[key] for key in RUN]
        for hops, answers in run["outcomes"].items():
            accuracy = 100 * float(np.mean(answers))
            rows.append((*arm, int(hops), accuracy, sum(answers), len(answers)))
    return pd.DataFrame(rows, columns=[*RUN, "hops", "accuracy", "right", "asked"])


def by_story(runs: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return layers, algorithm, seed, hops and right: an array of percent right, one number a story
    of the exam.
    """
    rows = []
    for run in runs:
        arm = [run[key] for key in RUN]
        for hops, answers in run["outcomes"].items():
            of_stories = np.reshape(answers, (-1, run["chains"])).mean(-1)
            rows.append((*arm, int(hops), 100 * of_stories))
    return pd.DataFrame(rows, columns=[*RUN, "hops", "right"])


def by_path(runs: Sequence[dict[str, Any]], paths: Mapping[int, Sequence[str]]) -> pd.DataFrame:
    """Return what runs have right on each path of relations: layers, algorithm, seed, hops, path,
    accuracy (percent).

    `paths`: `questions.paths` of the exam that the runs were set; ValueError if it had another
        number of stories.
    """
    stories = by_story(runs)
    stories["path"] = [paths.get(hops, ()) for hops in stories["hops"]]
    each = stories.explode(["path", "right"]).astype({"right": float})
    each = each.rename(columns={"right": "accuracy"})
    return each.groupby([*RUN, "hops", "path"], sort=False, as_index=False)["accuracy"].mean()


def divided(rows: pd.DataFrame) -> pd.DataFrame:
    """Return of what `by_path` finds the rows of runs that know some paths of a number of hops and
    others not.
    """
    known = rows["accuracy"] >= KNOWN
    share = known.groupby([rows[key] for key in (*RUN, "hops")]).transform("mean")
    return rows[(share > 0) & (share < 1)]


def _seed_gaps(
    frame: pd.DataFrame, over: list[str], value: str, sides: tuple[str, str]
) -> dict[int, Any]:
    """Return one algorithm's mean of a value at two hops and more minus another's, by seed that
    lacks none in both.
    """
    several = frame.query("hops > 1")
    cells = ["layers", "hops", *over]
    wide = several.pivot(index=["algorithm", "seed"], columns=cells, values=value).dropna()
    means = {run: np.mean(values.tolist(), axis=0) for run, values in wide.iterrows()}
    first, second = sides
    gaps = {}
    for name, seed in means:
        if name == first and (second, seed) in means:
            gaps[seed] = means[first, seed] - means[second, seed]
    return gaps


def gain(
    runs: Sequence[dict[str, Any]], name: str = "high", against: str = "original"
) -> tuple[Estimate, dict[int, float]] | None:
    """Compare two algorithms on questions of two hops and more: a mean over depths and hops, in
    points; each seed's.

    The interval covers seeds and stories. None without a seed that has the exam at every depth in
    both.
    """
    by_seed = _seed_gaps(by_story(runs), [], "right", (name, against))
    if not by_seed:
        return None
    gaps = np.stack([*by_seed.values()])
    means = gaps.mean(axis=1).tolist()
    shared, least = item_errors(gaps)
    interval = mean_interval(means, item_error=shared, least=least, items=gaps.shape[1])
    return interval, dict(zip(by_seed, means))


def gain_along(
    runs: Sequence[dict[str, Any]], name: str = "high", against: str = "original"
) -> tuple[Estimate, dict[int, float]] | None:
    """Compare two algorithms as `gain` does, on the mean over all checks of training too; over
    seeds alone.
    """
    gaps = _seed_gaps(curves(runs), ["step"], "accuracy", (name, against))
    return (mean_interval([*gaps.values()]), gaps) if gaps else None


def planned(records: Sequence[dict[str, Any]], width: int = WIDTH) -> list[dict[str, Any]]:
    """Return the planned records of a width that its last analysis reads, in the plan's order;
    before it, all.
    """
    study = plan.studies()["hops"]
    seeds = study.model_extra["seeds"]
    by_seed = {}
    for record in records:
        if record["parameters"]["width"] == width:
            by_seed[record["parameters"]["seed"]] = record
    done = [seed for seed in seeds if seed in by_seed]
    reached = [n for n in study.primary.analyses if done[:n] == seeds[:n]]
    if reached:
        done = done[: reached[-1]]
    return [by_seed[seed] for seed in done]
