"""Figures 4, 7 and 8: GTD and entropies by layer and head, High minus Original; the paper's own
form beside it.
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
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from companion.figures import style
from companion.records import select
from companion.records.schema import Record
from companion.setup import labels
from companion.setup.tasks_and_metrics import TASKS
from companion.statistics import estimates, on_scale

GRIDS = {4: ("race", "squad", "sst2"), 7: ("squad",), 8: ("sst2",)}


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

    `of` is "level", or "difference" for the same seed's Original taken off. Of several runs each
    has its own rows, with its `seed`. Heads of several runs of an algorithm have nothing but a
    number in common: they are in order of entropy.
    """
    rows = []
    for model, task, (panel, about) in product(estimates.models(records), tasks, PANELS.items()):
        runs = select(records, "attention", model=model, task=task)
        own = {name: select(runs, algorithm=name) for name in estimates.algorithms(records)}
        several = max(map(len, own.values())) > 1
        curves = {name: _curves(found, panel, in_order=several) for name, found in own.items()}
        plain = curves.get("original", pd.DataFrame())
        for name, own in curves.items():
            rows += [
                (model, task, name, "level", panel, *point) for point in _points(own, about.top)
            ]
            apart = plain[:0] if name == "original" else (own - plain).dropna(how="all")
            rows += [(model, task, name, "difference", panel, *point) for point in _points(apart)]
    return pd.DataFrame(rows, columns=COLUMNS).astype({"seed": "Int64"})


def _curves(runs: Sequence[Record], panel: str, *, in_order: bool) -> pd.DataFrame:
    """A row a seed: its values by layer, or of the heads of the last layer, rising if `in_order`;
    NaN: undefined.
    """
    found = {}
    for run in runs:
        measure = estimates.matrix(run)
        if panel == "final_entropy":
            values = (measure.get("entropy") or [[]])[-1]
            values = sorted(values) if in_order else values
        else:
            values = [estimates.nested_mean(heads) for heads in measure.get(panel) or []]
        if values:
            found[run["parameters"]["seed"]] = values
    return pd.DataFrame.from_dict(found, orient="index", dtype=float).sort_index()


def _points(curves: pd.DataFrame, top: float | None = None) -> list[tuple[float | None, ...]]:
    """Mean over runs by layer or head and over all (x 0), then several runs themselves; `top`: as
    of `on_scale`.
    """
    runs = np.column_stack([curves.mean(axis=1), curves])
    means = ((x, estimates.mean_over_runs(values)) for x, values in enumerate(runs.T))
    found = [
        (x, mean if top is None else on_scale(mean, top)) for x, mean in means if mean is not None
    ]
    points = [(x, mean.value, mean.low, mean.high, mean.seeds, None) for x, mean in found]
    several = zip(curves.index, runs) if len(runs) > 1 else ()
    return points + [
        (x, value, nan, nan, 1, seed) for seed, run in several for x, value in enumerate(run)
    ]


def numbers(frame: pd.DataFrame) -> dict[str, Any]:
    """For the caption: High's change of GTD over all layers by task, how many intervals of changes
    include 0, seeds.
    """
    over = changes(frame)
    known, gtd = (
        over.dropna(subset="low"),
        over[over["panel"] == "gtd"].set_index(["model", "task"])[ENDS],
    )
    several, digits = frame["model"].nunique() > 1, PANELS["gtd"].digits
    said = [
        f"{TASKS[task].title}{f', {labels.model_title(model)},' * several} {style.change(*row, digits)}"
        for (model, task), row in gtd.iterrows()
    ]
    layers = changes(frame, "panel == 'gtd' and x > 0").dropna(subset="low")
    include, flat = (len(own.query("low <= 0 <= high")) for own in (known, layers))
    counts = {"include": include, "known": len(known), "flat": flat, "layers": len(layers)}
    return {"gtd": "; ".join(said), "seeds": frame["runs"].max(), **counts}


def changes(frame: pd.DataFrame, layers: str = "x == 0") -> pd.DataFrame:
    """High minus Original, means over runs: a row a model, task and panel, over all layers or heads
    (or of some).
    """
    return frame.query("algorithm == 'high' and of == 'difference' and seed.isna()").query(layers)


def _panels(frame: pd.DataFrame) -> list[tuple[str, str, Panel, pd.DataFrame]]:
    """Model, task, measure and rows of each panel, a row of the grid a model and task."""
    rows = frame.groupby(["model", "task"], sort=False)
    return [
        (*key, about, own[own["panel"] == panel])
        for key, own in rows
        for panel, about in PANELS.items()
    ]


