"""Rows of questions of a known number of hops: accuracy along training and at its end, by width."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from companion.results.row import CONTRAST, Endpoint, Row
from companion.results.study import Study
from companion.setup import labels
from companion.statistics import Estimate, mean_interval
from companion.studies.hops import read as accuracy_by_hops

OVER_TRAINING = Endpoint("accuracy over training", "points", 1, planned="primary")
LAST_STEP = Endpoint("accuracy at the last step", "points", 1, planned="accuracy at the last step")
EARLY = Endpoint(
    f"accuracy on three hops at step {accuracy_by_hops.EARLY}",
    "points",
    1,
    planned="accuracy on three hops at step 1000",
)
EARLY_DEEP = EARLY.of(" with 4 layers", planned="")
SLOPE = Endpoint(
    "change per doubling of the width",
    "points",
    -1,
    planned="slope of the primary difference over log2 of the width (32, 64, 128; 4 layers)",
)
SLOPE_AT_END = SLOPE.of(" at the last step", planned="")
AHEAD = Endpoint("accuracy over training", "seeds")
THREE_HOPS = "accuracy on three hops over training"
KNOWN = Endpoint("three hops known at the end", "runs", of_what="runs")
DIVIDED = Endpoint("three-hop paths known in part", "runs", of_what="runs")
STRENGTH = Endpoint("strength in the exam", "nats")
POSITIONS = Endpoint("positions in the exam", "tokens")
CHANCE = Endpoint("accuracy by chance", "percent")
CONTRASTS = (
    ("high", "original"),
    ("high", "uniform"),
    ("high", "sinkhorn"),
    ("high", "shuffled"),
    ("uniform", "original"),
    ("sinkhorn", "original"),
    ("low", "original"),
)
SHOWN = ("high", "original", "uniform")
DEEP = 4
Runs = Sequence[dict[str, Any]]


def rows(study: Study) -> Iterator[Row]:
    """Yield the rows of the planned exam of several widths, and of notebook 12's exam."""
    exams = study.runs("hops")
    if exams:
        runs = _answered(accuracy_by_hops.planned(exams))
        yield from _of_exam(study, runs, exams[0]["metrics"]["exam_recipe"])
        yield from _of_widths(study)
    for record in study.runs("beyond"):
        runs = record["metrics"].get("multihop") or []
        if runs:
            yield from _of_exam(study, runs, record["metrics"]["exam_recipe"])
            yield _divided(study, record)


