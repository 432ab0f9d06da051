"""Runs along training: when they start to learn, and GTD against performance (Figures 3 and 9,
Table 6).

Checkpoints of one run are not independent, and runs of one seed are alike: the intervals of the
correlations know it.
"""

from collections.abc import Hashable, Sequence
from contextlib import suppress
from math import atanh, log, sqrt, tanh
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from companion.records import select
from companion.records.schema import Record
from companion.statistics import Estimate, estimates, mean_interval, task_scores
from companion.statistics.intervals import NORMAL

# nats: a run has started to learn at the first logged step with a training loss below it
STARTED = 5.0
# seeds (over runs: runs) that a correlation takes to say anything
FEW = 3
# different points: through two of them any line is perfect, and three say hardly more
LEAST = 4
FOLLOWED = {
    "wikitext": "Perplexity",
    "sst2": "SST2",
    "hellaswag": "HellaSwag",
    "race": "RACE-Middle",
}
# atanh(1) is infinite; a perfect line keeps a finite interval
NEARLY_ONE = 1 - 1e-12
COLUMNS = ["algorithm", "run", "seed", "step", "gtd", "cross_gtd", "score"]


class Correlation(NamedTuple):
    """Pearson's r with its 95 % interval, of so many points that carry as much as `effective`
    independent ones.
    """

    r: float
    low: float
    high: float
    points: int
    effective: float


