"""Original beside High, seed by seed: sparsity (Figure 6); and largest column sum, hops and start of learning."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from saobp.study.beyond import accuracy_by_hops
from saobp.study.figures import style
from saobp.study.figures.of_our_own import hops
from saobp.study.setup import labels
from saobp.study.setup.schema import Record
from saobp.study.setup.tasks_and_metrics import TASKS
from saobp.study.statistics import estimates, trajectories
from saobp.study.texts import planned

LAYERS, STEP = 4, 1000  # of the questions of three hops; the step whose accuracies a heading gives
CURVES = ("original", "uniform", "high")
COLUMNS = ["model", "task", "seed", "algorithm", "value"]
SIDES = ("original", "high")


def sides(records: Sequence[Record], measure: str) -> pd.DataFrame:
    """One row a model, task, seed and side (Original, High): the mean of a measure over layers, heads and samples.

    Of a High run it is the refined matrix's. Seeds that one side lacks are left out.
    """
    rows = []
    for run in records:
        given = run["parameters"]
        value = estimates.nested_mean(estimates.matrix(run).get(measure)) if run["stage"] == "attention" else None
        if value is not None and given.get("algorithm") in SIDES:
            rows.append((given["model"], run["metrics"]["task"], given["seed"], given["algorithm"], value))
    frame = pd.DataFrame(rows, columns=COLUMNS)
    both = frame.groupby(COLUMNS[:3])["algorithm"].transform("nunique") == len(SIDES)
    return frame[both].sort_values(COLUMNS, ignore_index=True)


def pairs(frame: pd.DataFrame) -> pd.DataFrame:
    """The same, a row a model, task and seed and a column a side."""
    return frame.pivot(index=COLUMNS[:3], columns="algorithm", values="value")[list(SIDES)]


def numbers(frame: pd.DataFrame) -> dict[str, Any]:
    """For a caption: each side's ends and mean, of how many pairs High's is the lower, and of what they are."""
    found = pairs(frame)
    ends = {f"{side}_{end}": found[side].agg(end) for side in SIDES for end in ("min", "max", "mean")}
    names = labels.joined([labels.model_title(name) for name in frame["model"].unique()])
    return {
        **ends, "lower": int((found["high"] < found["original"]).sum()), "pairs": len(found), "models": names,
        "seeds": frame["seed"].nunique(),
    }  # fmt: skip


def pair_axes(ax: Axes, frame: pd.DataFrame) -> Axes:
    """Draw a line a model, task and seed from Original's mark to High's, tasks below each other; `xlabel` is left."""
    place, ticks = 0.0, {}
    several = frame["model"].nunique() > 1
    for (model, task), rows in frame.groupby(["model", "task"], sort=False):
        found = pairs(rows)
        places = [place + step for step in range(len(found))]
        ax.hlines(places, found["original"], found["high"], color="0.75", lw=1.2, zorder=1)
        for side in SIDES:
            look = style.LOOKS[side]
            ax.plot(found[side], places, look.marker, color=look.colour, ms=4, mew=0, zorder=2)
        title = TASKS[task].title
        ticks[(places[0] + places[-1]) / 2] = f"{labels.model_title(model)}\n{title}" if several else title
        place += len(found) + 1
    ax.set_yticks(list(ticks), ticks.values())
    ax.set_ylim(place - 1.2, -1.6)
    first = frame.iloc[: len(SIDES)].set_index("algorithm")["value"]
    for side, align in zip(sorted(SIDES, key=first.get), ("right", "left")):
        ax.text(first[side], -0.55, labels.algorithm_title(side), ha=align, va="bottom", fontsize=7,
                color=style.LOOKS[side].colour)  # fmt: skip
    ax.grid(axis="y", visible=False)
    return ax


def sparsity(frame: pd.DataFrame, width: float) -> Figure:
    """Draw Figure 6: the share of entries below 1/L of each seed's attention, Original and High."""
    figure, (ax,) = style.panels(width, 1, 0.9 + 0.15 * len(pairs(frame)))
    said = numbers(frame)
    pair_axes(ax, frame)
    ax.set_xlabel("Sparsity (share of entries below 1/L)")
    title = "High is less sparse in {lower} of {pairs} pairs: {original_mean:.3f} → {high_mean:.3f}"
    style.head(ax, "", title.format(**said))
    return figure


