"""One step put into a public encoder as it is: similarity at each λ, one layer alone, and the sink
by layer.
"""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from companion.figures import style
from companion.setup import labels

# points down to which the axis goes; what falls further is named with its value
LEAST = -3.0
POINTS = "Similarity − plain (points)"
MEASURES = {
    "largest_column_share": "Largest column (share of mass)",
    "entropy": "Entropy (nats)",
    "gtd": "GTD",
}
COLUMNS = ["of", "factor", "strength", "layer", "value", "low", "high", "n"]
HIGH = style.LOOKS["high"].colour
# whose matrix and which, and how its line is drawn and called
MATRIX_LOOKS = {
    "plain": ("none", "raw", "0.5", "-", "plain softmax"),
    "softmax": ("high", "raw", HIGH, ":", "softmax with the step"),
    "refined": ("high", "refined", HIGH, "-", "after the step"),
}


def data(records: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """One row a point of the first record: similarity by strength, and with the step in one layer
    (0: all) alone, in points from plain attention over n pairs; and `MEASURES` by layer over n
    texts, with `MATRIX_LOOKS`' keys as factor.
    """
    metrics = records[0]["metrics"]
    arms, alone = metrics["similarity"], metrics["one_layer"]
    points = []
    for arm in (*arms, *alone):
        place = (arm.get("factor", "high"), arm["strength"], arm.get("layer", 0))
        ends = (arm["difference"], *arm["interval"])
        points.append(("similarity", *place, *ends, metrics["pairs"]))
    strength = alone[0]["strength"]
    layers = {arm["factor"]: arm["layers"] for arm in arms if arm["strength"] in (0, strength)}
    for side, (factor, matrix, *_) in MATRIX_LOOKS.items():
        for number, layer in enumerate(layers[factor], 1):
            for measure in MEASURES:
                ends = (layer[measure][matrix], None, None)
                points.append((measure, side, strength, number, *ends, metrics["texts"]))
    return pd.DataFrame(points, columns=COLUMNS)


def numbers(frame: pd.DataFrame) -> dict[str, Any]:
    """For the caption: what High and Uniform lose at the paper's λ, the worst layer alone, the
    largest softmax sink.
    """
    similarity = frame[frame["of"] == "similarity"]
    alone = similarity[similarity["layer"] > 0]
    whole = similarity[similarity["layer"] == 0].set_index(["factor", "strength"])
    worst = alone.loc[alone["value"].idxmin()]
    strength = worst["strength"]
    sinks = sides(frame, "largest_column_share")
    deepest = sinks["softmax"].idxmax()
    without = whole.xs(0.0, level="strength")["value"]
    values = {
        "model": labels.model_title("minilm"),
        "strength": strength,
        "pairs": worst["n"],
        "texts": frame["n"].iloc[-1],
        "layer": worst["layer"],
        "alone": worst["value"],
        "sink": deepest,
        "others": {name: without[name] for name in labels.ALGORITHMS if name in without},
    }
    for name in ("high", "uniform"):
        values[name] = style.change(*whole.loc[(name, strength), ["value", "low", "high"]])
    return values | sinks.loc[deepest].to_dict()


def sides(frame: pd.DataFrame, measure: str) -> pd.DataFrame:
    """A measure's mean over heads and texts, a row a layer, a column for each of `MATRIX_LOOKS`."""
    rows = frame[frame["of"] == measure]
    return rows.pivot(index="layer", columns="factor", values="value")[list(MATRIX_LOOKS)]


def plot(frame: pd.DataFrame, width: float) -> Figure:
    """Draw similarity against λ, one layer alone, and the largest column by layer."""
    values = numbers(frame)
    draws = []
    for place, draw in enumerate((_strengths, _alone, layer_axes)):
        draws.append((style.heading("retrofit", place, **values), draw, frame))
    return style.headed(width, 2.2, draws)


def _strengths(ax: Axes, frame: pd.DataFrame) -> None:
    """Draw each form's difference over λ with its band, down to `LEAST`; what lies below is named
    with its value.
    """
    whole = frame[(frame["of"] == "similarity") & (frame["layer"] == 0)]
    ends, names, last = {}, {}, whole["strength"].max()
    ax.axhline(0, color="0.5", lw=0.8, ls=":", zorder=0)
    # the forms that have a strength
    for name in ("high", "low", "uniform"):
        look, rows = style.LOOKS[name], whole[whole["factor"] == name]
        band = {"color": look.colour, "alpha": 0.15, "lw": 0}
        ax.fill_between(rows["strength"], rows["low"], rows["high"], **band)
        ax.plot(rows["strength"], rows["value"], marker=look.marker, color=look.colour)
        end = rows["value"].iloc[-1]
        below = style.minus(f" ({end:.1f} at {last:g})") if end < LEAST else ""
        ends[name], names[name] = max(end, LEAST), labels.algorithm_title(name) + below
    lines = ["no λ:"]
    for name, value in numbers(frame)["others"].items():
        lines.append(f"{labels.algorithm_title(name)} {value:.1f}")
    text = {"fontsize": 7, "color": "0.4", "transform": ax.transAxes}
    ax.text(0.03, 0.04, style.minus("\n".join(lines)), **text)
    ax.set(xscale="log", xlabel="λ (nats)", ylabel=POINTS, ylim=(LEAST, -LEAST / 4))
    ax.xaxis.set_major_formatter(style.PLAIN)
    style.label_ends(ax, ends, names)


def _alone(ax: Axes, frame: pd.DataFrame) -> None:
    """Draw what High in one layer changes, with its interval."""
    alone = frame[(frame["of"] == "similarity") & (frame["layer"] > 0)]
    ax.axhline(0, color="0.5", lw=0.8, ls=":", zorder=0)
    ax.vlines(alone["layer"], alone["low"], alone["high"], color=HIGH)
    ax.plot(alone["layer"], alone["value"], style.LOOKS["high"].marker, color=HIGH)
    ax.set(xlabel="The layer with the step", ylabel=POINTS, xticks=alone["layer"])


def layer_axes(
    ax: Axes, frame: pd.DataFrame, measure: str = "largest_column_share", *, named: bool = True
) -> Axes:
    """Draw a measure by layer, of the plain model and of both sides of the step, each line `named`
    or for a legend.
    """
    curves = sides(frame, measure)
    for side, (*_, colour, dash, name) in MATRIX_LOOKS.items():
        ax.plot(curves.index, curves[side], dash, marker=".", color=colour, label=name)
        if named:
            middle = curves.index[len(curves) // 2]
            place = (middle, curves.loc[middle, side])
            offset = (0, 4 if side == "softmax" else -10)
            text = {"ha": "center", "color": style.ink(colour), "fontsize": 7}
            ax.annotate(name, place, offset, textcoords="offset points", **text)
    ax.margins(y=0.15)
    ax.set(xlabel="Layer", ylabel=MEASURES[measure], xticks=curves.index)
    return ax
