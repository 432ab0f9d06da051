"""Figure 1: a head before the step, what the step changes, column sums and a factor graph; and the
sums of many tokens.

`python -m companion.figures.maps` runs MiniLM anew; the figure itself is drawn from the tracked
numbers of one run.
"""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import CenteredNorm, Normalize, PowerNorm
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle

from companion.figures import style
from companion.records.schema import Record
from companion.results import example_head
from companion.setup import labels, paths
from companion.setup.sizes_and_strengths import SIZES

# the column of one key's mass, numbered from 0
KEY = "key {}"
# names of at most so many tokens fit beside a map
TOKENS = 26
BEFORE_AND_AFTER = ("raw", "refined")
SENTENCE = "The trophy did not fit into the brown suitcase because it was too large, so she left it at home."
# of a tracked number
DIGITS = 5
# tokens that lose most, and as many that gain most
SHOWN = 6
# around the column of the map that the factor graph is about
MARK = "#D55E00"


def make_example(strength: float) -> dict[str, Any]:
    """Run MiniLM with High on `SENTENCE`, for `results.example_head.load`; raises PublicModelError where MiniLM
    is not there.
    """
    from companion.studies.strengths import message_rounds
    from saobp.models import public
    from saobp.models.apply import apply

    model, tokenizer = public.load("minilm")
    ids = tokenizer(SENTENCE, return_tensors="pt")["input_ids"]
    pair = message_rounds.matrices(apply(model, "high", strength), ids)
    # raw, refined: layer, head, L, L
    raw, refined = (side[:, 0].double().numpy() for side in pair)
    before, after = (side.sum(-2).max(-1).round(DIGITS) for side in (raw, refined))
    top = np.unravel_index(before.argmax(), before.shape)
    shown = {"raw": raw[top].round(DIGITS).tolist(), "refined": refined[top].round(DIGITS).tolist()}
    heads = []
    for (layer, head), value in np.ndenumerate(before):
        place = {"layer": layer + 1, "head": head + 1}
        heads.append(place | {"raw": value, "refined": after[layer, head]})
    return {
        "model": "minilm",
        "factor": "high",
        "strength": strength,
        "text": SENTENCE,
        "tokens": tokenizer.convert_ids_to_tokens(ids[0].tolist()),
        "heads": heads,
        "map": {"layer": int(top[0]) + 1, "head": int(top[1]) + 1, **shown},
    }


def data(records: Sequence[Record]) -> pd.DataFrame:
    """One row a query of MiniLM's head before ("raw") and after ("refined") the step, with the mass
    on each key.
    """
    example, parts = example_head.load(), []
    about = {
        "query": range(len(example["tokens"])),
        "token": example["tokens"],
        "model": example["model"],
        "strength": example["strength"],
    }
    head = example["map"]
    for side in BEFORE_AND_AFTER:
        about |= {"matrix": side, "layer": head["layer"], "head": head["head"]}
        weights = pd.DataFrame(head[side]).rename(columns=KEY.format)
        parts.append(pd.DataFrame(about).join(weights))
    return pd.concat(parts, ignore_index=True)


def both(frame: pd.DataFrame) -> list[np.ndarray]:
    """The (L, L) maps before and after the step."""
    maps = []
    for side in BEFORE_AND_AFTER:
        rows = frame[frame["matrix"] == side]
        maps.append(rows.filter(like=KEY.format("")).to_numpy())
    return maps


def numbers(frame: pd.DataFrame) -> dict[str, Any]:
    """For the caption: which head, its largest column before and after, the share of the mass that
    moves.
    """
    raw, refined = both(frame)
    first = frame.iloc[0]
    sums = example_head.numbers(raw, refined, first["strength"])
    about = {name: first[name] for name in ("layer", "head", "strength")}
    about |= {"model": labels.model_title(first["model"]), "tokens": len(raw)}
    return about | sums | {"token": frame["token"].iloc[sums["place"]]}


