"""What High adds to Original, task by task: the paper's printed difference beside ours, each with
its error.
"""

from collections.abc import Sequence
from itertools import product
from math import nan
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from companion.figures import style
from companion.paper import comparisons
from companion.paper import numbers as printed
from companion.records.schema import Record
from companion.setup import labels
from companion.setup.tasks_and_metrics import GLUE, PRINTED, TASKS
from companion.statistics import estimates, task_scores
from companion.statistics.intervals import NORMAL

# from above
DRAWN = ("hellaswag", "race", "squad", *GLUE)
COLUMNS = ["model", "task", "of", "gain", "low", "high", "runs", "items"]
PAPER, OURS = "paper", "ours"
# of the paper's columns
TITLES = {PRINTED[task]: TASKS[task].title for task in DRAWN}
# standard errors to each side of a printed gain
REACH = 2


def data(records: Sequence[Record]) -> pd.DataFrame:
    """One row a size that was run, task and source: gain of High over Original (points), 95 %
    interval where there are several seeds, runs, items.

    The paper's error is that of the items alone, of one seed, unpaired.
    """
    rows, paper = [], printed.load()
    for model, task in product(estimates.models(records), DRAWN):
        high = task_scores.scores(records, model, "high", task)
        plain = task_scores.scores(records, model, "original", task)
        gap = estimates.score_difference(high, plain)
        if gap:
            # one seed decides nothing: a dot
            ends = (gap.low, gap.high) if gap.seeds > 1 else (nan, nan)
            title = TASKS[task].title
            rows.append((model, title, OURS, gap.value, *ends, gap.seeds, gap.items))
    ours = pd.DataFrame(rows, columns=COLUMNS)
    # correlations, without an error
    bare = comparisons.over_original(comparisons.table(paper, 8))[["CoLA", "STS-B"]]
    bare = bare.stack().round(2).rename_axis(["model", "task"]).reset_index(name="gain")
    theirs = pd.concat([comparisons.gains(paper), bare], ignore_index=True).assign(of=PAPER, runs=1)
    models = {labels.published_model(name): name for name in ours["model"]}
    theirs["model"] = theirs["model"].map(models)
    theirs["task"] = theirs["task"].map(TITLES)
    half = NORMAL * theirs["error"]
    theirs = theirs.assign(low=theirs["gain"] - half, high=theirs["gain"] + half)
    theirs = theirs.dropna(subset="model")
    return pd.concat([theirs[COLUMNS], ours], ignore_index=True)


def numbers(frame: pd.DataFrame) -> dict[str, Any]:
    """For the caption: of how many tasks the interval lies above 0, in the paper's numbers and in
    ours.
    """
    # where both answer alike there is no interval
    counts, known = {}, frame.dropna(subset="low")
    for name in (PAPER, OURS):
        lows = known[known["of"] == name]["low"]
        counts |= {f"{name}_above": (lows > 0).sum(), f"{name}_tasks": len(lows)}
    runs = frame.loc[frame["of"] == OURS, "runs"]
    counts |= {"least": runs.min(), "most": runs.max()}
    return counts


def plot(frame: pd.DataFrame, width: float) -> Figure:
    """Draw one panel a size, a line a task, our largest gain on top; below five inches one panel
    above the other.
    """
    draws = []
    for model, cells in frame.groupby("model", sort=False):
        values = {"model": labels.model_title(model), **numbers(cells)}
        draws.append((style.heading("gains", 0, **values), gain_axes, cells))
    return style.headed(width, 0.8 + 0.21 * frame["task"].nunique(), draws)


def gain_axes(ax: Axes, frame: pd.DataFrame) -> Axes:
    """Draw one size: for each task the paper's difference and ours, one below the other; hollow:
    one seed.
    """
    ours = frame[frame["of"] == OURS].sort_values("gain", ascending=False, kind="stable")
    tasks = list(dict.fromkeys([*ours["task"], *frame["task"]]))
    seeds = ours.set_index("task")["runs"]
    ax.axvline(0, color="0.5", lw=0.8, ls=":", zorder=0)
    looks = {
        PAPER: ("0.55", "o", 0.2, "paper, items alone"),
        OURS: (style.LOOKS["high"].colour, "s", -0.2, "ours"),
    }
    for edge, (name, (colour, marker, apart, label)) in zip((1, 0), looks.items()):
        for row in frame[frame["of"] == name].itertuples():
            place = tasks.index(row.task) + apart
            face = "white" if row.runs == 1 else colour
            ax.hlines(place, row.low, row.high, color=colour, lw=0.9)
            ax.plot(row.gain, place, marker, color=colour, ms=4, mfc=face, mew=0.9)
        # above the first row, where no interval lies
        text = {"color": style.ink(colour), "fontsize": 7, "transform": ax.get_yaxis_transform()}
        ax.text(edge, -0.75, label, ha="right" if edge else "left", **text)
    names = [f"{task} ({seeds[task]})" if task in seeds else task for task in tasks]
    style.rows(ax, names, above=1.2)
    ax.set_xlabel("High − Original (points)")
    return ax


def printed_forest(gains: pd.DataFrame) -> Figure:
    """Draw `comparisons.gains` with `REACH` errors to each side, a panel a size; filled marks: zero
    is outside.
    """
    figure = style.new_figure(style.PAGE, 2.6)
    look = style.LOOKS["high"]
    axes = figure.subplots(1, gains["model"].nunique(), sharex=True, sharey=True)
    gains = gains.assign(reach=REACH * gains["error"], beyond=gains["z"].abs() > REACH)
    for ax, (model, cells) in zip(axes, gains.groupby("model", sort=False)):
        cells = cells.sort_values("items", kind="stable")
        for place, cell in enumerate(cells.itertuples()):
            ends = [cell.gain - cell.reach, cell.gain + cell.reach]
            ax.plot(ends, [place, place], color=look.colour, lw=1.2)
            face = look.colour if cell.beyond else "white"
            ax.plot(cell.gain, place, look.marker, color=look.colour, mfc=face, ms=4.5)
        ax.axvline(0, color="0.5", lw=0.8, zorder=0)
        names = cells["task"].map(TITLES) + cells["items"].map(" ({:,})".format)
        ax.set_yticks(range(len(cells)), names)
        ax.set(ylim=(len(cells) - 0.5, -0.5), xlabel="High − Original (points)")
        counts = {"model": model, "beyond": cells["beyond"].sum(), "gains": len(cells)}
        ax.set_title(style.heading("gains", "printed", **counts), loc="left")
    return figure
