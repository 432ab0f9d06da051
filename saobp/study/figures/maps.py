"""Figures 1 and 6: attention maps of real heads, before and after the refinement, with their sparsity."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import CenteredNorm, Normalize, PowerNorm
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch
from matplotlib.ticker import MaxNLocator

from saobp.study.data.tasks import TASKS
from saobp.study.figures import style
from saobp.study.setup import labels
from saobp.study.setup.records import select
from saobp.study.statistics import estimates

Record = dict[str, Any]
COLUMNS = ["task", "model", "algorithm", "matrix", "layer", "head", "sparsity", "query", "token"]
KEY = "key {}"  # the column of one key's mass, numbered from 0
TOKENS = 24  # names of at most so many tokens fit beside a map
NODES = 5  # tokens in the picture of the factor graph


def examples(record: Record) -> list[dict[str, Any]]:
    """The example maps of a record: layer, head, tokens, raw and refined (L, L), rows are queries."""
    return record["metrics"].get("maps") or []


def rows_of(example: dict[str, Any], matrix: str, model: str, algorithm: str, task: str = "") -> pd.DataFrame:
    """One row a query of a map: where it is from, the query's token, and the mass on each key, a column each."""
    values = np.asarray(example.get(matrix) or example["raw"], dtype=float)
    below = (example.get("sparsity") or {}).get(matrix, float((values < 1 / len(values)).mean()))
    source = {"task": task, "model": model, "algorithm": algorithm, "matrix": matrix, "layer": example["layer"]}
    tokens = np.asarray(example.get("tokens") or range(len(values)), dtype=str)
    frame = pd.DataFrame({"query": range(len(values)), "token": tokens})
    frame = frame.assign(**source, head=example["head"], sparsity=below)[COLUMNS]
    return frame.join(pd.DataFrame(values, columns=[KEY.format(place) for place in range(len(values))]))


def values_of(rows: pd.DataFrame) -> np.ndarray:
    """The (L, L) map of one head's rows."""
    return rows.sort_values("query")[[KEY.format(place) for place in range(len(rows))]].to_numpy(dtype=float)


def change_of(rows: pd.DataFrame) -> np.ndarray:
    """What the refinement does to a map: refined minus raw, of rows that hold both."""
    raw, refined = (values_of(rows[rows["matrix"] == name]) for name in ("raw", "refined"))
    return refined - raw


def before_after_data(records: Sequence[Record]) -> pd.DataFrame:
    """Of the maps that the first High run keeps, all of its last layer, the one moved most: both its matrices."""
    for model in estimates.models(records):
        for run in select(list(records), "attention", model=model, algorithm="high"):
            if found := examples(run):
                most = max(found, key=_moved)
                task = str(run["metrics"].get("task", ""))
                parts = [rows_of(most, matrix, model, "high", task) for matrix in ("raw", "refined")]
                return pd.concat(parts, ignore_index=True).assign(run=run["name"])
    return pd.DataFrame(columns=[*COLUMNS, "run"])


def _moved(example: dict[str, Any]) -> float:
    raw, refined = (np.asarray(example[name], dtype=float) for name in ("raw", "refined"))
    return share_moved(refined - raw)


def before_after(frame: pd.DataFrame, width: float) -> Figure:
    """Draw the map before and after on one colour scale, the change between them, and the factor graph."""
    side = width >= style.NARROW
    figure = style.new_figure(width, 2.6 if side else 5.4)
    axes = list(figure.subplots(1, 4, width_ratios=(3, 3, 3, 2.5)) if side else figure.subplots(2, 2).flat)
    sides = {matrix: frame[frame["matrix"] == matrix] for matrix in ("raw", "refined")}
    tokens, change = list(sides["raw"]["token"]), change_of(frame)
    top = max(values_of(side).max() for side in sides.values())
    for ax, side, title in zip(axes, sides.values(), ("Softmax", "After one step (High)")):
        map_axes(ax, values_of(side), tokens, PowerNorm(0.5, 0, top)).set_title(title, pad=3)
    map_axes(axes[2], change, tokens, CenteredNorm(), colours="RdBu_r").set_title(
        f"Change: {share_moved(change):.2%} of the mass", pad=3
    )
    for ax in axes[1:3]:
        ax.set_ylabel("")
    factor_graph_axes(axes[3])
    for group, label, ticks in ((axes[:2], "Attention", None), (axes[2:3], "Change", MaxNLocator(3))):
        drawn = group[-1].images[-1]
        figure.colorbar(drawn, ax=group, location="bottom", shrink=0.7, label=label, pad=0.02, ticks=ticks)
    return figure


def share_moved(change: np.ndarray) -> float:
    """Mean share of a row's mass that a change of a map carries elsewhere."""
    return float(np.abs(change).sum() / 2 / len(change))


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