def headlines(records: Sequence[Record]) -> pd.DataFrame:
    """One row a mark, `panel` a, b or c: algorithm, task, seed, x, y, and in b the band low to high and its seeds n.

    a: x is the largest column sum. b: y is the percent right at step x, a mean over  c: x is the step at which
    a run started to learn, y its held-out loss (nats) at the end. Empty unless there are records for all three.
    Once the planned study on fresh seeds has decided, b is of it, with its `outcome`.
    """
    columns = sides(records, "column_mass_maximum").assign(panel="a").rename(columns={"value": "x"})
    exam, outcome = fresh(records)
    if not outcome:
        exam = max((record["metrics"].get("multihop") or [] for record in records), key=len, default=[])
    curves = hops.means(accuracy_by_hops.curves(exam)) if exam else pd.DataFrame()
    curves = curves[curves["algorithm"].isin(CURVES) & (curves["layers"] == LAYERS)] if len(curves) else curves
    curves = curves.rename(columns={"step": "x", "accuracy": "y"}).assign(panel="b")
    curves = curves.assign(outcome=outcome) if outcome else curves
    parts = [columns, curves, starts(records).assign(panel="c")]
    return pd.concat(parts, ignore_index=True) if all(map(len, parts)) else pd.DataFrame()


def fresh(records: Sequence[Record]) -> tuple[list[Record], str]:
    """Return the encoders of the planned study that its analysis reads, and its outcome; empty before it has one."""
    read = accuracy_by_hops.planned([record for record in records if record["stage"] == "hops"])
    runs = [run for record in read for run in record["metrics"]["multihop"]]
    found = accuracy_by_hops.gain_along(runs) if runs else None
    outcome = planned.outcome(found[0], planned.study("hops").primary) if found else "not run"
    return (runs, outcome) if outcome in planned.study("hops").outcomes else ([], "")


def starts(records: Sequence[Record]) -> pd.DataFrame:
    """One row a pretraining run: algorithm, seed, step x at which it started to learn, held-out loss y at the end.

    An algorithm of which some run never started is left out.
    """
    frame = trajectories.starts(records).rename(columns={"start": "x", "end": "y"})
    return frame[frame.groupby("algorithm")["x"].transform(lambda steps: steps.notna().all())]


def headline_numbers(frame: pd.DataFrame) -> dict[str, Any]:
    """For the caption: the numbers of each panel."""
    a, b, c = (frame[frame["panel"] == panel] for panel in "abc")
    at = b[b["x"] == b["x"].iloc[(b["x"] - STEP).abs().argmin()]].set_index("algorithm")
    r = float(np.corrcoef(c["x"], c["y"])[0, 1]) if len(c) > 2 else np.nan
    right = {name: at["y"].get(name, np.nan) for name in CURVES}
    step = int(at["x"].iloc[0])
    return numbers(a.rename(columns={"x": "value"})) | right | {
        "step": step, "n": int(b["n"].max()), "r": r, "runs": len(c), "started": trajectories.STARTED,
        "named": "planned" if "outcome" in b else "post hoc",
    }  # fmt: skip


def plot_headlines(frame: pd.DataFrame, width: float) -> Figure:
    """Draw the three results side by side, below five inches one above the other."""
    figure, (a, b, c) = style.panels(width, 3, 2.3)
    said = headline_numbers(frame)
    pair_axes(a, frame[frame["panel"] == "a"].rename(columns={"x": "value"}))
    a.axvline(1, color="0.5", lw=0.8, ls=":")
    a.set(xlim=(0, None), xlabel="Largest column sum (uniform: 1)")
    title = "High lowers the largest column sum: {original_mean:.1f} → {high_mean:.1f} ({lower} of {pairs})"
    style.head(a, "a", title.format(**said))
    curves = frame[frame["panel"] == "b"].rename(columns={"x": "step", "y": "accuracy"})
    hops.curve_axes(b, curves, seeds=False)
    title = "Step {step:,}: High {high:.0f} %, Original {original:.0f} % (n = {n}, {named})"
    style.head(b, "b", title.format(**said))
    start_axes(c, frame[frame["panel"] == "c"])
    style.head(c, "c", "Late starts end higher: r = {r:.2f} (n = {runs})".format(**said))
    return figure


def start_axes(ax: Axes, frame: pd.DataFrame) -> Axes:
    """Draw when each run started to learn against its loss at the end; Original and High in their colours."""
    for algorithm, runs in frame.groupby("algorithm", sort=False):
        look = style.LOOKS[str(algorithm)]
        named = algorithm in SIDES
        colour = look.colour if named else "0.6"
        ax.plot(runs["x"], runs["y"], look.marker if named else "o", color=colour, ms=4.5 if named else 4,
                mfc=colour if named else "none", zorder=2 + named)  # fmt: skip
    names = [*((labels.algorithm_title(side), style.LOOKS[side].colour) for side in SIDES), ("others", "0.5")]
    for place, (name, colour) in enumerate(names):
        ax.text(0.04, 0.95 - 0.09 * place, name, color=colour, transform=ax.transAxes, fontsize=7, va="top")
    ax.set(xlabel=f"Step where training loss < {trajectories.STARTED:g} nats", ylabel="Final held-out loss (nats)")
    return ax
