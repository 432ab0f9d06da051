"""What a step does inside two public models by λ and length: over λ, and over λ times the length."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from companion.figures import style
from companion.setup import labels
from companion.studies.spare import curves

MODELS = ("minilm", "smollm2")
# axis of `curves.AXES` and its label
OVER = {"λ": "λ (nats)", "λ L": "λ × tokens (nats)"}
# axis -> its heading in `captions.yaml`
HEADS = {"λ": "strength", "λ L": "dose"}
HARMS = {"minilm": "1 − cosine with the original", "smollm2": "Loss − original (nats)"}
SINK = "Largest column sum ÷ original"


def data(records: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """One row a model, strength and length, against the original: `curves.cells`.

    None while a model has no records.
    """
    passages = curves.measured(records)
    if set(passages["model"]) != set(MODELS):
        return pd.DataFrame()
    parts = [
        curves.cells(of_model.drop(columns="model")).assign(model=model)
        for model, of_model in passages.groupby("model")
    ]
    return pd.concat(parts, ignore_index=True)


def numbers(frame: pd.DataFrame) -> dict[str, Any]:
    """For the caption: R² of each model and curve over both axes, and the lengths' ends."""
    values = {"shortest": int(frame["length"].min()), "longest": int(frame["length"].max())}
    for model, curve, axis in product(MODELS, curves.DECIDING, OVER):
        cells = frame[frame["model"] == model]
        share = curves.predicted_share(cells, curve, curves.AXES[axis])
        values[f"{model}_{curve}_{HEADS[axis]}"] = share
    return values


def plot(frame: pd.DataFrame, width: float) -> Figure:
    """Draw the sink and the harm of each model over both axes, a line a length."""
    shares = numbers(frame)
    draws = []
    for curve, model, axis in product(curves.DECIDING, MODELS, OVER):
        share = shares[f"{model}_{curve}_{HEADS[axis]}"]
        title = labels.model_title(model).partition("-")[0]
        head = style.heading("dose", HEADS[axis], model=title, share=share)
        of_model = frame[frame["model"] == model]
        draws.append((head, curve_axes, of_model, curve, axis, model))
    figure = style.headed(width, 1.75, draws, columns=4)
    handles, names = figure.axes[0].get_legend_handles_labels()
    columns = 3 if width < style.NARROW else 6
    figure.legend(handles, names, loc="outside upper center", ncols=columns)
    return figure


def curve_axes(ax: Axes, frame: pd.DataFrame, curve: str, axis: str, model: str) -> Axes:
    """Draw one curve of one model over an axis, a line a length."""
    lengths = sorted(set(frame["length"]))
    for length, shade in zip(lengths, style.shades(len(lengths))):
        line = frame[frame["length"] == length].sort_values("strength")
        ax.plot(line[curves.AXES[axis]], line[curve], ".-", color=shade, label=f"{length} tokens")
    level = curves.HALF if curve == "sink" else curves.HARM[model]
    ax.axhline(level, color="0.5", lw=0.6, ls=":", zorder=0)
    ax.set(xscale="log", xlabel=OVER[axis])
    if axis == "λ":
        name = labels.model_title(model).partition("-")[0]
        ax.set_ylabel(f"{name}\n{SINK if curve == 'sink' else HARMS[model]}")
    if curve == "sink":
        ax.set_ylim(0, 1.02)
    ax.xaxis.set_major_formatter(style.PLAIN)
    return ax
