"""Figures 4, 7 and 8: GTD and entropies by layer and head, High minus Original; the paper's own form beside it."""

from collections.abc import Sequence
from math import inf, isnan, nan
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from saobp.study.figures import style
from saobp.study.setup import labels
from saobp.study.setup.schema import Record
from saobp.study.setup.tasks_and_metrics import TASKS
from saobp.study.statistics import estimates, on_scale

GRIDS = {4: ("race", "squad", "sst2"), 7: ("squad",), 8: ("sst2",)}


class Panel(NamedTuple):
    """A column of the grid: a measure by layer, or by head of the last one."""

    title: str
    unit: str = "nats"
    axis: str = "Layer"
    top: float = inf  # that a level cannot exceed
    least: float = 0.01  # that an axis shows
    digits: int = 2  # of a change, in headings


PANELS = {
    "gtd": Panel("GTD", "", top=1.0, least=0.004, digits=3),
    "indirect_entropy": Panel("Indirect entropy"),
    "entropy": Panel("Mean entropy"),
    "final_entropy": Panel("Last-layer entropy", axis="Head"),
}
COLUMNS = ["model", "task", "algorithm", "of", "panel", "x", "value", "low", "high", "runs", "seed"]


def data(tasks: Sequence[str], records: Sequence[Record]) -> pd.DataFrame:
    """One row a point of refined attention: model, task, algorithm, of, panel, x (from 1), mean with 95 % interval.

    `of` is "level", or "difference" for the same seed's Original taken off. Of several runs each has its own rows
    beside the mean, with its `seed`, which is empty in the mean's. x 0 is the mean over all layers or heads. Heads are
    by their number in a single run; of several runs, whose heads have nothing but their number in common, from the
    lowest entropy to the highest.
    """
    rows = []
    for model in estimates.models(records):
        for task in tasks:
            for panel, about in PANELS.items():
                curves = {name: _curves(records, model, name, task, panel) for name in estimates.algorithms(records)}
                plain = curves.get("original", {})
                for name, own in curves.items():
                    rows += [(model, task, name, "level", panel, *point) for point in _points(own, about.top)]
                    apart = {seed: own[seed] - plain[seed] for seed in own.keys() & plain.keys() if name != "original"}
                    rows += [(model, task, name, "difference", panel, *point) for point in _points(apart)]
    return pd.DataFrame(rows, columns=COLUMNS).astype({"seed": "Int64"})


def _curves(records: Sequence[Record], model: str, algorithm: str, task: str, panel: str) -> dict[int, np.ndarray]:
    """Each seed's values by layer, or of the heads of the last layer; NaN where undefined."""
    runs = estimates.attention_runs(records, model, algorithm, task)
    found = {}
    for run in runs:
        measure = estimates.matrix(run)
        if panel == "final_entropy":
            values = (measure.get("entropy") or [[]])[-1]
        else:
            values = [estimates.nested_mean(heads) for heads in measure.get(panel) or []]
        if values:
            curve = np.array(values, dtype=float)
            found[run["parameters"]["seed"]] = np.sort(curve) if panel == "final_entropy" and len(runs) > 1 else curve
    return found


def _points(curves: dict[int, np.ndarray], top: float = nan) -> list[tuple[float | None, ...]]:
    """Mean over runs at each layer or head and over all (x 0), then the runs themselves where there are several.

    `top`: what the numbers, which are positive, cannot exceed; NaN for differences, which are not.
    """
    rows = {seed: np.array([np.nanmean(curve), *curve]) for seed, curve in sorted(curves.items())}
    points = []
    for x in range(min(map(len, rows.values()), default=0)):
        found = estimates.mean_over_runs(row[x] for row in rows.values())
        if found is not None:
            found = found if isnan(top) else on_scale(found, top)
            points.append((x, found.value, found.low, found.high, found.seeds, None))
    several = rows if len(rows) > 1 else {}
    return points + [(x, value, nan, nan, 1, seed) for seed, row in several.items() for x, value in enumerate(row)]


def numbers(frame: pd.DataFrame) -> dict[str, Any]:
    """For the caption: High's change of GTD over all layers by task, how many intervals of changes include 0, seeds."""
    over = changes(frame)
    known, gtd = over.dropna(subset="low"), over[over["panel"] == "gtd"]
    said = [
        f"{TASKS[row.task].title} {style.change(row.value, row.low, row.high, PANELS['gtd'].digits)}"
        for row in gtd.itertuples()
    ]
    include = int(((known["low"] <= 0) & (known["high"] >= 0)).sum())
    return {"gtd": "; ".join(said), "include": include, "known": len(known), "seeds": frame["runs"].max()}


def changes(frame: pd.DataFrame) -> pd.DataFrame:
    """High minus Original over all layers or heads: a row a model, task and panel."""
    high = (frame["algorithm"] == "high") & (frame["of"] == "difference")
    return frame[high & frame["seed"].isna() & (frame["x"] == 0)]


