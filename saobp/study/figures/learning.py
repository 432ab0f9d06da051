"""Accuracy along training on questions of a known number of hops, a line an algorithm."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from saobp.study.beyond import accuracy_by_hops
from saobp.study.figures import style
from saobp.study.figures.exam import HOPS
from saobp.study.setup import labels

BAND = 10  # seeds from which on the band of an algorithm is drawn


def data(records: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """One row a depth, algorithm and step, as `means` has it, of questions of `HOPS` hops, with the depth's `leads`."""
    exam = [run for record in records for run in record["metrics"].get("multihop") or []]
    found = accuracy_by_hops.curves(exam)
    averaged = means(found, HOPS) if len(found) else found
    return averaged.merge(leads(found, HOPS), how="left") if len(averaged) else averaged


def leads(curves: pd.DataFrame, hops: int) -> pd.DataFrame:
    """Of how many pairs of one seed High's mean accuracy over training is ahead of Original's: layers, ahead, pairs."""
    over = curves[curves["hops"] == hops].pivot_table("accuracy", ["layers", "seed"], "algorithm")
    apart = (over.reindex(columns=["high"])["high"] - over.reindex(columns=["original"])["original"]).dropna()
    return apart.groupby("layers").agg(ahead=lambda gaps: int((gaps > 0).sum()), pairs="size").reset_index()


def means(curves: pd.DataFrame, hops: int) -> pd.DataFrame:
    """Mean over seeds of `accuracy_by_hops.curves`: layers, algorithm, step, accuracy (percent), low, high, n.

    low and high are the ends of the mean's 95 % interval over seeds.
    """
    rows = []
    for (layers, algorithm), own in curves[curves["hops"] == hops].groupby(["layers", "algorithm"], sort=False):
        runs = own.pivot(index="seed", columns="step", values="accuracy").dropna(axis=1)
        low, high = style.interval_of_mean(runs.to_numpy())
        parts = {"layers": layers, "algorithm": algorithm, "step": runs.columns, "accuracy": runs.mean().to_numpy()}
        rows.append(pd.DataFrame(parts).assign(low=low, high=high, n=len(runs)))
    return pd.concat(rows, ignore_index=True) if rows else pd.DataFrame()


def numbers(frame: pd.DataFrame) -> dict[str, Any]:
    """For the caption: how many seeds, and in how many of them High is ahead with the deepest encoders."""
    deepest = frame[frame["layers"] == frame["layers"].max()].iloc[0].to_dict()
    return deepest | {"least": frame["n"].min(), "most": frame["n"].max()}


def plot(frame: pd.DataFrame, width: float) -> Figure:
    """Draw a panel a depth; below five inches one above the other."""
    depths = sorted(frame["layers"].unique())
    figure, axes = style.panels(width, len(depths), 2.4)
    for letter, ax, depth in zip("abcd", axes, depths):
        own = frame[frame["layers"] == depth]
        curve_axes(ax, own)
        title = "{layers} layers: High is ahead of Original in {ahead:g} of {pairs:g} seeds over training"
        style.head(ax, letter, title.format(**own.iloc[0]))
    return figure


def curve_axes(ax: Axes, frame: pd.DataFrame, chance: float = 100 / 3, *, seeds: bool = True) -> Axes:
    """Draw the mean of each algorithm over steps with its band where seeds are many, its name and seeds at the end."""
    for algorithm, rows in frame.groupby("algorithm", sort=False):
        look = style.line_style(str(algorithm)) | {"marker": "", "lw": 1.4 if rows["n"].max() >= BAND else 0.9}
        ax.plot(rows["step"], rows["accuracy"], **look)
        if rows["n"].max() >= BAND:
            ax.fill_between(rows["step"], rows["low"], rows["high"], color=look["color"], alpha=0.16, lw=0)
    ax.axhline(chance, color="0.5", lw=0.8, ls=":", zorder=0)
    ax.set(xlabel="Training step", ylabel="Three-hop questions right (%)", ylim=(20, 102))
    ends = frame.groupby("algorithm", sort=False)[["accuracy", "n"]].last()
    names = {name: labels.algorithm_title(name) + f" ({n:.0f})" * seeds for name, n in ends["n"].items()}
    return style.label_ends(ax, ends["accuracy"].to_dict(), names)
