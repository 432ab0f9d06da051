"""The result at a glance: largest column sum, questions of three hops, and when a run starts to learn."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from saobp.study.beyond import accuracy_by_hops
from saobp.study.figures import learning, seeds, style
from saobp.study.setup import labels
from saobp.study.statistics import trajectories
from saobp.study.statistics.trajectories import STARTED
from saobp.study.texts import planned

Record = dict[str, Any]
LAYERS, STEP = 4, 1000  # of the second panel; the step whose accuracies its heading gives
CURVES = ("original", "uniform", "high")


def data(records: Sequence[Record]) -> pd.DataFrame:
    """One row a mark, `panel` a, b or c: algorithm, task, seed, x, y, and in b the band low to high and its seeds n.

    a: x is the largest column sum. b: y is the percent right at step x, a mean over seeds. c: x is the step at which
    a run started to learn, y its held-out loss (nats) at the end. Empty unless there are records for all three.
    Once the planned study on fresh seeds has decided, b is of it, with its `outcome`.
    """
    columns = seeds.by_seed(records, "column_mass_maximum").assign(panel="a").rename(columns={"value": "x"})
    exam, outcome = fresh(records)
    if not outcome:
        exam = max((record["metrics"].get("multihop") or [] for record in records), key=len, default=[])
    curves = learning.means(accuracy_by_hops.curves(exam), learning.HOPS) if exam else pd.DataFrame()
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


def numbers(frame: pd.DataFrame) -> dict[str, Any]:
    """For the caption: the numbers of each panel."""
    a, b, c = (frame[frame["panel"] == panel] for panel in "abc")
    at = b[b["x"] == b["x"].iloc[(b["x"] - STEP).abs().argmin()]].set_index("algorithm")
    r = float(np.corrcoef(c["x"], c["y"])[0, 1]) if len(c) > 2 else np.nan
    right = {name: at["y"].get(name, np.nan) for name in CURVES}
    step = int(at["x"].iloc[0])
    return seeds.numbers(a.rename(columns={"x": "value"})) | right | {
        "step": step, "n": int(b["n"].max()), "r": r, "runs": len(c), "started": STARTED,
        "named": "planned" if "outcome" in b else "post hoc",
    }  # fmt: skip


def plot(frame: pd.DataFrame, width: float) -> Figure:
    """Draw the three panels side by side, below five inches one above the other."""
    figure, (a, b, c) = style.panels(width, 3, 2.3)
    said = numbers(frame)
    seeds.pair_axes(a, frame[frame["panel"] == "a"].rename(columns={"x": "value"}))
    a.axvline(1, color="0.5", lw=0.8, ls=":")
    a.set(xlim=(0, None), xlabel="Largest column sum (uniform: 1)")
    title = "High lowers the largest column sum: {original_mean:.1f} → {high_mean:.1f} ({lower} of {pairs})"
    style.head(a, "a", title.format(**said))
    curves = frame[frame["panel"] == "b"].rename(columns={"x": "step", "y": "accuracy"})
    learning.curve_axes(b, curves, seeds=False)
    title = "Step {step:,}: High {high:.0f} %, Original {original:.0f} % (n = {n}, {named})"
    style.head(b, "b", title.format(**said))
    start_axes(c, frame[frame["panel"] == "c"])
    style.head(c, "c", "Late starts end higher: r = {r:.2f} (n = {runs})".format(**said))
    return figure


def start_axes(ax: Axes, frame: pd.DataFrame) -> Axes:
    """Draw when each run started to learn against its loss at the end; Original and High in their colours."""
    for algorithm, runs in frame.groupby("algorithm", sort=False):
        look = style.LOOKS[str(algorithm)]
        named = algorithm in seeds.SIDES
        colour = look.colour if named else "0.6"
        ax.plot(runs["x"], runs["y"], look.marker if named else "o", color=colour, ms=4.5 if named else 4,
                mfc=colour if named else "none", zorder=2 + named)  # fmt: skip
    for place, (name, colour) in enumerate(
        [(labels.algorithm_title(s), style.LOOKS[s].colour) for s in seeds.SIDES] + [("others", "0.5")]
    ):
        ax.text(0.04, 0.95 - 0.09 * place, name, color=colour, transform=ax.transAxes, fontsize=7, va="top")
    ax.set(xlabel=f"Step where training loss < {STARTED:g} nats", ylabel="Final held-out loss (nats)")
    return ax