def _answered(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [run for record in records for run in record["metrics"]["multihop"]]


def _of_exam(study: Study, runs: Runs, recipe: dict[str, Any]) -> Iterator[Row]:
    """Yield the differences between algorithms on one exam, and their levels."""
    for first, second in CONTRASTS:
        contrast = f"{labels.algorithm_title(first)} − {labels.algorithm_title(second)}"
        along = accuracy_by_hops.gain_along(runs, first, second)
        if along is None:
            continue
        yield study.row(OVER_TRAINING, contrast, along[0])
        ahead = sum(gap > 0 for gap in along[1].values())
        yield study.level(AHEAD, f"{contrast} above 0", ahead, len(along[1]))
        at_end = accuracy_by_hops.gain(runs, first, second)
        if at_end is not None:
            yield study.row(LAST_STEP, contrast, at_end[0])
    for endpoint, layers in ((EARLY, None), (EARLY_DEEP, DEEP)):
        right = early(runs, layers)
        if {"high", "original"} <= set(right):
            gaps = (right["high"] - right["original"]).dropna().tolist()
            yield study.row(endpoint, CONTRAST, mean_interval(gaps))
        for algorithm in SHOWN:
            if algorithm in right:
                values = right[algorithm].dropna()
                title = labels.algorithm_title(algorithm)
                levels = replace(endpoint, unit="percent")
                yield study.level(levels, title, values.mean(), len(values))
    yield from _by_depth(study, runs)
    yield study.level(STRENGTH, "High", recipe["strength"])
    yield study.level(POSITIONS, "High", recipe["pretrain"]["length"])
    yield study.level(CHANCE, "one of all chains", 100 / runs[0]["chains"])


def early(runs: Runs, layers: int | None = None) -> pd.DataFrame:
    """Return percent right on three hops at step `EARLY`, a row a seed that has each depth, a column
    an algorithm.
    """
    frame = accuracy_by_hops.curves(runs).query("hops == 3")
    near = (frame["step"] - accuracy_by_hops.EARLY).abs()
    frame = frame[near == near.min()]
    if layers is not None:
        frame = frame[frame["layers"] == layers]
    by_depth = frame.pivot(index=["seed", "algorithm"], columns="layers", values="accuracy")
    return by_depth.dropna().mean(axis=1).unstack("algorithm")


def _by_depth(study: Study, runs: Runs) -> Iterator[Row]:
    """Yield, of each depth, High − Original on three hops over training, and how many runs of each
    algorithm know three hops at their end.
    """
    curves = accuracy_by_hops.curves(runs).query("hops == 3")
    over = curves.pivot_table("accuracy", ["layers", "seed"], "algorithm")
    scores = accuracy_by_hops.scores(runs).query("hops == 3")
    for layers, of_depth in scores.groupby("layers"):
        deepest = layers == DEEP
        with_layers = "" if deepest else f" with {layers} layers"
        sides = over.reindex(columns=["high", "original"])
        gaps = (sides["high"] - sides["original"]).dropna()
        gaps = gaps[gaps.index.get_level_values("layers") == layers]
        if len(gaps):
            named = replace(OVER_TRAINING, name=f"{THREE_HOPS} with {layers} layers", planned="")
            yield study.row(named, CONTRAST, mean_interval(gaps.tolist()))
        for algorithm in SHOWN:
            right = of_depth[of_depth["algorithm"] == algorithm]["accuracy"]
            if len(right):
                known = int((right >= accuracy_by_hops.KNOWN).sum())
                endpoint = KNOWN.of(with_layers)
                title = labels.algorithm_title(algorithm)
                yield study.level(endpoint, title, known, len(right))


def _divided(study: Study, record: dict[str, Any]) -> Row:
    """Return how many runs know some of the three-hop paths and not the others."""
    paths = {int(hops): path for hops, path in record["metrics"]["paths"].items()}
    paths_known = accuracy_by_hops.by_path(record["metrics"]["multihop"], paths)
    paths_known = paths_known[paths_known["hops"] == 3]
    some = accuracy_by_hops.divided(paths_known)[accuracy_by_hops.RUN].drop_duplicates()
    every = paths_known[accuracy_by_hops.RUN].drop_duplicates()
    return study.level(DIVIDED, "all algorithms", len(some), len(every))


def _of_widths(study: Study) -> Iterator[Row]:
    """Yield High − Original at the deepest encoders of each width, and its change per doubling."""
    for endpoint, at_end in ((SLOPE, False), (SLOPE_AT_END, True)):
        gaps = by_width(study, at_end=at_end)
        if not at_end:
            for width, of_width in gaps.items():
                named = OVER_TRAINING.of(f" at width {width}")
                estimate = mean_interval(of_width.dropna().tolist())
                yield study.row(replace(named, planned=""), CONTRAST, estimate)
        if len(gaps.columns) > 1:
            yield study.row(endpoint, CONTRAST, slope(gaps))


def by_width(study: Study, *, at_end: bool = False) -> pd.DataFrame:
    """Return High − Original of the deepest encoders, a row a seed and a column a width."""
    compare = accuracy_by_hops.gain if at_end else accuracy_by_hops.gain_along
    columns = {}
    exams = study.runs("hops")
    for width in sorted({record["parameters"]["width"] for record in exams}):
        runs = _answered(accuracy_by_hops.planned(exams, width))
        deepest = max(run["layers"] for run in runs)
        gain = compare([run for run in runs if run["layers"] == deepest])
        if gain is not None:
            columns[width] = gain[1]
    return pd.DataFrame(columns)


def slope(gaps: pd.DataFrame) -> Estimate:
    """Return the slope over the logarithm of the width, in points per doubling.

    Of three widths, each the double of the one before, the least-squares slope is half of the outer
    two's difference.
    """
    widest, narrowest = max(gaps), min(gaps)
    doublings = np.log2(widest / narrowest)
    slopes = (gaps[widest] - gaps[narrowest]).dropna() / doublings
    return mean_interval(slopes.tolist())
