"""Measurements of scores: what one algorithm adds to another by benchmark, and a decoder's
zero-shot accuracy.
"""

from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
import pandas as pd

from companion.records.schema import Record
from companion.setup import labels
from companion.setup.tasks_and_metrics import GLUE, PRINTED, TASKS
from companion.statistics import (
    Error,
    Estimate,
    estimates,
    mean_interval,
    seed_variance,
    task_scores,
)
from companion.statistics.seeds import SIDES
from companion.tables.scores import COLUMNS
from companion.verdicts.claims_and_measurements import Measurement, measured
from companion.verdicts.studies import Studies

GAINS_ON = {"glue": ("GLUE", GLUE)} | {
    task: (TASKS[task].title, (task,)) for task in ("hellaswag", "race", "squad")
}
LENT = "one seed; items, and the spread over seeds of this study's other tasks"
CONSTANT = "constant predictions on both sides: excluded"


class Scores:
    """The differences of one study and model between two algorithms, and how far seeds lie apart in
    it.
    """

    def __init__(self, study: str, model: str, runs: Sequence[Record], sides: Sequence[str]):
        self.study, self.model, self.runs, self.constant = study, model, runs, []
        gaps, errors = {}, {}
        for task in TASKS:
            ours, theirs = (task_scores.scores(runs, model, name, task) for name in sides)
            if ours and theirs and all(run.constant for run in ours + theirs):
                self.constant.append(task)
            elif ours and theirs and (gap := estimates.score_difference(ours, theirs)):
                found = estimates.seed_differences(ours, theirs)
                gaps[task] = (
                    pd.Series([*found.values()], [seed for seed, _ in found])
                    .groupby(level=0)
                    .mean()
                )
                errors[task] = np.nan_to_num(gap.over_items)
        # by seed and task
        self.gaps = pd.DataFrame(gaps)
        # over items, by task: what the seeds share, and that of their mean
        self.errors = pd.DataFrame(errors)
        several = [cell.dropna().tolist() for _, cell in self.gaps.items() if cell.count() > 1]
        self.spread = seed_variance(several) if several else None

    def measure(
        self,
        part: str,
        weights: dict[str, float],
        paper: float | None = None,
        also: str = "",
        key: str = "",
    ) -> list[Measurement]:
        """Measure a weighted sum of tasks over the seeds that have all of them; nothing where a
        task has no run.

        The errors over the items of different tasks are independent. One seed borrows the spread
        over seeds that the tasks of this study show, as if tasks were independent.
        """
        tasks, by = [*weights], pd.Series(weights)
        values = (self.gaps.reindex(columns=tasks) * by).sum(axis=1, skipna=False).dropna().tolist()
        if not values:
            return []
        items, least = np.linalg.norm(self.errors[tasks] * by, axis=1).tolist()
        if len(values) > 1:
            error, method = (
                mean_interval(values, item_error=items, least=least).error,
                "seeds and items, paired",
            )
        elif self.spread:
            variance, freedom = self.spread
            error, method = (
                Error.of(float(np.linalg.norm(by)) * variance**0.5, freedom, items),
                LENT,
            )
        else:
            error, method = None, "one seed and no other: no interval"
        found = Estimate.of(float(np.mean(values)), error, len(values))
        facts = {"key": key, "runs": self.runs, "method": method, "paper": paper}
        return [measured(self.study, self.model, found, part, also, **facts)]

    def alone(self, task: str, paper: float | None) -> list[Measurement]:
        """Measure one task; one on which both sides give one answer to all is shown, and not
        counted.
        """
        if task not in self.constant:
            return self.measure(TASKS[task].title, {task: 1.0}, paper, key=task)
        none = Estimate(0.0, 0.0, 0.0, 0)
        facts = {
            "interval": lambda level: (0.0, 0.0),
            "method": CONSTANT,
            "runs": self.runs,
            "aside": True,
        }
        return [measured(self.study, self.model, none, TASKS[task].title, key=task, **facts)]


@cache
def _each(
    studies: Studies, stage: str = "finetune", sides: tuple[str, str] = SIDES
) -> list[Scores]:
    # the story world's own tasks have a benchmark's name and none of its rows
    cells = studies.cells(stage)
    return [
        Scores(*cell, sides)
        for cell in cells
        if {run["data"].get("source") for run in cell[-1]} != {"synthetic"}
    ]


def gains(studies: Studies) -> Iterator[Measurement]:
    """Every column of Table 2; GLUE less tasks on which both sides are constant, then beside no
    number of the paper.
    """
    for scores in _each(studies):
        for key, (title, tasks) in GAINS_ON.items():
            own = [task for task in tasks if task not in scores.constant]
            whole, model = len(own) == len(tasks), labels.published_model(scores.model)
            paper = studies.printed(2, PRINTED[key], model=model) if whole else None
            part = title if whole else f"{title}, {len(own)} of {len(tasks)} tasks"
            yield from (
                scores.measure(part, dict.fromkeys(own, 1 / len(own)), paper, key=key)
                if own
                else ()
            )


def glue(studies: Studies) -> Iterator[Measurement]:
    """Each of the nine tasks of Table 8."""
    return _alone(studies, "finetune", 8, GLUE)


def _alone(
    studies: Studies, stage: str, table: int, metrics: dict[str, str]
) -> Iterator[Measurement]:
    """Each of some tasks, beside the paper's metric in a table."""
    for scores in _each(studies, stage):
        model = labels.published_model(scores.model)
        for task, metric in metrics.items():
            yield from scores.alone(task, studies.printed(table, metric, model=model))


def long_range(studies: Studies) -> Iterator[Measurement]:
    """The gain on QNLI and on RACE-Middle, each minus the mean gain on the other tasks of Table 2
    that were run.
    """
    for scores in _each(studies):
        others = [task for _, tasks in GAINS_ON.values() for task in tasks if task in scores.gaps]
        rest = [task for task in others if task not in ("qnli", "race")]
        for task in ("qnli", "race") if rest else ():
            yield from scores.measure(
                TASKS[task].title, {task: 1.0} | dict.fromkeys(rest, -1 / len(rest)), key=task
            )


def zero_shot(studies: Studies) -> Iterator[Measurement]:
    """A decoder's zero-shot accuracy on RACE-Middle and BoolQ; seeds borrow the spread of the
    study's encoders.
    """
    encoders = {scores.study: scores.spread for scores in _each(studies)}
    for scores in _each(studies, "decoder"):
        scores.spread = scores.spread or encoders.get(scores.study)
    return _alone(
        studies,
        "decoder",
        7,
        {task: column for column, task in COLUMNS[7].items() if task in TASKS},
    )


def versus(studies: Studies, tasks: Sequence[tuple[str, str, str]]) -> Iterator[Measurement]:
    """The first algorithm's score minus the second's, on each of some tasks."""
    for task, *sides in tasks:
        for scores in _each(studies, sides=tuple(sides)):
            facts = {"also": labels.algorithm_title(sides[1]), "key": f"{task}-{sides[1]}"}
            yield from scores.measure(TASKS[task].title, {task: 1.0}, **facts)
