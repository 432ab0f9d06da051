"""Questions of three hops: every seed's accuracy at the end, and accuracy along training, a line an
algorithm.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from companion.figures import style
from companion.setup import labels
from companion.statistics import mean_interval
from companion.statistics.intervals import TAILS
from companion.statistics.paired import RESAMPLES
from companion.studies.hops import read as accuracy_by_hops

# with fewer, all of them are right nearly always
HOPS = 3
# points within which dots stand one beside the other
ALIKE = 2.5


def exam(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the runs of the planned exam's seeds that decide, else those of notebook 12's exam."""
    fresh = accuracy_by_hops.planned([run for run in records if run["stage"] == "hops"])
    chosen = fresh or [run for run in records if run["stage"] == "beyond"]
    return [run for record in chosen for run in record["metrics"].get("multihop") or []]


def ends(records: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return `accuracy_by_hops.scores` with chance (percent) of an exam with questions of `HOPS`
    hops.
    """
    runs = exam(records)
    scores = accuracy_by_hops.scores(runs)
    if HOPS not in set(scores["hops"]):
        return scores[:0]
    return scores.assign(chance=100 / runs[0]["chains"])


def solved(frame: pd.DataFrame) -> pd.DataFrame:
    """By layers and algorithm: solved (seeds with `KNOWN` percent of `HOPS` hops), seeds, mean,
    share ("2 of 3").
    """
    answers = frame[frame["hops"] == HOPS]
    answers = answers.assign(solved=answers["accuracy"] >= accuracy_by_hops.KNOWN)
    columns = {
        "solved": ("solved", "sum"),
        "seeds": ("seed", "nunique"),
        "mean": ("accuracy", "mean"),
    }
    counts = answers.groupby(["layers", "algorithm"]).agg(**columns)
    return counts.assign(share=counts["solved"].astype(str) + " of " + counts["seeds"].astype(str))


def end_numbers(frame: pd.DataFrame) -> dict[str, Any]:
    """For the caption: what counts as solved, and how many seeds of Original and High did with the
    deepest encoders.
    """
    layers = int(frame["layers"].max())
    counts = {"original": "none of 0", "high": "none of 0"}
    counts |= solved(frame).loc[layers, "share"].to_dict()
    return counts | {"learned": accuracy_by_hops.KNOWN, "layers": layers}


def plot_ends(frame: pd.DataFrame, width: float) -> Figure:
    """Draw one panel a depth; below five inches one above the other."""
    algorithms = [name for name in labels.ALGORITHMS if name in set(frame["algorithm"])]
    draws = []
    for depth, points in frame.groupby("layers"):
        title = style.heading(
            "hops", 0, depth=labels.counted(depth, "layer"), **end_numbers(points)
        )
        draws.append((title, _ends, points, algorithms))
    return style.headed(width, 0.9 + 0.27 * len(algorithms), draws)


def _ends(ax: Axes, frame: pd.DataFrame, algorithms: Sequence[str]) -> None:
    """Draw one depth: a row an algorithm, a dot a seed, a bar at their mean, how many solved it;
    chance dotted.
    """
    ax.axvline(frame["chance"].iloc[0], color="0.5", lw=0.8, ls=":", zorder=0)
    counts = solved(frame).droplevel("layers")
    words = {"fontsize": 7, "transform": ax.get_yaxis_transform()}
    answers = frame[frame["hops"] == HOPS]
    for place, algorithm in enumerate(algorithms):
        accuracy = np.sort(answers[answers["algorithm"] == algorithm]["accuracy"])
        colour = style.LOOKS[algorithm].colour
        # which stand side by side
        near = pd.Series(accuracy).groupby(
            np.cumsum(np.diff(accuracy, prepend=accuracy[:1]) > ALIKE)
        )
        apart = 0.66 * ((near.cumcount() + 0.5) / near.transform("size") - 0.5)
        ax.plot(accuracy, place + apart, "o", color=colour, ms=2.6, mfc="none", mew=0.6)
        if algorithm in counts.index:
            row = counts.loc[algorithm]
            ax.vlines(row["mean"], place - 0.35, place + 0.35, color=colour, lw=1.6)
            named = style.LOOKS[algorithm].text
            ax.text(1.02, place, row["share"], va="center", color=named, **words)
    style.rows(ax, [labels.algorithm_title(name) for name in algorithms])
    depth = labels.counted(frame["layers"].iloc[0], "layer")
    ax.set(xlim=(25, 103), xlabel=f"Three-hop questions right (%), {depth}")
    lowest = len(algorithms) - 0.3
    ax.text(1.02, lowest, f"≥ {accuracy_by_hops.KNOWN:g} %", color="0.3", va="top", **words)


def curves(records: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """One row a depth, algorithm and step, as `means` has it, of questions of `HOPS` hops, with the
    depth's `leads`.
    """
    runs = exam(records)
    averaged = means(runs)
    if averaged.empty:
        return averaged
    return averaged.merge(leads(accuracy_by_hops.curves(runs)), how="left").fillna({"pairs": 0})


def leads(curves: pd.DataFrame) -> pd.DataFrame:
    """High − Original over training, the mean of all checks on `HOPS` hops, by depth: layers, gap,
    gap_low, gap_high, pairs.
    """
    over = curves[curves["hops"] == HOPS].pivot_table("accuracy", ["layers", "seed"], "algorithm")
    over = over.reindex(columns=["high", "original"]).dropna()
    rows = []
    for layers, gaps in (over["high"] - over["original"]).groupby("layers"):
        gap = mean_interval(gaps.tolist())
        rows.append((layers, gap.value, gap.low, gap.high, gap.seeds))
    return pd.DataFrame(rows, columns=["layers", "gap", "gap_low", "gap_high", "pairs"])


def means(runs: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Mean over n seeds of `accuracy_by_hops.curves`, with a 95 % interval of percentiles, which
    stays in 0 to 100.
    """
    curves = accuracy_by_hops.curves(runs)
    arms = curves[curves["hops"] == HOPS].groupby(["layers", "algorithm"], sort=False)
    parts = [pd.DataFrame()]
    for (layers, algorithm), points in arms:
        seeds = points.pivot(index="seed", columns="step", values="accuracy").dropna(axis=1)
        drawn = np.random.default_rng(0).integers(len(seeds), size=(RESAMPLES, len(seeds)))
        low, high = np.quantile(seeds.to_numpy()[drawn].mean(1), TAILS, axis=0)
        columns = {
            "layers": layers,
            "algorithm": algorithm,
            "step": seeds.columns,
            "accuracy": seeds.mean().to_numpy(),
            "low": low,
            "high": high,
            "n": len(seeds),
            "chance": 100 / runs[0]["chains"],
        }
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)