def factor_graph_axes(ax: Axes, nodes: int = NODES) -> Axes:
    """Draw the factor graph of one update: every other row sends row j a message through its own factor."""
    ax.set(xlim=(-2, 2), ylim=(-1.6, 1.7), aspect="equal")
    ax.set_axis_off()
    angles = np.pi / 2 - 2 * np.pi * np.arange(nodes) / nodes
    places = np.column_stack([np.cos(angles), np.sin(angles)])
    arrow = {"arrowstyle": "-|>", "mutation_scale": 5, "lw": 0.7, "color": labels.ALGORITHMS["high"].colour}
    for index, place in enumerate(places[1:], start=1):
        middle = (place + places[0]) / 2
        for start, end in ((place, middle), (middle, places[0])):
            ax.add_patch(FancyArrowPatch(start, end, shrinkA=3, shrinkB=4, **arrow))
        ax.plot(*middle, "s", color="0.35", markersize=3.5)
        ax.text(*(1.6 * place), f"$A_{{i_{index}}}$", ha="center", va="center")
        ax.plot(*place, "o", color="white", markeredgecolor="0.2", markersize=6)
    ax.plot(*places[0], "o", color="black", markersize=6)
    ax.text(0, 1.45, "$A_j$", ha="center", va="center")
    ax.set_title("Factors $\\psi_{ij}$", pad=3)
    return ax


def sparsity_data(records: Sequence[Record]) -> pd.DataFrame:
    """One head of the last layer in Original and High, the same one in both, on the task that most models share.

    Beside the head's own sparsity stands the mean over all layers, heads and samples of its run.
    """
    found: dict[str, list[pd.DataFrame]] = {}
    for model in estimates.models(records):
        plain, high = (_by_task(records, model, algorithm) for algorithm in ("original", "high"))
        for task in plain.keys() & high.keys():
            for place in sorted(plain[task].keys() & high[task].keys())[-1:]:
                found.setdefault(task, []).append(pd.concat([plain[task][place], high[task][place]]))
    # SQuAD is the paper's choice, and taken where others have no more models
    best = max(found, key=lambda task: (len(found[task]), task == "squad", task), default=None)
    return pd.concat(found[best], ignore_index=True) if best else pd.DataFrame(columns=COLUMNS)


def _by_task(records: Sequence[Record], model: str, algorithm: str) -> dict[str, dict[tuple[int, int], pd.DataFrame]]:
    """Map task to the refined maps of its first run by layer and head; of a layer, the first head sorts last."""
    by_task: dict[str, dict[tuple[int, int], pd.DataFrame]] = {}
    for run in select(list(records), "attention", model=model, algorithm=algorithm):
        task = str(run["metrics"].get("task", ""))
        if task not in by_task:
            mean = estimates.nested_mean(estimates.matrix(run).get("sparsity"))
            by_task[task] = {
                (example["layer"], -example["head"]): rows_of(example, "refined", model, algorithm, task)
                for example in examples(run)
            }
            for rows in by_task[task].values():
                rows.insert(COLUMNS.index("sparsity") + 1, "mean_sparsity", np.nan if mean is None else mean)
                rows.insert(0, "run", run["name"])
    return by_task


def sparsity(frame: pd.DataFrame, width: float) -> Figure:
    """Draw Original and High of each model (one above the other on a wide page), with the share below 1/L."""
    models, algorithms = list(dict.fromkeys(frame["model"])), ["original", "high"]
    page = width >= style.NARROW
    wide = page and len(models) > 1  # one model stands beside itself
    rows, columns = (algorithms, models) if wide else (models, algorithms)
    side = min(width / (len(columns) + 0.5), 2.3)
    figure = style.new_figure(min(width, len(columns) * (side + 0.6) + 1), len(rows) * (side + 0.35))
    axes = figure.subplots(len(rows), len(columns), squeeze=False)
    for ax, (row, column) in zip(axes.flat, product(rows, columns), strict=True):
        model, algorithm = (column, row) if wide else (row, column)
        sparsity_axes(ax, frame[(frame["model"] == model) & (frame["algorithm"] == algorithm)])
        names = {**{name: labels.model_title(name) for name in models}, "original": "Original", "high": "High"}
        if row == rows[0]:
            ax.set_title(f"{names[column]}\n{ax.get_title()}", pad=3)
        if column == columns[0]:
            ax.set_ylabel(f"{names[row]}\n{ax.get_ylabel()}")
    image = axes.flat[-1].images[-1]
    bar = figure.colorbar(image, ax=axes, shrink=0.6, location="right" if page else "bottom")
    ends = (image.norm.vmin, image.norm.vmax)
    bar.set_ticks(ends, labels=["panel's\nleast", "panel's\nmost"])
    bar.set_label(f"Attention on {TASKS[frame['task'].iloc[0]].title}")
    return figure


def sparsity_axes(ax: Axes, points: pd.DataFrame) -> Axes:
    """One map on its own scale, with its sparsity and its range above: a flat map is seen to be flat."""
    values = values_of(points)
    low, high = values.min(), values.max()
    map_axes(ax, values, list(points["token"]), PowerNorm(0.5, low, max(high, low + 1e-9)))
    head = f"head {points['head'].iloc[0]}, sparsity {below_uniform(points):.3f}"
    ax.set_title(f"{head}\n{low:.4g} to {high:.4g}", pad=3)
    return ax


def below_uniform(points: pd.DataFrame) -> float:
    """Share of a map's entries below 1/L: 0 for uniform attention, (L - 1)/L for one key a query."""
    return float(points["sparsity"].iloc[0])
