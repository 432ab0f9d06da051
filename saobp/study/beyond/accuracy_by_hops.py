"""What the runs of `multihop` show: accuracy by hops and by path of relations, when it was learned, who differs.

A run that failed has no row; where all did, a frame is empty and keeps its columns.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from saobp.study.beyond import plan
from saobp.study.statistics import Estimate, holm, item_errors, mean_interval, paired_difference

EARLY = 1000  # step at which accuracy along training is read
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


def by_story(runs: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return layers, algorithm, seed, hops and right: an array of percent right, one number a story of the exam."""
    rows = [
        (*(run[key] for key in RUN), int(hops), 100 * np.reshape(answers, (-1, run["chains"])).mean(-1))
        for run in runs
        for hops, answers in run["outcomes"].items()
    ]
    return pd.DataFrame(rows, columns=[*RUN, "hops", "right"])


def differences(runs: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Compare every algorithm with Original on the same stories and seeds: one row a depth, algorithm and hops.

    Columns: layers, algorithm, hops, difference, low, high (points, 95 %), p, p_holm (over all rows), seeds. The
    interval covers seeds and stories; with one seed the stories alone.
    """
    rows, wide = [], by_story(runs).pivot(index=["layers", "hops", "seed"], columns="algorithm", values="right")
    for algorithm in wide.columns.drop("original") if "original" in wide else ():
        pairs = wide[[algorithm, "original"]].dropna()
        for (layers, hops), own in pairs.groupby(level=["layers", "hops"]):
            found = paired_difference(np.stack(own[algorithm]), np.stack(own["original"]))
            rows.append((layers, algorithm, hops, found.value, found.low, found.high, found.p, len(own)))
    names = ["layers", "algorithm", "hops", "difference", "low", "high", "p", "seeds"]
    frame = pd.DataFrame(rows, columns=names)
    return frame.assign(p_holm=holm(frame["p"].tolist()))


def by_path(runs: Sequence[dict[str, Any]], paths: Mapping[int, Sequence[str]]) -> pd.DataFrame:
    """Return what runs have right on each path of relations: layers, algorithm, seed, hops, path, accuracy (percent).

    `paths` are those of the exam that the runs were set (`questions.paths`); ValueError if it had another number of
    stories.
    """
    found = by_story(runs)
    each = found.assign(path=[paths.get(hops, ()) for hops in found["hops"]]).explode(["path", "right"])
    each = each.astype({"right": float}).rename(columns={"right": "accuracy"})
    return each.groupby([*RUN, "hops", "path"], sort=False, as_index=False)["accuracy"].mean()


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
    several = by_story(runs).query("hops > 1")
    whole = several.pivot(index=["algorithm", "seed"], columns=["layers", "hops"], values="right").dropna()
    means = {key: np.mean(cells.tolist(), axis=0) for key, cells in whole.iterrows()}
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
    """Return the difference of the mean over all checks of training, hops and depths, and each seed's; None without.

    A run of which a check lacks at some depth or number of hops, one that failed say, has no mean.
    """
    frame = curves(runs).query("hops > 1")
    whole = frame.pivot(index=["algorithm", "seed"], columns=["layers", "hops", "step"], values="accuracy").dropna()
    means = whole.mean(axis=1).unstack("algorithm")
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
