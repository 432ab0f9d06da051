"""Steps to learn questions of several hops: over the learning rate, and arm by arm at tuned rates.

Three panels: (a) steps to learn at every learning rate that was tried, (b) accuracy along training
of Original and High at their best rates, (c) the ratios that the plan compares.
"""

from collections.abc import Iterator, Sequence
from math import exp
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from companion.figures import style
from companion.records.schema import Record
from companion.setup import labels
from companion.statistics import mean_interval
from companion.studies import plan
from companion.studies.learning import design, read
from companion.studies.learning.design import HIGH, HOPS, ORIGINAL, Learning, Run

RATE, CURVE, RATIO = "rate", "curve", "ratio"
COLUMNS = ["panel", "arm", "place", "value", "low", "high", "n", "outcome"]
# of an arm of the plan, for readers; the others are called as the paper's algorithms
ARM_TITLES = {
    "detached": "Detached messages",
    "straight-through": "Plain forward, High's gradient",
    "rolled": "Bias rolled by one key",
    "temperature": "Temperature",
    "plus-one": "One in the denominator",
    "learned-bias": "Learned bias per key",
    "warmup-1000": "Warm-up of 1,000 steps",
    "settled": "Settled",
    "damped": "Damped",
}
AT_BEST = "High, each at its best rate"


def data(records: Sequence[Record]) -> pd.DataFrame:
    """One row per point of a panel: "panel", "arm", "place" (rate, step or line), value, interval.

    Values are steps in (a), percent in (b), ratios of steps in (c); `n` counts seeds.
    """
    planned = plan.section(plan.file(), design.NAME, Learning)
    study = read.Study(planned)
    for record in records:
        parameters = {key: record["parameters"].get(key) for key in Run.__dataclass_fields__}
        study.made[Run(**parameters)] = record
    if not study.best_here():
        return pd.DataFrame(columns=COLUMNS)
    rows = [*rate_rows(study), *curve_rows(study), *ratio_rows(study)]
    return pd.DataFrame(rows, columns=COLUMNS)


def rate_rows(study: read.Study) -> Iterator[tuple[Any, ...]]:
    """Yield (a): the geometric mean of the steps at each rate, with its 95 % interval over seeds."""
    planned = study.planned
    best = study.best_here()
    for arm in planned.rates.arms:
        for rate in planned.rates.values:
            runs = [Run(planned.width, arm, rate, seed) for seed in planned.rates.seeds]
            made = [study.made[run] for run in runs if run in study.made]
            if len(made) < 2:
                continue
            logs = mean_interval([design.endpoint(planned, record) for record in made])
            mark = "best" if best.get(arm) == rate else ""
            ends = (exp(logs.value), exp(logs.low), exp(logs.high))
            yield RATE, arm, rate, *ends, len(made), mark


def curve_rows(study: read.Study) -> Iterator[tuple[Any, ...]]:
    """Yield (b): the mean accuracy over two and three hops of both arms at their best rates.

    A run that has learned ends; its last check stands for the steps after it.
    """
    planned = study.planned
    best = study.best_here()
    cells = {arm: read.Cell(planned.width, arm, best[arm]) for arm in (ORIGINAL, HIGH)}
    seeds = [seed for seed in planned.seeds if all(seed in study.seeds(c) for c in cells.values())]
    if len(seeds) < 2:
        return
    steps = np.arange(0, planned.steps + 1, planned.every)
    for arm, rate in best.items():
        records = [study.made[Run(planned.width, arm, rate, seed)] for seed in seeds]
        curves = np.stack([accuracy_at(record, steps) for record in records])
        for step, values in zip(steps, curves.T, strict=True):
            mean = mean_interval(values.tolist())
            low, high = np.clip([mean.low, mean.high], 0, 100)
            yield CURVE, arm, step, mean.value, low, high, len(seeds), ""


def accuracy_at(record: Record, steps: np.ndarray) -> np.ndarray:
    """Return the accuracy (percent, mean over two and three hops) of a run at some steps."""
    checks = record["metrics"]["curve"]
    places = [check["step"] for check in checks]
    right = [np.mean([check["accuracy"][str(hops)] for hops in HOPS]) for check in checks]
    return 100 * np.interp(steps, places, right)


def ratio_rows(study: read.Study) -> Iterator[tuple[Any, ...]]:
    """Yield (c): the ratio and plain interval of every contrast, and what the plan's rule says.

    Line 0 is the primary contrast. One over fewer seeds than the first analysis has is left out.
    """
    lines = [(0, reading) for reading in read.decided(study)]
    lines += enumerate(read.secondaries(study), 1)
    for line, reading in lines:
        ratio = reading.row
        if ratio.n < study.planned.primary.analyses[0]:
            continue
        numbers = (ratio.estimate, ratio.low, ratio.high)
        yield RATIO, ratio.contrast, line, *numbers, ratio.n, reading.outcome or "open"


