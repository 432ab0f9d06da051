"""Figures 1 and 6: attention maps of real heads, before and after the refinement, with their sparsity."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch

from saobp.study import estimates, labels
from saobp.study.figures import style
from saobp.study.records import select

Record = dict[str, Any]
COLUMNS = [
    "model",
    "algorithm",
    "matrix",
    "layer",
    "head",
    "query",
    "key",
    "query_token",
    "key_token",
    "value",
]
TOKENS = 24  # names of at most so many tokens fit beside a map
NODES = 5  # tokens in the picture of the factor graph


def examples(record: Record) -> list[dict[str, Any]]:
    """The example maps of a record: layer, head, tokens, raw and refined (L, L), rows are queries."""
    return record["metrics"].get("maps") or []


def rows_of(example: dict[str, Any], matrix: str, model: str, algorithm: str) -> pd.DataFrame:
    """One row an entry of a map."""
    values = np.asarray(example.get(matrix) or example["raw"], dtype=float)
    query, key = np.indices(values.shape).reshape(2, -1)
    tokens = np.asarray(example.get("tokens") or range(len(values)), dtype=str)
    frame = pd.DataFrame({"query": query, "key": key, "value": values.ravel()})
    frame["query_token"], frame["key_token"] = tokens[query], tokens[key]
    names = {"model": model, "algorithm": algorithm, "matrix": matrix}
    return frame.assign(layer=example["layer"], head=example["head"], **names)[COLUMNS]


def before_after_data(records: Sequence[Record]) -> pd.DataFrame:
    """The head that the refinement moves most, of the first High run: both its matrices."""
    for model in estimates.models(records):
        for run in select(list(records), "attention", model=model, algorithm="high"):
            if found := examples(run):
                most = max(found, key=_moved)
                parts = [rows_of(most, matrix, model, "high") for matrix in ("raw", "refined")]
                return pd.concat(parts, ignore_index=True)
    return pd.DataFrame(columns=COLUMNS)


def _moved(example: dict[str, Any]) -> float:
    raw, refined = (np.asarray(example[name], dtype=float) for name in ("raw", "refined"))
    return float(np.abs(refined - raw).sum() / 2 / len(raw))


def before_after(frame: pd.DataFrame, width: float) -> Figure:
    """Draw the map before, the factor graph, the map after, on one colour scale."""
    side = width >= style.NARROW
    figure = style.new_figure(width, 2.6 if side else 6.2)
    axes = figure.subplots(1, 3, width_ratios=(3, 2, 3)) if side else figure.subplots(3, 1)
    top = float(frame["value"].max())
    for ax, matrix, title in ((axes[0], "raw", "Softmax"), (axes[2], "refined", "After one step (High)")):
        image = map_axes(ax, frame[frame["matrix"] == matrix], top)
        ax.set_title(title, pad=3)
    factor_graph_axes(axes[1])
    figure.colorbar(image, ax=list(axes), location="bottom" if not side else "right", shrink=0.7, label="Attention")
    return figure


def map_axes(ax: Axes, points: pd.DataFrame, top: float) -> Any:
    """Draw one attention map, rows are queries; colour goes by the square root, so that small mass shows."""
    values = points.pivot(index="query", columns="key", values="value").to_numpy()
    image = ax.imshow(values, norm=PowerNorm(0.5, 0, top), cmap="viridis", interpolation="nearest")
    tokens = points.drop_duplicates("key").sort_values("key")["key_token"].tolist()
    if len(tokens) <= TOKENS:
        ax.set_xticks(range(len(tokens)), tokens, rotation=90, fontsize=5.5)
        ax.set_yticks(range(len(tokens)), tokens, fontsize=5.5)
    ax.set(xlabel="Key", ylabel="Query")
    ax.grid(False)
    ax.spines[:].set_visible(False)
    return image


def factor_graph_axes(ax: Axes, nodes: int = NODES) -> Axes:
    """Draw the factor graph of one update: every other row sends row j a message through its own factor."""
    ax.set(xlim=(-1.75, 1.75), ylim=(-1.5, 1.6), aspect="equal")
    ax.set_axis_off()
    angles = np.pi / 2 - 2 * np.pi * np.arange(nodes) / nodes
    places = np.column_stack([np.cos(angles), np.sin(angles)])
    for index, place in enumerate(places[1:], start=1):
        middle = (place + places[0]) / 2
        for start, end in ((place, middle), (middle, places[0])):
            arrow = FancyArrowPatch(
                start, end, arrowstyle="-|>", mutation_scale=6, lw=0.7, color="0.35", shrinkA=6, shrinkB=6
            )
            ax.add_patch(arrow)
        ax.plot(*middle, "s", color=labels.ALGORITHMS["high"].colour, markersize=5)
        ax.text(*(1.42 * place), f"$A_{{i_{index}}}$", ha="center", va="center")
        ax.plot(*place, "o", color=labels.ALGORITHMS["original"].colour, markersize=8)
    ax.plot(*places[0], "o", color="black", markersize=9)
    ax.text(0, 1.4, "$A_j$", ha="center", va="center")
    ax.set_title("Factors $\\psi_{ij}$ (squares)", pad=3)
    return ax


def sparsity_data(records: Sequence[Record]) -> pd.DataFrame:
    """The last layer's first stored head of Original and High, for each model with both."""
    parts = []
    for model in estimates.models(records):
        for algorithm in ("original", "high"):
            runs = select(list(records), "attention", model=model, algorithm=algorithm)
            found = next((examples(run) for run in _squad_first(runs) if examples(run)), [])
            if found:
                last = max(example["layer"] for example in found)
                example = next(example for example in found if example["layer"] == last)
                parts.append(rows_of(example, "refined", model, algorithm))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=COLUMNS)


