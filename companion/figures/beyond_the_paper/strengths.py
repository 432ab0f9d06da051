"""High at other strengths than the paper's, and at learned ones: what held-out text says of each
(notebook 12).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from companion.figures import style
from companion.studies.strengths import read as strengths

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
    swept = strengths.sweep(runs)
    if swept.empty:
        return swept
    values = []
    for run in runs:
        if run["curve"]:
            taught = run["strength"] in strengths.TAUGHT
            values.append(np.mean(run["curve"][-1]["strengths"]) if taught else run["strength"])
    learned = swept["strength"].map(strengths.TAUGHT).fillna("")
    swept = swept.assign(strength=values, learned=learned)
    fixed, pair = swept[swept["learned"] == ""], ["seed", "processor"]
    common = fixed.pivot_table("loss", pair, "strength").dropna().index
    return swept[swept.set_index(pair).index.isin(common)]


def strength_axes(ax: Axes, frame: pd.DataFrame, quantity: str) -> Axes:
    """Draw one quantity over λ: a point a seed, a line through the means of several, a mark at
    learned strengths.
    """
    fixed = frame[frame["learned"] == ""]
    columns = {side: f"{side}_{quantity}" for side in MATRIX_LOOKS}
    if quantity in frame:
        columns = {"refined": quantity}
    for side, column in columns.items():
        _, colour, marker = MATRIX_LOOKS[side]
        dots = {"color": colour, "ms": 3, "mfc": "none", "mew": 0.7, "ls": "none"}
        ax.plot(fixed["strength"], fixed[column], marker, **dots)
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
