"""Figures 3 and 9: mean GTD against performance, over checkpoints where runs kept them, else over
runs; Table 1's.
"""

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from companion.figures import style
from companion.paper import comparisons
from companion.paper import numbers as printed
from companion.records.schema import Record
from companion.setup import labels
from companion.statistics import Estimate, estimates, trajectories
from companion.tables import scores

# that an axis shows: of GTD, and points of a score
LEAST_GTD, LEAST_SCORE = 0.004, 4
# points, in the picture of Table 1
MARKER = {"Mini": 3.5, "Small": 5.5, "Medium": 7.5}
# of that picture
PANELS = {"accuracy": "accuracy, RACE-Middle (%)", "CC": "clustering coefficient"}
COLUMNS = ["model", "task", "algorithm", "run", "seed", "step", "gtd", "score"]


def data(records: Sequence[Record]) -> pd.DataFrame:
    """One row a point: model, task, algorithm, run, seed, step (empty: the finished run), gtd,
    score.
    """
    every = product(estimates.models(records), trajectories.FOLLOWED)
    parts = [
        trajectories.points(records, model, task).assign(model=model, task=task)
        for model, task in every
    ]
    return pd.concat([pd.DataFrame(), *filter(len, parts)], ignore_index=True).reindex(
        columns=COLUMNS
    )


def correlation(points: pd.DataFrame) -> Estimate | None:
    """Mean over runs of r over a run's checkpoints; over runs, centred by algorithm, where no run
    kept any.
    """
    return (
        trajectories.over_checkpoints if points["step"].notna().any() else trajectories.over_runs
    )(points)


def paper(task: str) -> float:
    """The paper's r of GTD and a task (Table 6), which names no size."""
    return printed.load().value(
        6, gtd_kind="Single GTD", task=scores.TASK_KEYS[task], metric="pearson_r"
    )


def numbers(frame: pd.DataFrame) -> dict[str, Any]:
    """For the caption: r of each task, marked where runs are too few, beside the paper's; tasks of
    opposite sign.
    """
    said, opposite = [], []
    for (_, task), points in frame.groupby(["model", "task"], sort=False):
        if found := correlation(points):
            name, theirs = trajectories.FOLLOWED[task], paper(task)
            sign = scores.sign_of(found, theirs)
            said.append(
                f"{name} {found.value:.2f}{', too few runs' * (sign == 'few')} ({theirs:.2f})"
            )
            opposite += [name] if sign == "opposite" else []
    models = labels.joined([labels.model_title(name) for name in frame["model"].unique()])
    return {"r": "; ".join(said), "opposite": labels.joined(opposite) or "none", "models": models}


def plot(frame: pd.DataFrame, width: float) -> Figure:
    """Draw one panel a task, two a row; colour is the share of training."""
    draws, models = [], frame["model"].unique()
    for model, (task, title) in product(models, trajectories.FOLLOWED.items()):
        points = frame.query("model == @model and task == @task")
        said = heading(
            correlation(points),
            title + f", {labels.model_title(model)}" * (len(models) > 1),
            paper(task),
        )
        draws.append((said, _task, points, task))
    figure = style.headed(width, 2.0, draws, columns=2 if width >= style.NARROW else 4)
    look = {
        "location": "bottom",
        "shrink": 0.4,
        "aspect": 30,
        "label": "Share of training",
        "ticks": [0, 0.5, 1],
    }
    figure.colorbar(ScalarMappable(Normalize(0, 1), "viridis"), ax=figure.axes, **look)
    return figure


def heading(found: Estimate | None, name: str, printed: float) -> str:
    """Whether an r has the paper's sign, with its interval and number of runs, and the paper's."""
    which = scores.sign_of(found, printed) if found else "none"
    return style.heading(3, which, name=name, paper=printed, found=found)


def _task(ax: Axes, points: pd.DataFrame, task: str) -> None:
    """Draw one task: a dot a checkpoint, by the share of training done, checkpoints of one run
    joined.
    """
    if points.empty:
        ax.set_axis_off()
        ax.text(0.5, 0.5, "not run", ha="center", va="center", transform=ax.transAxes, color="0.35")
        return
    for _, run in points.groupby("run", sort=False):
        ax.plot(run["gtd"], run["score"], color="0.8", lw=0.6, zorder=1)
    steps = points["step"].astype(float)
    done = (steps / steps.groupby(points["run"]).transform("max")).fillna(1.0).astype(float)
    ax.scatter(
        points["gtd"], points["score"], c=done, cmap="viridis", vmin=0, vmax=1, s=6, lw=0, zorder=2
    )
    ax.set(xlabel="Mean GTD", ylabel="Perplexity" if task == "wikitext" else "Score (%)")
    if task == "wikitext":
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.yaxis.set_major_formatter(style.PLAIN)
        ax.yaxis.set_minor_formatter(NullFormatter())
    else:
        ax.yaxis.set_major_locator(MaxNLocator(nbins=4))
        style.at_least(ax, "y", LEAST_SCORE)
    ax.xaxis.set_major_locator(MaxNLocator(nbins=3, min_n_ticks=2))
    style.at_least(ax, "x", LEAST_GTD)


def failed_run(table1: pd.DataFrame) -> Figure:
    """Draw Table 1: accuracy and clustering against GTD, a line through all rows, and one without
    the failed run.
    """
    figure, views = style.new_figure(style.PAGE, 2.7), comparisons.views(table1)
    lines = {"solid": views["all"], "dashed": views["without_failed"]}
    rows = lines["solid"]
    failed, ends = rows.loc[comparisons.FAILED], rows["GTD"].agg(["min", "max"])
    for ax, (other, name) in zip(figure.subplots(1, 2), PANELS.items()):
        for (model, algorithm), row in rows.iterrows():
            look = style.LOOKS[comparisons.OUR_ALGORITHMS[algorithm]]
            ax.plot(
                row["GTD"],
                row[other],
                look.marker,
                color=look.colour,
                markersize=MARKER[model],
                alpha=0.8,
                mew=0,
            )
        ax.plot(
            failed["GTD"],
            failed[other],
            "o",
            color="black",
            markersize=13,
            markerfacecolor="none",
            mew=0.8,
        )
        r = {}
        for dash, some in lines.items():
            slope, level = np.polyfit(some["GTD"], some[other], 1)
            ax.plot(ends, level + slope * ends, color="0.55", linestyle=dash, lw=0.9, zorder=0)
            r[dash] = some["GTD"].corr(some[other])
        ax.set_title(style.heading(3, "failed_run", **r), loc="left")
        ax.margins(0.12)
        ax.set(xlabel="GTD", ylabel=name)
    looks = [(labels.algorithm_title(name), style.LOOKS[name]) for name in labels.PAPER_ALGORITHMS]
    handles = [
        Line2D([], [], ls="", marker=look.marker, color=look.colour, ms=5, label=title)
        for title, look in looks
    ]
    handles += [
        Line2D([], [], ls="", marker="o", color="0.4", ms=size, label=name)
        for name, size in MARKER.items()
    ]
    figure.legend(
        handles=handles, loc="outside upper center", ncols=len(handles), handletextpad=0.1
    )
    return figure