def correlation(x: Sequence[float], y: Sequence[float]) -> Correlation:
    """Pearson's r of one run's two series of checkpoints, with Fisher's interval at their effective
    sample size.

    n / (1 + 2 sum_k (1 - k/n) a_k b_k), with the autocorrelations a, b up to a quarter of the
    length, between 2 (smooth trends) and n (white noise). It removes no trend that both share. With
    three or fewer the interval is [-1, 1].
    Raises ValueError for fewer than three points or a constant series. Source: Bartlett 1935.
    """
    x, y = _unit(x, y)
    n = len(x)
    total = 0.0
    for k in range(1, max(2, n // 4 + 1)):
        total += max(0.0, (1 - k / n) * (x[k:] @ x[:-k]) * (y[k:] @ y[:-k]))
    return _pearson(x, y, float(np.clip(n / (1 + 2 * total), 2, n)))


def across_runs(
    x: Sequence[float], y: Sequence[float], factors: Sequence[Sequence[Hashable]] = ()
) -> Correlation:
    """Pearson's r of independent runs, one point per run, without what `factors` explain of either
    series.

    A factor names a level per run (its algorithm, its pretraining seed). Levels are taken out by
    least squares, at a degree of freedom each; a factor with a level of its own for every run is
    left out.
    """
    columns = [np.ones(len(x))]
    for levels in factors:
        names = dict.fromkeys(levels)
        if len(names) < len(x):
            columns += [[level == name for level in levels] for name in names]
    design = np.column_stack(columns)
    left = (series - design @ np.linalg.lstsq(design, series)[0] for series in _unit(x, y))
    return _pearson(*_unit(*left), float(len(x) - np.linalg.matrix_rank(design) + 1))


def _pearson(x: np.ndarray, y: np.ndarray, effective: float) -> Correlation:
    """r of two series that `_unit` returns, with Fisher's 95 % interval for an effective number of
    points.
    """
    r = float(np.dot(x, y).clip(-1, 1))
    if effective <= 3:
        return Correlation(r, -1.0, 1.0, len(x), effective)
    centre, reach = atanh(min(max(r, -NEARLY_ONE), NEARLY_ONE)), NORMAL / sqrt(effective - 3)
    return Correlation(r, tanh(centre - reach), tanh(centre + reach), len(x), effective)


def _unit(x: Sequence[float], y: Sequence[float]) -> list[np.ndarray]:
    """Both series with mean 0 and length 1. Raises ValueError for fewer than three finite pairs, or
    a constant.
    """
    series = [np.array(each, dtype=float) for each in (x, y)]
    if len(x) != len(y) or len(x) < 3 or not np.isfinite(series).all():
        points = f"{len(x)} and {len(y)} points"
        raise ValueError(f"x, y: {points}; a correlation needs at least three finite pairs")
    for name, each in zip("xy", series):
        if np.ptp(each) <= 1e-12 * max(1.0, np.abs(each).max()):
            raise ValueError(f"{name}: all points are equal; a correlation needs variation")
        each -= each.mean()
        each /= np.linalg.norm(each)
    return series


def starts(records: Sequence[Record], of: str = "training") -> pd.DataFrame:
    """One row a pretraining run: algorithm, seed, start (step; NaN: never) and end (held-out loss,
    nats).

    `of`: the loss whose first step below `STARTED` is the start, "training" or, at its few checks,
        held-out "curve".
    """
    rows = []
    for run in select(records, "pretrain"):
        curve = run["metrics"].get(of) or []
        below = [point["step"] for point in curve if point["loss"] < STARTED]
        start, end = min(below, default=np.nan), log(run["metrics"]["perplexity"])
        rows.append((run["parameters"]["algorithm"], run["parameters"]["seed"], start, end))
    return pd.DataFrame(rows, columns=["algorithm", "seed", "start", "end"])


def checkpoints(records: Sequence[Record], model: str, task: str) -> pd.DataFrame:
    """One row a checkpoint: algorithm, run, seed (of pretraining), step, gtd, cross_gtd, score.

    For "wikitext" of pretraining's curve (held-out perplexity), for a task of its fine-tuning's,
    where a run kept one.
    """
    rows = []
    trained = task == "wikitext"
    measure = "perplexity" if trained else "score"
    for run in select(records, "pretrain" if trained else None, model=model):
        parameters = run["parameters"]
        name = (parameters.get("algorithm"), run["name"], parameters.get("seed"))
        for holder in [run["metrics"]] if trained else task_scores.entries([run], task):
            for point in holder.get("curve") or []:
                score, gtd = point.get(measure), _gtd(point)
                if score is not None and gtd[0] is not None:
                    rows.append((*name, point["step"], *gtd, score))
    return pd.DataFrame(rows, columns=COLUMNS)


def runs(records: Sequence[Record], model: str, task: str) -> pd.DataFrame:
    """One row a pretraining run: algorithm, run, seed, gtd, cross_gtd, mean score.

    GTD is the refined attention's on the task, else on RACE-Middle; for "wikitext" the curve's last
    point.
    """
    if task == "wikitext":
        last = checkpoints(records, model, task).groupby("run").tail(1)
        return last.drop(columns="step").reset_index(drop=True)
    rows = []
    for algorithm in estimates.algorithms(records):
        attention = select(records, "attention", model=model, algorithm=algorithm)
        measured = select(attention, task=task) or select(attention, task="race")
        by_seed = {run["parameters"].get("seed"): _gtd(estimates.matrix(run)) for run in measured}
        scores = task_scores.scores(records, model, algorithm, task)
        for score in task_scores.by_pretraining(scores):
            seed = score.key[0]
            gtd = by_seed.get(seed, (None, None))
            if gtd[0] is not None:
                rows.append((algorithm, f"{algorithm} {seed}", seed, *gtd, score.value))
    columns = [name for name in COLUMNS if name != "step"]
    return pd.DataFrame(rows, columns=columns)


def points(records: Sequence[Record], model: str, task: str) -> pd.DataFrame:
    """Checkpoints where the runs kept them, else one point per run (`step` is then empty)."""
    kept = checkpoints(records, model, task)
    return kept if len(kept) else runs(records, model, task).assign(step=np.nan)


def _gtd(holder: dict[str, Any]) -> tuple[float | None, float | None]:
    """GTD and cross-layer GTD, each the mean over layers and heads."""
    return tuple(estimates.nested_mean(holder.get(key)) for key in ("gtd", "cross_layer_gtd"))


def over_checkpoints(points: pd.DataFrame, measure: str = "gtd") -> Estimate | None:
    """Mean correlation of `measure` and score over pretraining seeds, `on_fisher_scale` as r; its
    items are a run's checkpoints.
    """
    scaled = on_fisher_scale(points, measure)
    if scaled is None:
        return None
    ends = np.tanh([scaled.value, scaled.low, scaled.high]).tolist()
    return Estimate(*ends, scaled.seeds, scaled.items)


def on_fisher_scale(points: pd.DataFrame, measure: str = "gtd") -> Estimate | None:
    """Mean over pretraining seeds of Fisher's z of the mean r of a seed's runs; its items are a
    run's checkpoints.

    Runs of one seed start alike: any number is as sure as one. Over several seeds the interval is
    Student's, its error not below a run's over the root of their number. None without a run of
    `LEAST` different checkpoints.
    """
    correlations = _each(points, measure)
    if not correlations:
        return None
    frame = pd.DataFrame([r for _, r in correlations])
    seeds = [seed for seed, _ in correlations]
    means = frame["r"].groupby(seeds).mean()
    half = np.median((_z(frame["high"]) - _z(frame["low"])) / 2)
    least = half / NORMAL / np.sqrt(len(means))
    items = int(np.median(frame["points"]))
    return mean_interval(_z(means), least=float(least), items=items)


def _each(points: pd.DataFrame, measure: str) -> list[tuple[Any, Correlation]]:
    """Seed and correlation of every run of `LEAST` different checkpoints that has one."""
    correlations = []
    for run in _long(points, measure):
        # nothing moved
        with suppress(ValueError):
            correlations.append((run["seed"].iloc[0], correlation(run[measure], run["score"])))
    return correlations


def _long(points: pd.DataFrame, measure: str) -> list[pd.DataFrame]:
    runs = (run for _, run in points.dropna(subset=[measure, "score"]).groupby("run", sort=False))
    return [run for run in runs if len(run[[measure, "score"]].drop_duplicates()) >= LEAST]


def _z(r: Any) -> Any:
    return np.arctanh(np.clip(r, -1 + 1e-9, 1 - 1e-9))


def lacking(
    points: pd.DataFrame, measure: str = "gtd"
) -> Literal["runs", "points", "score", "gtd"]:
    """Return what keeps these points from a correlation: too few runs, or points of one, or what
    never moves.
    """
    if "step" not in points or points["step"].isna().all():
        return "runs"
    runs = _long(points, measure)
    if not runs:
        return "points"
    return "score" if all(np.ptp(run["score"]) == 0 for run in runs) else "gtd"


def over_runs(points: pd.DataFrame, measure: str = "gtd") -> Estimate | None:
    """Correlation over runs, one point per run, within algorithms and pretraining seeds; None if
    too few runs.
    """
    points = points.dropna(subset=[measure, "score"])
    repeated = points[points.groupby("algorithm")["run"].transform("count") > 1]
    if len(repeated) < LEAST:
        return None
    factors = [repeated["algorithm"], repeated["seed"]]
    with suppress(ValueError):
        r = across_runs(repeated[measure], repeated["score"], factors)
        return Estimate(r.r, r.low, r.high, len(repeated))
    return None
