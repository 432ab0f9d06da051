"""Evidence on scores: statements Q01-Q05, Q07 and Q09."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from saobp.study.paper import numbers
from saobp.study.setup import labels
from saobp.study.setup.benchmarks import TASKS
from saobp.study.statistics import Difference, Estimate, estimates, task_scores
from saobp.study.tables.evidence import Looks, Part

Record = dict[str, Any]
COLUMNS = {"GLUE": estimates.GLUE, "HellaSwag": ("hellaswag",), "RACE-Middle": ("race",), "SQuAD": ("squad",)}
BENCHMARKS = tuple(task for tasks in COLUMNS.values() for task in tasks)  # of Table 2
STEPS = tuple(zip(labels.SIZES, labels.SIZES[1:]))  # from a size to the next


@dataclass(frozen=True)
class Gap:
    """What one algorithm gains over another: a model, a task, the difference, and that of each seed."""

    model: str
    task: str
    difference: Difference
    by_seed: dict[tuple[Any, ...], float]


def _gap(records: Sequence[Record], task: str, ours: tuple[str, str], theirs: tuple[str, str]) -> list[Gap]:
    """The gap of two (model, algorithm) on a task; empty where a side has no run."""
    sides = [task_scores.scores(records, *side, task) for side in (ours, theirs)]
    if not all(sides):
        return []
    return [Gap(ours[0], task, estimates.score_difference(*sides), estimates.seed_differences(*sides))]


def _gaps(records: Sequence[Record], tasks: Sequence[str], ours: str = "high", theirs: str = "original") -> list[Gap]:
    """The gaps of all models on these tasks, where both sides have runs."""
    models = estimates.models(records)
    return [
        gap for model in models for task in tasks for gap in _gap(records, task, (model, ours), (model, theirs))
    ]  # fmt: skip


def _own(gaps: list[Gap]) -> list[Gap]:
    """The gaps of the paper's own sizes; those of stand-ins where there are no others."""
    return [gap for gap in gaps if not labels.is_twin(gap.model)] or gaps


def _of_size(gaps: list[Gap], size: str) -> list[Gap]:
    return [gap for gap in gaps if labels.size(gap.model) == size]


def _pool(gaps: list[Gap], weights: Sequence[float] | None = None) -> Estimate | None:
    """Their mean, or their sum by weights, within each seed; None of no gaps."""
    pairs = [(gap.difference, gap.by_seed) for gap in gaps]
    return estimates.pool(pairs, weights, [gap.task for gap in gaps]) if gaps else None


def _part(name: str, gaps: list[Gap], weights: Sequence[float] | None = None, least: float = 0.0) -> Part:
    """One part from the gaps that it needs, none of them where it was not run."""
    return Part(name, _pool(gaps, weights), least=least, twin=any(labels.is_twin(gap.model) for gap in gaps))


def _titles(gaps: list[Gap]) -> str:
    """The models of some gaps, for readers."""
    return labels.joined(list(dict.fromkeys(labels.model_title(gap.model) for gap in gaps)))


def _column(gaps: list[Gap], size: str, column: str) -> list[Gap]:
    """A size's gaps of a column of Table 2; empty unless all its tasks were run."""
    found = [gap for gap in _of_size(gaps, size) if gap.task in COLUMNS[column]]
    return found if len(found) == len(COLUMNS[column]) else []


def _over(gaps: list[Gap]) -> str:
    return f"mean over the sizes that were run ({_titles(gaps)})"


def _improves(records: Sequence[Record]) -> Looks:
    """Every column of Table 2 at every size; GLUE is the mean of its nine tasks."""
    gaps, parts = _gaps(records, BENCHMARKS), []
    for size in labels.SIZES:
        for column in COLUMNS:
            found = _column(gaps, size, column)
            parts.append(_part(f"{_titles(found)} {column}", found))
    return Looks("High − Original, points:", parts)


def _narrows(records: Sequence[Record]) -> Looks:
    """For each step to the next size: the smaller one's gap minus the larger one's, a mean over columns of both."""
    gaps, parts = _gaps(records, BENCHMARKS), []
    for ends in STEPS:
        cells = {column: [_column(gaps, size, column) for size in ends] for column in COLUMNS}
        cells = {column: found for column, found in cells.items() if all(found)}
        weighted = [
            (gap, sign / len(cells) / len(found))
            for pair in cells.values()
            for sign, found in zip((1, -1), pair)
            for gap in found
        ]
        here, weights = [gap for gap, _ in weighted], [weight for _, weight in weighted]
        name = " − ".join(size.capitalize() for size in ends) + f" ({', '.join(cells)})"
        parts.append(_part(name, here, weights))
    return Looks("gap High − Original of a size − that of the next, points, mean over columns of Table 2:", parts)


