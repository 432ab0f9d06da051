"""High at other strengths than the paper's, and at learned ones: what held-out text says of each
(notebook 12).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from companion.beyond import strengths
from companion.figures import style
from companion.setup import labels
from companion.statistics import mean_interval
from companion.statistics.trajectories import STARTED

# their name and unit, and the span that an axis shows at least
PANELS = {
    "loss": ("Held-out loss", "nats", 0.05),
    "accuracy": ("Masked words right", "share", 0.01),
    "entropy": ("Entropy", "nats", 0.05),
    "gtd": ("GTD", "", 0.01),
    "largest_column": ("Largest column sum", "", 0.1),
}
# strengths that are named where there are many
SHOWN = (0.0, 0.01, 0.1, 1.0, 10.0)
STAR = {"mew": 0.6, "mfc": "white", "ls": "none"}
# of λ learned by each
STARS = {"head": STAR | {"marker": "*", "ms": 7}, "layer": STAR | {"marker": "D", "ms": 4}}
MATRIX_LOOKS = {
    "raw": ("softmax", "0.5", "s"),
    "refined": ("refined", style.LOOKS["high"].colour, "o"),
}


def of(runs: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return `strengths.sweep` with learned: by "head" or "layer" (strength: the mean), "" where λ
    was given.

    A seed counts that has every given strength, on one kind of processor: kinds of processor
    compute apart.
    """
    if (swept := strengths.sweep(runs)).empty:
        return swept
    ends = [(run["strength"], run["curve"][-1]) for run in runs if run["curve"]]
    values = [
        np.mean(end["strengths"]) if given in strengths.TAUGHT else given for given, end in ends
    ]
    swept = swept.assign(
        strength=values, learned=swept["strength"].map(strengths.TAUGHT).fillna("")
    )
    given, pair = swept[swept["learned"] == ""], ["seed", "processor"]
    common = given.pivot_table("loss", pair, "strength").dropna().index
    return swept[swept.set_index(pair).index.isin(common)]


def plot(frame: pd.DataFrame, width: float) -> Figure:
    """Draw loss, accuracy and the shape of attention over λ, the names in the last place; two a row
    in a column.
    """
    rows, columns = shape = (2, 3) if width >= style.NARROW else (3, 2)
    figure = style.new_figure(width, 0.5 + 1.6 * rows)
    *axes, last = figure.subplots(*shape).flat
    for letter, ax, quantity in zip("abcde", axes, PANELS):
        strength_axes(ax, frame, quantity)
        style.head(ax, letter, _heading(frame, quantity))
    last.set_axis_off()
    # as `strength_axes` draws them
    line = "-" if frame.loc[frame["learned"] == "", "seed"].nunique() > 1 else "none"
    handles = [
        Line2D([], [], color=colour, marker=mark, ms=3.5, lw=1, ls=line, mfc="none", label=name)
        for name, colour, mark in MATRIX_LOOKS.values()
    ]
    handles += [
        Line2D(
            [], [], color="0.2", label=f"λ learned by each {by},\nat the mean of its {by}s", **star
        )
        for by, star in STARS.items()
        if by in set(frame["learned"])
    ]
    last.legend(handles=handles, loc="center")
    return figure


def _heading(frame: pd.DataFrame, quantity: str) -> str:
    """How a quantity (after the step) changes from the least λ to the largest; of one seed or one λ
    its range.
    """
    column = quantity if quantity in frame else f"refined_{quantity}"
    by_seed = frame[frame["learned"] == ""].pivot_table(column, "seed", "strength")
    means, (first, last), count = by_seed.mean(), by_seed.columns[[0, -1]], len(by_seed)
    if count == 1 or len(means) == 1:
        said = {"name": PANELS[quantity][0], "least": means.min(), "most": means.max(), "n": count}
        return style.heading("strength", "seed" if count == 1 else "strength", first=first, **said)
    gap = mean_interval((by_seed[last] - by_seed[first]).tolist())
    change = style.change(gap.value, gap.low, gap.high)
    return style.heading("strength", "change", first=first, last=last, change=change, n=gap.seeds)


def strength_axes(ax: Axes, frame: pd.DataFrame, quantity: str) -> Axes:
    """Draw one quantity over λ: a point a seed, a line through the means of several, a mark at
    learned strengths.
    """
    fixed = frame[frame["learned"] == ""]
    columns = (
        {"refined": quantity}
        if quantity in frame
        else {side: f"{side}_{quantity}" for side in MATRIX_LOOKS}
    )
    for side, column in columns.items():
        _, colour, marker = MATRIX_LOOKS[side]
        ax.plot(
            fixed["strength"],
            fixed[column],
            marker,
            color=colour,
            ms=3,
            mfc="none",
            mew=0.7,
            ls="none",
        )
        if fixed["seed"].nunique() > 1:
            means = fixed.groupby("strength")[column].mean()
            ax.plot(means.index, means, color=colour, lw=1.2)
        for by, taught in frame[frame["learned"] != ""].groupby("learned"):
            ax.plot(taught["strength"], taught[column], color=colour, **STARS[by])
    levels = sorted(set(fixed["strength"]))
    smallest = min((level for level in levels if level > 0), default=0.01)
    shown = levels if len(levels) < 4 else [level for level in levels if level in SHOWN]
    # with room for 0
    ax.set_xscale("symlog", linthresh=smallest, linscale=0.4)
    ax.set_xlim(left=-smallest / 2)
    ax.set_xticks(shown, [f"{level:g}" for level in shown])
    ax.xaxis.set_minor_locator(NullLocator())
    name, unit, least = PANELS[quantity]
    ax.set(xlabel="λ (nats)", ylabel=f"{name} ({unit})" if unit else name)
    return style.at_least(ax, "y", least)


def numbers(frame: pd.DataFrame) -> dict[str, Any]:
    """For the caption: the loss at λ = 0, the lowest and highest mean at others, λ without a start
    of learning.
    """
    fixed = frame[frame["learned"] == ""]
    taught = [by for by in STARS if by in set(frame["learned"])] or ["given"]
    means = fixed.groupby("strength")["loss"].mean()
    others, late = means.drop(0.0, errors="ignore"), means[means > STARTED]
    return {
        "loss": others.min(),
        "worst": others.max(),
        "plain": means.get(0.0, np.nan),
        "seeds": fixed["seed"].nunique(),
        "strengths": len(means),
        "started": STARTED,
        "late": labels.joined([f"{level:g} ({loss:.2f})" for level, loss in late.items()])
        or "none",
        "learned": labels.joined([style.heading("strength", by) for by in taught]),
    }
