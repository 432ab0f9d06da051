"""Questions of three hops: every seed's accuracy at the end, and accuracy along training, a line an algorithm."""

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
BAND = 10  # seeds from which on the band of an algorithm is drawn


def ends(records: Sequence[dict[str, Any]]) -> pd.DataFrame:
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


def end_numbers(frame: pd.DataFrame) -> dict[str, Any]:
    """For the caption: what counts as solved, and how many seeds of Original and High did with the deepest encoders."""
    rows = solved(frame)
    deepest = rows[rows["layers"] == rows["layers"].max()].set_index("algorithm")
    counts = {name: "{solved:.0f} of {seeds:.0f}".format(**row) for name, row in deepest.iterrows()}
    none = dict.fromkeys(("original", "high"), "none of 0")
    return none | counts | {"learned": accuracy_by_hops.KNOWN, "layers": int(rows["layers"].max()), "hops": HOPS}


def plot_ends(frame: pd.DataFrame, width: float) -> Figure:
    """Draw one panel a depth; below five inches one above the other."""
    depths = sorted(frame["layers"].unique())
    algorithms = [name for name in labels.ALGORITHMS if name in set(frame["algorithm"])]
    figure, axes = style.panels(width, len(depths), 0.9 + 0.27 * len(algorithms))
    for letter, ax, depth in zip("abcd", axes, depths):
        own = frame[frame["layers"] == depth]
        depth_axes(ax, own, algorithms)
        said = "{high} seeds of High solve three hops, {original} of Original".format(**end_numbers(own))
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


def curves(records: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """One row a depth, algorithm and step, as `means` has it, of questions of `HOPS` hops, with the depth's `leads`."""
    exam = [run for record in records for run in record["metrics"].get("multihop") or []]
    found = accuracy_by_hops.curves(exam)
    averaged = means(found) if len(found) else found
    return averaged.merge(leads(found), how="left") if len(averaged) else averaged


def leads(curves: pd.DataFrame) -> pd.DataFrame:
    """Of how many pairs of one seed High's mean accuracy over training is ahead of Original's: layers, ahead, pairs."""
    over = curves[curves["hops"] == HOPS].pivot_table("accuracy", ["layers", "seed"], "algorithm")
    apart = (over.reindex(columns=["high"])["high"] - over.reindex(columns=["original"])["original"]).dropna()
    return apart.groupby("layers").agg(ahead=lambda gaps: int((gaps > 0).sum()), pairs="size").reset_index()


def means(curves: pd.DataFrame) -> pd.DataFrame:
    """Mean over seeds of `accuracy_by_hops.curves`: layers, algorithm, step, accuracy (percent), low, high, n.

    low and high are the ends of the mean's 95 % interval over seeds.
    """
    rows = []
    for (layers, algorithm), own in curves[curves["hops"] == HOPS].groupby(["layers", "algorithm"], sort=False):
        runs = own.pivot(index="seed", columns="step", values="accuracy").dropna(axis=1)
        low, high = style.interval_of_mean(runs.to_numpy())
        parts = {"layers": layers, "algorithm": algorithm, "step": runs.columns, "accuracy": runs.mean().to_numpy()}
        rows.append(pd.DataFrame(parts).assign(low=low, high=high, n=len(runs)))
    return pd.concat(rows, ignore_index=True) if rows else pd.DataFrame()


def curve_numbers(frame: pd.DataFrame) -> dict[str, Any]:
    """For the caption: how many seeds, and in how many of them High is ahead with the deepest encoders."""
    deepest = frame[frame["layers"] == frame["layers"].max()].iloc[0].to_dict()
    return deepest | {"least": frame["n"].min(), "most": frame["n"].max()}


def plot_curves(frame: pd.DataFrame, width: float) -> Figure:
    """Draw a panel a depth; below five inches one above the other."""
    depths = sorted(frame["layers"].unique())
    figure, axes = style.panels(width, len(depths), 2.4)
    for letter, ax, depth in zip("abcd", axes, depths):
        own = frame[frame["layers"] == depth]
        curve_axes(ax, own)
        title = "{layers} layers: High is ahead of Original in {ahead:g} of {pairs:g} seeds over training"
        style.head(ax, letter, title.format(**own.iloc[0]))
    return figure


def curve_axes(ax: Axes, frame: pd.DataFrame, *, seeds: bool = True) -> Axes:
    """Draw the mean of each algorithm over steps with its band where seeds are many, its name and seeds at the end."""
    for algorithm, rows in frame.groupby("algorithm", sort=False):
        look = style.line_style(str(algorithm)) | {"marker": "", "lw": 1.4 if rows["n"].max() >= BAND else 0.9}
        ax.plot(rows["step"], rows["accuracy"], **look)
        if rows["n"].max() >= BAND:
            ax.fill_between(rows["step"], rows["low"], rows["high"], color=look["color"], alpha=0.16, lw=0)
    ax.axhline(100 / 3, color="0.5", lw=0.8, ls=":", zorder=0)
    ax.set(xlabel="Training step", ylabel="Three-hop questions right (%)", ylim=(20, 102))
    ends = frame.groupby("algorithm", sort=False)[["accuracy", "n"]].last()
    names = {name: labels.algorithm_title(name) + f" ({n:.0f})" * seeds for name, n in ends["n"].items()}
    return style.label_ends(ax, ends["accuracy"].to_dict(), names)
