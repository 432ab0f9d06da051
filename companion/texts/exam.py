"""Questions of a known number of hops: accuracy along training and at its end, High beside its
controls.
"""

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from companion.beyond import accuracy_by_hops
from companion.records import kinds, tracked
from companion.setup.studies import EXAM, FRESH_EXAM
from companion.statistics import Estimate, mean_interval


@cache
def runs(study: str = EXAM, width: int = accuracy_by_hops.WIDTH) -> list[dict[str, Any]]:
    """Return the encoders of one study; of the planned one those of a width that its analysis
    reads.
    """
    planned = accuracy_by_hops.planned(tracked.select(study, "hops"), width)
    read = planned if study == FRESH_EXAM else tracked.select(study, "beyond")
    return [run for record in read for run in record["metrics"]["multihop"]]


def processors(width: int) -> str:
    """Name the kinds of processor on which the planned study's encoders of a width were trained."""
    planned = [run for record in tracked.metrics(FRESH_EXAM, "hops") for run in record["multihop"]]
    kind = kinds(run["device"]["name"] for run in planned)
    return " and ".join(sorted({kind[run["device"]["name"]] for run in runs(FRESH_EXAM, width)}))


@cache
def deepest(*, at_end: bool = False) -> pd.DataFrame:
    """Return High − Original at the deepest encoders by seed and width, a mean over training or
    `at_end`; planned.
    """
    found, compare = {}, accuracy_by_hops.gain if at_end else accuracy_by_hops.gain_along
    for width in sorted(
        {record["parameters"]["width"] for record in tracked.select(FRESH_EXAM, "hops")}
    ):
        own = runs(FRESH_EXAM, width)
        layers = max(run["layers"] for run in own)
        gain = compare([run for run in own if run["layers"] == layers])
        found |= {width: gain[1]} if gain else {}
    return pd.DataFrame(found)


def by_width() -> dict[int, Estimate]:
    """Return the mean of `deepest` over its seeds, by width."""
    return {width: mean_interval(gaps.dropna().tolist()) for width, gaps in deepest().items()}


def by_doubling(seeds: int | None = None, *, at_end: bool = False) -> Estimate:
    """Return the slope of `deepest` over the logarithm of the width, in points per doubling, over
    the first `seeds`.

    Of three widths, each the double of the one before, the least-squares slope is half of the outer
    two's difference.
    """
    gaps = deepest(at_end=at_end).sort_index()
    doublings = np.log2(max(gaps) / min(gaps))
    slopes = (gaps[max(gaps)] - gaps[min(gaps)]).dropna() / doublings
    return mean_interval(slopes[:seeds].tolist())


def right(name: str, width: int) -> float:
    """Return the percent of questions of two hops and more right at the last step, mean over seeds,
    at the deepest.
    """
    frame = accuracy_by_hops.scores(runs(FRESH_EXAM, width)).query(
        "algorithm == @name and hops > 1"
    )
    return frame.groupby("layers")["accuracy"].mean().iloc[-1]


@cache
def difference(name: str = "high", against: str = "original", study: str = EXAM) -> Estimate:
    """Compare two algorithms at the last step: questions of two hops and more, points, over the
    seeds of both.
    """
    return accuracy_by_hops.gain(runs(study), name, against)[0]


@cache
def along(name: str = "high", against: str = "original", study: str = EXAM) -> tuple[Estimate, int]:
    """Compare two algorithms on the mean over training; with it in how many seeds the first is
    ahead.
    """
    found, gaps = accuracy_by_hops.gain_along(runs(study), name, against)
    return found, sum(gap > 0 for gap in gaps.values())


def at(step: int, number: int, study: str = EXAM, layers: int | None = None) -> pd.DataFrame:
    """Return percent right at a step and number of hops, a row a seed that has each depth, a column
    an algorithm.
    """
    frame = accuracy_by_hops.curves(runs(study)).query("step == @step and hops == @number")
    frame = frame if layers is None else frame.query("layers == @layers")
    by_depth = frame.pivot(index=["seed", "algorithm"], columns="layers", values="accuracy")
    return by_depth.dropna().mean(axis=1).unstack("algorithm")


def known(name: str, layers: int, number: int) -> pd.Series:
    """Tell of each seed of an algorithm whether its run ends with `KNOWN` percent right or more."""
    frame = accuracy_by_hops.scores(runs()).query(
        "algorithm == @name and layers == @layers and hops == @number"
    )
    return frame.set_index("seed")["accuracy"] >= accuracy_by_hops.KNOWN


def known_by_one_only(name: str, against: str, layers: int, number: int) -> tuple[int, int, float]:
    """Count the seeds of which one algorithm's run alone ends with `KNOWN` percent right, and the
    sign test's p.
    """
    ours, theirs = known(name, layers, number).align(known(against, layers, number), join="inner")
    gained, lost = int((ours & ~theirs).sum()), int((theirs & ~ours).sum())
    return gained, lost, binomtest(gained, gained + lost).pvalue if gained + lost else 1.0


def table() -> list[list[Any]]:
    """Return one row per depth and number of hops: accuracy at the end of each algorithm, and High
    − Original.
    """
    means = (
        accuracy_by_hops.scores(runs()).groupby(["layers", "hops", "algorithm"])["accuracy"].mean()
    )
    gaps = accuracy_by_hops.differences(runs())
    return [[layers, hops, means[layers, hops], gap] for (layers, hops), gap in gaps.items()]


def by_path(number: int = 3) -> tuple[int, int, int]:
    """Return the runs that know some paths of relations and not others, all runs, and the paths of
    that many hops.
    """
    record = tracked.metrics(EXAM, "beyond")[0]
    found = accuracy_by_hops.by_path(
        record["multihop"], {int(n): path for n, path in record["paths"].items()}
    )
    found = found[found["hops"] == number]
    divided = accuracy_by_hops.divided(found)
    count = (len(rows[accuracy_by_hops.RUN].drop_duplicates()) for rows in (divided, found))
    return (*count, found["path"].nunique())
