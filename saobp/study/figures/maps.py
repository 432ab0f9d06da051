"""Figure 1: one real head before the step, what the step changes, the column sums, and the factor graph of one key."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import CenteredNorm, Normalize, PowerNorm
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle

from saobp.study.figures import example_map, style
from saobp.study.setup import labels

KEY = "key {}"  # the column of one key's mass, numbered from 0
TOKENS = 26  # names of at most so many tokens fit beside a map
SIDES = ("raw", "refined")
MARK = "#D55E00"  # around the column of the map that the factor graph is about


def data(records: Sequence[dict[str, Any]] = ()) -> pd.DataFrame:
    """One row a query of MiniLM's head, before ("raw") and after ("refined") the step; no record is needed.

    Columns: model, strength (nats), matrix, layer, head (from 1), query, token, and the mass on each key.
    """
    found, parts = example_map.load(), []
    fixed = {"model": found["model"], "strength": found["strength"]}
    for matrix in SIDES:
        values = np.asarray(found["map"][matrix], dtype=float)
        frame = pd.DataFrame({"query": range(len(values)), "token": found["tokens"]})
        frame = frame.assign(**fixed, matrix=matrix, layer=found["map"]["layer"], head=found["map"]["head"])
        parts.append(frame.join(pd.DataFrame(values, columns=[KEY.format(place) for place in range(len(values))])))
    return pd.concat(parts, ignore_index=True)


def values_of(rows: pd.DataFrame) -> np.ndarray:
    """The (L, L) map of one side's rows."""
    return rows.sort_values("query")[[KEY.format(place) for place in range(len(rows))]].to_numpy(dtype=float)


def numbers(frame: pd.DataFrame) -> dict[str, Any]:
    """For the caption: which head, its largest column before and after, the share of the mass that moves."""
    raw, refined = (values_of(frame[frame["matrix"] == side]) for side in SIDES)
    top, first = int(raw.sum(0).argmax()), frame.iloc[0]
    moved = np.abs(refined - raw).sum() / 2 / len(raw)  # mean share of a row's mass
    return {
        "model": labels.model_title(first["model"]), "layer": first["layer"], "head": first["head"],
        "strength": first["strength"], "tokens": len(raw), "token": frame["token"].iloc[top], "place": top,
        "before": raw.sum(0)[top], "after": refined.sum(0)[top], "moved": 100 * moved,
    }  # fmt: skip


def plot(frame: pd.DataFrame, width: float) -> Figure:
    """Draw map, change, strip of column sums and factor graph: two and two, below five inches one above the other."""
    side = width >= style.NARROW
    figure = style.new_figure(width, 5.0 if side else 9.2)
    ratios = {"height_ratios": (3, 1.5)} if side else {"height_ratios": (2.3, 2.3, 1.3, 1.8)}
    a, b, c, d = figure.subplots(*((2, 2) if side else (4, 1)), **ratios).flat
    raw, refined = (values_of(frame[frame["matrix"] == name]) for name in SIDES)
    tokens, said = list(frame["token"][: len(raw)]), numbers(frame)
    map_axes(a, raw, tokens, PowerNorm(0.5, 0, raw.max()))
    style.head(a, "a", "Layer {layer}, head {head}: {token} gets {before:.1f} of {tokens}".format(**said))
    map_axes(b, refined - raw, tokens, CenteredNorm(), colours="RdBu_r")
    style.head(b, "b", "One step moves {moved:.0f} % of the mass".format(**said))
    for ax, label in ((a, "Attention"), (b, f"Change at λ = {said['strength']:g}")):
        figure.colorbar(ax.images[0], ax=ax, shrink=0.62 if side else 0.8, label=label, pad=0.02)
    column_axes(c, raw.sum(0), refined.sum(0), tokens)
    style.head(c, "c", "Column sum of {token}: {before:.1f} → {after:.1f}".format(**said))
    top = said["place"]
    a.add_patch(Rectangle((top - 0.5, -0.5), 1, len(tokens), fill=False, edgecolor=MARK, lw=1.2, clip_on=False))
    column = pd.DataFrame({"token": tokens, "mass": raw[:, top], "colour": a.images[0].norm(raw[:, top])})
    words = column[[token.isalpha() and len(token) > 3 for token in tokens]].head(4)
    factor_graph_axes(d, words, said["token"], said["strength"])
    style.head(d, "d", "The more a row gives to {token}, the less its message leaves of it".format(**said))
    return figure


