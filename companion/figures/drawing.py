"""One figure by its number in the paper, or by the name of one of our own: its data, its picture
and its caption.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.figure import Figure

from companion.figures import by_seed, correlations, grids, gtd_beside_graph_measures, maps, style
from companion.figures.beyond_the_paper import (
    costs,
    decoders,
    dose,
    gains,
    hops,
    inserted,
    learning_rates,
    strengths,
)
from companion.records.schema import Record
from companion.setup import labels
from companion.setup.tasks_and_metrics import GRAPHS_OF
from companion.statistics import estimates, trajectories
from companion.tables import captions, render

Number = int | str
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
    # whether it sets records of several studies side by side
    several: bool = False

    def reads(self, record: Record) -> bool:
        """Whether the figure shows something of a record."""
        given, metrics = record["parameters"], record["metrics"]
        tasks = {*(metrics.get("tasks") or {}), *filter(None, [given.get("task")])}
        return (
            record["stage"] in self.stages
            and (not self.part or bool(metrics.get(self.part)))
            and (not self.sizes or labels.size(given["model"]) in self.sizes)
            and (not self.algorithms or given.get("algorithm") in self.algorithms)
            and (not self.tasks or not tasks or not tasks.isdisjoint(self.tasks))
        )


SIDES, TASK, FOLLOWED = by_seed.SIDES, (GRAPHS_OF,), tuple(trajectories.FOLLOWED)
RUNS = ("pretrain", "finetune", "attention")
_GRIDS = {
    number: Drawing(
        partial(grids.data, tasks), grids.plot, grids.numbers, ("attention",), tasks=tasks
    )
    for number, tasks in grids.GRIDS.items()
}
_GRAPH = (
    gtd_beside_graph_measures.plot,
    gtd_beside_graph_measures.numbers,
    ("attention",),
    "graph",
)
_PERFORMANCE = partial(Drawing, correlations.data, correlations.plot, correlations.numbers, RUNS)
FIGURES: dict[Number, Drawing] = {
    1: Drawing(maps.data, maps.plot, maps.numbers),
    2: Drawing(gtd_beside_graph_measures.points, *_GRAPH, algorithms=("original",), tasks=TASK),
    3: _PERFORMANCE(sizes=("mini",), tasks=FOLLOWED),
    4: _GRIDS[4],
    5: Drawing(gtd_beside_graph_measures.binned, *_GRAPH, tasks=TASK),
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
    "glance": Drawing(
        by_seed.headlines,
        by_seed.plot_headlines,
        by_seed.headline_numbers,
        ("pretrain", "attention", "beyond", "hops"),
        several=True,
    ),
    "gains": Drawing(
        gains.data, gains.plot, gains.numbers, ("pretrain", "finetune"), algorithms=SIDES
    ),
    "length": Drawing(costs.length_data, costs.length_figure, costs.numbers, ("cost",), "lengths"),
    "retrofit": Drawing(
        inserted.data, inserted.plot, inserted.numbers, ("retrofit-untrained",), "similarity"
    ),
    "decoders": Drawing(decoders.data, decoders.plot, decoders.numbers, ("decoder",), "leak"),
    "hops": Drawing(hops.ends, hops.plot_ends, hops.end_numbers, ("beyond",), "multihop"),
    "learning": Drawing(hops.curves, hops.plot_curves, hops.curve_numbers, ("beyond",), "multihop"),
    "rates": Drawing(
        learning_rates.data, learning_rates.plot, learning_rates.numbers, ("learning",)
    ),
    "strength": Drawing(
        lambda found: strengths.of(found[0]["metrics"]["strengths"]),
        strengths.plot,
        strengths.numbers,
        ("beyond",),
        "strengths",
    ),
    "dose": Drawing(dose.data, dose.plot, dose.numbers, ("dose",), "cells"),
    "tokens": Drawing(
        lambda found: pd.DataFrame(found[0]["metrics"]["tokens"]),
        maps.plot_tokens,
        maps.token_numbers,
        ("beyond",),
        "tokens",
    ),
}
OUR_OWN = tuple(number for number in FIGURES if isinstance(number, str))
PAPER_FORMS = {
    f"{number}-paper": drawing._replace(plot=grids.paper_form) for number, drawing in _GRIDS.items()
}


def stem(number: Number) -> str:
    """How the files of a figure are called: "figure4", "figure-hops"."""
    return f"figure-{number}" if number in OUR_OWN else f"figure{number}"


def words(number: Number) -> dict[str, str]:
    """What is said of a figure: "caption", with a place for each number, "title", and what it
    "needs".
    """
    said = captions.of(style.CAPTIONS)
    return {"title": f"Figure {number}"} | said[int(number[0]) if number in PAPER_FORMS else number]


def found(number: Number) -> Drawing:
    """The figure of a number or name, `PAPER_FORMS` among them. Raises ValueError for another."""
    every = FIGURES | PAPER_FORMS
    if number not in every:
        others = ", ".join((*OUR_OWN, *PAPER_FORMS, "claims"))
        raise ValueError(f"number: the paper has no Figure {number}; choose 1 to 9 or {others}")
    return every[number]


def relevant(number: Number, records: Sequence[Record]) -> list[Record]:
    """The records that Figure `number` reads."""
    return [record for record in records if found(number).reads(record)]


def data(number: Number, records: Sequence[Record]) -> pd.DataFrame:
    """The numbers that Figure `number` shows, one row a point.

    Raises ValueError for another number or records of several studies, FigureError if no record has
    what it needs.
    """
    drawing, chosen = found(number), relevant(number, records)
    if not drawing.several:
        estimates.study_of(chosen)
    frame = drawing.data(chosen) if chosen or not drawing.stages else pd.DataFrame()
    if frame.empty:
        raise FigureError(
            f"{words(number)['title']}: no run yet, it needs {words(number)['needs']}"
        )
    return frame


def caption(number: Number, frame: pd.DataFrame) -> str:
    """What is drawn, and what its data show in numbers: the template of `captions.yaml`, filled
    in.
    """
    return render.minus(captions.filled(words(number)["caption"], **found(number).numbers(frame)))