def curve_numbers(frame: pd.DataFrame) -> dict[str, Any]:
    """For the caption: how many seeds, and High's lead over training with the deepest encoders."""
    deepest = frame.loc[frame["layers"].idxmax()]
    return lead(deepest) | {"least": frame["n"].min(), "most": frame["n"].max()}


def lead(row: pd.Series) -> dict[str, Any]:
    """For a heading: a depth, and High − Original over training in words."""
    known = row["pairs"] > 0
    change = style.change(row["gap"], row["gap_low"], row["gap_high"], 1) if known else "not run"
    return {"layers": row["layers"], "gap": change, "pairs": int(row["pairs"])}


def plot_curves(frame: pd.DataFrame, width: float) -> Figure:
    """Draw a panel a depth; below five inches one above the other."""
    draws = []
    for _, points in frame.groupby("layers"):
        title = style.heading("learning", 0, **lead(points.iloc[0]))
        draws.append((title, curve_axes, points))
    figure = style.headed(width, 2.4, draws)
    for ax, depth in zip(figure.axes, sorted(frame["layers"].unique())):
        ax.set_xlabel(f"Training step, {labels.counted(depth, 'layer')}")
    return figure


def curve_axes(ax: Axes, frame: pd.DataFrame, *, seeds: bool = True) -> Axes:
    """Draw the mean of each algorithm over steps, its band where seeds are ten or more, name and
    seeds at its end.
    """
    for algorithm, rows in frame.groupby("algorithm", sort=False):
        many = rows["n"].max() >= 10
        look = style.line_style(algorithm) | {"marker": "", "lw": 1.4 if many else 0.9}
        ax.plot(rows["step"], rows["accuracy"], **look)
        if many:
            band = {"color": look["color"], "alpha": 0.16, "lw": 0}
            ax.fill_between(rows["step"], rows["low"], rows["high"], **band)
    chance = frame["chance"].iloc[0]
    ax.axhline(chance, color="0.5", lw=0.8, ls=":", zorder=0)
    ax.set(xlabel="Training step", ylabel="Three-hop questions right (%)", ylim=(0.6 * chance, 102))
    ends = frame.groupby("algorithm", sort=False)[["accuracy", "n"]].last()
    names = {}
    for name, n in ends["n"].items():
        names[name] = labels.algorithm_title(name)
        if seeds:
            names[name] += f" ({n:.0f})"
    return style.label_ends(ax, ends["accuracy"].to_dict(), names)