def plot(frame: pd.DataFrame, width: float) -> Figure:
    """Draw map, change, strip of column sums and factor graph: two and two, below five inches one
    above the other.
    """
    wide, values = width >= style.NARROW, numbers(frame)
    shape, heights = ((2, 2), (3, 1.5)) if wide else ((4, 1), (2.2, 2.2, 1.1, 1.7))
    figure = style.new_figure(width, 5.0 if wide else 7.0)
    a, b, c, d = figure.subplots(*shape, height_ratios=heights).flat
    raw, refined = both(frame)
    tokens, top = list(frame["token"][: len(raw)]), values["place"]
    map_axes(a, raw, tokens, PowerNorm(0.5, 0, raw.max()))
    map_axes(b, refined - raw, tokens, CenteredNorm(), colours="RdBu_r")
    for ax, label in ((a, "Attention"), (b, f"Change at λ = {values['strength']:g}")):
        figure.colorbar(ax.images[0], ax=ax, shrink=0.62 if wide else 0.8, label=label, pad=0.02)
    frame_of_column = {"fill": False, "edgecolor": MARK, "lw": 1.2, "clip_on": False}
    a.add_patch(Rectangle((top - 0.5, -0.5), 1, len(tokens), **frame_of_column))
    _columns(c, raw.sum(0), refined.sum(0), tokens)
    mass = raw[:, top]
    column = pd.DataFrame({"token": tokens, "mass": mass, "colour": a.images[0].norm(mass)})
    words = column[column["token"].str.isalpha() & (column["token"].str.len() > 3)].head(4)
    _factor_graph(d, words, values)
    for at, (letter, ax) in enumerate(zip("abcd", (a, b, c, d))):
        style.head(ax, letter, style.heading(1, at, **values))
    return figure


def map_axes(
    ax: Axes, values: np.ndarray, tokens: Sequence[str], norm: Normalize, colours: str = "viridis"
) -> Axes:
    """Draw one map, rows are queries; a PowerNorm of 0.5 colours by the square root, so that small
    mass shows.
    """
    ax.imshow(values, norm=norm, cmap=colours, interpolation="nearest")
    if len(tokens) <= TOKENS:
        ax.set_xticks(range(len(tokens)), tokens, rotation=90, fontsize=5.5)
        ax.set_yticks(range(len(tokens)), tokens, fontsize=5.5)
    ax.set(xlabel="Key", ylabel="Query")
    ax.grid(False)
    ax.spines[:].set_visible(False)
    return ax


def _columns(ax: Axes, before: np.ndarray, after: np.ndarray, tokens: Sequence[str]) -> None:
    """Draw the sum of every column before and after the step; uniform attention has 1
    everywhere.
    """
    places, top = np.arange(len(tokens)), before.argmax()
    right = top > len(tokens) / 2
    for values, name, shift, title in (
        (before, "original", -0.2, "softmax"),
        (after, "high", 0.2, "after one step"),
    ):
        look = style.LOOKS[name]
        ax.bar(places + shift, values, 0.4, color=look.colour, label=title)
        beside = {"ha": "right" if right else "left", "va": "top", "fontsize": 6}
        at = top - 0.6 if right else top + 0.6
        ax.text(at, values[top], f"{values[top]:.1f}", color=look.text, **beside)
    ax.axhline(1, color="0.5", lw=0.8, ls=":")
    ax.set_xticks(places, tokens, rotation=90, fontsize=5.5)
    ax.set(ylabel="Column sum", xlim=(-0.8, len(tokens) - 0.2), ylim=(0, None))
    ax.grid(axis="x", visible=False)
    ax.legend(loc="upper left" if right else "upper right")


