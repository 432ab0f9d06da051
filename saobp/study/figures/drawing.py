"""One figure by its number in the paper, or by the name of one of our own: first its data, then the picture of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from saobp.study.figures import correlations, costs, exam, gains, grids, joint, maps, readings, strengths, style
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
    task: str = ""  # the one its data are of, where they do not say
    algorithms: tuple[str, ...] = ()  # likewise; of all that were run if empty
    about: tuple[str, ...] = ("",)  # how the departures of what it shows begin, where a record is of more than that


def _grid(number: int, title: str) -> Drawing:
    caption = f"GTD and entropy by layer and head on {title} (refined matrix); equal curves lie on each other."
    needs = f"attention records of task {grids.TASKS[number]}"
    return Drawing(partial(grids.data, number), grids.plot, caption, needs, grids.TASKS[number])


GRAPH = "attention records of task race with a graph block"
MAPS = "attention records with example maps"
BEFORE_AFTER = (
    "The head of the last layer that the refinement moves most on one text, before and after, what changed, and the "
    "factor graph of one update."
)
ONE_HEAD = (
    "One head of the last layer under Original and High, of the first seed that has maps, each panel on its own scale."
)
POINTS = "pretraining records with a curve, or fine-tuning and attention records"
WITHIN = (
    "r is over the checkpoints of each run, the mean over runs in which both move; algorithms of one pretraining seed "
    "do not narrow its interval. Training moves both, and curves that both rise correlate though nothing ties them: no "
    "interval over checkpoints speaks against that. r_w is over runs, by the last checkpoint of those that have "
    "several, within algorithms and seeds. Table 6 and the claims take r over runs with "
    "attention from before fine-tuning, so theirs is another."
)
LENGTH = (
    "Forward and backward through four heads of 64, without dropout, by length; with the matrix held for the shorter "
    "lengths alone; bars: quartiles of the rounds, lowest and highest peak of the processes. The paper has no such "
    "figure."
)
HOPS = (
    "Accuracy on questions of a known number of hops; a dot is a seed, a mark the mean of the seeds, dashed: chance. "
    "The paper has no such figure."
)
STRENGTH = (
    "One model trained with High at each strength λ, on held-out text. Thick lines: means of the seeds; thin: single "
    "ones, where there are several; star, diamond: each head or layer learned its own. The paper has no such figure."
)
GAINS = (
    "What High adds to Original: the printed difference with the error of its items alone (one seed, unpaired, 95 %), "
    "and ours with its 95 % interval. The paper has no such figure."
)
HEADS = "A point is a head on a sample; those of one run are not independent, so r has no interval here."
FIGURES = {
    1: Drawing(maps.before_after_data, maps.before_after, BEFORE_AFTER, MAPS),
    2: Drawing(
        partial(joint.data, 2), joint.plot, f"GTD against clustering and betweenness. {HEADS}", GRAPH, joint.TASK
    ),
    3: Drawing(
        partial(correlations.data, 3),
        correlations.plot,
        f"GTD and performance, BERT-Mini. {WITHIN}",
        f"{POINTS} of BERT-Mini",
    ),
    4: _grid(4, "RACE-Middle"),
    5: Drawing(
        partial(joint.data, 5),
        joint.plot,
        f"GTD against graph measures, one algorithm each. {HEADS}",
        GRAPH,
        joint.TASK,
    ),
    6: Drawing(maps.sparsity_data, maps.sparsity, ONE_HEAD, MAPS),
    7: _grid(7, "SQuAD"),
    8: _grid(8, "SST2"),
    9: Drawing(
        partial(correlations.data, 9),
        correlations.plot,
        f"GTD and performance, larger sizes. {WITHIN}",
        f"{POINTS} of BERT-Small or BERT-Medium",
    ),
    "gains": Drawing(
        gains.data,
        gains.plot,
        GAINS,
        "High and Original fine-tuned on the same task",
        algorithms=("high", "original"),
    ),
    "length": Drawing(
        costs.length_data,
        costs.length_figure,
        LENGTH,
        "a cost record with lengths",
        about=("attention alone",),
    ),
    "hops": Drawing(
        exam.data,
        exam.plot,
        HOPS,
        "a record of notebook 12 with a run that did not diverge",
        about=("beyond the paper", "questions of known hops"),
    ),
    "strength": Drawing(
        strengths.data,
        strengths.plot,
        STRENGTH,
        "a record of notebook 12 with a strength that did not diverge",
        about=("beyond the paper", "other strengths"),
    ),
}
TITLES = {"gains": "Gains", "length": "Cost against length", "hops": "Accuracy by hops", "strength": "Other strengths"}


def stem(number: int | str) -> str:
    """How the files of a figure are called: "figure4", "figure-hops"."""
    return f"figure-{number}" if number in TITLES else f"figure{number}"


def title(number: int | str) -> str:
    """What a figure is called for readers: "Figure 4", "Accuracy by hops"."""
    return TITLES.get(number, f"Figure {number}")


def data(number: int | str, records: Sequence[Record]) -> pd.DataFrame:
    """The numbers that Figure `number` shows, one row a point.

    Our own are those of `TITLES`. Raises ValueError for another number or records of several profiles,
    FigureError if no record has what it needs.
    """
    if number not in FIGURES:
        raise ValueError(f"number: the paper has no Figure {number}; choose 1 to 9 or {', '.join(TITLES)}")
    context.profile(records)
    frame = FIGURES[number].data(context.relevant(stem(number), records))
    if frame.empty:
        raise FigureError(f"{title(number)}: no run yet, it needs {FIGURES[number].needs}")
    return frame


def used(number: int | str, records: Sequence[Record]) -> list[Record]:
    """The records behind Figure `number`: its runs, or those of its stages, models, algorithms, seeds and tasks.

    What a record says of other tasks, their splits and departures, is left out.
    """
    frame, chosen = data(number, records), context.relevant(stem(number), records)
    if number in TITLES:
        of = FIGURES[number].algorithms
        return [record for record in chosen if not of or record["parameters"].get("algorithm") in of]
    named = {record["name"] for record in chosen}
    if "run" in frame and set(frame["run"]) <= named:
        chosen = [record for record in chosen if record["name"] in set(frame["run"])]
    for key in {"model", "algorithm", "seed"} & set(frame.columns[frame.notna().all()]):
        chosen = [record for record in chosen if record["parameters"].get(key) in set(frame[key])]
    tasks = set(frame["task"]) if "task" in frame else {*filter(None, [FIGURES[number].task])}
    return context.of_tasks(chosen, tasks) if tasks else chosen


def figure(number: int | str, records: Sequence[Record], *, width: float = style.PAGE) -> Figure:
    """Draw Figure `number` (1 to 9 or one of `TITLES`), `width` inches wide, from the records of one profile.

    Raises as `data` does, and ValueError for a width that no page has.
    """
    frame = data(number, records)
    with style.paper():
        return FIGURES[number].plot(frame, width)


def caption(number: int | str, records: Sequence[Record]) -> str:
    """What the figure is of, what it shows, of which profile and data, and all that differs from the paper's recipe.

    `records`: those of one profile; what a model's pretraining differs in is named where its record is among them.
    """
    shown = readings.reading(number, data(number, records))
    behind = used(number, records)
    differs = context.notes([_about(record, FIGURES[number].about) for record in with_pretraining(behind, records)])
    return " ".join([FIGURES[number].caption, shown, context.describe(behind), *differs])


def _about(record: Record, begins: tuple[str, ...]) -> Record:
    """A record with those of its departures alone that begin so."""
    return record | {"departures": [words for words in record.get("departures") or [] if words.startswith(begins)]}


def with_pretraining(chosen: Sequence[Record], records: Sequence[Record]) -> list[Record]:
    """The chosen records, after those of `records` that tell of the pretraining of their models."""
    names, models = {record["name"] for record in chosen}, {_model(record) for record in chosen}
    trained = [record for record in records if record["stage"] == "pretrain" and _model(record) in models]
    return [*(record for record in trained if record["name"] not in names), *chosen]


def _model(record: Record) -> tuple[Any, ...]:
    return tuple(record["parameters"].get(key) for key in ("model", "algorithm", "seed"))
