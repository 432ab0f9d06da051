"""Original beside High, seed by seed: any measure of attention; and sparsity (Figure 6)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure

from companion.figures import maps, style
from companion.records import select
from companion.records.schema import Record
from companion.setup import labels
from companion.setup.tasks_and_metrics import TASKS
from companion.statistics import Estimate, estimates, mean_interval, seeds

COLUMNS = ["model", "task", "seed", "algorithm", "value"]
# Original first, as drawn
SIDES = tuple(reversed(seeds.SIDES))


def sides(records: Sequence[Record], measure: str) -> pd.DataFrame:
    """One row a model, task, seed of both and side: the mean of a measure (High's refined) over
    layers and heads.
    """
    rows = []
    for run in select(records, "attention"):
        rows.append(run["parameters"] | {"value": estimates.mean_of(run, measure)})
    frame = pd.DataFrame(rows, columns=COLUMNS)
    wide = frame.pivot(index=COLUMNS[:3], columns="algorithm", values="value")
    return wide.reindex(columns=sorted(SIDES)).dropna().stack().reset_index(name="value")


def pairs(frame: pd.DataFrame) -> pd.DataFrame:
    """The same, a row a model, task and seed and a column a side."""
    return frame.pivot(index=COLUMNS[:3], columns="algorithm", values="value")[list(SIDES)]


def numbers(frame: pd.DataFrame) -> dict[str, Any]:
    """For a caption: each side's mean, of how many pairs High's is the lower, and of what models
    they are.
    """
    wide = pairs(frame)
    return {
        "gap": difference(frame),
        "seeds": labels.counted(frame["seed"].nunique(), "seed"),
        **{f"{side}_mean": wide[side].mean() for side in SIDES},
        "lower": int((wide["high"] < wide["original"]).sum()),
        "pairs": len(wide),
        "models": labels.joined([labels.model_title(name) for name in frame["model"].unique()]),
    }


def difference(frame: pd.DataFrame) -> Estimate:
    """High − Original over seeds, each the mean of the tasks that all seeds have, with Student's
    interval.
    """
    wide = pairs(frame)
    gaps = (wide["high"] - wide["original"]).groupby("seed")
    whole = gaps.mean()[gaps.size() == wide.index.unique("task").size]
    return mean_interval((whole if len(whole) else gaps.mean()).tolist())


def pair_axes(ax: Axes, frame: pd.DataFrame) -> Axes:
    """Draw a line a model, task and seed from Original's mark to High's, tasks below each other;
    `xlabel` is left.
    """
    place, ticks, several = 0, {}, frame["model"].nunique() > 1
    for (model, task), scores in pairs(frame).groupby(["model", "task"], sort=False):
        places = range(place, place + len(scores))
        ax.hlines(places, scores["original"], scores["high"], color="0.75", lw=1.2, zorder=1)
        for side in SIDES:
            look = style.LOOKS[side]
            ax.plot(scores[side], places, look.marker, color=look.colour, ms=4, mew=0, zorder=2)
        ticks[np.mean(places)] = f"{labels.model_title(model)}\n" * several + TASKS[task].title
        place += len(scores) + 1
    ax.set_yticks(list(ticks), ticks.values())
    ax.set_ylim(place - 1.2, -1.6)
    first = pairs(frame).iloc[0].sort_values()
    for (side, value), align in zip(first.items(), ("right", "left")):
        text = {"ha": align, "va": "bottom", "fontsize": 7, "color": style.LOOKS[side].text}
        ax.text(value, -0.55, labels.algorithm_title(side), **text)
    ax.grid(axis="y", visible=False)
    return ax


def sparsity(frame: pd.DataFrame, width: float) -> Figure:
    """Draw Figure 6: a head of MiniLM before and after a step, and the share of entries below 1/L of
    each seed's attention, Original and High.
    """
    values, head = numbers(frame), maps.data([])
    wide = width >= style.NARROW
    shape = [["a", "c"], ["b", "c"]] if wide else [["a", "b"], ["c", "c"]]
    height = max(3.6, 0.9 + 0.15 * values["pairs"]) if wide else 2.2 + 0.13 * values["pairs"]
    figure = style.new_figure(width, min(7.0, height))
    ratios = {"width_ratios": (1, 1.5)} if wide else {"height_ratios": (1, 2.2)}
    axes = figure.subplot_mosaic(shape, **ratios)
    tokens = list(head["token"][: len(head) // 2])
    before, after = maps.both(head)
    for name, matrix in (("a", before), ("b", after)):
        maps.map_axes(axes[name], matrix, tokens, PowerNorm(0.5, 0, before.max()))
        axes[name].tick_params(labelsize=4)
        axes[name].set_xlabel("Key, before the step" if name == "a" else "Key, after it")
        if not wide:
            # names of tokens would lie on each other
            axes[name].set(xticks=[], yticks=[])
        sparse = (matrix < 1 / len(matrix)).mean()
        style.head(axes[name], name, style.heading(6, name, sparse=sparse, **maps.numbers(head)))
    pair_axes(axes["c"], frame)
    axes["c"].set_xlabel("Sparsity (share of entries below 1/L)")
    style.head(axes["c"], "c", style.heading(6, "c", **values))
    return figure
