"""Figures 3 and 9: mean GTD against performance, over checkpoints where runs kept them, else over
runs; Table 1's.
"""

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
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
# points, from a run's first checkpoint to its last
SIZES = (4, 22)
COLUMNS = ["model", "task", "study", "algorithm", "run", "seed", "step", "gtd", "score"]


def data(records: Sequence[Record]) -> pd.DataFrame:
    """One row a point: model, task, study, algorithm, run, seed, step (empty: the finished run),
    gtd, score.

    Perplexity is of the fresh seeds alone, where there are any.
    """
    parts = [pd.DataFrame()]
    for model, task in product(estimates.models(records), trajectories.FOLLOWED):
        runs = list(records)
        if task == "wikitext":
            runs = estimates.fresh_alone(records, "pretrain")
        points = trajectories.points(runs, model, task)
        if len(points):
            study = estimates.study_of(runs)
            parts.append(points.assign(model=model, task=task, study=study))
    return pd.concat(parts, ignore_index=True).reindex(columns=COLUMNS)


def correlation(points: pd.DataFrame) -> Estimate | None:
    """Mean over seeds of r over a run's checkpoints; over runs, centred by algorithm, where no run
    kept any.
    """
    if points["step"].notna().any():
        return trajectories.over_checkpoints(points)
    return trajectories.over_runs(points)


def paper(task: str) -> float:
    """The paper's r of GTD and a task (Table 6), which names no size."""
    return printed.load().value(
        6, gtd_kind="Single GTD", task=scores.TASK_KEYS[task], metric="pearson_r"
    )


def numbers(frame: pd.DataFrame) -> dict[str, Any]:
    """For the caption: r of each task, marked where seeds are too few, beside the paper's; tasks of
    opposite sign.
    """
    texts, opposite = [], []
    for (_, task), points in frame.groupby(["model", "task"], sort=False):
        r = correlation(points)
        if r is None:
            continue
        name = trajectories.FOLLOWED[task]
        sign = scores.sign_of(r, paper(task))
        few = ", too few seeds" if sign == "few" else ""
        behind = labels.counted(r.seeds, "seed")
        texts.append(f"{name} {r.value:.2f}, {behind}{few} ({paper(task):.2f})")
        if sign == "opposite":
            opposite.append(name)
    models = labels.joined([labels.model_title(name) for name in frame["model"].unique()])
    return {"r": "; ".join(texts), "opposite": labels.joined(opposite) or "none", "models": models}


def plot(frame: pd.DataFrame, width: float) -> Figure:
    """Draw one panel a task, two a row; colour is the algorithm, the size of a dot the share of
    training.
    """
    draws, models = [], frame["model"].unique()
    for model, (task, title) in product(models, trajectories.FOLLOWED.items()):
        points = frame.query("model == @model and task == @task")
        name = f"{title}, {labels.model_title(model)}" if len(models) > 1 else title
        draws.append((heading(correlation(points), name, paper(task)), _task, points, task))
    figure = style.headed(width, 1.75, draws, columns=2)
    _legend(figure, frame)
    return figure


def heading(r: Estimate | None, name: str, printed: float) -> str:
    """Whether an r has the paper's sign, with its interval."""
    which = scores.sign_of(r, printed) if r else "none"
    return style.heading(3, which, name=name, r=r)


def _task(ax: Axes, points: pd.DataFrame, task: str) -> None:
    """Draw one task: a dot a checkpoint, larger along training, checkpoints of one run joined."""
    if points.empty:
        ax.set_axis_off()
        ax.text(0.5, 0.5, "not run", ha="center", va="center", transform=ax.transAxes, color="0.35")
        return
    for _, run in points.groupby("run", sort=False):
        look = style.LOOKS[run["algorithm"].iloc[0]]
        share = (run["step"].astype(float) / run["step"].max()).fillna(1.0)
        sizes = SIZES[0] + (SIZES[1] - SIZES[0]) * share
        ax.plot(run["gtd"], run["score"], color=look.colour, lw=0.5, alpha=0.35, zorder=1)
        dots = {"color": look.colour, "marker": look.marker, "alpha": 0.7, "lw": 0}
        ax.scatter(run["gtd"], run["score"], s=sizes, zorder=2, **dots)
    seeds = labels.counted(points["seed"].nunique(), "seed")
    beside = style.minus(f"Mean GTD ({seeds}; the paper: r {paper(task):.2f})")
    name = trajectories.FOLLOWED[task]
    ax.set(xlabel=beside, ylabel=name if task == "wikitext" else f"{name} (%)")
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


def _legend(figure: Figure, frame: pd.DataFrame) -> None:
    """Name the algorithms, and what the size of a dot says."""
    handles = []
    for name in labels.ALGORITHMS:
        if name in set(frame["algorithm"]):
            look, title = style.LOOKS[name], labels.algorithm_title(name)
            mark = {"marker": look.marker, "color": look.colour, "ms": 4}
            handles.append(Line2D([], [], lw=0.5, label=title, **mark))
    for size, title in zip(SIZES, ("first checkpoint", "last")):
        mark = {"marker": "o", "color": "0.4", "ms": size**0.5, "mew": 0}
        handles.append(Line2D([], [], ls="", label=title, **mark))
    lines = 4 if figure.get_figwidth() >= style.NARROW else 2
    figure.legend(handles=handles, loc="outside upper center", ncols=lines)


def failed_run(table1: pd.DataFrame) -> Figure:
    """Draw Table 1: accuracy and clustering against GTD, a line through all rows, and one without
    the failed run.
    """
    figure = style.new_figure(style.PAGE, 2.7)
    views = comparisons.views(table1)
    lines = {"solid": views["all"], "dashed": views["without_failed"]}
    rows = lines["solid"]
    failed = rows.loc[comparisons.FAILED]
    ends = rows["GTD"].agg(["min", "max"])
    for ax, (measure, name) in zip(figure.subplots(1, 2), PANELS.items()):
        for (model, algorithm), row in rows.iterrows():
            look = style.LOOKS[comparisons.OUR_ALGORITHMS[algorithm]]
            mark = {"color": look.colour, "ms": MARKER[model], "alpha": 0.8, "mew": 0}
            ax.plot(row["GTD"], row[measure], look.marker, **mark)
        circle = {"color": "black", "ms": 13, "mfc": "none", "mew": 0.8}
        ax.plot(failed["GTD"], failed[measure], "o", **circle)
        r = {}
        for dash, cells in lines.items():
            slope, level = np.polyfit(cells["GTD"], cells[measure], 1)
            ax.plot(ends, level + slope * ends, color="0.55", linestyle=dash, lw=0.9, zorder=0)
            r[dash] = cells["GTD"].corr(cells[measure])
        ax.set_title(style.heading(3, "failed_run", **r), loc="left")
        ax.margins(0.12)
        ax.set(xlabel="GTD", ylabel=name)
    handles = []
    for name in labels.PAPER_ALGORITHMS:
        look = style.LOOKS[name]
        mark = {"marker": look.marker, "color": look.colour, "ms": 5}
        handles.append(Line2D([], [], ls="", label=labels.algorithm_title(name), **mark))
    for name, size in MARKER.items():
        handles.append(Line2D([], [], ls="", marker="o", color="0.4", ms=size, label=name))
    legend = {"loc": "outside upper center", "ncols": len(handles), "handletextpad": 0.1}
    figure.legend(handles=handles, **legend)
    return figure
