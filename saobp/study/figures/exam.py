"""The exam of the controlled multi-hop study: accuracy by the number of hops, at the end and along training."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from saobp.study.beyond import accuracy_by_hops
from saobp.study.figures import style
from saobp.study.setup import labels

APART = 0.08  # how far two algorithms stand from each other, of the way from one number of hops to the next


def data(records: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """One row a run and number of hops: layers, algorithm, seed, hops, accuracy (percent), right, asked, chance."""
    exams = [run["metrics"].get("multihop") or [] for run in records]
    parts = [accuracy_by_hops.scores(exam).assign(chance=100 / exam[0]["chains"]) for exam in exams if exam]
    filled = [part for part in parts if len(part)]
    return pd.concat(filled, ignore_index=True) if filled else pd.DataFrame()


def plot(frame: pd.DataFrame, width: float) -> Figure:
    """Draw one panel a depth, one accuracy axis for all; below five inches one above the other."""
    depths = sorted(frame["layers"].unique())
    side = width >= style.NARROW
    figure = style.new_figure(width, 2.5 if side else 0.5 + 1.9 * len(depths))
    shape = (1, len(depths)) if side else (len(depths), 1)
    for ax, depth in zip(figure.subplots(*shape, sharey=True, squeeze=False).flat, depths):
        depth_axes(ax, frame[frame["layers"] == depth], sorted(frame["algorithm"].unique(), key=_rank))
        ax.set_title(labels.counted(int(depth), "layer"), pad=3)
    style.algorithm_legend(figure, frame["algorithm"].unique())
    return figure


def depth_axes(ax: Axes, frame: pd.DataFrame, algorithms: Sequence[str]) -> Axes:
    """Draw one depth: beside each other each algorithm's seeds (dots on a bar) and their mean; chance dashed."""
    ax.axhline(frame["chance"].iloc[0], color="0.5", lw=0.8, ls="--", zorder=0)
    for place, algorithm in enumerate(algorithms):
        own = frame[frame["algorithm"] == algorithm]
        apart = APART * (place - (len(algorithms) - 1) / 2)
        look = style.line_style(algorithm) | {"linestyle": "none"}
        seeds = own.groupby("hops")["accuracy"].agg(["mean", "min", "max"])
        ax.vlines(seeds.index + apart, seeds["min"], seeds["max"], color=look["color"], lw=0.5)
        ax.plot(own["hops"] + apart, own["accuracy"], ".", color=look["color"], ms=4, mew=0)
        ax.plot(seeds.index + apart, seeds["mean"], **look | {"markersize": 4.5})
    ax.set_xticks(sorted(frame["hops"].unique()))
    ax.set_xlim(frame["hops"].min() - 0.5, frame["hops"].max() + 0.5)
    ax.set(xlabel="Hops", ylabel="Right (%)" if ax.get_subplotspec().is_first_col() else "")
    style.within(ax, "y", (0, 100), (0, 100))
    return ax


def _rank(algorithm: str) -> int:
    return list(labels.ALGORITHMS).index(algorithm)
