"""What each figure shows, in one sentence printed from the numbers that drew it."""

from collections.abc import Callable
from math import isfinite
from typing import Any

import pandas as pd

from saobp.study.beyond import accuracy_by_hops
from saobp.study.cost import cost_tables
from saobp.study.data.tasks import TASKS
from saobp.study.figures import correlations, costs, gains, grids, joint, maps, strengths
from saobp.study.setup import labels
from saobp.study.statistics import trajectories

COMPLETE = (
    "Every token graph here is complete: attention this close to uniform exceeds the threshold between all tokens, so "
    "that neither measure can move."
)


def reading(number: int | str, frame: pd.DataFrame) -> str:
    """Say in a sentence or two what Figure `number` shows; `frame` is the data that it was drawn from."""
    return READINGS[number](frame)


def _moved(frame: pd.DataFrame) -> str:
    return f"The step moves {maps.share_moved(maps.change_of(frame)):.2%} of the mass of this head."


def _graph(frame: pd.DataFrame) -> str:
    said = [
        f"{joint.describe(points['gtd'].astype(float), points[measure].astype(float), str(algorithm), measure)}"
        f" ({title.lower()})"
        for measure, title in joint.MEASURES.items()
        for algorithm, points in frame.dropna(subset=["gtd", measure]).groupby("algorithm", sort=False)
    ]
    words = "; ".join(said).replace("$", "") + "."
    return f"{words} {COMPLETE}" if joint.complete(frame) else words


def _layers(frame: pd.DataFrame) -> str:
    """High minus Original of each model, averaged over layers, with its interval over seeds where there are several."""
    lines = (
        "Thick lines: means over runs; thin: single ones, where there are several. "
        if frame["seed"].notna().any()
        else ""
    )
    frame = frame.assign(panel=frame["panel"].str.removesuffix("_change"))[frame["panel"].str.endswith("_change")]
    if frame.empty:
        return f"{lines}High and Original share no seed."
    said = [
        f"{labels.model_title(str(model))}: {', '.join(map(_change, rows.itertuples()))}"
        for model, rows in frame.groupby("model", sort=False)
    ]
    return f"{lines}High − Original, mean over layers (nats; GTD from 0 to 1): {'; '.join(said)}."


def _change(row: Any) -> str:
    interval = f" [{row.low:.2g}, {row.high:.2g}]" if isfinite(row.low) else ""
    return f"{grids.CHANGES[row.panel]} {row.value:+.2g}{interval}"


def _performance(frame: pd.DataFrame) -> str:
    said = []
    for (model, task), points in frame.groupby(["model", "task"], sort=False):
        words = correlations.describe(points).replace("$", "").replace("\n", " ")
        said.append(f"{labels.model_title(str(model))}, {trajectories.TASKS[str(task)]}: {words}")
    return "; ".join(said) + "."


def _sparsity(frame: pd.DataFrame) -> str:
    said = []
    for model, points in frame.groupby("model", sort=False):
        sides = points.groupby("algorithm")[["sparsity", "mean_sparsity"]].first().loc[["original", "high"]]
        head, mean = (" to ".join(f"{value:.3f}" for value in sides[name]) for name in sides)
        whole = "no mean in the record" if sides["mean_sparsity"].isna().any() else mean
        said.append(f"{labels.model_title(str(model))} {head} ({whole})")
    flat = "A flat map's sparsity counts which entries fall just below 1/L: read it with the range above each panel."
    what = f"Sparsity of the head shown on {TASKS[str(frame['task'].iloc[0])].title}, Original to High"
    return f"{what} (in brackets the mean over all layers, heads and samples of the run): {'; '.join(said)}. {flat}"


def _length(frame: pd.DataFrame) -> str:
    device, rounds = frame[["device", "rounds"]].iloc[0]
    return f"{cost_tables.against_length(costs.rows_of(frame))} {device}, {rounds} rounds in turns."


def _exam(frame: pd.DataFrame) -> str:
    """Which accuracies the algorithms' means span; who differs from Original is not said here."""
    none = pd.DataFrame(columns=["layers", "hops", "p_holm"])
    seeds = frame.groupby(["layers", "algorithm"])["seed"].nunique()
    least = f"{seeds.min()} to " if seeds.min() < seeds.max() else ""
    said = "; ".join(accuracy_by_hops.words(frame, none, frame["chance"].iloc[0]))
    return f"{said}; {least}{labels.counted(seeds.max(), 'seed')} each."


READINGS: dict[int | str, Callable[[pd.DataFrame], str]] = {
    1: _moved, 2: _graph, 3: _performance, 4: _layers, 5: _graph, 6: _sparsity, 7: _layers, 8: _layers,
    9: _performance, "gains": gains.words, "length": _length, "hops": _exam,
    "strength": strengths.words,
}  # fmt: skip
