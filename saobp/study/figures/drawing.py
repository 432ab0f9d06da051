"""One figure by its number in the paper, or by the name of one of our own: its data, its picture and its caption."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from matplotlib.figure import Figure

from saobp.study.figures import (
    correlations,
    costs,
    exam,
    gains,
    glance,
    grids,
    joint,
    learning,
    maps,
    seeds,
    strengths,
    style,
    tokens,
)  # fmt: skip
from saobp.study.tables import context

Record = dict[str, Any]
Number = int | str
CAPTIONS = Path(__file__).with_name("captions.yaml")


class FigureError(ValueError):
    """A figure that these records cannot draw; the message says which runs are missing."""


@dataclass(frozen=True)
class Drawing:
    """How one figure is made: its data from records, its picture from the data, the numbers of its caption."""

    data: Callable[[Sequence[Record]], pd.DataFrame]
    plot: Callable[[pd.DataFrame, float], Figure]
    numbers: Callable[[pd.DataFrame], dict[str, Any]]
    needs: str
    tasks: tuple[str, ...] = ()  # those its data are of, where they do not say
    algorithms: tuple[str, ...] = ()  # likewise; of all that were run if empty
    about: tuple[str | None, ...] = ()  # the parts of a record that it shows, where a record is of several
    several: bool = False  # whether it sets records of several profiles side by side


def _grid(number: int, plot: Callable[[pd.DataFrame, float], Figure] = grids.plot) -> Drawing:
    needs = f"attention records of task {grids.TASKS[number][0]}"
    return Drawing(partial(grids.data, number), plot, grids.numbers, needs, grids.TASKS[number])


def _performance(number: int, sizes: str) -> Drawing:
    needs = f"pretraining records with a curve, or fine-tuning and attention records of {sizes}"
    return Drawing(partial(correlations.data, number), correlations.plot, correlations.numbers, needs)


def _graph(number: int) -> Drawing:
    needs = "attention records of task race with a graph block"
    return Drawing(partial(joint.data, number), joint.plot, joint.numbers, needs, (joint.TASK,))


EXAM = ("a record of notebook 12 with a run that did not diverge", ("hops",))
FIGURES: dict[Number, Drawing] = {
    1: Drawing(maps.data, maps.plot, maps.numbers, "data/examples/minilm.json"),
    2: _graph(2),
    3: _performance(3, "BERT-Mini"),
    4: _grid(4),
    5: _graph(5),
    6: Drawing(
        partial(seeds.by_seed, measure="sparsity"), seeds.sparsity, seeds.numbers,
        "attention records of High and Original of one seed",
    ),
    7: _grid(7),
    8: _grid(8),
    9: _performance(9, "BERT-Small or BERT-Medium"),
    "glance": Drawing(
        glance.data, glance.plot, glance.numbers,
        "attention and pretraining records of High and Original and the exam of notebook 12", several=True,
    ),
    "gains": Drawing(
        gains.data, gains.plot, gains.numbers, "High and Original fine-tuned on the same task",
        algorithms=("high", "original"),
    ),
    "length": Drawing(
        costs.length_data, costs.length_figure, costs.numbers, "a cost record with lengths", about=("attention alone",)
    ),
    "hops": Drawing(exam.data, exam.plot, exam.numbers, EXAM[0], about=EXAM[1]),
    "learning": Drawing(learning.data, learning.plot, learning.numbers, EXAM[0], about=EXAM[1]),
    "strength": Drawing(
        strengths.data, strengths.plot, strengths.numbers,
        "a record of notebook 12 with a strength that did not diverge", about=("strengths",),
    ),
    "tokens": Drawing(
        tokens.data, tokens.plot, tokens.numbers, "a record of notebook 12 that followed tokens",
        about=("tokens",),
    ),
}  # fmt: skip
PAPER_FORMS: dict[Number, Drawing] = {f"{number}-paper": _grid(number, grids.paper_form) for number in grids.TASKS}
TITLES = {
    "glance": "The result at a glance", "gains": "Gains", "length": "Cost against length", "hops": "Accuracy by hops",
    "learning": "Learning curves", "strength": "Other strengths", "tokens": "Mass by token",
}  # fmt: skip


def stem(number: Number) -> str:
    """How the files of a figure are called: "figure4", "figure-hops"."""
    return f"figure-{number}" if number in TITLES else f"figure{number}"


def title(number: Number) -> str:
    """What a figure is called for readers: "Figure 4", "Accuracy by hops"."""
    return TITLES.get(number, f"Figure {number}")


def found(number: Number) -> Drawing:
    """The figure of a number or name, `PAPER_FORMS` among them. Raises ValueError for another."""
    if number in PAPER_FORMS:
        return PAPER_FORMS[number]
    if number not in FIGURES:
        others = ", ".join(map(str, (*TITLES, *PAPER_FORMS)))
        raise ValueError(f"number: the paper has no Figure {number}; choose 1 to 9 or {others}")
    return FIGURES[number]


def data(number: Number, records: Sequence[Record]) -> pd.DataFrame:
    """The numbers that Figure `number` shows, one row a point.

    Our own are those of `TITLES`. Raises ValueError for another number or records of several profiles,
    FigureError if no record has what it needs.
    """
    drawing = found(number)
    if not drawing.several:
        context.profile(records)
    frame = drawing.data(context.relevant(stem(number), records))
    if frame.empty:
        raise FigureError(f"{title(number)}: no run yet, it needs {drawing.needs}")
    return frame


def used(number: Number, records: Sequence[Record], frame: pd.DataFrame | None = None) -> list[Record]:
    """The records behind Figure `number`: its runs, or those of its stages, models, algorithms, seeds and tasks.

    What a record says of other tasks, their splits and departures, is left out. `frame`: its data, if known.
    """
    frame = data(number, records) if frame is None else frame
    chosen, drawing = context.relevant(stem(number), records), found(number)
    if number in TITLES:
        of = drawing.algorithms
        return [record for record in chosen if not of or record["parameters"].get("algorithm") in of]
    runs = set(frame["run"]) if "run" in frame else set()
    if runs and runs <= {record["name"] for record in chosen}:
        chosen = [record for record in chosen if record["name"] in runs]
    for key in {"model", "algorithm", "seed"} & set(frame.columns[frame.notna().all()]):
        shown = set(frame[key])
        chosen = [record for record in chosen if record["parameters"].get(key) in shown]
    tasks = set(frame["task"]) if "task" in frame else set(drawing.tasks)
    return context.of_tasks(chosen, tasks) if tasks else chosen


def figure(number: Number, records: Sequence[Record], *, width: float = style.PAGE) -> Figure:
    """Draw Figure `number` (1 to 9 or one of `TITLES`), at most `width` inches wide, from the records of one profile.

    Raises as `data` does, and ValueError for a width that no page has.
    """
    frame = data(number, records)
    with style.paper():
        return found(number).plot(frame, width)


def caption(number: Number, records: Sequence[Record], frame: pd.DataFrame | None = None) -> str:
    """What is drawn, and what it shows in numbers: the two sentences of `captions.yaml`, filled in."""
    frame = data(number, records) if frame is None else frame
    words = captions()[int(number[0]) if number in PAPER_FORMS else number]
    return style.minus(words.format(**found(number).numbers(frame)))


@cache
def captions() -> dict[Number, str]:
    """The captions of all figures, with a place for each number."""
    return yaml.safe_load(CAPTIONS.read_text(encoding="utf-8"))


def departures(number: Number, records: Sequence[Record], frame: pd.DataFrame | None = None) -> list[str]:
    """What differs from the paper's recipe in the runs that a figure shows and in their models' pretraining."""
    behind, about = with_pretraining(used(number, records, frame), records), found(number).about
    return context.departures(behind, parts=about)


def with_pretraining(chosen: Sequence[Record], records: Sequence[Record]) -> list[Record]:
    """The chosen records, after those of `records` that tell of the pretraining of their models."""
    names, models = {record["name"] for record in chosen}, {_model(record) for record in chosen}
    trained = [record for record in records if record["stage"] == "pretrain" and _model(record) in models]
    return [*(record for record in trained if record["name"] not in names), *chosen]


def _model(record: Record) -> tuple[Any, ...]:
    return tuple(record["parameters"].get(key) for key in ("model", "algorithm", "seed"))
