"""Decoders: held-out loss along training, and what the form that receives later rows loses from
prefixes alone.
"""

from collections.abc import Sequence
from math import log
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from companion.figures import style
from companion.setup import labels
from companion.setup.sizes_and_strengths import LEAKY
from companion.setup.studies import FRESH_DECODERS
from companion.statistics import mean_interval

COMPARED = ("original", "high", LEAKY)
PASSES = ("full_pass", "prefixes")
# where the figure shows by itself that it leaks
NAMES = labels.ALGORITHMS | {LEAKY: "High,\nall rows"}
# nats from which on a position leaks
SEEN = 0.01
COLUMNS = ["study", "algorithm", "seed", "of", "x", "value"]


def data(records: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """One row a point: study, algorithm, seed, of, x (step or place), value (nats). Empty without a
    seed of all `COMPARED`.

    Of several studies the fresh seeds are drawn; the others keep their "end", for a form that was
    run with them alone.
    """
    points = []
    for run in records:
        metrics = run["metrics"]
        leak = metrics.get("leak")
        if not leak:
            continue
        curves = {
            "curve": [(point["step"], point["loss"]) for point in metrics["curve"]],
            "full_pass": [(0, leak["full_pass"])],
            "prefixes": [(0, leak["prefixes"])],
            "sequence": enumerate(leak["by_block"], 1),
            # the first token is not predicted
            "position": enumerate(leak.get("by_position", []), 2),
            "end": [(0, log(metrics["perplexity"]))],
        }
        arm = (run["study"], run["parameters"]["algorithm"], run["parameters"]["seed"])
        for of, curve in curves.items():
            points += [(*arm, of, x, value) for x, value in curve]
    frame = pd.DataFrame(points, columns=COLUMNS)
    algorithms = frame.groupby("seed")["algorithm"]
    if not any(set(COMPARED) <= set(names) for _, names in algorithms):
        return frame[:0]
    fresh = set(frame.loc[frame["study"] == FRESH_DECODERS, "algorithm"])
    replaced = frame["algorithm"].isin(fresh) & (frame["study"] != FRESH_DECODERS)
    return frame[~replaced | (frame["of"] == "end")].reset_index(drop=True)


def means(frame: pd.DataFrame, of: str) -> pd.DataFrame:
    """Mean over seeds, a row an x and a column an algorithm, in the order of every legend."""
    wide = frame[frame["of"] == of].pivot_table("value", "x", "algorithm")
    return wide[[name for name in labels.ALGORITHMS if name in wide]]


def numbers(frame: pd.DataFrame) -> dict[str, Any]:
    """For the caption and the headings: log perplexity at the end minus Original's of the same seed,
    and the leak, all in nats; and at how many positions it is seen.
    """
    leak = mean_interval(means(frame, "sequence")[LEAKY].tolist())
    leaks = means(frame, "position")[LEAKY] > SEEN
    ends = frame[frame["of"] == "end"].pivot(index="seed", columns="algorithm", values="value")
    differences = ends.sub(ends["original"], axis=0)
    curves = frame[frame["of"] == "curve"]
    seeds = curves.loc[curves["algorithm"] == "high", "seed"].unique()
    return {
        "high": mean_interval(differences.loc[seeds, "high"].dropna().tolist()),
        "leaky": mean_interval(differences[LEAKY].dropna().tolist()),
        "untrained": means(frame, "curve")[LEAKY].iloc[0],
        "leak": leak.value,
        "low": leak.low,
        "top": leak.high,
        "sequences": leak.seeds,
        "prefixes": means(frame, "prefixes")[LEAKY].iloc[0],
        "places": len(leaks),
        "leaks": leaks.sum(),
    }


def plot(frame: pd.DataFrame, width: float) -> Figure:
    """Draw the losses of the full pass, both ways to take the loss, and the leak by position."""
    values = numbers(frame)
    draws = []
    for place, draw in enumerate((_losses, _passes, _positions)):
        draws.append((style.heading("decoders", place, **values), draw, frame))
    return style.headed(width, 2.2, draws)


def _losses(ax: Axes, frame: pd.DataFrame) -> None:
    """Draw the held-out loss of the full pass over training, named at its end."""
    curves = means(frame, "curve")
    curves = curves[curves.index > 0]
    for algorithm in curves:
        # High's line lies on it
        lw = 2.8 if algorithm == "original" else 1.2
        look = style.line_style(algorithm) | {"marker": "", "lw": lw}
        ax.plot(curves.index, curves[algorithm], **look)
    ax.set(xscale="log", xlabel="Training step", ylabel="Loss, full pass (nats per token)")
    ax.xaxis.set_major_formatter(style.PLAIN)
    style.label_ends(ax, curves.iloc[-1].to_dict(), NAMES)


def _passes(ax: Axes, frame: pd.DataFrame) -> None:
    """Draw a row an algorithm: its loss in the full pass, and from prefixes alone on the same
    sequences.
    """
    full, alone = (means(frame, of).iloc[0] for of in PASSES)
    untrained = numbers(frame)["untrained"]
    ax.axvline(untrained, color="0.5", lw=0.8, ls=":", zorder=0)
    ax.text(untrained, -0.55, "untrained ", ha="right", fontsize=7, color="0.4")
    for place, algorithm in enumerate(full.index):
        colour = style.LOOKS[algorithm].colour
        ax.hlines(place, full[algorithm], alone[algorithm], color="0.75", lw=1.2, zorder=1)
        ax.plot(full[algorithm], place, "o", color=colour, ms=6, mfc="none")
        ax.plot(alone[algorithm], place, "o", color=colour, ms=3.5)
    text = {"ha": "center", "fontsize": 7, "color": colour}
    ax.text((full + alone).iloc[-1] / 2, place - 0.1, "full pass → prefixes", **text)
    style.rows(ax, [NAMES[name] for name in full.index], 0.8, 0.8)
    ax.set_xlabel("Loss (nats per token)")
    ax.margins(x=0.12)


def _positions(ax: Axes, frame: pd.DataFrame) -> None:
    """Draw the leak of each predicted token, the mean over sequences, and a running mean."""
    leak = means(frame, "position")[LEAKY]
    colour = style.LOOKS[LEAKY].colour
    ax.plot(leak.index, leak, ".", color=colour, alpha=0.4, mew=0)
    ax.plot(leak.index, leak.rolling(9, center=True).mean(), color=colour)
    text = {"ha": "right", "fontsize": 7, "color": colour, "transform": ax.transAxes}
    ax.text(0.97, 0.04, "line: mean of 9", **text)
    ax.set(xlabel="Position of the predicted token", ylabel="Prefixes − full pass (nats)")
