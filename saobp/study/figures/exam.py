"""The end of the controlled study: accuracy on questions of three hops, every seed a dot."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from saobp.study.beyond import accuracy_by_hops
from saobp.study.figures import style
from saobp.study.setup import labels

HOPS = 3  # with fewer, all of them are right nearly always
ALIKE = 2.5  # points within which dots stand one beside the other


def data(records: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """One row a run and number of hops: layers, algorithm, seed, hops, accuracy (percent), right, asked, chance.

    Empty where no run was asked questions of `HOPS` hops.
    """
    exams = [run["metrics"].get("multihop") or [] for run in records]
    parts = [accuracy_by_hops.scores(exam).assign(chance=100 / exam[0]["chains"]) for exam in exams if exam]
    filled = [part for part in parts if len(part) and (part["hops"] == HOPS).any()]
    return pd.concat(filled, ignore_index=True) if filled else pd.DataFrame()


def solved(frame: pd.DataFrame) -> pd.DataFrame:
    """Of how many seeds accuracy on `HOPS` hops reached `hops.KNOWN`: layers, algorithm, solved, seeds, mean."""
    asked = frame[frame["hops"] == HOPS].assign(solved=lambda rows: rows["accuracy"] >= accuracy_by_hops.KNOWN)
    return asked.groupby(["layers", "algorithm"], as_index=False).agg(
        solved=("solved", "sum"), seeds=("seed", "nunique"), mean=("accuracy", "mean")
    )


def numbers(frame: pd.DataFrame) -> dict[str, Any]:
    """For the caption: what counts as solved, and how many seeds of Original and High did with the deepest encoders."""
    rows = solved(frame)
    deepest = rows[rows["layers"] == rows["layers"].max()].set_index("algorithm")
    counts = {name: "{solved:.0f} of {seeds:.0f}".format(**row) for name, row in deepest.iterrows()}
    none = dict.fromkeys(("original", "high"), "none of 0")
    return none | counts | {"learned": accuracy_by_hops.KNOWN, "layers": int(rows["layers"].max()), "hops": HOPS}


def plot(frame: pd.DataFrame, width: float) -> Figure:
    """Draw one panel a depth; below five inches one above the other."""
    depths, algorithms = (
        sorted(frame["layers"].unique()),
        [a for a in labels.ALGORITHMS if a in set(frame["algorithm"])],
    )
    figure, axes = style.panels(width, len(depths), 0.9 + 0.27 * len(algorithms))
    for letter, ax, depth in zip("abcd", axes, depths):
        own = frame[frame["layers"] == depth]
        depth_axes(ax, own, algorithms)
        said = "{high} seeds of High solve three hops, {original} of Original".format(**numbers(own))
        style.head(ax, letter, f"{labels.counted(int(depth), 'layer')}: {said}")
    return figure


def depth_axes(ax: Axes, frame: pd.DataFrame, algorithms: Sequence[str]) -> Axes:
    """Draw one depth: a row an algorithm, a dot a seed, a bar at their mean, how many solved it; chance dotted."""
    ax.axvline(frame["chance"].iloc[0], color="0.5", lw=0.8, ls=":", zorder=0)
    counts = solved(frame).set_index("algorithm")
    for place, algorithm in enumerate(algorithms):
        own = np.sort(frame[(frame["hops"] == HOPS) & (frame["algorithm"] == algorithm)]["accuracy"])
        look = style.LOOKS[algorithm]
        ax.plot(own, place + beside(own), "o", color=look.colour, ms=2.6, mfc="none", mew=0.6)
        if algorithm in counts.index:
            row = counts.loc[algorithm]
            ax.vlines(row["mean"], place - 0.35, place + 0.35, color=look.colour, lw=1.6)
            ax.text(1.02, place, f"{row['solved']:.0f} of {row['seeds']:.0f}", va="center", fontsize=7,
                    color=look.colour, transform=ax.get_yaxis_transform())  # fmt: skip
    ax.set_yticks(range(len(algorithms)), [labels.algorithm_title(name) for name in algorithms])
    ax.set(ylim=(len(algorithms) - 0.4, -0.6), xlim=(25, 103), xlabel="Three-hop questions right (%)")
    known = f"≥ {accuracy_by_hops.KNOWN:g} %"
    ax.text(1.02, -0.75, known, fontsize=7, color="0.3", transform=ax.get_yaxis_transform(), va="bottom")
    ax.grid(axis="y", visible=False)
    return ax


def beside(values: np.ndarray) -> np.ndarray:
    """How far up or down each of the sorted values goes, so that dots within `ALIKE` are all seen."""
    groups = np.cumsum(np.diff(values, prepend=values[:1]) > ALIKE)
    rank = pd.Series(groups).groupby(groups).cumcount()
    size = pd.Series(groups).groupby(groups).transform("size")
    return (0.66 * ((rank + 0.5) / size - 0.5)).to_numpy()
