"""The picture of attention alone against length: time and memory."""

from collections.abc import Sequence
from math import isnan
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from companion.cost import cost_tables
from companion.figures import style

CURVES = {
    "sdpa": ("original", "o", "solid"),
    "high": ("high", "s", "solid"),
    "materialised": ("high", "D", (0, (2, 1.5))),
}
QUANTITIES = {"ms": "Time (ms), with quartiles", "mib": "Peak memory (MiB), with range"}
MEASURED = ("ms", "mib", "ratio_to_sdpa", "ratio_to_materialised")
COLUMNS = [
    "length",
    "way",
    "kernel",
    *(name + end for name in MEASURED for end in ("", "_low", "_high")),
]


def length_data(records: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """What the first record `measured`, with its number of rounds and its device."""
    metrics, device = (records[0][part] for part in ("metrics", "device"))
    about = {"rounds": metrics["repeats"], "device": device["name"], "threads": device["threads"]}
    return measured(metrics["lengths"]).assign(**about)


def measured(rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """One row a length and way of `lengths.by_length`: medians of time (ms), peak (mib) and ratios,
    with ends.
    """
    frame = pd.json_normalize(rows, sep="_").rename(columns={"median_ms": "ms"})
    frame = frame.rename(columns=lambda name: name.removeprefix("peak_").removesuffix("_median"))
    frame[["ms_low", "ms_high"]] = frame["quartiles_ms"].tolist()
    return frame.reindex(columns=COLUMNS)


def numbers(frame: pd.DataFrame) -> dict[str, Any]:
    """For the caption: High over fused Original at the greatest length, of peaks at any."""
    wide = frame.pivot(index="length", columns="way", values=["mib", "ratio_to_sdpa"])
    wide = wide.reindex(columns=pd.MultiIndex.from_product([["mib", "ratio_to_sdpa"], CURVES]))
    peaks, length = wide["mib", "high"] / wide["mib", "sdpa"], wide.index[-1]
    about = frame.reindex(columns=["rounds", "device"]).iloc[0].to_dict()
    return about | {
        "mib": None if isnan(peaks[length]) else peaks[length],
        "least": peaks.min(),
        "most": peaks.max(),
        "ms": wide.loc[length, ("ratio_to_sdpa", "high")],
        "length": int(length),
    }


def length_figure(frame: pd.DataFrame, width: float = style.PAGE) -> Figure:
    """Draw time and peak memory, where it is known, against length; below five inches one above the
    other.
    """
    side, values = width >= style.NARROW, numbers(frame)
    known = [name for name in QUANTITIES if frame[name].notna().any()]
    draws = [(style.heading("length", name, **values), _lengths, frame, name) for name in known]
    figure = style.headed(width, 2.4 if side else 2.3, draws)
    handles, names = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=len(names) if side else 2)
    return figure


def _lengths(ax: Axes, frame: pd.DataFrame, quantity: str) -> None:
    """Draw one quantity ("ms", "mib") against length, with bars to its ends; both logarithmic,
    ticks at 1, 2 and 5.
    """
    for way, points in frame.groupby("way", sort=False):
        algorithm, marker, dash = CURVES[way]
        colour = style.LOOKS[algorithm].colour
        face = colour if dash == "solid" else "white"
        line = {"color": colour, "marker": marker, "mfc": face, "ls": dash}
        title = cost_tables.LENGTH_WAYS[way]
        ax.plot(points["length"], points[quantity], label=title, **line)
        low, high = points[f"{quantity}_low"], points[f"{quantity}_high"]
        ax.vlines(points["length"], low, high, color=colour, lw=1.2)
    ax.set(xscale="log", yscale="log", xlabel="Length (tokens)", ylabel=QUANTITIES[quantity])
    lengths = sorted(set(frame["length"]))
    ax.set_xticks(lengths, lengths)
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=20))
    ax.yaxis.set_major_formatter(style.PLAIN)
    ax.minorticks_off()
