"""Figures 2 and 5: GTD against clustering and betweenness of the token graph, one point a sample and head.

Figure 2 is BERT-Mini Original, as the paper's evidence for GTD; Figure 5 shows every algorithm.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from saobp.study.figures import style
from saobp.study.setup import labels
from saobp.study.statistics import estimates

Record = dict[str, Any]
TASK = "race"
MEASURES = {"clustering": "Clustering coefficient", "betweenness": "Betweenness"}
BINS = 24
TURNS = 25  # parts in which the points are drawn, the algorithms by turns
BOUNDS = {"gtd": (0, 1), "clustering": (0, 1), "betweenness": (0, np.inf)}  # beyond these no value is
LEAST = {"gtd": 0.004, "clustering": 0.1, "betweenness": 0.1}  # what an axis shows at least, lest rounding look large


def data(number: int, records: Sequence[Record]) -> pd.DataFrame:
    """One row a sample and head: model, algorithm, seed, gtd, graph measures (empty where undefined)."""
    model = next(iter(estimates.models(records)), None)
    names = ["original"] if number == 2 else estimates.algorithms(records)
    parts = []
    for algorithm in names:
        for run in estimates.attention_runs(records, model, algorithm, TASK):
            graph = run["metrics"].get("graph")
            if graph:
                columns = {key: pd.array(graph[key], dtype="Float64") for key in ("gtd", *MEASURES)}
                seed = run["parameters"].get("seed")
                parts.append(pd.DataFrame(columns).assign(model=model, algorithm=algorithm, seed=seed))
    columns = ["model", "algorithm", "seed", "gtd", *MEASURES]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def plot(frame: pd.DataFrame, width: float) -> Figure:
    """Draw both panels with their marginal histograms; below five inches one above the other."""
    side = width >= style.NARROW
    lines = 0.15 * frame["algorithm"].nunique()
    figure = style.new_figure(width, 2.6 + lines if side else 2 * (2.4 + lines))
    halves = figure.add_gridspec(1, 2) if side else figure.add_gridspec(2, 1)
    for half, measure in zip(halves, MEASURES):
        ratios = {"width_ratios": (5, 1), "height_ratios": (1, 5)}
        axes = half.subgridspec(2, 2, **ratios).subplots(sharex="col", sharey="row")
        joint_axes(axes[1, 0], axes[0, 0], axes[1, 1], frame, measure)
        axes[0, 1].set_axis_off()
    if frame["algorithm"].nunique() > 1:
        style.algorithm_legend(figure, dict.fromkeys(frame["algorithm"]))
    return figure


def joint_axes(ax: Axes, above: Axes, beside: Axes, frame: pd.DataFrame, measure: str) -> Axes:
    """Draw one joint plot: points, the densities of both variables, r for each algorithm."""
    defined = frame.dropna(subset=["gtd", measure])
    sides = [(above, "gtd", "vertical"), (beside, measure, "horizontal")]
    edges = {name: bin_edges(defined[name].astype(float), LEAST[name], BOUNDS[name]) for _, name, _ in sides}
    scatter(ax, defined, measure)
    lines = []
    for algorithm, points in defined.groupby("algorithm", sort=False):
        look = labels.ALGORITHMS[str(algorithm)]
        x, y = points["gtd"].astype(float), points[measure].astype(float)
        for histogram, name, way in sides:
            histogram.hist(
                points[name].astype(float), bins=edges[name], density=True, orientation=way,
                color=look.colour, histtype="step", linewidth=0.8,
            )  # fmt: skip
        lines.append(describe(x, y, str(algorithm), measure))
    ax.set(xlabel="GTD", ylabel=MEASURES[measure])
    for direction, name in (("x", "gtd"), ("y", measure)):
        style.within(ax, direction, edges[name][[0, -1]], BOUNDS[name])
    above.set_title("\n".join(lines), loc="left", pad=2)
    for histogram in (above, beside):
        histogram.axis("off")
    return ax


def scatter(ax: Axes, frame: pd.DataFrame, measure: str) -> Axes:
    """Draw the points of all algorithms by turns, a part of each at a time: none lies on top of all others."""
    for turn in range(TURNS):
        for algorithm, points in frame.groupby("algorithm", sort=False):
            look = labels.ALGORITHMS[str(algorithm)]
            part = points.iloc[turn::TURNS].astype({"gtd": float, measure: float})
            face = look.colour if look.marker in "xX+" else "none"
            ax.scatter(
                part["gtd"], part[measure], s=5, marker=look.marker, facecolors=face, edgecolors=look.colour,
                linewidths=0.5, alpha=0.5, rasterized=True,
            )  # fmt: skip
    return ax


def complete(frame: pd.DataFrame) -> bool:
    """Say whether every token graph of a figure is complete: nobody lies between two others, all neighbours meet."""
    return bool((frame["clustering"] == 1).all() and (frame["betweenness"] == 0).all())


def bin_edges(values: pd.Series, least: float, bounds: tuple[float, float] = (-np.inf, np.inf)) -> np.ndarray:
    """The same bins for every algorithm, over at least `least` and within `bounds`, the ends of the measure's range.

    numpy gives a single value a bin of its own, 1 wide.
    """
    if values.empty:
        return np.linspace(0, 1, BINS + 1)
    middle, half = (values.max() + values.min()) / 2, max(float(np.ptp(values)), least) / 2
    middle = max(min(middle, bounds[1] - half), bounds[0] + half)
    return np.linspace(middle - half, middle + half, BINS + 1)


def describe(x: pd.Series, y: pd.Series, algorithm: str, measure: str) -> str:
    """Pearson's r and the number of points; heads and samples of one run are not independent, so no interval."""
    title = labels.algorithm_title(algorithm)
    if len(x) < 4:
        return f"{title}: $r$ undefined, {len(x)} points"
    if np.ptp(y) == 0 or np.ptp(x) == 0:
        name, value = (measure, y.iloc[0]) if np.ptp(y) == 0 else ("GTD", x.iloc[0])
        return f"{title}: $r$ undefined, {name} is {value:.3g} everywhere"
    r = float(np.corrcoef(x, y)[0, 1])
    return title + f": $r$ = {r:.2f}, $n$ = {len(x)}".replace("-", "−")
