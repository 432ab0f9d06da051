"""Figures 4, 7 and 8: GTD and entropies by layer and head, a line an algorithm, as the paper has
them; and a forest of High minus Original.
"""

from collections.abc import Sequence
from itertools import product
from math import ceil, inf, nan
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from companion.figures import style
from companion.records import select
from companion.records.schema import Record
from companion.setup import labels
from companion.setup.tasks_and_metrics import TASKS
from companion.statistics import Estimate, estimates, on_scale
from companion.statistics.seeds import SIDES
from companion.tables.cells import effect

GRIDS = {4: ("race",), 7: ("squad",), 8: ("sst2",)}
# of the forest
ALL_TASKS = ("race", "squad", "sst2")
# unit of a panel of the forest -> what is measured in it
UNITS = {"": "GTD", "nats": "Entropy"}


class Panel(NamedTuple):
    """A column of the grid: a measure."""

    title: str
    unit: str = "nats"
    # what x counts, for readers: layers, or heads of the last one
    axis: str = "Layer"
    # that a level cannot exceed
    top: float = inf
    # that an axis shows
    least: float = 0.01
    # of a change, in headings
    digits: int = 2


PANELS = {
    "gtd": Panel("GTD", "", top=1.0, least=0.004, digits=3),
    "indirect_entropy": Panel("Indirect entropy"),
    "entropy": Panel("Mean entropy"),
    "final_entropy": Panel("Last-layer entropy", axis="Head"),
}
ENDS = ["value", "low", "high"]
COLUMNS = ["model", "task", "algorithm", "of", "panel", "x", *ENDS, "runs", "seed"]


def data(tasks: Sequence[str], records: Sequence[Record]) -> pd.DataFrame:
    """One row a point of refined attention by layer or head x, from 1 (0: all): mean over runs with
    95 % interval.

    `of` is "level" or, of High, "difference" for the same seed's Original taken off. Of several runs
    each has its own rows, with its `seed`. Heads of several runs of an algorithm have nothing but a
    number in common: they are in order of entropy.
    """
    rows = []
    for model, task, panel in product(estimates.models(records), tasks, PANELS):
        runs = select(records, "attention", model=model, task=task)
        rows += [(model, task, *row) for row in _rows(runs, panel)]
    return pd.DataFrame(rows, columns=COLUMNS).astype({"seed": "Int64"})


def _rows(runs: Sequence[Record], panel: str) -> list[tuple[Any, ...]]:
    """The rows of one panel, from "algorithm" on."""
    of_algorithm = {name: select(runs, algorithm=name) for name in estimates.algorithms(runs)}
    several = max(map(len, of_algorithm.values()), default=0) > 1
    rows, curves = [], {}
    for name, seeds in of_algorithm.items():
        curves[name] = _curves(seeds, panel, in_order=several)
        points = _points(curves[name], PANELS[panel].top)
        rows += [(name, "level", panel, *point) for point in points]
    if {"high", "original"} <= curves.keys():
        difference = (curves["high"] - curves["original"]).dropna(how="all")
        rows += [("high", "difference", panel, *point) for point in _points(difference)]
    return rows


def _curves(runs: Sequence[Record], panel: str, *, in_order: bool) -> pd.DataFrame:
    """A row a seed: its values by layer, or of the heads of the last layer, rising if `in_order`;
    NaN: undefined.
    """
    curves = {}
    for run in runs:
        measure = estimates.matrix(run)
        if panel == "final_entropy":
            values = (measure.get("entropy") or [[]])[-1]
            if in_order:
                values = sorted(values)
        else:
            values = [estimates.nested_mean(heads) for heads in measure.get(panel) or []]
        if values:
            curves[run["parameters"]["seed"]] = values
    return pd.DataFrame.from_dict(curves, orient="index", dtype=float).sort_index()


def _points(curves: pd.DataFrame, top: float | None = None) -> list[tuple[float | None, ...]]:
    """Mean over runs by layer or head and over all (x 0), then several runs themselves; `top`: as
    of `on_scale`.
    """
    runs = np.column_stack([curves.mean(axis=1), curves])
    points = []
    for x, values in enumerate(runs.T):
        mean = estimates.mean_over_runs(values)
        if mean is None:
            continue
        if top is not None:
            mean = on_scale(mean, top)
        points.append((x, mean.value, mean.low, mean.high, mean.seeds, None))
    if len(runs) > 1:
        for seed, run in zip(curves.index, runs):
            points += [(x, value, nan, nan, 1, seed) for x, value in enumerate(run)]
    return points


def numbers(frame: pd.DataFrame) -> dict[str, Any]:
    """For the caption: High's change of each measure, tasks, seeds of High and Original and of the
    others; how many intervals lie above and below 0.
    """
    over = changes(frame).dropna(subset="low")
    texts = []
    for row in over.itertuples():
        about = PANELS[row.panel]
        change = effect(Estimate(row.value, row.low, row.high, row.runs), about.digits)
        texts.append(f"{about.title} {change}")
    level = frame[(frame["of"] == "level") & frame["seed"].isna()]
    sides = level["algorithm"].isin(SIDES)
    counts = {
        "seeds": level[sides]["runs"].max(),
        "others": level[~sides]["runs"].max() if (~sides).any() else 0,
        "above": int((over["low"] > 0).sum()),
        "below": int((over["high"] < 0).sum()),
        "known": len(over),
    }
    tasks = labels.joined([TASKS[task].title for task in frame["task"].unique()])
    models = labels.joined([labels.model_title(name) for name in frame["model"].unique()])
    changed = "; ".join(texts) or "undefined, of one seed"
    return {"changes": changed, "tasks": tasks, "models": models, **counts}