def _squad_first(runs: list[Record]) -> list[Record]:
    """Runs on SQuAD (the paper's choice) before those on another task."""
    return sorted(runs, key=lambda run: run["metrics"].get("task") != "squad")


def sparsity(frame: pd.DataFrame, width: float) -> Figure:
    """Draw Original and High of each model (one above the other on a wide page), with the share below 1/L."""
    models, algorithms = list(dict.fromkeys(frame["model"])), ["original", "high"]
    wide = width >= style.NARROW
    rows, columns = (algorithms, models) if wide else (models, algorithms)
    side = min(width / (len(columns) + 0.5), 2.3)
    figure = style.new_figure(min(width, len(columns) * (side + 0.6) + 1), len(rows) * (side + 0.35))
    axes = figure.subplots(len(rows), len(columns), squeeze=False)
    top, image = float(frame["value"].max()), None
    for ax, (row, column) in zip(axes.flat, product(rows, columns), strict=True):
        model, algorithm = (column, row) if wide else (row, column)
        points = frame[(frame["model"] == model) & (frame["algorithm"] == algorithm)]
        drawn = _sparsity_axes(ax, points, top)
        image = image if drawn is None else drawn
        names = {
            **{name: labels.model_title(name) for name in models},
            "original": "Original",
            "high": "High",
        }
        if row == rows[0]:
            ax.set_title(f"{names[column]}\n{ax.get_title()}", pad=3)
        if column == columns[0]:
            ax.set_ylabel(f"{names[row]}\n{ax.get_ylabel()}")
    figure.colorbar(image, ax=axes, shrink=0.6, label="Attention", location="right" if wide else "bottom")
    return figure


def _sparsity_axes(ax: Axes, points: pd.DataFrame, top: float) -> Any:
    """One map with its sparsity above, or nothing but the reason."""
    if points.empty:
        style.blank(ax, "no run")
        return None
    image = map_axes(ax, points, top)
    ax.set_title(f"sparsity {below_uniform(points):.3f}", pad=3)
    return image


def below_uniform(points: pd.DataFrame) -> float:
    """Share of a map's entries below 1/L: 0 for uniform attention, (L - 1)/L for one key a query."""
    return float((points["value"] < 1 / points["key"].nunique()).mean())
