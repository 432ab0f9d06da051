"""One figure by its number in the paper, or by the name of one of our own: its data, its picture and its caption."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from saobp.study.figures import by_seed, correlations, grids, gtd_beside_graph_measures, maps, style
from saobp.study.figures.of_our_own import costs, decoders, gains, hops, inserted, strengths
from saobp.study.setup import labels
from saobp.study.setup.schema import Record
from saobp.study.statistics import trajectories
from saobp.study.tables import context, render

Number = int | str
CAPTIONS = Path(__file__).with_name("captions.yaml")


class FigureError(ValueError):
    """A figure that these records cannot draw; the message says which runs are missing."""


@dataclass(frozen=True)
class Drawing:
    """How one figure is made, from its data to its caption, and which records it reads."""

    data: Callable[[Sequence[Record]], pd.DataFrame]
    plot: Callable[[pd.DataFrame, float], Figure]
    numbers: Callable[[pd.DataFrame], dict[str, Any]]  # of its caption
    needs: str  # said where there are none
    stages: tuple[str, ...] = ()
    part: str = ""  # of a record's metrics: records without it are left out
    sizes: tuple[str, ...] = ()  # all if empty, as below
    algorithms: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    several: bool = False  # whether it sets records of several studies side by side

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


def _of(module: ModuleType, needs: str, stages: tuple[str, ...] = (), part: str = "", **only: Any) -> Drawing:
    return Drawing(module.data, module.plot, module.numbers, needs, stages, part, **only)


def _grid(number: int, plot: Callable[[pd.DataFrame, float], Figure] = grids.plot) -> Drawing:
    tasks = grids.GRIDS[number]
    needs = f"attention records of task {tasks[0]}"
    return Drawing(partial(grids.data, tasks), plot, grids.numbers, needs, ("attention",), tasks=tasks)


def _performance(title: str, *sizes: str) -> Drawing:
    needs = f"pretraining records with a curve, or fine-tuning and attention records of {title}"
    stages = ("pretrain", "finetune", "attention")
    return _of(correlations, needs, stages, sizes=sizes, tasks=tuple(trajectories.FOLLOWED))


def _graph(data: Callable[[Sequence[Record]], pd.DataFrame], *algorithms: str) -> Drawing:
    needs = "attention records of task race with a graph block"
    by = gtd_beside_graph_measures
    return Drawing(data, by.plot, by.numbers, needs, ("attention",), algorithms=algorithms, tasks=(by.TASK,))


EXAM = ("a record of notebook 12 with a run that did not diverge", ("beyond",), "multihop")
SIDES = ("original", "high")
FIGURES: dict[Number, Drawing] = {
    1: _of(maps, "data/examples/minilm.json"),
    2: _graph(gtd_beside_graph_measures.points, "original"),
    3: _performance("BERT-Mini", "mini"),
    4: _grid(4),
    5: _graph(gtd_beside_graph_measures.binned),
    6: Drawing(
        partial(by_seed.sides, measure="sparsity"), by_seed.sparsity, by_seed.numbers,
        "attention records of High and Original of one seed", ("attention",), algorithms=SIDES,
    ),
    7: _grid(7),
    8: _grid(8),
    9: _performance("BERT-Small or BERT-Medium", "small", "medium"),
    "glance": Drawing(
        by_seed.headlines, by_seed.plot_headlines, by_seed.headline_numbers,
        "attention and pretraining records of High and Original and the exam of notebook 12",
        ("pretrain", "attention", "beyond", "hops"), several=True,
    ),
    "gains": _of(gains, "High and Original fine-tuned on the same task", ("pretrain", "finetune"), algorithms=SIDES),
    "length": Drawing(
        costs.length_data, costs.length_figure, costs.numbers, "a cost record with lengths", ("cost",)
    ),
    "retrofit": _of(inserted, "the record of notebook 13's pairs", ("retrofit-untrained",)),
    "decoders": _of(decoders, "decoder records of Original, High and High with all rows", ("decoder",), "leak"),
    "hops": Drawing(hops.ends, hops.plot_ends, hops.end_numbers, *EXAM),
    "learning": Drawing(hops.curves, hops.plot_curves, hops.curve_numbers, *EXAM),
    "strength": _of(
        strengths, "a record of notebook 12 with a strength that did not diverge", ("beyond",), "strengths"
    ),
    "tokens": Drawing(
        maps.tokens, maps.plot_tokens, maps.token_numbers,
        "a record of notebook 12 that followed tokens", ("beyond",), "tokens",
    ),
}  # fmt: skip
PAPER_FORMS: dict[Number, Drawing] = {f"{number}-paper": _grid(number, grids.paper_form) for number in grids.GRIDS}
OUR_TITLES = {
    "glance": "The result at a glance", "gains": "Gains", "length": "Cost against length",
    "retrofit": "A step without training", "decoders": "Decoders", "hops": "Accuracy by hops",
    "learning": "Learning curves", "strength": "Other strengths", "tokens": "Mass by token",
}  # fmt: skip


def stem(number: Number) -> str:
    """How the files of a figure are called: "figure4", "figure-hops"."""
    return f"figure-{number}" if number in OUR_TITLES else f"figure{number}"


def title(number: Number) -> str:
    """What a figure is called for readers: "Figure 4", "Accuracy by hops"."""
    return OUR_TITLES.get(number, f"Figure {number}")


def found(number: Number) -> Drawing:
    """The figure of a number or name, `PAPER_FORMS` among them. Raises ValueError for another."""
    if number in PAPER_FORMS:
        return PAPER_FORMS[number]
    if number not in FIGURES:
        others = ", ".join(map(str, (*OUR_TITLES, *PAPER_FORMS)))
        raise ValueError(f"number: the paper has no Figure {number}; choose 1 to 9 or {others}")
    return FIGURES[number]


def relevant(number: Number, records: Sequence[Record]) -> list[Record]:
    """The records that Figure `number` reads."""
    return [record for record in records if found(number).reads(record)]


def data(number: Number, records: Sequence[Record]) -> pd.DataFrame:
    """The numbers that Figure `number` shows, one row a point.

    Our own are those of `OUR_TITLES`. Raises ValueError for another number or records of several profiles,
    FigureError if no record has what it needs.
    """
    drawing, chosen = found(number), relevant(number, records)
    if not drawing.several:
        context.profile(chosen)
    frame = drawing.data(chosen)
    if frame.empty:
        raise FigureError(f"{title(number)}: no run yet, it needs {drawing.needs}")
    return frame


def figure(
    number: Number, records: Sequence[Record], *, width: float = style.PAGE, frame: pd.DataFrame | None = None
) -> Figure:
    """Draw Figure `number` (1 to 9 or one of `OUR_TITLES`), at most `width` inches wide, from one profile's records.

    `frame`: its data, if known. Raises as `data` does, and ValueError for a width that no page has.
    """
    frame = data(number, records) if frame is None else frame
    with style.paper():
        return found(number).plot(frame, width)


def caption(number: Number, records: Sequence[Record], frame: pd.DataFrame | None = None) -> str:
    """What is drawn, and what it shows in numbers: the two sentences of `captions.yaml`, filled in."""
    frame = data(number, records) if frame is None else frame
    words = render.captions(CAPTIONS)[int(number[0]) if number in PAPER_FORMS else number]
    return render.minus(words.format(**found(number).numbers(frame)))
