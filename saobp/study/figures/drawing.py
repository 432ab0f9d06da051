"""One figure by its number: first its data, then the picture of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from saobp.study.figures import correlations, grids, joint, maps, readings, style
from saobp.study.tables import context

Record = dict[str, Any]


class FigureError(ValueError):
    """A figure that these records cannot draw; the message says which runs are missing."""


@dataclass(frozen=True)
class Drawing:
    """How one figure is made: its data from records, its picture from the data, and what it needs."""

    data: Callable[[Sequence[Record]], pd.DataFrame]
    plot: Callable[[pd.DataFrame, float], Figure]
    caption: str
    needs: str


def _grid(number: int, title: str) -> Drawing:
    caption = f"GTD and entropy by layer and head on {title} (refined matrix); equal curves lie on each other."
    needs = f"attention records of task {grids.TASKS[number]}"
    return Drawing(partial(grids.data, number), grids.plot, caption, needs)


GRAPH = "attention records of task race with a graph block"
MAPS = "attention records with example maps"
BEFORE_AFTER = "One head before and after the refinement, what changed, and the factor graph of one update."
ONE_HEAD = "One head of the last layer under Original and High, each panel on its own scale."
POINTS = "pretraining records with a curve, or fine-tuning and attention records"
WITHIN = "r is over the checkpoints of each run; r_w over runs, centred by algorithm."
HEADS = "A point is a head on a sample; those of one run are not independent, so r has no interval here."
FIGURES = {
    1: Drawing(maps.before_after_data, maps.before_after, BEFORE_AFTER, MAPS),
    2: Drawing(partial(joint.data, 2), joint.plot, f"GTD against clustering and betweenness. {HEADS}", GRAPH),
    3: Drawing(
        partial(correlations.data, 3),
        correlations.plot,
        f"GTD and performance, BERT-Mini. {WITHIN}",
        POINTS,
    ),
    4: _grid(4, "RACE-Middle"),
    5: Drawing(partial(joint.data, 5), joint.plot, f"GTD against graph measures, one algorithm each. {HEADS}", GRAPH),
    6: Drawing(maps.sparsity_data, maps.sparsity, ONE_HEAD, MAPS),
    7: _grid(7, "SQuAD"),
    8: _grid(8, "SST2"),
    9: Drawing(
        partial(correlations.data, 9),
        correlations.plot,
        f"GTD and performance, larger sizes. {WITHIN}",
        POINTS,
    ),
}


def data(number: int, records: Sequence[Record]) -> pd.DataFrame:
    """The numbers that Figure `number` shows, one row a point.

    Raises ValueError for another number or records of several profiles, FigureError if no record has what
    it needs.
    """
    if number not in FIGURES:
        raise ValueError(f"number: the paper has no Figure {number}; choose 1 to 9")
    context.profile(records)
    frame = FIGURES[number].data(context.relevant(f"figure{number}", records))
    if frame.empty:
        raise FigureError(f"Figure {number}: no run yet, it needs {FIGURES[number].needs}")
    return frame


def figure(number: int, records: Sequence[Record], *, width: float = style.PAGE) -> Figure:
    """Draw Figure `number` (1 to 9), `width` inches wide, from the records of one profile.

    Raises as `data` does, and ValueError for a width that no page has.
    """
    frame = data(number, records)
    with style.paper():
        return FIGURES[number].plot(frame, width)


def caption(number: int, records: Sequence[Record]) -> str:
    """What the figure is of, what it shows, and of which profile and data."""
    shown = readings.reading(number, data(number, records))
    return f"{FIGURES[number].caption} {shown} {context.describe(records)}"
