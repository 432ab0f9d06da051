"""One figure by its number in the paper, or by the name of one of our own: its data, its picture
and its caption.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from companion.figures import (
    by_seed,
    correlations,
    glance,
    grids,
    gtd_beside_graph_measures,
    maps,
    style,
)
from companion.figures.beyond_the_paper import (
    costs,
    decoders,
    dose,
    gains,
    hops,
    inserted,
    learning_rates,
)
from companion.records.schema import Record
from companion.setup import labels, paths
from companion.setup.studies import FRESH_ENCODERS
from companion.setup.tasks_and_metrics import GRAPHS_OF, TASKS
from companion.statistics import estimates, trajectories
from companion.tables import captions, render

Number = int | str
# columns of text in which anything may stand
FREE = ("model", "run", "study", "token", "name", "text", "device", "kernel")
# columns in which more may stand than in the tracked file
NAMES = {"algorithm": labels.ALGORITHMS, "task": TASKS}
# of a width in inches
Plot = Callable[[pd.DataFrame, float], Figure]


class FigureError(ValueError):
    """A figure that these records cannot draw; the message says which runs are missing."""


class Drawing(NamedTuple):
    """How one figure is made, from its data to its caption, and which records it reads."""

    data: Callable[[Sequence[Record]], pd.DataFrame]
    plot: Plot
    # of its caption
    numbers: Callable[[pd.DataFrame], dict[str, Any]]
    # none: it reads no record
    stages: tuple[str, ...] = ()
    # of a record's metrics: records without it are left out
    part: str = ""
    # all if empty, as below
    sizes: tuple[str, ...] = ()
    algorithms: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()

    def reads(self, record: Record) -> bool:
        """Whether the figure shows something of a record."""
        parameters, metrics = record["parameters"], record["metrics"]
        if record["stage"] not in self.stages:
            return False
        if self.part and not metrics.get(self.part):
            return False
        if self.sizes and labels.size(parameters["model"]) not in self.sizes:
            return False
        if self.algorithms and parameters.get("algorithm") not in self.algorithms:
            return False
        tasks = set(metrics.get("tasks") or [])
        if parameters.get("task"):
            tasks.add(parameters["task"])
        return not self.tasks or not tasks or not tasks.isdisjoint(self.tasks)


SIDES, TASK, FOLLOWED = by_seed.SIDES, (GRAPHS_OF,), tuple(trajectories.FOLLOWED)
RUNS = ("pretrain", "finetune", "attention")
_GRIDS = {
    number: Drawing(
        partial(grids.data, tasks), grids.plot, grids.numbers, ("attention",), tasks=tasks
    )
    for number, tasks in grids.GRIDS.items()
}
_GRAPH = partial(
    Drawing,
    gtd_beside_graph_measures.data,
    numbers=gtd_beside_graph_measures.numbers,
    stages=("attention",),
    part="graph",
    tasks=TASK,
)
_PERFORMANCE = partial(Drawing, correlations.data, correlations.plot, correlations.numbers, RUNS)
FIGURES: dict[Number, Drawing] = {
    1: Drawing(maps.data, maps.plot, maps.numbers),
    2: _GRAPH(plot=gtd_beside_graph_measures.original, algorithms=SIDES),
    3: _PERFORMANCE(sizes=("mini",), tasks=FOLLOWED),
    4: _GRIDS[4],
    5: _GRAPH(plot=gtd_beside_graph_measures.every),
    6: Drawing(
        partial(by_seed.sides, measure="sparsity"),
        by_seed.sparsity,
        by_seed.numbers,
        ("attention",),
        algorithms=SIDES,
    ),
    7: _GRIDS[7],
    8: _GRIDS[8],
    9: _PERFORMANCE(sizes=("small", "medium"), tasks=FOLLOWED),
    "differences": Drawing(
        partial(grids.data, grids.ALL_TASKS),
        grids.differences,
        grids.numbers,
        ("attention",),
        algorithms=SIDES,
    ),
    "glance": Drawing(glance.data, glance.plot, glance.numbers, ("attention",), algorithms=SIDES),
    "gains": Drawing(gains.data, gains.plot, gains.numbers, ("finetune",), algorithms=SIDES),
    "length": Drawing(costs.length_data, costs.length_figure, costs.numbers, ("cost",), "lengths"),
    "retrofit": Drawing(
        inserted.data, inserted.plot, inserted.numbers, ("retrofit-untrained",), "similarity"
    ),
    "decoders": Drawing(decoders.data, decoders.plot, decoders.numbers, ("decoder",), "leak"),
    "hops": Drawing(hops.ends, hops.plot_ends, hops.end_numbers, ("beyond", "hops"), "multihop"),
    "learning": Drawing(
        hops.curves, hops.plot_curves, hops.curve_numbers, ("beyond", "hops"), "multihop"
    ),
    "rates": Drawing(
        learning_rates.data, learning_rates.plot, learning_rates.numbers, ("learning",)
    ),
    "dose": Drawing(dose.data, dose.plot, dose.numbers, ("dose",), "cells"),
    "tokens": Drawing(
        maps.token_data,
        maps.plot_tokens,
        maps.token_numbers,
        ("beyond",),
        "tokens",
    ),
}
OUR_OWN = tuple(number for number in FIGURES if isinstance(number, str))


def stem(number: Number) -> str:
    """How the files of a figure are called: "figure4", "figure-hops"."""
    return f"figure-{number}" if isinstance(number, str) else f"figure{number}"


def words(number: Number) -> dict[str, str]:
    """What is said of a figure: "caption", with a place for each number, "title", and what it
    "needs".
    """
    return {"title": f"Figure {number}"} | captions.of(style.CAPTIONS)[number]


def lookup(number: Number) -> Drawing:
    """The figure of a number or name. Raises ValueError for another."""
    if number not in FIGURES:
        others = ", ".join((*OUR_OWN, "claims"))
        raise ValueError(f"number: the paper has no Figure {number}; choose 1 to 9 or {others}")
    return FIGURES[number]


def relevant(number: Number, records: Sequence[Record]) -> list[Record]:
    """The records that Figure `number` reads: of fresh seeds, where an algorithm has any."""
    chosen = [record for record in records if lookup(number).reads(record)]
    chosen = estimates.deciding(chosen, [FRESH_ENCODERS])
    # of the planned exam, which stands for notebook 12's
    exams = [record for record in chosen if record["stage"] == "hops"]
    return exams or chosen


def data(number: Number, records: Sequence[Record]) -> pd.DataFrame:
    """The numbers that Figure `number` shows, one row a point.

    Raises ValueError for another number or records of several studies, FigureError if no record has
    what it needs.
    """
    drawing, chosen = lookup(number), relevant(number, records)
    estimates.study_of(chosen)
    frame = pd.DataFrame()
    if chosen or not drawing.stages:
        frame = drawing.data(chosen)
    if frame.empty:
        text = words(number)
        raise FigureError(f"{text['title']}: no run yet, it needs {text['needs']}")
    return frame


def read(number: Number, file: Path) -> pd.DataFrame:
    """Read the numbers of a figure from somebody's CSV, which has the columns of the tracked one.

    Raises ValueError that names the file, its column and what may stand there.
    """
    lookup(number)
    # Figure 9 is Figure 3 of larger models, and not tracked
    needed = pd.read_csv(paths.figures() / f"{stem(3 if number == 9 else number)}.csv")
    try:
        # not unpacked: a small file may hold gigabytes
        frame = pd.read_csv(file, compression=None)
    except (OSError, ValueError) as error:
        raise ValueError(f"--data: {file} is no CSV that can be read: {error}") from None
    if lost := [name for name in needed if name not in frame]:
        raise ValueError(
            f"--data: {file} lacks the columns {', '.join(lost)} of {stem(number)}.csv"
        )
    if frame.empty:
        raise ValueError(f"--data: {file} has no rows below its header")
    for name in needed:
        if fault := _fault(frame[name], needed[name]):
            raise ValueError(f"--data: {file}, column {name}: {fault}")
    if "seed" in frame:
        frame = frame.astype({"seed": "Int64"})
    return frame


def _fault(column: pd.Series, tracked: pd.Series) -> str:
    """What is wrong in a column beside the tracked one of its name, empty if nothing."""
    filled = column.dropna()
    if len(filled) < len(column) and tracked.notna().all():
        return "a cell is empty; fill it"
    if not pd.api.types.is_numeric_dtype(tracked):
        allowed = {*tracked.dropna(), *NAMES.get(str(tracked.name), ())}
        unknown = [] if tracked.name in FREE else [word for word in filled if word not in allowed]
        return f"{unknown[0]!r} is none of {', '.join(sorted(allowed))}" if unknown else ""
    values = pd.to_numeric(filled, errors="coerce")
    bad = filled[~np.isfinite(values)]
    if len(bad):
        return f"{str(bad.iloc[0])!r} is no finite number"
    whole = tracked.name == "seed" or tracked.dtype.kind == "i"
    parts = filled[values % 1 != 0] if whole else filled[:0]
    return f"{str(parts.iloc[0])!r} is no whole number" if len(parts) else ""


def caption(number: Number, frame: pd.DataFrame) -> str:
    """What is drawn, and what its data show in numbers: the template of `captions.yaml`, filled
    in.
    """
    return render.minus(captions.filled(words(number)["caption"], **lookup(number).numbers(frame)))