def numbers(frame: pd.DataFrame) -> dict[str, Any]:
    """For the caption: the best rates, seeds, and the primary ratio with its interval."""
    rates = frame[frame["panel"] == RATE]
    best = rates[rates["outcome"] == "best"].set_index("arm")
    values = {f"{arm}_rate": best.loc[arm, "place"] for arm in best.index}
    values["rate_seeds"] = int(rates["n"].max())
    ratios = frame[frame["panel"] == RATIO].set_index("place")
    values["done"] = 0 in ratios.index
    if values["done"]:
        primary = ratios.loc[0]
        values |= {"ratio": primary["value"], "low": primary["low"], "high": primary["high"]}
        values |= {"seeds": int(primary["n"]), "outcome": primary["outcome"]}
    return values


def plot(frame: pd.DataFrame, width: float) -> Figure:
    """Draw the panels that have rows: rates and curves side by side, the ratios below them."""
    filled = numbers(frame)
    draws = []
    for panel, draw in ((RATE, rate_axes), (CURVE, curve_axes), (RATIO, ratio_axes)):
        rows = frame[frame["panel"] == panel]
        if len(rows):
            draws.append((style.heading("rates", panel, **filled), draw, rows))
    return style.headed(width, 2.6 if width >= style.NARROW else 2.2, draws)


def rate_axes(ax: Axes, frame: pd.DataFrame) -> Axes:
    """Draw the steps to learn over the learning rate, a line per arm; filled: its best rate."""
    for arm, rows in frame.groupby("arm", sort=False):
        look = style.line_style(arm)
        errors = [rows["value"] - rows["low"], rows["high"] - rows["value"]]
        ax.errorbar(rows["place"], rows["value"], errors, capsize=2, **look)
        best = rows[rows["outcome"] == "best"]
        ax.plot(best["place"], best["value"], look["marker"], color=look["color"])
    ax.set(xscale="log", yscale="log", xlabel="Learning rate", ylabel="Steps to 90 % right")
    rates = sorted(set(frame["place"]))
    ax.set_xticks(rates, [f"{rate:g}" for rate in rates])
    ax.minorticks_off()
    steps = [500, 1000, 2000, 4000]
    ax.set_yticks(steps, [f"{step:,}" for step in steps])
    last = frame[frame["place"] == rates[-1]].set_index("arm")["value"]
    named = {arm: labels.algorithm_title(arm) for arm in last.index}
    handles = [ax.plot([], [], label=named[arm], **style.line_style(arm))[0] for arm in named]
    ax.legend(handles=handles, loc="best")
    return ax


def curve_axes(ax: Axes, frame: pd.DataFrame) -> Axes:
    """Draw the mean accuracy of both arms over steps, with its band."""
    for arm, rows in frame.groupby("arm", sort=False):
        look = style.line_style(arm) | {"marker": "", "label": labels.algorithm_title(arm)}
        ax.plot(rows["place"], rows["value"], **look)
        band = {"color": look["color"], "alpha": 0.16, "lw": 0}
        ax.fill_between(rows["place"], rows["low"], rows["high"], **band)
    ax.axhline(90, color="0.5", lw=0.6, ls=":", zorder=0)
    ax.set(xlabel="Training step", ylabel="Two and three hops right (%)", ylim=(0, 102))
    ax.legend(loc="lower right")
    return ax


def ratio_axes(ax: Axes, frame: pd.DataFrame) -> Axes:
    """Draw a line per contrast: ratio and interval, filled where the plan's rule decides."""
    margin = plan.section(plan.file(), design.NAME, Learning).primary.margin
    ax.axvspan(1 / (1 + margin), 1 + margin, color="0.92", lw=0, zorder=0)
    ax.axvline(1, color="0.5", lw=0.8, zorder=0)
    names = []
    for place, row in enumerate(frame.itertuples()):
        colour = style.LOOKS[HIGH].colour if row.place == 0 else "0.3"
        face = "white" if row.outcome in ("open", "imprecise") else colour
        ax.hlines(place, row.low, row.high, color=colour, lw=1.2)
        ax.plot(row.value, place, "s", color=colour, mfc=face, ms=4)
        names.append(contrast_title(row.arm))
    style.rows(ax, names)
    ax.set(xscale="log", xlabel="Ratio of steps")
    ratios = [0.5, 0.7, 1, 1.4, 2]
    ax.set_xticks(ratios, [f"{ratio:g}" for ratio in ratios])
    ax.minorticks_off()
    return ax


def contrast_title(contrast: str) -> str:
    """Name a contrast by its first arm; the second is Original unless it is said."""
    first, second = contrast.split(" / ")
    if "best rate" in first:
        return AT_BEST
    if first == HIGH:
        return "High, at Original's best rate"
    title = ARM_TITLES.get(first) or labels.algorithm_title(first)
    return title if second == ORIGINAL else f"{title} / {labels.algorithm_title(second)}"