def changes(frame: pd.DataFrame, layers: str = "x == 0") -> pd.DataFrame:
    """High minus Original, means over runs: a row a model, task and panel, over all layers or heads
    (or of some).
    """
    return frame.query("algorithm == 'high' and of == 'difference' and seed.isna()").query(layers)


def differences(frame: pd.DataFrame, width: float) -> Figure:
    """Draw High minus Original over all layers or heads: a row a task and measure, a dot a seed; GTD
    above, what is in nats below.
    """
    units = {unit: [] for unit in UNITS}
    for panel, about in PANELS.items():
        units[about.unit].append(panel)
    tasks = frame["task"].unique()
    heights = [len(keys) * len(tasks) for keys in units.values()]
    row = 0.2 if width >= style.NARROW else 0.36
    figure = style.new_figure(width, 1.1 + row * sum(heights))
    axes = figure.subplots(len(units), 1, height_ratios=heights)
    over = frame[(frame["of"] == "difference") & (frame["x"] == 0)]
    over = over[over["model"] == frame["model"].iloc[0]]
    for letter, ax, (unit, keys) in zip("ab", axes, units.items()):
        rows = over[over["panel"].isin(keys)]
        _forest(ax, rows, list(product(keys, tasks)), "\n" if width < style.NARROW else " ")
        ax.set_xlabel(f"High − Original ({unit})" if unit else "High − Original")
        means = rows[rows["seed"].isna()].dropna(subset="low")
        counts = {
            "higher": int((means["low"] > 0).sum()),
            "lower": int((means["high"] < 0).sum()),
            "all": len(means),
            "name": UNITS[unit],
        }
        style.head(ax, letter, style.heading("differences", 0, **counts))
    return figure


def _forest(ax: Axes, frame: pd.DataFrame, places: Sequence[tuple[str, str]], between: str) -> None:
    """Draw a row a measure and task, named with what stands `between` them: the mean with its
    interval, and each seed's difference.
    """
    look, names = style.LOOKS["high"], []
    ax.axvline(0, color="0.4", lw=0.6)
    for row, (panel, task) in enumerate(places):
        points = frame[(frame["panel"] == panel) & (frame["task"] == task)]
        seeds = points[points["seed"].notna()]["value"]
        names.append(f"{PANELS[panel].title},{between}{TASKS[task].title}")
        ax.plot(seeds, [row + 0.22] * len(seeds), "o", color="0.45", ms=2.4, mfc="none", mew=0.6)
        for mean in points[points["seed"].isna()].itertuples():
            ax.hlines(row - 0.1, mean.low, mean.high, color=look.colour, lw=1.6)
            ax.plot(mean.value, row - 0.1, look.marker, color=look.colour, ms=4)
    style.rows(ax, names)


def plot(frame: pd.DataFrame, width: float) -> Figure:
    """Draw a line an algorithm, a row a model and task, a column a measure; in a column of a page two
    a row.
    """
    draws, names = [], []
    several = frame["model"].nunique() > 1
    for (model, task), grid in frame.groupby(["model", "task"], sort=False):
        names.append(TASKS[task].title + f"\n{labels.model_title(model)}" * several)
        for panel, about in PANELS.items():
            points = grid[grid["panel"] == panel]
            over = changes(points)[ENDS].itertuples(index=False)
            change = [style.change(*row, about.digits) for row in over]
            draws.append((": ".join([about.title, *change]), level_axes, points, about))
    rows = ceil(len(draws) / (4 if width >= style.NARROW else 2))
    figure = style.headed(width, min(1.9, 7 / rows), draws, columns=4)
    for ax, name in zip(figure.axes[:: len(PANELS)], names):
        ax.set_ylabel(f"{name}\n{ax.get_ylabel()}")
    handles = []
    for name in labels.ALGORITHMS:
        if name in set(frame["algorithm"]):
            title = labels.algorithm_title(name)
            handles.append(Line2D([], [], **style.line_style(name), label=title))
    lines = ceil(len(handles) / int(width / 0.85))
    figure.legend(handles=handles, loc="outside upper center", ncols=ceil(len(handles) / lines))
    return figure


def level_axes(ax: Axes, frame: pd.DataFrame, about: Panel) -> None:
    """Draw each algorithm's mean by layer or head."""
    level = frame[(frame["of"] == "level") & frame["seed"].isna() & (frame["x"] > 0)]
    for algorithm, points in level.groupby("algorithm", sort=False):
        front = 3 if algorithm in SIDES else 2
        ax.plot(points["x"], points["value"], zorder=front, **style.line_style(algorithm))
    several = about.axis == "Head" and frame["runs"].max() > 1
    ax.set_xlabel("Head, lowest first" if several else about.axis)
    ax.set_ylabel(f"{about.title}\n({about.unit})" if about.unit else about.title, fontsize=7)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6, min_n_ticks=1))
    style.at_least(ax, "y", about.least)
