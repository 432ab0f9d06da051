"""What High adds to Original, task by task: the paper's printed difference beside ours, each with its error."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

from saobp.study.figures import style
from saobp.study.paper import frames, numbers
from saobp.study.setup import labels
from saobp.study.statistics import estimates, task_scores
from saobp.study.tables.scores import GLUE_TITLES

Record = dict[str, Any]
TASKS = {"hellaswag": "HellaSwag", "race": "RACE-Middle", "squad": "SQuAD"} | GLUE_TITLES
COLUMNS = ["model", "task", "of", "gain", "low", "high", "runs", "items"]
PAPER, OURS = "paper", "ours"
GREY = "0.55"


def data(records: Sequence[Record]) -> pd.DataFrame:
    """One row a size, task and source: gain of High over Original (points), its 95 % interval, runs, items.

    The paper's rows are those of the sizes that were run; its error is that of the items alone, of one seed, unpaired.
    Empty where no task was run with both algorithms.
    """
    rows = [row for model in estimates.models(records) for row in _ours(records, model)]
    if not rows:
        return pd.DataFrame(columns=COLUMNS)
    cells = frames.gains(numbers.load())
    half = stats.norm.ppf(0.975) * cells["error"]
    paper = cells.assign(low=cells["gain"] - half, high=cells["gain"] + half, of=PAPER, runs=1)
    paper["task"] = paper["task"].str.replace("_", "-")
    models = {labels.published_model(row[0]): row[0] for row in rows}
    paper = paper[paper["model"].isin(models)].replace({"model": models})
    return pd.concat([paper[COLUMNS], pd.DataFrame(rows, columns=COLUMNS)], ignore_index=True)


def _ours(records: Sequence[Record], model: str) -> list[tuple]:
    """The gains of one model on every task that both algorithms have a score on."""
    rows = []
    for task, title in TASKS.items():
        high, plain = (task_scores.scores(records, model, name, task) for name in ("high", "original"))
        if high and plain:
            gap = estimates.score_difference(high, plain)
            rows.append((model, title, OURS, gap.value, gap.low, gap.high, len(high), gap.items))
    return rows


def plot(frame: pd.DataFrame, width: float) -> Figure:
    """Draw one panel a size, a line a task; below five inches one panel above the other."""
    models, tasks = frame["model"].unique(), [title for title in TASKS.values() if title in set(frame["task"])]
    side = width >= style.NARROW
    tall = 0.7 + 0.2 * len(tasks)
    figure = style.new_figure(width, tall if side else tall * len(models))
    shape = (1, len(models)) if side else (len(models), 1)
    for ax, model in zip(figure.subplots(*shape, sharey=True, sharex=True, squeeze=False).flat, models):
        gain_axes(ax, frame[frame["model"] == model], tasks)
        ax.set_title(labels.model_title(str(model)), pad=3)
    handles, names = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=2)
    return figure


def gain_axes(ax: Axes, frame: pd.DataFrame, tasks: Sequence[str]) -> Axes:
    """Draw one size: for each task the paper's difference and ours, one below the other; the line is no difference."""
    ax.axvline(0, color="0.5", lw=0.8, ls="--", zorder=0)
    looks = {
        PAPER: (GREY, "o", -0.18, "paper, items alone"),
        OURS: (labels.ALGORITHMS["high"].colour, "s", 0.18, "ours"),
    }
    for name, (colour, marker, apart, label) in looks.items():
        own = frame[frame["of"] == name]
        places = [tasks.index(task) + apart for task in own["task"]]
        ends = [own["gain"] - own["low"], own["high"] - own["gain"]]
        ax.errorbar(
            own["gain"], places, xerr=ends, fmt=marker, color=colour, ms=3.5, lw=0.9, mfc="white", mew=0.9, label=label
        )
    ax.set_yticks(range(len(tasks)), tasks)
    ax.set_ylim(len(tasks) - 0.4, -0.6)
    ax.set_xlabel("High − Original (points)")
    return ax


def words(frame: pd.DataFrame) -> str:
    """Say of how many tasks the interval does not hold 0, in the paper's numbers and in ours."""
    said = []
    for name, title in ((PAPER, "The paper's"), (OURS, "Ours")):
        own = frame[frame["of"] == name].dropna(subset="low")  # where both answer alike there is no interval
        above, below = int((own["low"] > 0).sum()), int((own["high"] < 0).sum())
        said.append(f"{title}: {above} of {len(own)} intervals lie above 0 and {below} below")
    return "; ".join(said) + ", before any correction for their number."