def _factor_graph(ax: Axes, rows: pd.DataFrame, head: dict[str, Any]) -> None:
    """Draw one update of key k in row j: other rows (token, mass on k, colour) send it a message by
    their factor; the product is over all of them.
    """
    key, strength = head["token"], head["strength"]
    ax.set(xlim=(-1.3, 5.4), ylim=(-2.0, len(rows) - 0.3), xticks=[], yticks=[])
    ax.set_axis_off()
    middle, look = (len(rows) - 1) / 2, {"va": "center", "fontsize": 7}
    arrow = {
        "arrowstyle": "-|>",
        "mutation_scale": 6,
        "lw": 0.8,
        "color": style.LOOKS["high"].colour,
    }
    for place, row in zip(reversed(range(len(rows))), rows.itertuples()):
        factor, colour = (1.9, place), colormaps["viridis"](row.colour)
        box = {"facecolor": colour, "edgecolor": MARK, "lw": 1.2}
        ax.add_patch(Rectangle((-0.45, place - 0.5), 0.9, 1, **box))
        ax.text(-0.6, place, row.token, ha="right", **look)
        ink = "black" if row.colour > 0.6 else "white"
        ax.text(0, place, f"{row.mass:.2f}", ha="center", **look, color=ink)
        ax.add_patch(FancyArrowPatch((0.45, place), factor, shrinkA=1, shrinkB=4, **arrow))
        ax.add_patch(FancyArrowPatch(factor, (4.1, middle), shrinkA=4, shrinkB=6, **arrow))
        ax.plot(*factor, "s", color="0.35", markersize=5)
        message = 1 + np.expm1(-strength) * row.mass
        ax.text(1.9, place - 0.2, f"×{message:.2f}", ha="center", va="top", fontsize=6)
    ax.plot(4.1, middle, "o", color="black", markersize=7)
    ax.text(4.35, middle, f"$b_j(k)$,\n$k$ = {key}", ha="left", **look)
    product = f"the {head['tokens'] - 1} other rows:\n×{head['product']:.2f}"
    ax.text(3.1, middle + 0.95, product, ha="center", va="bottom", fontsize=7)
    ax.text(0, -0.65, "$A_{ik}$ in panel a", ha="center", va="top", fontsize=7)
    ax.text(1.3, -0.65, r"$\psi$: 1 on equal keys, else $e^{\lambda}$;", va="top", fontsize=7)
    ax.text(1.3, -1.3, r"so $k$ is multiplied by $1-(1-e^{-\lambda})A_{ik}$", va="top", fontsize=7)


def token_data(records: Sequence[Record]) -> pd.DataFrame:
    """One row a token of the first record: its column sum before the step and after."""
    return pd.DataFrame(records[0]["metrics"]["tokens"])


def token_numbers(frame: pd.DataFrame) -> dict[str, Any]:
    """For the caption: the two tokens that lose most, how many there are, lose, and are shown at
    each end.
    """
    first, second = frame.nsmallest(2, "change").to_dict("records")
    end = min(SHOWN, (len(frame) + 1) // 2)
    return {
        "first": first,
        "second": second,
        "tokens": len(frame),
        "occurrences": frame["count"].sum(),
        "end": end,
        "lose": (frame["change"] < 0).sum(),
    }


def plot_tokens(frame: pd.DataFrame, width: float) -> Figure:
    """Draw a row a token that loses or gains most, the largest loss first: its column sum before
    the step and after.
    """
    ordered = frame.sort_values("change", kind="stable")
    rows = ordered if len(ordered) <= 2 * SHOWN else pd.concat([ordered[:SHOWN], ordered[-SHOWN:]])
    figure, (ax,) = style.panels(width, 1, 0.8 + 0.17 * len(rows))
    places, first = range(len(rows)), rows.iloc[0]
    ax.hlines(places, rows["before"], rows["after"], color="0.75", lw=1.2, zorder=1)
    for column, name, title in (
        ("before", "original", "before"),
        ("after", "high", "after one step"),
    ):
        look = style.LOOKS[name]
        ax.plot(rows[column], places, look.marker, color=look.colour, ms=4, mew=0)
        align = "left" if first[column] == first[["before", "after"]].max() else "right"
        ax.text(first[column], -0.55, title, color=look.text, ha=align, fontsize=7)
    ax.axvline(1, color="0.5", lw=0.8, ls=":", zorder=0)
    names = [f"{token} ({count})" for token, count in zip(rows["token"], rows["count"])]
    style.rows(ax, names, 1.4)
    ax.set_xlabel("Column sum of the token (uniform: 1)")
    style.head(ax, "", style.heading("tokens", 0, **token_numbers(frame)))
    return figure


if __name__ == "__main__":
    example = json.dumps(make_example(SIZES["minilm"].strength))
    paths.write_text(paths.root() / example_head.EXAMPLE, example + "\n")
