"""Pictures of a cost run: each way's time over Original's, and attention alone against length."""

from collections.abc import Sequence
from math import nan
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from saobp.study.cost import cost_tables
from saobp.study.figures import style

CURVES = {
    "sdpa": ("original", "o", "solid"),
    "high": ("high", "s", "solid"),
    "materialised": ("high", "D", (0, (2, 1.5))),
}
QUANTITIES = {"ms": "Time (ms), with quartiles", "mib": "Peak memory (MiB), with range"}
HEADS = {
    "ms": "High takes {ratio:.1f} times as long at {length:,} tokens",
    "mib": "High's peak memory is {least:.1f} to {most:.1f} times Original's",
}
RATIOS = ("ratio_to_sdpa", "ratio_to_materialised")
ENDS = {"median": "", "low": "_low", "high": "_high"}  # of a quantity, as its columns end


def times(ways: dict[str, dict[str, Any]], width: float = style.PAGE) -> Figure:
    """Draw the ratios of time of every phase, one panel each."""
    figure = style.new_figure(width, 0.8 + 0.2 * len(ways))
    for ax, phase in zip(figure.subplots(1, len(cost_tables.PHASES), sharey=True), cost_tables.PHASES):
        ratio_axes(ax, ways, phase)
    return figure


def ratio_axes(ax: Axes, ways: dict[str, dict[str, Any]], phase: str) -> Axes:
    """Draw each way's time over Original's: the median and, as a bar, the quartiles of the rounds."""
    for place, (way, found) in enumerate(ways.items()):
        algorithm, _, spelled_out = way.partition("_")
        look, ratio = style.LOOKS[algorithm], found[phase]["ratio"]
        ax.plot([ratio["low"], ratio["high"]], [place, place], color=look.colour, lw=2.5, solid_capstyle="butt")
        face = "white" if spelled_out else look.colour
        ax.plot(ratio["median"], place, look.marker, color=look.colour, markerfacecolor=face, markersize=5)
    ax.axvline(1, color="0.5", lw=0.8, zorder=0)
    ax.set_yticks(range(len(ways)), [cost_tables.way_title(way) for way in ways])
    ax.set_ylim(len(ways) - 0.5, -0.5)
    ax.set_title(cost_tables.PHASES[phase], loc="left")
    ax.set_xlabel("Time ÷ Original")
    return ax


def length_data(records: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """What the first record that followed length `measured`, with its number of rounds and its device."""
    for run in records:
        if rows := run["metrics"].get("lengths"):
            device = {"device": run["device"]["name"], "threads": run["device"]["threads"]}
            return measured(rows).assign(rounds=run["metrics"].get("repeats"), **device)
    return pd.DataFrame()


def measured(rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """One row a length and way of `lengths.by_length`: kernel, time (ms), peak memory (mib), ratios of time, with ends.

    A column `ms` is the median, `ms_low` and `ms_high` its quartiles, or the lowest and highest peak; NaN where a
    record has none.
    """
    lines = []
    for row in rows:
        low, high = row["quartiles_ms"]
        ends = {"ms": {"median": row["median_ms"], "low": low, "high": high}, "mib": row["peak_mib"]}
        ends |= {name: row.get(name) or {} for name in RATIOS}
        values = {name + end: found.get(key, nan) for name, found in ends.items() for key, end in ENDS.items()}
        lines.append({"length": row["length"], "way": row["way"], "kernel": row.get("kernel"), **values})
    return pd.DataFrame(lines)


def length_figure(frame: pd.DataFrame, width: float = style.PAGE) -> Figure:
    """Draw time and peak memory against length, the names above; below five inches one above the other."""
    side = width >= style.NARROW
    figure = style.new_figure(width, 2.4 if side else 4.6)
    said = numbers(frame)
    for letter, ax, quantity in zip("ab", figure.subplots(*((1, 2) if side else (2, 1))), QUANTITIES):
        length_axes(ax, frame, quantity)
        style.head(ax, letter, HEADS[quantity].format(ratio=said[quantity], length=said["length"], **said["peaks"]))
    handles, names = ax.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=len(names) if side else 2)
    return figure


def numbers(frame: pd.DataFrame) -> dict[str, Any]:
    """For the caption: at the greatest length High's time and peak over the fused Original's, rounds and device.

    `peaks`: the least and the most of the ratio of peaks over all lengths.
    """
    longest = frame[frame["length"] == frame["length"].max()].set_index("way")
    peaks = longest["mib"]
    ratios = {"ms": longest["ratio_to_sdpa"].get("high", nan), "mib": peaks.get("high", nan) / peaks.get("sdpa", nan)}
    every = frame.pivot(index="length", columns="way", values="mib").reindex(columns=["high", "sdpa"])
    span = every["high"] / every["sdpa"]
    ratios["peaks"] = {"least": span.min(), "most": span.max()}
    where = {name: frame[name].iloc[0] if name in frame else "" for name in ("rounds", "device", "threads")}
    return ratios | where | {"length": int(frame["length"].max()), "least": int(frame["length"].min())}


def length_axes(ax: Axes, frame: pd.DataFrame, quantity: str) -> Axes:
    """Draw one quantity ("ms", "mib") of a frame `measured` against length, both logarithmic with ticks at 1, 2 and 5.

    A bar joins the quartiles of the rounds, or the lowest and highest peak, where it is longer than the mark.
    """
    for way, points in frame.groupby("way", sort=False):
        algorithm, marker, dash = CURVES[str(way)]
        face = style.LOOKS[algorithm].colour if dash == "solid" else "white"
        look = {"color": style.LOOKS[algorithm].colour, "marker": marker, "markerfacecolor": face}
        ax.plot(points["length"], points[quantity], linestyle=dash, label=cost_tables.LENGTH_WAYS[str(way)], **look)
        ax.vlines(points["length"], points[f"{quantity}_low"], points[f"{quantity}_high"], color=look["color"], lw=1.2)
    ax.set(xscale="log", yscale="log", xlabel="Length (tokens)", ylabel=QUANTITIES[quantity])
    lengths = sorted(set(frame["length"]))
    ax.set_xticks(lengths, map(str, lengths))
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=20))
    style.plain_numbers(ax.yaxis)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_minor_formatter(NullFormatter())
    ax.minorticks_off()
    return ax
