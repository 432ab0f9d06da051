"""Original beside High, seed by seed: sparsity (Figure 6); and largest column sum, hops and start
of learning.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from companion.beyond import accuracy_by_hops
from companion.beyond.plan import studies as planned_studies
from companion.figures import style
from companion.figures.beyond_the_paper import hops
from companion.records import select
from companion.records.schema import Record
from companion.results import answers_by_hops
from companion.setup import labels
from companion.setup.tasks_and_metrics import TASKS
from companion.statistics import Estimate, estimates, mean_interval, seeds, trajectories
from companion.tables.cells import decimal

# of the questions of three hops
LAYERS = 4
CURVES = ("original", "uniform", "high")
COLUMNS = ["model", "task", "seed", "algorithm", "value"]
# Original first, as drawn
SIDES = tuple(reversed(seeds.SIDES))


def sides(records: Sequence[Record], measure: str) -> pd.DataFrame:
    """One row a model, task, seed of both and side: the mean of a measure (High's refined) over
    layers and heads.
    """
    rows = [
        run["parameters"] | {"value": estimates.mean_of(run, measure)}
        for run in select(records, "attention")
    ]
    wide = pd.DataFrame(rows, columns=COLUMNS).pivot(
        index=COLUMNS[:3], columns="algorithm", values="value"
    )
    return wide.reindex(columns=sorted(SIDES)).dropna().stack().reset_index(name="value")


def pairs(frame: pd.DataFrame) -> pd.DataFrame:
    """The same, a row a model, task and seed and a column a side."""
    return frame.pivot(index=COLUMNS[:3], columns="algorithm", values="value")[list(SIDES)]


def numbers(frame: pd.DataFrame) -> dict[str, Any]:
    """For a caption: each side's mean, of how many pairs High's is the lower, and of what models
    they are.
    """
    found = pairs(frame)
    return {
        **{f"{side}_mean": found[side].mean() for side in SIDES},
        "lower": int((found["high"] < found["original"]).sum()),
        "pairs": len(found),
        "models": labels.joined([labels.model_title(name) for name in frame["model"].unique()]),
    }


def pair_axes(ax: Axes, frame: pd.DataFrame) -> Axes:
    """Draw a line a model, task and seed from Original's mark to High's, tasks below each other;
    `xlabel` is left.
    """
    place, ticks, several = 0, {}, frame["model"].nunique() > 1
    for (model, task), found in pairs(frame).groupby(["model", "task"], sort=False):
        places = range(place, place + len(found))
        ax.hlines(places, found["original"], found["high"], color="0.75", lw=1.2, zorder=1)
        for side in SIDES:
            look = style.LOOKS[side]
            ax.plot(found[side], places, look.marker, color=look.colour, ms=4, mew=0, zorder=2)
        ticks[np.mean(places)] = f"{labels.model_title(model)}\n" * several + TASKS[task].title
        place += len(found) + 1
    ax.set_yticks(list(ticks), ticks.values())
    ax.set_ylim(place - 1.2, -1.6)
    for (side, first), align in zip(pairs(frame).iloc[0].sort_values().items(), ("right", "left")):
        ax.text(
            first,
            -0.55,
            labels.algorithm_title(side),
            ha=align,
            va="bottom",
            fontsize=7,
            color=style.LOOKS[side].colour,
        )
    ax.grid(axis="y", visible=False)
    return ax


def sparsity(frame: pd.DataFrame, width: float) -> Figure:
    """Draw Figure 6: the share of entries below 1/L of each seed's attention, Original and High."""
    said = numbers(frame)
    figure = style.headed(
        width, 0.9 + 0.15 * said["pairs"], [(style.heading(6, 0, **said), pair_axes, frame)]
    )
    figure.axes[0].set_xlabel("Sparsity (share of entries below 1/L)")
    return figure


def headlines(records: Sequence[Record]) -> pd.DataFrame:
    """One row a mark of `panel` a (x: largest column sum), b (x: step, y: percent right) or c (x,
    y: as of `starts`).

    Empty unless there are records for all three. Once the planned study on fresh seeds has been
    analysed, b is of it.
    """
    columns = sides(records, "column_mass_maximum").assign(panel="a").rename(columns={"value": "x"})
    exams = [record["metrics"].get("multihop") or [] for record in records]
    read = accuracy_by_hops.planned([record for record in records if record["stage"] == "hops"])
    fresh = [run for record in read for run in record["metrics"]["multihop"]]
    analysed = len(read) >= planned_studies()["hops"].primary.analyses[0]
    runs = fresh if analysed else max(exams, key=len, default=[])
    curves, about = hops.means(runs), {"panel": "b", "fresh": analysed}
    if len(curves):
        curves = curves[curves["algorithm"].isin(CURVES) & (curves["layers"] == LAYERS)]
        early = early_gap(runs)
        about |= {"early": early.value, "early_low": early.low, "early_high": early.high}
    curves = curves.rename(columns={"step": "x", "accuracy": "y"}).assign(**about)
    parts = [columns, curves, starts(records).assign(panel="c")]
    return pd.concat(parts, ignore_index=True) if all(map(len, parts)) else pd.DataFrame()


def early_gap(runs: Sequence[dict[str, Any]]) -> Estimate:
    """High − Original on three hops at the check nearest to step `EARLY`, in points."""
    right = answers_by_hops.early(runs, LAYERS).reindex(columns=SIDES)
    gaps = (right["high"] - right["original"]).dropna().tolist()
    return mean_interval(gaps) if gaps else Estimate(np.nan, np.nan, np.nan, 0)


def nearest(steps: pd.Series) -> int:
    """The step that lies nearest to `EARLY`."""
    return int(steps.loc[(steps - accuracy_by_hops.EARLY).abs().idxmin()])


def starts(records: Sequence[Record]) -> pd.DataFrame:
    """One row a run of the smallest model, of algorithms that always start to learn: step x then,
    held-out loss y.
    """
    trained = select(records, "pretrain")
    own = [run for run in trained if run["parameters"]["model"] in estimates.models(trained)[:1]]
    frame = trajectories.starts(own).rename(columns={"start": "x", "end": "y"})
    return frame[frame.groupby("algorithm")["x"].transform(lambda steps: steps.notna().all())]


def headline_numbers(frame: pd.DataFrame) -> dict[str, Any]:
    """For the caption: the numbers of each panel."""
    a, b, c = (frame[frame["panel"] == panel] for panel in "abc")
    step, early = nearest(b["x"]), b[["early", "early_low", "early_high"]].iloc[0]
    right = b[b["x"] == step].set_index("algorithm")["y"].reindex(CURVES)
    r = c["x"].corr(c["y"], min_periods=3)
    return (
        numbers(a.rename(columns={"x": "value"}))
        | right.to_dict()
        | {
            "step": step,
            "early": style.effect(Estimate(*early, 1), 0),
            "n": int(b["n"].max()),
            "r": "undefined" if np.isnan(r) else decimal(r, 2),
            "runs": len(c),
            "end": "none" if np.isnan(r) else "higher" if r > 0 else "lower",
            "named": "fresh" if b["fresh"].iloc[0] else "first",
            "layers": LAYERS,
        }
    )


def plot_headlines(frame: pd.DataFrame, width: float) -> Figure:
    """Draw the three results side by side, below five inches one above the other."""
    a, b, c = (frame[frame["panel"] == panel] for panel in "abc")
    said = headline_numbers(frame)
    first, second, third = (style.heading("glance", which, **said) for which in (0, 1, said["end"]))
    figure = style.headed(
        width,
        2.3,
        [
            (first, pair_axes, a.rename(columns={"x": "value"})),
            (
                second,
                partial(hops.curve_axes, seeds=False),
                b.rename(columns={"x": "step", "y": "accuracy"}),
            ),
            (third, start_axes, c),
        ],
    )
    figure.axes[0].axvline(1, color="0.5", lw=0.8, ls=":")
    figure.axes[0].set(xlim=(0, None), xlabel="Largest column sum (uniform: 1)")
    figure.axes[1].set_ylabel("Three hops, {layers} layers (% right)".format(**said))
    return figure


def start_axes(ax: Axes, frame: pd.DataFrame) -> Axes:
    """Draw when each run started to learn against its loss at the end; Original and High in their
    colours.
    """
    others = {"marker": "o", "color": "0.6", "ms": 4, "mfc": "none", "zorder": 2}
    for algorithm, runs in frame.groupby("algorithm", sort=False):
        look = style.LOOKS[algorithm]
        own = (
            {"marker": look.marker, "color": look.colour, "ms": 4.5, "zorder": 3}
            if algorithm in SIDES
            else others
        )
        ax.plot(runs["x"], runs["y"], ls="none", **own)
    names = [
        *((labels.algorithm_title(side), style.LOOKS[side].colour) for side in SIDES),
        ("others", "0.5"),
    ]
    for place, (name, colour) in enumerate(names):
        ax.text(
            0.04,
            0.95 - 0.09 * place,
            name,
            color=colour,
            transform=ax.transAxes,
            fontsize=7,
            va="top",
        )
    ax.set(
        xlabel=f"Step where training loss < {trajectories.STARTED:g} nats",
        ylabel="Final held-out loss (nats)",
    )
    return ax
