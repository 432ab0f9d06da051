"""What the runs of `multihop` that did not fail show: accuracy by hops and path, when it was
learned, who differs.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from companion.statistics import Estimate, item_errors, mean_interval, paired_difference
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
        (
            *(run[key] for key in RUN),
            int(hops),
            100 * float(np.mean(answers)),
            sum(answers),
            len(answers),
        )
        for run in runs
        for hops, answers in run["outcomes"].items()
    ]
    return pd.DataFrame(rows, columns=[*RUN, "hops", "accuracy", "right", "asked"])


def by_story(runs: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return layers, algorithm, seed, hops and right: an array of percent right, one number a story
    of the exam.
    """
    rows = [
        (
            *(run[key] for key in RUN),
            int(hops),
            100 * np.reshape(answers, (-1, run["chains"])).mean(-1),
        )
        for run in runs
        for hops, answers in run["outcomes"].items()
    ]
    return pd.DataFrame(rows, columns=[*RUN, "hops", "right"])


def differences(
    runs: Sequence[dict[str, Any]], name: str = "high"
) -> dict[tuple[int, int], Estimate]:
    """Compare an algorithm with Original on the same stories and seeds, in points: (layers, hops)
    -> difference.
    """
    wide = by_story(runs).pivot(
        index=["layers", "hops", "seed"], columns="algorithm", values="right"
    )
    pairs = wide.reindex(columns=[name, "original"]).dropna().groupby(level=["layers", "hops"])
    return {
        key: paired_difference(*(np.stack(own[side]) for side in (name, "original")))
        for key, own in pairs
    }


def by_path(runs: Sequence[dict[str, Any]], paths: Mapping[int, Sequence[str]]) -> pd.DataFrame:
    """Return what runs have right on each path of relations: layers, algorithm, seed, hops, path,
    accuracy (percent).

    `paths`: `questions.paths` of the exam that the runs were set; ValueError if it had another
        number of stories.
    """
    found = by_story(runs)
    each = found.assign(path=[paths.get(hops, ()) for hops in found["hops"]]).explode(
        ["path", "right"]
    )
    each = each.astype({"right": float}).rename(columns={"right": "accuracy"})
    return each.groupby([*RUN, "hops", "path"], sort=False, as_index=False)["accuracy"].mean()


def divided(found: pd.DataFrame) -> pd.DataFrame:
    """Return of what `by_path` finds the rows of runs that know some paths of a number of hops and
    others not.
    """
    known = found["accuracy"] >= KNOWN
    share = known.groupby([found[key] for key in (*RUN, "hops")]).transform("mean")
    return found[(share > 0) & (share < 1)]


def path_table(found: pd.DataFrame, number: int) -> pd.DataFrame:
    """Return percent right of the divided runs of a number of hops: a row a run, a column a
    path.
    """
    rows = divided(found).query("hops == @number")
    return (
        rows.pivot_table(index=RUN, columns="path", values="accuracy", sort=False)
        .sort_index(axis=1)
        .round()
    )


def _seed_gaps(
    frame: pd.DataFrame, over: list[str], value: str, sides: tuple[str, str]
) -> dict[int, Any]:
    """Return one algorithm's mean of a value at two hops and more minus another's, by seed that
    lacks none in both.
    """
    several = frame.query("hops > 1")
    whole = several.pivot(
        index=["algorithm", "seed"], columns=["layers", "hops", *over], values=value
    ).dropna()
    means = {key: np.mean(cells.tolist(), axis=0) for key, cells in whole.iterrows()}
    first, second = (
        {seed: mean for (name, seed), mean in means.items() if name == side} for side in sides
    )
    return {seed: mean - second[seed] for seed, mean in first.items() if seed in second}


def gain(
    runs: Sequence[dict[str, Any]], name: str = "high", against: str = "original"
) -> tuple[Estimate, dict[int, float]] | None:
    """Compare two algorithms on questions of two hops and more: a mean over depths and hops, in
    points; each seed's.

    The interval covers seeds and stories. None without a seed that has the exam at every depth in
    both.
    """
    found = _seed_gaps(by_story(runs), [], "right", (name, against))
    if not found:
        return None
    gaps = np.stack([*found.values()])
    by_seed = dict(zip(found, gaps.mean(axis=1).tolist()))
    shared, least = item_errors(gaps)
    return mean_interval(
        [*by_seed.values()], item_error=shared, least=least, items=gaps.shape[1]
    ), by_seed


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
    own = {
        record["parameters"]["seed"]: record
        for record in records
        if record["parameters"]["width"] == width
    }
    done = [seed for seed in study.model_extra["seeds"] if seed in own]
    reached = [n for n in study.primary.analyses if done[:n] == study.model_extra["seeds"][:n]]
    return [own[seed] for seed in done[: reached[-1] if reached else None]]