def plot(frame: pd.DataFrame, width: float) -> Figure:
    """Draw High minus Original, a row a model and task, a column a measure; in a narrow figure two a row."""
    rows = list(dict.fromkeys(zip(frame["model"], frame["task"])))
    figure, axes = style.panels(width, 4 * len(rows), 1.7 if width >= style.NARROW else 1.5, columns=4)
    several = frame["model"].nunique() > 1
    over = changes(frame).set_index(["model", "task", "panel"])
    for place, ax in enumerate(axes):
        (model, task), (panel, about) = rows[place // 4], list(PANELS.items())[place % 4]
        own = frame[(frame["model"] == model) & (frame["task"] == task) & (frame["panel"] == panel)]
        difference_axes(ax, own[(own["of"] == "difference") & (own["x"] > 0)], panel)
        said = about.title
        if (model, task, panel) in over.index:
            row = over.loc[model, task, panel]
            said += f": {style.change(row.value, row.low, row.high, about.digits)} {about.unit}"
        style.head(ax, "abcdefghijklmnopqrstuvwxyz"[place % 26], said)
        if place >= len(axes) - 4 or width < style.NARROW:
            ax.set_xlabel(about.axis + ", lowest first" * bool(panel == "final_entropy" and own["runs"].max() > 1))
        if place % 4 == 0:
            name = TASKS[task].title + (f"\n{labels.model_title(model)}" if several else "")
            ax.set_ylabel(f"{name} (n = {own['runs'].max()})\nHigh − Original")
    _legend(figure)
    return figure


def _legend(figure: Figure) -> None:
    """Name what `difference_axes` draws, above all panels."""
    mark = {"color": style.LOOKS["high"].colour, "marker": "o", "ms": 2.4, "mfc": "none", "mew": 0.6}
    handles = [
        Line2D([], [], **mark | {"marker": "s", "ms": 3.5, "mfc": mark["color"]}, lw=1.4, label="High, mean"),
        Line2D([], [], **mark, ls="none", label="a seed"),
        Patch(color=mark["color"], alpha=0.15, lw=0, label="95 % band"),
        Line2D([], [], color="0.7", lw=0.8, label="other algorithms"),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=4 if figure.get_figwidth() >= style.NARROW else 2)


def difference_axes(ax: Axes, frame: pd.DataFrame, panel: str) -> Axes:
    """Draw High minus Original with its band and a dot a seed; the other algorithms grey, as far as the axis goes."""
    ax.axhline(0, color="0.5", lw=0.8, ls=":")
    for algorithm, points in frame.groupby("algorithm", sort=False):
        mean, runs = points[points["seed"].isna()], points[points["seed"].notna()]
        if algorithm == "high":
            colour = style.LOOKS["high"].colour
            ax.plot(mean["x"], mean["value"], color=colour, marker="s", lw=1.4, zorder=3)
            ax.plot(runs["x"], runs["value"], "o", color=colour, ms=2.4, mfc="none", mew=0.6, zorder=4)
            band = mean[["low", "high"]].astype(float)
            ax.fill_between(mean["x"], band["low"], band["high"], color=colour, alpha=0.15, lw=0)
            values = pd.concat([points[name] for name in ("value", "low", "high")]).dropna().astype(float)
            reach = 1.15 * max(values.abs().max(), PANELS[panel].least)
            ax.set_ylim(-reach, reach)
        else:
            ax.plot(mean["x"], mean["value"], color="0.7", lw=0.8, zorder=1)
    for algorithm, most in frame[frame["seed"].isna()].groupby("algorithm")["value"].max().items():
        if most > ax.get_ylim()[1]:
            said = f"↑ {labels.algorithm_title(str(algorithm))}, to {most:+.2f}"
            ax.text(0.98, 0.04, said, ha="right", color="0.35", fontsize=6, transform=ax.transAxes)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6, min_n_ticks=1))
    ax.yaxis.set_major_locator(MaxNLocator(nbins=4))
    return ax


def paper_form(frame: pd.DataFrame, width: float) -> Figure:
    """Draw the grid as the paper has it: each algorithm's own level, a row a model and task."""
    rows = list(dict.fromkeys(zip(frame["model"], frame["task"])))
    figure, axes = style.panels(width, 4 * len(rows), 1.4, columns=4)
    for place, ax in enumerate(axes):
        (model, task), (panel, about) = rows[place // 4], list(PANELS.items())[place % 4]
        own = frame[(frame["model"] == model) & (frame["task"] == task) & (frame["panel"] == panel)]
        own = own[(own["of"] == "level") & own["seed"].isna() & (own["x"] > 0)]
        for algorithm, points in own.groupby("algorithm", sort=False):
            ax.plot(points["x"], points["value"], **style.line_style(str(algorithm)))
        title = f"{about.title} ({about.unit})" if about.unit else about.title
        ax.set(title=title, xlabel=about.axis, ylabel=TASKS[task].title if place % 4 == 0 else "")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6, min_n_ticks=1))
        style.at_least(ax, "y", about.least)
    style.algorithm_legend(figure, dict.fromkeys(frame["algorithm"]))
    return figure
