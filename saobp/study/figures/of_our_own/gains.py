"""What High adds to Original, task by task: the paper's printed difference beside ours, each with its error."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

from saobp.study.figures import style
from saobp.study.paper import comparisons
from saobp.study.paper import numbers as printed
from saobp.study.setup import labels
from saobp.study.setup.schema import Record
from saobp.study.setup.tasks_and_metrics import GLUE, TASKS
from saobp.study.statistics import estimates, task_scores

DRAWN = ("hellaswag", "race", "squad", *GLUE)  # from above
COLUMNS = ["model", "task", "of", "gain", "low", "high", "runs", "items"]
PAPER, OURS = "paper", "ours"
GREY = "0.55"
REACH = 2  # standard errors to each side of a printed gain


def data(records: Sequence[Record]) -> pd.DataFrame:
    """One row a size, task and source: gain of High over Original (points), its 95 % interval, runs, items.

    The paper's rows are those of the sizes that were run; its error is that of the items alone, of one seed, unpaired.
    Empty where no task was run with both algorithms.
    """
    rows = [row for model in estimates.models(records) for row in _ours(records, model)]
    if not rows:
        return pd.DataFrame(columns=COLUMNS)
    cells = comparisons.gains(printed.load())
    half = stats.norm.ppf(0.975) * cells["error"]
    paper = cells.assign(low=cells["gain"] - half, high=cells["gain"] + half, of=PAPER, runs=1)
    bare = printed.load().tables[8].query("metric in ('CoLA', 'STS-B')")  # correlations, without a printed error
    sides = bare.set_index(["model", "metric", "algorithm"])["value"].unstack(sort=False)
    bare = (sides["High"] - sides["Original"]).round(2).rename_axis(["model", "task"]).reset_index(name="gain")
    paper = pd.concat([paper, bare.assign(of=PAPER, runs=1)], ignore_index=True)
    paper["task"] = paper["task"].str.replace("_", "-")
    models = {labels.published_model(row[0]): row[0] for row in rows}
    paper = paper[paper["model"].isin(models)].replace({"model": models})
    return pd.concat([paper[COLUMNS], pd.DataFrame(rows, columns=COLUMNS)], ignore_index=True)


def _ours(records: Sequence[Record], model: str) -> list[tuple]:
    """The gains of one model on every task that both algorithms have a score on."""
    rows = []
    for task in DRAWN:
        high, plain = (task_scores.scores(records, model, name, task) for name in ("high", "original"))
        if high and plain:
            gap = estimates.score_difference(high, plain)
            rows.append((model, TASKS[task].title, OURS, gap.value, gap.low, gap.high, len(high), gap.items))
    return rows


def numbers(frame: pd.DataFrame) -> dict[str, Any]:
    """For the caption: of how many tasks the interval lies above 0, in the paper's numbers and in ours, and seeds."""
    said: dict[str, Any] = {}
    for name in (PAPER, OURS):
        own = frame[frame["of"] == name].dropna(subset="low")  # where both answer alike there is no interval
        said |= {f"{name}_above": int((own["low"] > 0).sum()), f"{name}_below": int((own["high"] < 0).sum())}
        said[f"{name}_tasks"] = len(own)
    return said | {"seeds": int(frame["runs"].max())}


def plot(frame: pd.DataFrame, width: float) -> Figure:
    """Draw one panel a size, a line a task, our largest gain on top; below five inches one panel above the other."""
    models = frame["model"].unique()
    figure, axes = style.panels(width, len(models), 0.8 + 0.21 * frame["task"].nunique())
    for letter, ax, model in zip("abc", axes, models):
        own = frame[frame["model"] == model]
        gain_axes(ax, own)
        counts = numbers(own)
        lie = "lies" if counts["ours_above"] == 1 else "lie"
        text = "{ours_above} of {ours_tasks} intervals {lie} above 0 (paper: {paper_above} of {paper_tasks})"
        said = text.format(lie=lie, **counts)
        style.head(ax, letter if len(models) > 1 else "", f"{labels.model_title(str(model))}: {said}")
    return figure


def gain_axes(ax: Axes, frame: pd.DataFrame) -> Axes:
    """Draw one size: for each task the paper's difference and ours, one below the other; hollow: one seed."""
    ours = frame[frame["of"] == OURS].sort_values("gain", ascending=False, kind="stable")
    tasks = [*ours["task"], *(task for task in frame["task"].unique() if task not in set(ours["task"]))]
    ax.axvline(0, color="0.5", lw=0.8, ls=":", zorder=0)
    looks = {PAPER: (GREY, "o", 0.2, "paper, items alone"), OURS: (style.LOOKS["high"].colour, "s", -0.2, "ours")}
    for name, (colour, marker, apart, _) in looks.items():
        for row in frame[frame["of"] == name].itertuples():
            place = tasks.index(row.task) + apart
            ax.hlines(place, row.low, row.high, color=colour, lw=0.9)
            ax.plot(row.gain, place, marker, color=colour, ms=4, mfc="white" if row.runs == 1 else colour, mew=0.9)
    for place, (colour, _, _, label) in enumerate(looks.values()):
        ax.text(0.99, 0.03 + 0.06 * place, label, color=colour, ha="right", fontsize=7, transform=ax.transAxes)
    seeds = ours.set_index("task")["runs"]
    ax.set_yticks(range(len(tasks)), [f"{task} ({seeds[task]})" if task in seeds else task for task in tasks])
    ax.set_ylim(len(tasks) - 0.4, -0.6)
    ax.set_xlabel("High − Original (points)")
    ax.grid(axis="y", visible=False)
    return ax


def printed_forest(gains: pd.DataFrame, width: float = style.PAGE) -> Figure:
    """Draw all gains of `comparisons.gains`, a panel a size, tasks with few items above."""
    figure = style.new_figure(width, 2.6)
    axes = figure.subplots(1, gains["model"].nunique(), sharex=True, sharey=True)
    for ax, (model, cells) in zip(axes, gains.groupby("model", sort=False)):
        forest_axes(ax, cells)
        beyond = int((cells["gain"].abs() > REACH * cells["error"]).sum())
        ax.set_title(f"BERT-{model}:\n{beyond} of {len(cells)} exclude 0", loc="left")
    return figure


def forest_axes(ax: Axes, cells: pd.DataFrame) -> Axes:
    """Draw one size's gains with two standard errors of the items to each side; filled where zero is outside."""
    look, ordered = style.LOOKS["high"], cells.sort_values("items", kind="stable")
    for place, cell in enumerate(ordered.itertuples()):
        reach = REACH * cell.error
        beyond = abs(cell.gain) > reach
        ax.plot([cell.gain - reach, cell.gain + reach], [place, place], color=look.colour, lw=1.2)
        face = look.colour if beyond else "white"
        ax.plot(cell.gain, place, look.marker, color=look.colour, markerfacecolor=face, markersize=4.5)
    ax.axvline(0, color="0.5", lw=0.8, zorder=0)
    names = [f"{cell.task.replace('_', '-')} ({cell.items:,})" for cell in ordered.itertuples()]
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xlabel("High − Original (points)")
    return ax
