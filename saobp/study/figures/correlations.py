"""Figures 3 and 9: mean GTD against performance, over checkpoints where runs kept them, else over runs."""

from collections.abc import Sequence
from math import isnan
from textwrap import fill
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from saobp.study.figures import style
from saobp.study.setup import labels
from saobp.study.statistics import Estimate, estimates, trajectories

Record = dict[str, Any]
SIZES = {3: ("mini",), 9: ("small", "medium")}
LEAST_GTD, LEAST_SCORE = 0.004, 4  # that an axis shows: of GTD, and points of a score
LETTERS = 26  # of a line above a panel


def data(number: int, records: Sequence[Record]) -> pd.DataFrame:
    """One row a point: model, task, algorithm, run, step (empty: the finished run), gtd, score."""
    parts = []
    for model in estimates.models(records):
        if labels.size(model) in SIZES[number]:
            for task in trajectories.TASKS:
                points = trajectories.points(records, model, task)
                parts.append(points.assign(model=model, task=task))
    columns = ["model", "task", "algorithm", "run", "seed", "step", "gtd", "score"]
    filled = [part for part in parts if len(part)]
    return pd.concat(filled, ignore_index=True)[columns] if filled else pd.DataFrame(columns=columns)


def plot(frame: pd.DataFrame, width: float) -> Figure:
    """Draw one panel a task, one row a model; narrower than five inches in two columns."""
    models = list(dict.fromkeys(frame["model"]))
    columns = 4 if width >= style.NARROW else 2
    folded = 4 // columns
    figure = style.new_figure(width, 0.4 + 1.6 * len(models) * folded)
    axes = figure.subplots(len(models) * folded, columns, squeeze=False)
    for index, model in enumerate(models):
        for position, task in enumerate(trajectories.TASKS):
            ax = axes[index * folded + position // columns, position % columns]
            points = frame[(frame["model"] == model) & (frame["task"] == task)]
            task_axes(ax, points, task)
        first = axes[index * folded, 0]
        first.set_ylabel(labels.model_title(model) + "\n" + first.get_ylabel())
    style.algorithm_legend(figure, dict.fromkeys(frame["algorithm"]))
    return figure


def task_axes(ax: Axes, points: pd.DataFrame, task: str) -> Axes:
    """Draw one task: a marker a point, checkpoints of one run joined; r with its interval above."""
    title = trajectories.TASKS[task]
    if points.empty:
        ax.set_title(title, pad=3)
        return style.blank(ax, "no run")
    for (algorithm, _), run in points.groupby(["algorithm", "run"], sort=False):
        look = style.line_style(str(algorithm))
        ax.plot(run["gtd"], run["score"], **(look | {"linewidth": 0.6, "alpha": 0.8}))
    ax.set_title(f"{title}\n{describe(points)}", pad=3, fontsize=7)
    ax.set(xlabel="Mean GTD", ylabel="Perplexity" if task == "wikitext" else "Score (%)")
    if task == "wikitext":
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ax.yaxis.set_minor_formatter(NullFormatter())
    else:
        ax.yaxis.set_major_locator(MaxNLocator(nbins=4))
        style.at_least(ax, "y", LEAST_SCORE)
    ax.xaxis.set_major_locator(MaxNLocator(nbins=3, min_n_ticks=2))
    style.at_least(ax, "x", LEAST_GTD)
    return ax


def describe(points: pd.DataFrame) -> str:
    """The correlation with its interval: r over checkpoints, and r_w over the ends of several runs where there are.

    r_w is centred by algorithm, so that the algorithms' own levels do not count as a correlation.
    """
    checkpoints = points["step"].notna().any()
    found = (trajectories.over_checkpoints if checkpoints else trajectories.over_runs)(points)
    if found is None:
        return fill(f"$r$ undefined: {trajectories.why_undefined(points)}", LETTERS)
    said = [_words("$r$" if checkpoints else "$r_w$", found)]
    if checkpoints and (ends := trajectories.over_runs(points.groupby("run", as_index=False, sort=False).last())):
        said.append(_words("$r_w$", ends))
    return "\n".join(said)


def _words(name: str, found: Estimate) -> str:
    ends = "" if isnan(found.half_width) else f" [{found.low:.2f}, {found.high:.2f}]"
    return f"{name}: {found.value:.2f}{ends}".replace("-", "−")
