"""Figure 1: one real head before the step, what the step changes, the column sums, and the factor graph of one key;
and the column sums of many tokens before and after the step.

`python -m saobp.study.figures.maps` runs MiniLM anew; the figure itself is drawn from the tracked numbers of one run.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import CenteredNorm, Normalize, PowerNorm
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle

from saobp.study.figures import style
from saobp.study.setup import labels, paths
from saobp.study.setup.sizes_and_strengths import SIZES

KEY = "key {}"  # the column of one key's mass, numbered from 0
TOKENS = 26  # names of at most so many tokens fit beside a map
SIDES = ("raw", "refined")
SENTENCE = "The trophy did not fit into the brown suitcase because it was too large, so she left it at home."
DIGITS = 5  # of a tracked number
SHOWN = 6  # tokens that lose most, and as many that gain most
MARK = "#D55E00"  # around the column of the map that the factor graph is about


def example() -> Path:
    """Where the tracked numbers are."""
    return paths.root() / "data" / "examples" / "minilm.json"


def load_example() -> dict[str, Any]:
    """Return model, strength (nats), text, tokens, heads (layer, head, largest column before and after), one map."""
    return json.loads(example().read_text(encoding="utf-8"))


def make_example(strength: float) -> dict[str, Any]:
    """Run MiniLM with High on `SENTENCE`: the largest column sum of every head, and the map with the largest of all.

    Raises PublicModelError where MiniLM is not there.
    """
    import torch

    import saobp
    from saobp.models import public
    from saobp.models.apply import raw_attentions

    model, tokenizer = public.load("minilm")
    given = tokenizer(SENTENCE, return_tensors="pt")
    with torch.no_grad(), raw_attentions(saobp.apply(model, "high", strength)) as pairs:
        model(**given)
    maps = torch.stack([torch.stack([raw[0], refined[0]]) for raw, refined in pairs])  # layer, side, head, L, L
    columns = maps.sum(-2).amax(-1).transpose(1, 2)  # layer, head, side
    layer, head = divmod(int(columns[..., 0].argmax()), columns.shape[1])
    raw, refined = ([[round(value, DIGITS) for value in row] for row in side[head].tolist()] for side in maps[layer])
    heads = [
        {"layer": at + 1, "head": number + 1, "raw": round(before, DIGITS), "refined": round(after, DIGITS)}
        for at, rows in enumerate(columns.tolist())
        for number, (before, after) in enumerate(rows)
    ]
    return {
        "model": "minilm", "factor": "high", "strength": strength, "text": SENTENCE,
        "tokens": tokenizer.convert_ids_to_tokens(given["input_ids"][0].tolist()),
        "heads": heads, "map": {"layer": layer + 1, "head": head + 1, "raw": raw, "refined": refined},
    }  # fmt: skip


def data(records: Sequence[dict[str, Any]] = ()) -> pd.DataFrame:
    """One row a query of MiniLM's head, before ("raw") and after ("refined") the step; no record is needed.

    Columns: model, strength (nats), matrix, layer, head (from 1), query, token, and the mass on each key.
    """
    found, parts = load_example(), []
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


def tokens(records: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """One row a token of the first record that followed tokens: token, before, after, change (column sums), count."""
    return next((pd.DataFrame(run["metrics"]["tokens"]) for run in records if run["metrics"].get("tokens")),
                pd.DataFrame())  # fmt: skip


def token_numbers(frame: pd.DataFrame) -> dict[str, Any]:
    """For the caption: the two tokens that lose most, how many there are, lose, and are shown at each end."""
    first, second = frame.nsmallest(2, "change", keep="first").to_dict("records")
    end = min(SHOWN, (len(frame) + 1) // 2)
    return {"first": first, "second": second, "tokens": len(frame), "end": end, "lose": (frame["change"] < 0).sum()}


def plot_tokens(frame: pd.DataFrame, width: float) -> Figure:
    """Draw a row a token that loses or gains most, the largest loss first: its column sum before the step and after."""
    ordered = frame.sort_values("change", kind="stable")
    rows = ordered if len(ordered) <= 2 * SHOWN else pd.concat([ordered[:SHOWN], ordered[-SHOWN:]])
    figure, (ax,) = style.panels(width, 1, 0.8 + 0.17 * len(rows))
    places, sides = range(len(rows)), {"before": ("original", "before"), "after": ("high", "after one step")}
    ax.hlines(places, rows["before"], rows["after"], color="0.75", lw=1.2, zorder=1)
    for column, (name, title) in sides.items():
        look = style.LOOKS[name]
        ax.plot(rows[column], places, look.marker, color=look.colour, ms=4, mew=0)
        align = "left" if rows[column].iloc[0] == rows[["before", "after"]].iloc[0].max() else "right"
        ax.text(rows[column].iloc[0], -0.55, title, color=look.colour, ha=align, fontsize=7)
    ax.axvline(1, color="0.5", lw=0.8, ls=":", zorder=0)
    ax.set_yticks(places, [f"{token} ({count})" for token, count in zip(rows["token"], rows["count"])])
    ax.set(ylim=(len(rows) - 0.4, -1.4), xlabel="Column sum of the token (uniform: 1)")
    ax.grid(axis="y", visible=False)
    lost = "'{token}' ({before:.1f} → {after:.1f})"
    said = " and ".join(lost.format(**token_numbers(frame)[which]) for which in ("first", "second"))
    style.head(ax, "", f"One step takes most from {said}")
    return figure


if __name__ == "__main__":
    paths.write_text(example(), json.dumps(make_example(SIZES["minilm"].strength)) + "\n")