def plot(frame: pd.DataFrame, width: float) -> Figure:
    """Draw High minus Original, a row a model and task, a column a measure; in a narrow figure two
    a row.
    """
    cells, draws, wide = _panels(frame), [], width >= style.NARROW
    for *_, about, own in cells:
        over = changes(own)[ENDS].itertuples(index=False)
        said = ": ".join(
            [about.title, *(f"{style.change(*row, about.digits)} {about.unit}" for row in over)]
        )
        draws.append(
            (said, difference_axes, own[(own["of"] == "difference") & (own["x"] > 0)], about.least)
        )
    figure = style.headed(width, 1.7 if wide else 1.5, draws, columns=4)
    for place, (ax, (model, task, about, own)) in enumerate(zip(figure.axes, cells)):
        runs = own["runs"].max()
        if place >= len(cells) - 4 or not wide:
            ax.set_xlabel(about.axis + ", lowest first" * bool(about.axis == "Head" and runs > 1))
        if place % 4 == 0:
            name = TASKS[task].title + f"\n{labels.model_title(model)}" * (
                frame["model"].nunique() > 1
            )
            ax.set_ylabel(f"{name} (n = {runs})\nminus Original")
    colour = style.LOOKS["high"].colour
    mark = {"color": colour, "marker": "o", "ms": 2.4, "mfc": "none", "mew": 0.6}
    handles = [
        Line2D(
            [], [], **mark | {"marker": "s", "ms": 3.5, "mfc": colour}, lw=1.4, label="High, mean"
        ),
        Line2D([], [], **mark, ls="none", label="a seed"),
        Patch(color=colour, alpha=0.15, lw=0, label="95 % band of High"),
        Line2D([], [], color="0.7", lw=0.8, label="other algorithms"),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=4 if wide else 2)
    return figure


def difference_axes(ax: Axes, frame: pd.DataFrame, least: float) -> None:
    """Draw High minus Original with its band and a dot a seed; the other algorithms grey, as far as
    the axis goes.
    """
    ax.axhline(0, color="0.5", lw=0.8, ls=":")
    high, colour = frame[frame["algorithm"] == "high"], style.LOOKS["high"].colour
    mean, runs = high[high["seed"].isna()], high[high["seed"].notna()]
    if len(high):
        ax.plot(mean["x"], mean["value"], color=colour, marker="s", lw=1.4, zorder=3)
        ax.plot(runs["x"], runs["value"], "o", color=colour, ms=2.4, mfc="none", mew=0.6, zorder=4)
        ax.fill_between(mean["x"], mean["low"], mean["high"], color=colour, alpha=0.15, lw=0)
        reach = 1.15 * max(high[ENDS].abs().max().max(), least)
        ax.set_ylim(-reach, reach)
    others = frame[(frame["algorithm"] != "high") & frame["seed"].isna()]
    for algorithm, own in others.groupby("algorithm", sort=False):
        ax.plot(own["x"], own["value"], color="0.7", lw=0.8, zorder=1)
        if (most := own["value"].max()) > ax.get_ylim()[1]:
            said = f"↑ {labels.algorithm_title(algorithm)}, to {most:+.2f}"
            ax.text(0.98, 0.04, said, ha="right", color="0.35", fontsize=6, transform=ax.transAxes)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6, min_n_ticks=1))
    ax.yaxis.set_major_locator(MaxNLocator(nbins=4))


def paper_form(frame: pd.DataFrame, width: float) -> Figure:
    """Draw the grid as the paper has it: each algorithm's own level, a row a model and task."""
    cells = _panels(frame)
    figure, axes = style.panels(width, len(cells), 1.4, columns=4)
    for place, (ax, (_, task, about, own)) in enumerate(zip(axes, cells)):
        level = own[(own["of"] == "level") & own["seed"].isna() & (own["x"] > 0)]
        for algorithm, points in level.groupby("algorithm", sort=False):
            ax.plot(points["x"], points["value"], **style.line_style(algorithm))
        title = f"{about.title} ({about.unit})" if about.unit else about.title
        ax.set(title=title, xlabel=about.axis, ylabel=TASKS[task].title if place % 4 == 0 else "")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6, min_n_ticks=1))
        style.at_least(ax, "y", about.least)
    shown = [name for name in labels.ALGORITHMS if name in set(frame["algorithm"])]
    handles = [
        Line2D([], [], **style.line_style(name), label=labels.algorithm_title(name))
        for name in shown
    ]
    lines = ceil(len(handles) / int(width / 0.85))
    figure.legend(handles=handles, loc="outside upper center", ncols=ceil(len(handles) / lines))
    return figure