def _mini_reaches_small(records: Sequence[Record]) -> Looks:
    """Mini's High against Small's Original; "comparable" is no further below than the paper's own numbers are."""
    sizes = {labels.size(model): model for model in estimates.models(records)}
    sides = (sizes.get("mini", ""), "high"), (sizes.get("small", ""), "original")
    gaps = {task: _gap(records, task, *sides) for task in ("mnli", "qqp")}
    below, twin = _comparable([TASKS[task].title for task in gaps]), any(labels.is_twin(side[0]) for side in sides)
    parts = [Part(TASKS[task].title, _pool(found), least=-below, twin=twin) for task, found in gaps.items()]
    word = f"comparable: at most {below:.2f} below, the most that the paper gives this name"
    what = f"Mini High − Small Original, points ({word}):"
    return Looks(what, parts)


def _comparable(tasks: Sequence[str]) -> float:
    """How far, in points, Table 8 prints Mini's High below Small's Original at most; the paper gives no margin."""
    paper = numbers.load()
    sides = {"Mini": "High", "Small": "Original"}
    cells = [[paper.value(8, model=m, algorithm=a, metric=task) for m, a in sides.items()] for task in tasks]
    return max(small - mini for mini, small in cells)


def _long_range(records: Sequence[Record]) -> Looks:
    """On each of the two tasks a gain, and one above the mean gain on the other tasks; means over sizes."""
    gaps = _own(_gaps(records, BENCHMARKS))
    others = [gap for gap in gaps if gap.task not in ("qnli", "race")]
    parts = []
    for task in ("qnli", "race"):
        here, title = [gap for gap in gaps if gap.task == task], TASKS[task].title
        parts += [_part(title, here), _part(f"{title} − other tasks", *_contrast(here, others))]
    return Looks(f"High − Original, points, {_over(gaps)}:", parts)


def _contrast(here: list[Gap], others: list[Gap]) -> tuple[list[Gap], list[float]]:
    """The gaps on a task and on the others of the same models, with weights that give the mean of what is between."""
    rest = {gap.model: [other for other in others if other.model == gap.model] for gap in here}
    own = [gap for gap in here if rest[gap.model]]
    weighted = [(gap, 1 / len(own)) for gap in own]
    weighted += [(other, -1 / len(own) / len(rest[gap.model])) for gap in own for other in rest[gap.model]]
    return [gap for gap, _ in weighted], [weight for _, weight in weighted]


def _suited(records: Sequence[Record]) -> Looks:
    """ElemMul above High on SQuAD and SST2, below it on RACE-Middle and MNLI; means over sizes."""
    gaps = _own(_gaps(records, ("squad", "sst2", "race", "mnli"), "elemmul", "high"))
    parts = []
    for task, sign in {"squad": 1, "sst2": 1, "race": -1, "mnli": -1}.items():
        here = [gap for gap in gaps if gap.task == task]
        parts.append(Part(TASKS[task].title, _pool(here), sign, twin=any(labels.is_twin(gap.model) for gap in here)))
    return Looks(f"ElemMul − High, points, {_over(gaps)}:", parts)


def _regularizers(records: Sequence[Record]) -> Looks:
    """High above either regulariser on either task; means over sizes."""
    parts, seen = [], []
    for name in ("entropy_reg", "eigen_reg"):
        gaps = _own(_gaps(records, ("qnli", "squad"), theirs=name))
        for task in ("qnli", "squad"):
            here = [gap for gap in gaps if gap.task == task]
            parts.append(_part(f"{labels.algorithm_title(name)} {TASKS[task].title}", here))
        seen += gaps
    return Looks(f"High − regulariser, points, {_over(seen)}:", parts)


def _glue(records: Sequence[Record]) -> Looks:
    """Each of the nine tasks of Table 8, a mean over sizes."""
    gaps = _own(_gaps(records, estimates.GLUE))
    parts = [_part(TASKS[task].title, [gap for gap in gaps if gap.task == task]) for task in estimates.GLUE]
    return Looks(f"High − Original, points, {_over(gaps)}:", parts)


JUDGES = {
    "Q01": _improves, "Q02": _narrows, "Q03": _mini_reaches_small, "Q04": _long_range, "Q05": _suited,
    "Q07": _regularizers, "Q09": _glue,
}  # fmt: skip