def map_axes(ax: Axes, values: np.ndarray, tokens: Sequence[str], norm: Normalize, colours: str = "viridis") -> Axes:
    """Draw one map, rows are queries; a PowerNorm of 0.5 colours by the square root, so that small mass shows."""
    ax.imshow(values, norm=norm, cmap=colours, interpolation="nearest")
    if len(tokens) <= TOKENS:
        ax.set_xticks(range(len(tokens)), tokens, rotation=90, fontsize=5.5)
        ax.set_yticks(range(len(tokens)), tokens, fontsize=5.5)
    ax.set(xlabel="Key", ylabel="Query")
    ax.grid(False)
    ax.spines[:].set_visible(False)
    return ax


def column_axes(ax: Axes, before: np.ndarray, after: np.ndarray, tokens: Sequence[str]) -> Axes:
    """Draw the sum of every column before and after the step; uniform attention has 1 everywhere."""
    places = np.arange(len(tokens))
    top, sides = before.argmax(), ((before, "original", -0.2, "softmax"), (after, "high", 0.2, "after one step"))
    for values, name, shift, title in sides:
        ax.bar(places + shift, values, 0.4, color=style.LOOKS[name].colour, label=title)
        ax.text(top + 0.6, values[top], f"{values[top]:.1f}", color=style.LOOKS[name].colour, va="top", fontsize=6)
    ax.axhline(1, color="0.5", lw=0.8, ls=":")
    ax.set_xticks(places, tokens, rotation=90, fontsize=5.5)
    ax.set(yscale="symlog", ylabel="Column sum", xlim=(-0.8, len(tokens) - 0.2), ylim=(0, None))
    ax.set_yticks([0, 1, 10], ["0", "1", "10"])
    ax.grid(axis="x", visible=False)
    ax.legend(loc="upper right")
    return ax


def factor_graph_axes(ax: Axes, rows: pd.DataFrame, key: str, strength: float) -> Axes:
    """Draw the factor graph of one update of key k in row j: each other row sends its message through its own factor.

    `rows`: some senders, each with its token and its mass on k, coloured as in the map.
    """
    ax.set(xlim=(-1.3, 5.4), ylim=(-2.0, len(rows) - 0.3), xticks=[], yticks=[])
    ax.set_axis_off()
    middle, green = (len(rows) - 1) / 2, style.LOOKS["high"].colour
    arrow = {"arrowstyle": "-|>", "mutation_scale": 6, "lw": 0.8, "color": green}
    look = {"va": "center", "fontsize": 7}
    for place, row in zip(reversed(range(len(rows))), rows.itertuples()):
        factor = (1.9, place)
        colour = colormaps["viridis"](row.colour)
        ax.add_patch(Rectangle((-0.45, place - 0.5), 0.9, 1, facecolor=colour, edgecolor=MARK, lw=1.2))
        ax.text(-0.6, place, row.token, ha="right", **look)
        ax.text(0, place, f"{row.mass:.2f}", ha="center", **look, color="black" if row.colour > 0.6 else "white")
        ax.add_patch(FancyArrowPatch((0.45, place), factor, shrinkA=1, shrinkB=4, **arrow))
        ax.add_patch(FancyArrowPatch(factor, (4.1, middle), shrinkA=4, shrinkB=6, **arrow))
        ax.plot(*factor, "s", color="0.35", markersize=5)
        ax.text(1.9, place - 0.2, f"×{1 + np.expm1(-strength) * row.mass:.2f}", ha="center", va="top", fontsize=6)
    ax.plot(4.1, middle, "o", color="black", markersize=7)
    ax.text(4.35, middle, f"$b_j(k)$,\n$k$ = {key}", ha="left", **look)
    ax.text(0, -0.65, "$A_{ik}$ in panel a", ha="center", va="top", fontsize=7)
    ax.text(1.3, -0.65, r"$\psi$: 1 on equal keys, else $e^{\lambda}$;", va="top", fontsize=7)
    ax.text(1.3, -1.3, r"so $k$ is multiplied by $1-(1-e^{-\lambda})A_{ik}$", va="top", fontsize=7)
    return ax
