"""One number of Original's attention beside High's, seed by seed (Figure 6 and the first panel of the glance)."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from saobp.study.figures import style
from saobp.study.setup import labels
from saobp.study.setup.tasks_and_metrics import TASKS
from saobp.study.statistics import estimates

COLUMNS = ["model", "task", "seed", "algorithm", "value"]
SIDES = ("original", "high")


def by_seed(records: Sequence[dict[str, Any]], measure: str) -> pd.DataFrame:
    """One row a model, task, seed and side (Original, High): the mean of a measure over layers, heads and samples.

    Of a High run it is the refined matrix's. Seeds that one side lacks are left out.
    """
    rows = []
    for run in records:
        given = run["parameters"]
        value = estimates.nested_mean(estimates.matrix(run).get(measure)) if run["stage"] == "attention" else None
        if value is not None and given.get("algorithm") in SIDES:
            rows.append((given["model"], run["metrics"]["task"], given["seed"], given["algorithm"], value))
    frame = pd.DataFrame(rows, columns=COLUMNS)
    both = frame.groupby(COLUMNS[:3])["algorithm"].transform("nunique") == len(SIDES)
    return frame[both].sort_values(COLUMNS, ignore_index=True)


def pairs(frame: pd.DataFrame) -> pd.DataFrame:
    """The same, a row a model, task and seed and a column a side."""
    return frame.pivot(index=COLUMNS[:3], columns="algorithm", values="value")[list(SIDES)]


def numbers(frame: pd.DataFrame) -> dict[str, Any]:
    """For a caption: each side's ends and mean, of how many pairs High's is the lower, and of what they are."""
    found = pairs(frame)
    ends = {f"{side}_{end}": found[side].agg(end) for side in SIDES for end in ("min", "max", "mean")}
    names = labels.joined([labels.model_title(name) for name in frame["model"].unique()])
    return {
        **ends, "lower": int((found["high"] < found["original"]).sum()), "pairs": len(found), "models": names,
        "seeds": frame["seed"].nunique(),
    }  # fmt: skip


def pair_axes(ax: Axes, frame: pd.DataFrame) -> Axes:
    """Draw a line a model, task and seed from Original's mark to High's, tasks below each other; `xlabel` is left."""
    place, ticks = 0.0, {}
    several = frame["model"].nunique() > 1
    for (model, task), rows in frame.groupby(["model", "task"], sort=False):
        found = pairs(rows)
        places = [place + step for step in range(len(found))]
        ax.hlines(places, found["original"], found["high"], color="0.75", lw=1.2, zorder=1)
        for side in SIDES:
            look = style.LOOKS[side]
            ax.plot(found[side], places, look.marker, color=look.colour, ms=4, mew=0, zorder=2)
        title = TASKS[task].title
        ticks[(places[0] + places[-1]) / 2] = f"{labels.model_title(model)}\n{title}" if several else title
        place += len(found) + 1
    ax.set_yticks(list(ticks), ticks.values())
    ax.set_ylim(place - 1.2, -1.6)
    first = frame.iloc[: len(SIDES)].set_index("algorithm")["value"]
    for side, align in zip(sorted(SIDES, key=first.get), ("right", "left")):
        ax.text(first[side], -0.55, labels.algorithm_title(side), ha=align, va="bottom", fontsize=7,
                color=style.LOOKS[side].colour)  # fmt: skip
    ax.grid(axis="y", visible=False)
    return ax


def sparsity(frame: pd.DataFrame, width: float) -> Figure:
    """Draw Figure 6: the share of entries below 1/L of each seed's attention, Original and High."""
    figure, (ax,) = style.panels(width, 1, 0.9 + 0.15 * len(pairs(frame)))
    said = numbers(frame)
    pair_axes(ax, frame)
    ax.set_xlabel("Sparsity (share of entries below 1/L)")
    style.head(
        ax, "", "High is less sparse in {lower} of {pairs} pairs: {original_mean:.3f} → {high_mean:.3f}".format(**said)
    )
    return figure
