"""Figures 4, 7 and 8: GTD and entropies by layer and head, one row a model size."""

from collections.abc import Sequence
from math import nan
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from saobp.study.figures import style
from saobp.study.setup import labels
from saobp.study.statistics import estimates

Record = dict[str, Any]
TASKS = {4: "race", 7: "squad", 8: "sst2"}
PANELS = {
    "gtd": ("GTD", "Layer"),
    "indirect_entropy": ("Indirect entropy (nats)", "Layer"),
    "entropy": ("Mean entropy (nats)", "Layer"),
    "final_entropy": ("Last-layer entropy (nats)", "Head"),
}
CHANGES = {"gtd": "GTD", "indirect_entropy": "indirect entropy", "entropy": "entropy"}
LEAST = {"gtd": 0.004, "indirect_entropy": 0.01, "entropy": 0.01, "final_entropy": 0.01}  # that an axis shows


def data(number: int, records: Sequence[Record], matrix: str = "refined") -> pd.DataFrame:
    """One row a point: model, algorithm, panel, x (from 1), mean over runs with its interval; `seed` is then empty.

    Of several runs each has its own rows beside the mean, with its `seed`.

    `matrix` is "refined" (what multiplies the values) or "raw" (the softmax). The third panel averages over
    positions and heads, by layer, as the caption's x-axis says; `positional_entropy` (by position) is in
    the data, not drawn, as are the panels `<measure>_change`: High minus Original over all layers (x is 0).
    Heads are by their number in a single run; of several runs, whose heads have nothing but their number in
    common, from the lowest entropy to the highest.
    """
    rows = []
    for model in estimates.models(records):
        for algorithm in estimates.algorithms(records):
            runs = estimates.attention_runs(records, model, algorithm, TASKS[number])
            measures = {run["parameters"]["seed"]: estimates.matrix(run, matrix) for run in runs}
            for panel in (*PANELS, "positional_entropy"):
                rows += [(model, algorithm, panel, *point) for point in _points(measures, panel)]
        rows += _changes(records, model, TASKS[number], matrix)
    columns = ["model", "algorithm", "panel", "x", "value", "low", "high", "runs", "seed"]
    return pd.DataFrame(rows, columns=columns).astype({"seed": "Int64"})


def _points(measures: dict[int, Record], panel: str) -> list[tuple[float | None, ...]]:
    """Mean over runs at each layer, head or position, then the runs themselves where there are several."""
    series = {seed: curve for seed, measure in measures.items() if (curve := _curve(measure, panel))}
    if panel == "final_entropy" and len(series) > 1:
        series = {seed: np.sort(np.array(curve, dtype=float)).tolist() for seed, curve in series.items()}
    points = []
    for x in range(min(map(len, series.values()), default=0)):
        estimate = estimates.mean_over_runs(curve[x] for curve in series.values())
        if estimate is not None:
            points.append((x + 1, estimate.value, estimate.low, estimate.high, estimate.seeds, None))
    several = sorted(series.items()) if len(series) > 1 else []
    return points + [(x, value, nan, nan, 1, seed) for seed, curve in several for x, value in enumerate(curve, start=1)]


def _curve(measure: Record, panel: str) -> list[float | None]:
    if panel == "positional_entropy":
        return measure.get(panel) or []
    if panel == "final_entropy":
        return (measure.get("entropy") or [[]])[-1]
    return [estimates.nested_mean(heads) for heads in measure.get(panel) or []]


def _changes(records: Sequence[Record], model: str, task: str, matrix: str) -> list[tuple[Any, ...]]:
    """High minus Original of each measure over all layers, seed by seed, and the mean of these differences."""
    high, original = (
        {run["parameters"]["seed"]: estimates.matrix(run, matrix) for run in runs}
        for runs in (estimates.attention_runs(records, model, side, task) for side in ("high", "original"))
    )
    rows = []
    for panel in CHANGES:
        means = [
            [estimates.nested_mean(_curve(side[seed], panel)) for side in (high, original)]
            for seed in sorted(high.keys() & original.keys())
        ]
        found = estimates.mean_over_runs(ours - theirs for ours, theirs in means if None not in (ours, theirs))
        if found is not None:
            rows.append((model, "high", f"{panel}_change", 0, found.value, found.low, found.high, found.seeds, None))
    return rows


def plot(frame: pd.DataFrame, width: float) -> Figure:
    """Draw the grid; narrower than five inches, the four columns fold into two."""
    models = list(dict.fromkeys(frame["model"]))
    columns = 4 if width >= style.NARROW else 2
    folded = 4 // columns
    height = 0.35 + len(models) * folded * (1.25 if columns == 4 else 1.2)
    figure = style.new_figure(width, height)
    axes = figure.subplots(len(models) * folded, columns, squeeze=False)
    for index, model in enumerate(models):
        for position, panel in enumerate(PANELS):
            ax = axes[index * folded + position // columns, position % columns]
            panel_axes(ax, frame[(frame["model"] == model) & (frame["panel"] == panel)], panel)
            last = index == len(models) - 1 or folded > 1
            several = panel == "final_entropy" and frame.loc[frame["panel"] == panel, "runs"].max() > 1
            ax.set_xlabel(("Head, lowest first" if several else PANELS[panel][1]) if last else "")
            ax.set_title(PANELS[panel][0] if index == 0 or folded > 1 else "", pad=3)
        axes[index * folded, 0].set_ylabel(labels.model_title(model), fontweight="bold")
    style.algorithm_legend(figure, dict.fromkeys(frame["algorithm"]))
    return figure


def panel_axes(ax: Axes, frame: pd.DataFrame, panel: str) -> Axes:
    """Draw one panel: a line an algorithm, the mean over its runs; behind it each run's own, thin and pale."""
    for algorithm, points in frame.groupby("algorithm", sort=False):
        look = style.line_style(str(algorithm))
        for _, run in points.groupby("seed"):  # the mean has no seed
            ax.plot(run["x"], run["value"], color=look["color"], lw=0.6, alpha=0.45, zorder=1)
        mean = points[points["seed"].isna()]
        ax.plot(mean["x"], mean["value"], **look)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6, min_n_ticks=1))
    ax.yaxis.set_major_locator(MaxNLocator(nbins=4))
    ax.margins(x=0.12)
    style.at_least(ax, "y", LEAST[panel])
    return ax


def before_after(axes: Sequence[Axes], summary: Record) -> Sequence[Axes]:
    """Draw the four panels for one capture: the refined matrix beside the softmax that it came from."""
    sides = {
        "raw": ("softmax", {"color": labels.ALGORITHMS["original"].colour, "linestyle": (0, (4, 2)), "marker": "o"}),
        "refined": ("refined", {"color": labels.ALGORITHMS["high"].colour, "marker": "s"}),
    }
    for ax, (panel, (title, axis)) in zip(axes, PANELS.items(), strict=True):
        for matrix, (label, look) in sides.items():
            curve = _curve(summary["matrices"][matrix], panel)
            ax.plot(range(1, len(curve) + 1), curve, label=label, markersize=3, **look)
        ax.set_title(title, pad=3)
        ax.set_xlabel(axis)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6, min_n_ticks=1))
        style.at_least(ax, "y", LEAST[panel])
    return axes
