"""One step put into a public encoder as it is: similarity at each λ, one layer alone, and the sink by layer."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from saobp.study.figures import style
from saobp.study.setup import labels

FORMS = ("high", "low", "uniform")  # that have a strength
LEAST = -3.0  # points down to which the axis goes; what falls further is named with its value
MEASURES = {"largest_column_share": "Largest column (share of mass)", "entropy": "Entropy (nats)", "gtd": "GTD"}
SIDES = {"plain": ("none", "raw", "-"), "softmax": ("high", "raw", ":"), "refined": ("high", "refined", "-")}
WORDS = {"plain": "plain softmax", "softmax": "softmax with the step", "refined": "after the step"}
COLOURS = {"none": "0.5", "high": style.LOOKS["high"].colour}


def data(records: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """One row a point of the first record: of, factor, strength, layer, value, low, high, n; empty without one.

    of: "similarity" (points from plain attention, over n pairs; layer: the only one with the step, 0 for all), or one
    of `MEASURES` (over n texts; factor: a key of `SIDES`, at the strength of the layers alone).
    """
    metrics = next((run["metrics"] for run in records), None)
    if metrics is None:
        return pd.DataFrame()
    arms, alone = metrics["similarity"], metrics["one_layer"]
    columns = ["of", "factor", "strength", "layer", "value", "low", "high", "n"]
    points = [
        ("similarity", row.get("factor", "high"), row["strength"], row.get("layer", 0), row["difference"],
         *row["interval"], metrics["pairs"]) for row in (*arms, *alone)
    ]  # fmt: skip
    strength = alone[0]["strength"]
    layers = {row["factor"]: row["layers"] for row in arms if row["strength"] in (0, strength)}
    points += [
        (measure, side, strength, number, layer[measure][when], None, None, metrics["texts"])
        for side, (factor, when, *_) in SIDES.items()
        for number, layer in enumerate(layers[factor], 1) for measure in MEASURES
    ]  # fmt: skip
    return pd.DataFrame(points, columns=columns)


def numbers(frame: pd.DataFrame) -> dict[str, Any]:
    """For the caption: what High and Uniform lose at the paper's λ, the worst layer alone, the largest softmax sink."""
    found, sinks = frame[frame["of"] == "similarity"], sides(frame, "largest_column_share")
    alone, whole = found[found["layer"] > 0], found[found["layer"] == 0].set_index(["factor", "strength"])
    worst, deepest = alone.loc[alone["value"].idxmin()], sinks["softmax"].idxmax()
    at = worst["strength"]
    changes = {name: style.change(*whole.loc[(name, at), ["value", "low", "high"]]) for name in ("high", "uniform")}
    return changes | sinks.loc[deepest].to_dict() | {
        "model": labels.model_title("minilm"), "strength": at, "pairs": worst["n"], "texts": frame["n"].iloc[-1],
        "layer": worst["layer"], "alone": worst["value"], "sink": deepest,
        "others": {name: whole.loc[(name, 0.0), "value"] for name in labels.ALGORITHMS if (name, 0.0) in whole.index},
    }  # fmt: skip


def sides(frame: pd.DataFrame, measure: str) -> pd.DataFrame:
    """A measure's mean over heads and texts, a row a layer, a column for each of `SIDES`."""
    return frame[frame["of"] == measure].pivot(index="layer", columns="factor", values="value")[list(SIDES)]


def plot(frame: pd.DataFrame, width: float) -> Figure:
    """Draw similarity against λ, one layer alone, and the largest column by layer."""
    said = numbers(frame)
    heads = (
        "High at λ = {strength:g}: {high} points (n = {pairs:,})",
        "High at λ = {strength:g} in one layer: {alone:+.1f} points at worst (layer {layer})",
        "In layer {sink} the softmax puts {softmax:.2f} on one token with the step, {plain:.2f} without (n = {texts})",
    )
    return style.beside(frame, width, (strength_axes, alone_axes, layer_axes), [text.format(**said) for text in heads])


def strength_axes(ax: Axes, frame: pd.DataFrame) -> Axes:
    """Draw each form's difference over λ with its band, down to `LEAST`; what lies below is named with its value."""
    whole = frame[(frame["of"] == "similarity") & (frame["layer"] == 0)]
    lines = {name: whole[whole["factor"] == name] for name in FORMS}
    ax.axhline(0, color="0.5", lw=0.8, ls=":", zorder=0)
    for name, rows in lines.items():
        look = style.LOOKS[name]
        ax.fill_between(rows["strength"], rows["low"], rows["high"], color=look.colour, alpha=0.15, lw=0)
        ax.plot(rows["strength"], rows["value"], marker=look.marker, color=look.colour)
    others = [f"{labels.algorithm_title(name)} {value:.1f}" for name, value in numbers(frame)["others"].items()]
    ax.text(0.03, 0.04, style.minus("\n".join(["no λ:", *others])), fontsize=7, color="0.4", transform=ax.transAxes)
    ax.set(xscale="log", xlabel="λ (nats)", ylabel="Similarity − plain (points)", ylim=(LEAST, -LEAST / 4))
    style.plain_numbers(ax.xaxis)
    ends = {name: rows["value"].iloc[-1] for name, rows in lines.items()}
    last = whole["strength"].max()
    below = {name: style.minus(f" ({end:.1f} at {last:g})") if end < LEAST else "" for name, end in ends.items()}
    names = {name: labels.algorithm_title(name) + below[name] for name in lines}
    return style.label_ends(ax, {name: max(end, LEAST) for name, end in ends.items()}, names)


def alone_axes(ax: Axes, frame: pd.DataFrame) -> Axes:
    """Draw what High in one layer changes, with its interval."""
    alone, colour = frame[(frame["of"] == "similarity") & (frame["layer"] > 0)], style.LOOKS["high"].colour
    ax.axhline(0, color="0.5", lw=0.8, ls=":", zorder=0)
    ax.vlines(alone["layer"], alone["low"], alone["high"], color=colour)
    ax.plot(alone["layer"], alone["value"], style.LOOKS["high"].marker, color=colour)
    ax.set(xlabel="The layer with the step", ylabel="Similarity − plain (points)", xticks=alone["layer"])
    return ax


def layer_axes(ax: Axes, frame: pd.DataFrame, measure: str = "largest_column_share") -> Axes:
    """Draw a measure of the plain model by layer, and of both sides of the step in the model with it."""
    found = sides(frame, measure)
    for side, (factor, _, dash) in SIDES.items():
        ax.plot(found.index, found[side], dash, marker=".", color=COLOURS[factor], label=WORDS[side])
        middle, above = found.index[len(found) // 2], side == "softmax"  # the other names below their lines
        ax.annotate(WORDS[side], (middle, found.loc[middle, side]), (0, 4 if above else -10), ha="center",
                    textcoords="offset points", color=COLOURS[factor], fontsize=7)  # fmt: skip
    ax.margins(y=0.15)
    ax.set(xlabel="Layer", ylabel=MEASURES[measure], xticks=found.index)
    return ax
