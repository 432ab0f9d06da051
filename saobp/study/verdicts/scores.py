"""Measurements of scores: what one algorithm adds to another by benchmark, and a decoder's zero-shot accuracy."""

from collections.abc import Sequence
from math import inf, nan

import numpy as np
import pandas as pd

from saobp.study.setup import labels
from saobp.study.setup.schema import Record
from saobp.study.setup.tasks_and_metrics import GLUE, TASKS
from saobp.study.statistics import Error, Estimate, estimates, mean_interval, seed_variance, task_scores
from saobp.study.statistics.seeds import SIDES
from saobp.study.verdicts.claims_and_measurements import Measurement, fixed, measured
from saobp.study.verdicts.studies import Studies

BENCHMARKS = {"GLUE": GLUE, "HellaSwag": ("hellaswag",), "RACE-Middle": ("race",), "SQuAD": ("squad",)}
ZERO_SHOT = {"race": "RACE_middle_Acc", "boolq": "BoolQ_Acc"}
PAIRED = "seeds and items, paired"
LENT = "one seed; items, and the spread over seeds of this study's other tasks"
CONSTANT = "constant predictions on both sides: excluded"

Gap = tuple[dict, float, float]  # each seed's difference; error over items that seeds share, and that of their mean


class Scores:
    """The differences of one study and model between two algorithms, and how far seeds lie apart in it."""

    def __init__(self, study: str, model: str, records: Sequence[Record], sides: tuple[str, str] = SIDES):
        self.study, self.model, self.names = study, model, tuple(run["name"] for run in records)
        self.gaps: dict[str, Gap] = {}
        self.constant: list[str] = []
        for task in dict.fromkeys((*TASKS, "boolq")):
            ours, theirs = (task_scores.scores(records, model, name, task) for name in sides)
            if ours and theirs and all(run.constant for run in ours + theirs):
                self.constant.append(task)
            elif ours and theirs and (found := estimates.seed_differences(ours, theirs)):
                by_seed = pd.Series([*found.values()]).groupby([seed for seed, _ in found]).mean().to_dict()
                errors = np.nan_to_num(estimates.score_difference(ours, theirs).over_items)
                self.gaps[task] = by_seed, *errors.tolist()
        several = [[*gap[0].values()] for gap in self.gaps.values() if len(gap[0]) > 1]
        self.spread = seed_variance(several) if several else None

    def measure(self, part: str, weights: dict[str, float], paper: float | None = None, also: str = "") -> list:
        """Measure a weighted sum of tasks over the seeds that have all of them; nothing where a task has no run.

        The errors over the items of different tasks are independent. One seed borrows the spread over seeds that the
        tasks of this study show, as if tasks were independent.
        """
        seeds = sorted(set.intersection(*(set(self.gaps[task][0] if task in self.gaps else ()) for task in weights)))
        if not seeds:
            return []
        values = [sum(weight * self.gaps[task][0][seed] for task, weight in weights.items()) for seed in seeds]
        sizes = np.abs([*weights.values()])
        items, least = (float(np.linalg.norm(sizes * [self.gaps[task][k] for task in weights])) for k in (1, 2))
        error, method = self._error(values, items, least, float(np.linalg.norm(sizes)))
        found = Estimate(float(np.mean(values)), nan, nan, len(values), error=error)
        facts = {"method": method, "records": self.names, "paper": paper}
        return [measured(self.study, self.model, found, part, also, **facts)]

    def _error(self, values: list[float], items: float, least: float, size: float) -> tuple[Error | None, str]:
        if len(values) > 1:
            return mean_interval(values, item_error=items, least=least).error, PAIRED
        if self.spread is None:
            return None, "one seed and no other: no interval"
        variance, freedom = self.spread
        return Error(((size * variance**0.5, freedom), (items, inf))), LENT

    def alone(self, task: str, paper: float | None) -> list[Measurement]:
        """Measure one task; one on which both sides give one answer to all is shown, and not counted."""
        if task not in self.constant:
            return self.measure(TASKS[task].title, {task: 1.0}, paper)
        facts = {"interval": fixed(0.0, 0.0), "method": CONSTANT, "records": self.names, "aside": True}
        return [measured(self.study, self.model, Estimate(0.0, 0.0, 0.0, 0), TASKS[task].title, **facts)]


def _each(studies: Studies, stage: str = "finetune", sides: tuple[str, str] = SIDES) -> list[Scores]:
    found = studies.memory
    cells = {(*cell, sides): runs for *cell, runs in studies.cells(stage, decoders=stage == "decoder")}
    for key, runs in cells.items():
        found[key] = found.get(key) or Scores(*key[:2], runs, sides)
    return [found[key] for key in cells]


def _paper(studies: Studies, number: int, model: str, metric: str) -> float | None:
    keys = {"model": labels.published_model(model), "metric": metric}
    high, original = (studies.paper.value(number, algorithm=name, **keys) for name in ("High", "Original"))
    return None if high is None or original is None else high - original


def gains(studies: Studies) -> list[Measurement]:
    """Every column of Table 2; GLUE is the mean of its nine tasks, constant ones left out."""
    rows = []
    for scores in _each(studies):
        for column, tasks in BENCHMARKS.items():
            own = [task for task in tasks if task not in scores.constant]
            printed = _paper(studies, 2, scores.model, column.replace("-", "_"))
            rows += scores.measure(column, dict.fromkeys(own, 1 / len(own)), printed) if own else []
    return rows


def glue(studies: Studies) -> list[Measurement]:
    """Each of the nine tasks of Table 8."""
    metrics = {task: TASKS[task].title.replace("SST-2", "SST2") for task in GLUE}
    return [
        row
        for scores in _each(studies)
        for task, metric in metrics.items()
        for row in scores.alone(task, _paper(studies, 8, scores.model, metric))
    ]


def long_range(studies: Studies) -> list[Measurement]:
    """The gain on QNLI and on RACE-Middle, each minus the mean gain on the other tasks of Table 2 that were run."""
    rows = []
    for scores in _each(studies):
        others = [task for tasks in BENCHMARKS.values() for task in tasks if task in scores.gaps]
        rest = [task for task in others if task not in ("qnli", "race")]
        for task in ("qnli", "race") if rest else ():
            rows += scores.measure(TASKS[task].title, {task: 1.0} | dict.fromkeys(rest, -1 / len(rest)))
    return rows


def zero_shot(studies: Studies) -> list[Measurement]:
    """A decoder's zero-shot accuracy on RACE-Middle and BoolQ; seeds borrow the spread of the study's encoders."""
    rows, encoders = [], {scores.study: scores.spread for scores in _each(studies)}
    for scores in _each(studies, "decoder"):
        scores.spread = scores.spread or encoders.get(scores.study)
        for task, metric in ZERO_SHOT.items():
            rows += scores.alone(task, _paper(studies, 7, scores.model, metric))
    return rows


def versus(studies: Studies, tasks: Sequence[tuple[str, str, str]]) -> list[Measurement]:
    """The first algorithm's score minus the second's, on each of some tasks."""
    return [
        row
        for task, *sides in tasks
        for scores in _each(studies, sides=tuple(sides))
        for row in scores.measure(TASKS[task].title, {task: 1.0}, also=labels.algorithm_title(sides[1]))
    ]
