"""Pictures of the paper's printed numbers: gains with their sampling errors, and Table 1's correlations."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from saobp.study.figures import style
from saobp.study.paper import comparisons

REACH = 2  # standard errors to each side
MARKER = {"Mini": 3.5, "Small": 5.5, "Medium": 7.5}  # points
PANELS = {"GTD": "GTD", "CC": "clustering coefficient", "accuracy": "accuracy, RACE-Middle (%)"}


def forest(gains: pd.DataFrame, width: float = style.PAGE) -> Figure:
    """Draw all gains of `printed.gains`, a panel a size, tasks with few items above."""
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


def failed_run(table1: pd.DataFrame, width: float = style.PAGE) -> Figure:
    """Draw accuracy and clustering against GTD, one point a row of Table 1, the failed run ringed."""
    figure = style.new_figure(width, 2.7)
    rows = comparisons.views(table1)["all 12 rows"]
    for ax, other in zip(figure.subplots(1, 2), ("accuracy", "CC")):
        scatter_axes(ax, rows, other)
    handles = _handles()
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), handletextpad=0.1)
    return figure


def scatter_axes(ax: Axes, rows: pd.DataFrame, other: str) -> Axes:
    """Draw one column of Table 1 against GTD, with the line through all rows and the one without the failed run."""
    for (model, algorithm), row in rows.iterrows():
        look = style.LOOKS[algorithm.lower()]
        ax.plot(row["GTD"], row[other], look.marker, color=look.colour, markersize=MARKER[model], alpha=0.8, mew=0)
    failed = rows.loc[comparisons.FAILED]
    ax.plot(failed["GTD"], failed[other], "o", color="black", markersize=13, markerfacecolor="none", mew=0.8)
    ends, words = np.array([rows["GTD"].min(), rows["GTD"].max()]), []
    for some, dash in ((rows, "solid"), (rows.drop(comparisons.FAILED), "dashed")):
        slope, level = np.polyfit(some["GTD"], some[other], 1)
        ax.plot(ends, level + slope * ends, color="0.55", linestyle=dash, lw=0.9, zorder=0)
        r = comparisons.correlations(some, ["GTD"], other)["GTD"][0]
        words.append(f"{r:+.2f} ({dash})".replace("-", "−"))
    ax.set_title(f"Without the ringed run $r$ goes\nfrom {words[0]} to {words[1]}", loc="left")
    ax.margins(0.12)
    ax.set(xlabel=PANELS["GTD"], ylabel=PANELS[other])
    return ax


def _handles() -> list[Line2D]:
    """Return a legend's marks: one an algorithm, then one a size."""
    looks = [(title, style.LOOKS[title.lower()]) for title in comparisons.METHODS]
    handles = [Line2D([], [], ls="", marker=look.marker, color=look.colour, ms=5, label=title) for title, look in looks]
    return handles + [
        Line2D([], [], ls="", marker="o", color="0.4", ms=size, label=name) for name, size in MARKER.items()
    ]
