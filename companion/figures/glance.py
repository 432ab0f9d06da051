"""The result at a glance: one head before and after the step, what trained models end with, and the
effects with margins on one axis.
"""

from collections.abc import Sequence
from math import isfinite
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure

from companion.figures import by_seed, maps, style
from companion.figures.beyond_the_paper.claims import OUTCOME_LOOKS, outcome_handles
from companion.records.schema import Record
from companion.results import claims, table, written
from companion.results.row import OPEN
from companion.setup import labels
from companion.statistics import mean_interval
from companion.statistics.seeds import SIDES
from companion.tables import captions

# in their order, by the name in the captions: a claim of that name, or a key of the table of results,
# its reference, and the sign that is better
EFFECTS: dict[str, tuple[str, float, int] | None] = {
    "steps": (
        "learning/steps-to-90-of-two-and-three-hops/"
        "high-at-its-best-rate-over-original-at-its-best-rate",
        1.0,
        -1,
    ),
    "loss": None,
    "decoder": None,
    "switched on": ("spare/minilm-mean-of-three-sets/high-at-0.1-original", 0.0, 1),
    "spared": (
        "spare/minilm-mean-of-three-sets/high-without-the-first-token-at-0.1-original",
        0.0,
        1,
    ),
}
COLUMNS = ["panel", "side", "seed", "x", "y", "value", "low", "high", "word", "name", "text"]
# margins at which the axis ends
REACH = 5.5


def data(records: Sequence[Record]) -> pd.DataFrame:
    """One row a mark: of panel a a weight of a map (x: key, y: query), of b a seed's largest column
    sum, of c an effect in margins, better above 0.

    Empty unless there are records of both sides.
    """
    columns = by_seed.sides(records, "column_mass_maximum")
    if columns.empty:
        return pd.DataFrame()
    by_model = columns[columns["model"] == columns["model"].iloc[0]]
    means = by_model.groupby(["seed", "algorithm"])["value"].mean().reset_index()
    b = means.rename(columns={"algorithm": "side"}).assign(panel="b")
    whole = pd.concat([_maps(), b, pd.DataFrame(effects())], ignore_index=True)
    return whole.reindex(columns=COLUMNS).astype({"seed": "Int64"})


