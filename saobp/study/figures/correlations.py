"""Figures 3 and 9: mean GTD against performance, over checkpoints where runs kept them, else over runs."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from saobp.study.figures import style
from saobp.study.paper import numbers as printed
from saobp.study.setup import labels
from saobp.study.statistics import Estimate, estimates, trajectories
from saobp.study.tables import measures

Record = dict[str, Any]
LEAST_GTD, LEAST_SCORE = 0.004, 4  # that an axis shows: of GTD, and points of a score
COLUMNS = ["model", "task", "algorithm", "run", "seed", "step", "gtd", "score"]


def data(records: Sequence[Record]) -> pd.DataFrame:
    """One row a point: model, task, algorithm, run, step (empty: the finished run), gtd, score."""
    parts = [
        trajectories.points(records, model, task).assign(model=model, task=task)
        for model in estimates.models(records)
        for task in trajectories.FOLLOWED
    ]
    filled = [part for part in parts if len(part)]
    return pd.concat(filled, ignore_index=True)[COLUMNS] if filled else pd.DataFrame(columns=COLUMNS)


def correlation(points: pd.DataFrame) -> Estimate | None:
    """Mean over runs of r over a run's checkpoints; over runs, centred by algorithm, where no run kept any."""
    return (trajectories.over_checkpoints if points["step"].notna().any() else trajectories.over_runs)(points)


def paper(task: str) -> float:
    """The paper's r of GTD and a task (Table 6), which names no size."""
    return printed.load().value(6, gtd_kind="Single GTD", task=measures.TASK_KEYS[task], metric="pearson_r")


def numbers(frame: pd.DataFrame) -> dict[str, Any]:
    """For the caption: r of each task, marked where runs are too few, beside the paper's; tasks of opposite sign."""
    said, opposite = [], []
    for (_, task), points in frame.groupby(["model", "task"], sort=False):
        found = correlation(points)
        if found is not None:
            name, few = trajectories.FOLLOWED[str(task)], found.seeds < trajectories.FEW
            said.append(f"{name} {found.value:.2f}{', too few runs' * few} ({paper(str(task)):.2f})")
            opposite += [name] if found.value * paper(str(task)) < 0 and not few else []
    models = labels.joined([labels.model_title(str(name)) for name in frame["model"].unique()])
    return {"r": "; ".join(said), "opposite": labels.joined(opposite) or "none", "models": models}


def plot(frame: pd.DataFrame, width: float) -> Figure:
    """Draw one panel a task, two a row; colour is the share of training."""
    places = [(model, task) for model in dict.fromkeys(frame["model"]) for task in trajectories.FOLLOWED]
    figure, axes = style.panels(width, len(places), 2.0, columns=2 if width >= style.NARROW else 4)
    several = frame["model"].nunique() > 1
    for place, (ax, (model, task)) in enumerate(zip(axes, places)):
        points = frame[(frame["model"] == model) & (frame["task"] == task)]
        task_axes(ax, points, task)
        found = correlation(points) if len(points) else None
        name = trajectories.FOLLOWED[task] + (f", {labels.model_title(model)}" if several else "")
        style.head(ax, "abcdefgh"[place % 8], f"{name}: {heading(found, paper(task))}")
    bar = ScalarMappable(Normalize(0, 1), "viridis")
    figure.colorbar(
        bar, ax=axes, location="bottom", shrink=0.4, aspect=30, label="Share of training", ticks=[0, 0.5, 1]
    )
    return figure


def heading(found: Estimate | None, printed: float) -> str:
    """A panel's heading: whether an r has the paper's sign, with its interval and number of runs, and the paper's."""
    if found is None:
        return "r undefined"
    if found.seeds < trajectories.FEW:
        return f"too few runs, r {found.value:.2f}, paper {printed:.2f} (n = {found.seeds})"
    sign = "same sign" if found.value * printed > 0 else "opposite sign"
    sign = "not clear" if found.low <= 0 <= found.high else sign
    return f"{sign}, r {found.value:.2f} [{found.low:.2f}, {found.high:.2f}], paper {printed:.2f} (n = {found.seeds})"


def task_axes(ax: Axes, points: pd.DataFrame, task: str) -> Axes:
    """Draw one task: a dot a checkpoint, by the share of training done, checkpoints of one run joined."""
    if points.empty:
        ax.set_axis_off()
        ax.text(0.5, 0.5, "not run", ha="center", va="center", transform=ax.transAxes, color="0.35")
        return ax
    for _, run in points.groupby("run", sort=False):
        ax.plot(run["gtd"], run["score"], color="0.8", lw=0.6, zorder=1)
    steps = points["step"].astype(float)
    done = (steps / steps.groupby(points["run"]).transform("max")).fillna(1.0).astype(float)
    ax.scatter(points["gtd"], points["score"], c=done, cmap="viridis", vmin=0, vmax=1, s=6, lw=0, zorder=2)
    ax.set(xlabel="Mean GTD", ylabel="Perplexity" if task == "wikitext" else "Score (%)")
    if task == "wikitext":
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        style.plain_numbers(ax.yaxis)
        ax.yaxis.set_minor_formatter(NullFormatter())
    else:
        ax.yaxis.set_major_locator(MaxNLocator(nbins=4))
        style.at_least(ax, "y", LEAST_SCORE)
    ax.xaxis.set_major_locator(MaxNLocator(nbins=3, min_n_ticks=2))
    return style.at_least(ax, "x", LEAST_GTD)