def _maps() -> pd.DataFrame:
    """The weights of a head of MiniLM before and after the step."""
    frame, parts = maps.data([]), []
    tokens = list(frame["token"][: len(frame) // 2])
    for side, matrix in zip(maps.BEFORE_AND_AFTER, maps.both(frame)):
        rows, keys = np.indices(matrix.shape)
        cells = {"x": keys.ravel(), "y": rows.ravel(), "value": matrix.ravel()}
        cells |= {"panel": "a", "side": side, "name": np.tile(tokens, len(tokens))}
        parts.append(pd.DataFrame(cells))
    return pd.concat(parts, ignore_index=True)


def effects() -> list[dict[str, Any]]:
    """The effects that have a row in the table of results: number and interval in margins,
    outcome, name, and number as text.
    """
    named = captions.of(style.CAPTIONS)["glance"]["effects"]
    decided = claims.read().set_index("claim")
    marks = []
    for effect, of_table in EFFECTS.items():
        if of_table is None:
            row = decided.loc[effect]
            ends = [row["toward"], row["toward_low"], row["toward_high"]]
            marks.append(_effect(row, ends, row["word"], named[effect]))
            continue
        key, reference, sign = of_table
        rows = table.read().query("key == @key")
        for _, row in rows.iterrows():
            ends = row[["estimate", "low", "high"]].astype(float)
            value, *ends = sign * (ends - reference) / row["margin"]
            ends = [value, *sorted(ends)]
            marks.append(_effect(row, ends, row["outcome"], named[effect]))
    return marks


def studies() -> list[str]:
    """The studies of the effects."""
    claimed = claims.read().set_index("claim")["key"]
    keys = [claimed[effect] if entry is None else entry[0] for effect, entry in EFFECTS.items()]
    return [key.partition("/")[0] for key in keys]


def _effect(row: pd.Series, ends: Sequence[float], word: str, name: str) -> dict[str, Any]:
    digits = 2 if row["margin"] >= 0.1 else 3
    value, low, high = ends
    text = written.of_row(row, digits, unit=True)
    numbers = {"value": value, "low": low, "high": high}
    return {"panel": "c", "word": word, "name": name, "text": text, **numbers}


def numbers(frame: pd.DataFrame) -> dict[str, Any]:
    """For the caption and the titles: the head's largest column sum before and after, the
    difference of trained models, and how many effects came out how.
    """
    head = maps.numbers(maps.data([]))
    sums = _sums(frame)
    gap = mean_interval((sums["high"] - sums["original"]).dropna().tolist())
    words = frame.loc[frame["panel"] == "c", "word"].value_counts()
    counts = {word.replace(" ", "_"): int(words.get(word, 0)) for word in OUTCOME_LOOKS}
    means = {f"{side}_mean": sums[side].mean() for side in SIDES}
    counts |= {"effects": int(words.sum())}
    return {"head": head, "gap": gap, **counts, **means}


def _sums(frame: pd.DataFrame) -> pd.DataFrame:
    """Panel b: a row a seed and a column a side."""
    rows = frame[frame["panel"] == "b"]
    return rows.pivot(index="seed", columns="side", values="value")


def plot(frame: pd.DataFrame, width: float) -> Figure:
    """Draw the head and the trained models above the effects; in a column of a page one below the
    other.
    """
    wide, values = width >= style.NARROW, numbers(frame)
    rows = int((frame["panel"] == "c").sum())
    if wide:
        shape = [["a", "after", "b"], ["c", "c", "c"]]
        heights, widths = (1.9, 0.5 + 0.24 * rows), (1, 1, 1.3)
    else:
        shape = [["a", "after"], ["b", "b"], ["c", "c"]]
        heights, widths = (1.5, 1.2, 0.4 + 0.36 * rows), None
    figure = style.new_figure(width, sum(heights) + 0.6)
    axes = figure.subplot_mosaic(shape, height_ratios=heights, width_ratios=widths)
    cells = frame[frame["panel"] == "a"]
    before, after = (cells[cells["side"] == side] for side in maps.BEFORE_AND_AFTER)
    top = cells["value"].max()
    _map(axes["a"], before, top, "before")
    _map(axes["after"], after, top, "after one step")
    _trained(axes["b"], _sums(frame))
    _effects(axes["c"], frame[frame["panel"] == "c"], beside=wide)
    for letter in "abc":
        style.head(axes[letter], letter, style.heading("glance", letter, **values))
    return figure


def _map(ax: Axes, cells: pd.DataFrame, top: float, label: str) -> None:
    """Draw one map of the head, the sum of its fullest column beside the token's name."""
    matrix = cells.pivot(index="y", columns="x", values="value").to_numpy()
    ax.imshow(matrix, norm=PowerNorm(0.5, 0, top), cmap="viridis", interpolation="nearest")
    column = int(matrix.sum(0).argmax())
    token = cells.loc[cells["x"] == column, "name"].iloc[0]
    ax.set_xticks([column], [f"{token}: {matrix.sum(0)[column]:.1f}"])
    ax.get_xticklabels()[0].set_ha("right" if column > len(matrix) / 2 else "center")
    ax.set_yticks([])
    ax.set_xlabel(label)
    ax.grid(False)
    ax.spines[:].set_visible(False)


def _trained(ax: Axes, sums: pd.DataFrame) -> None:
    """Draw a row a side: a dot a seed, and their mean with its value."""
    for place, side in enumerate(reversed(SIDES)):
        look, values = style.LOOKS[side], sums[side].dropna()
        apart = place + np.linspace(-0.16, 0.16, len(values))
        ax.plot(values, apart, look.marker, color=look.colour, ms=3.5, mfc="none", mew=0.8)
        ax.vlines(values.mean(), place - 0.3, place + 0.3, color=look.colour, lw=1.8)
        mean = {"ha": "center", "va": "bottom", "color": look.text, "fontsize": 7}
        ax.text(values.mean(), place - 0.32, f"{values.mean():.1f}", **mean)
    style.rows(ax, [labels.algorithm_title(side) for side in reversed(SIDES)])
    ax.axvline(1, color="0.5", lw=0.8, ls=":", zorder=0)
    seeds = labels.counted(len(sums), "seed")
    ax.set(xlim=(0, None), xlabel=f"Largest column sum (even: 1; {seeds})")


def _effects(ax: Axes, frame: pd.DataFrame, *, beside: bool) -> None:
    """Draw a row an effect in the look of its outcome, its number on the right; names stand beside
    the axis or above each row.
    """
    ax.axvspan(-1, 1, color="0.93", lw=0, zorder=0)
    ax.axvline(0, color="0.4", lw=0.6, zorder=1)
    for place, effect in enumerate(frame.itertuples()):
        look = OUTCOME_LOOKS[effect.word]
        low, high = np.clip([effect.low, effect.high], -REACH, REACH)
        ax.hlines(place, low, high, color=look.colour, lw=1.8)
        face = "white" if effect.word == OPEN else look.colour
        at = np.clip(effect.value, -REACH, REACH)
        ax.plot(at, place, look.marker, ms=4.5, mew=0.9, color=look.colour, mfc=face)
        if not isfinite(effect.low):
            raise ValueError(f"{effect.name}: an effect without an interval is not drawn")
        text = {"fontsize": 6.5, "transform": ax.get_yaxis_transform()}
        if not beside:
            # above the band of the margin
            text["bbox"] = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
        if beside:
            ax.text(0, place, effect.name, va="center", **text)
            ax.text(1.01, place, effect.text, va="center", **text)
        else:
            ax.text(0, place - 0.3, effect.name, va="bottom", **text)
            ax.text(1, place - 0.3, effect.text, va="bottom", ha="right", **text)
    style.rows(ax, [""] * len(frame), 0.6 if beside else 0.9)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.grid(visible=False)
    # on the left there is room for names
    axis = style.heading("glance", "axis" if beside else "axis in a column")
    ax.set(xlim=(-REACH - 4 if beside else -REACH, REACH), xlabel=axis)
    handles = outcome_handles(frame, 1.6)
    columns = len(handles) if beside else 3
    ax.figure.legend(handles=handles, loc="outside lower center", ncols=columns, fontsize=6.5)
