"""Measurements of scores: what High adds to Original by benchmark, and a decoder's zero-shot accuracy."""

from collections.abc import Sequence
from functools import partial
from math import inf

import numpy as np

from saobp.study.setup import labels
from saobp.study.setup.benchmarks import TASKS
from saobp.study.statistics import Error, estimates, seed_variance, task_scores
from saobp.study.statistics.task_scores import Score
from saobp.study.verdicts.model import Measurement, ends, fixed, scope_of
from saobp.study.verdicts.studies import Record, Studies

COLUMNS = {"GLUE": estimates.GLUE, "HellaSwag": ("hellaswag",), "RACE-Middle": ("race",), "SQuAD": ("squad",)}
PRINTED = {"HellaSwag": "HellaSwag", "RACE-Middle": "RACE_Middle", "SQuAD": "SQuAD", "GLUE": "GLUE"}
ZERO_SHOT = {"race": "RACE_middle_Acc", "boolq": "BoolQ_Acc"}
PAIRED = "seeds and items, paired"
LENT = "one seed; items, and the spread over seeds of this study's other tasks"
CONSTANT = "constant predictions on both sides: excluded"

Gap = tuple[dict, float, float]  # each seed's difference; error over items that seeds share, and that of their mean


class Scores:
    """The differences of one study and model, High − Original, and how far seeds lie apart in it."""

    def __init__(self, study: str, model: str, records: Sequence[Record]):
        self.study, self.model, self.names = study, model, tuple(run["name"] for run in records)
        self.gaps: dict[str, Gap] = {}
        self.constant: list[str] = []
        for task in (*TASKS, *({"boolq"} - set(TASKS))):
            sides = [task_scores.scores(records, model, name, task) for name in ("high", "original")]
            if all(sides):
                self._add(task, *sides)
        several = [[*gap[0].values()] for gap in self.gaps.values() if len(gap[0]) > 1]
        self.spread = seed_variance(several) if several else None

    def _add(self, task: str, ours: list[Score], theirs: list[Score]) -> None:
        if all(run.constant for run in ours + theirs):
            self.constant.append(task)
            return
        found = estimates.score_difference(ours, theirs)
        by_seed = {}
        for (seed, _), value in estimates.seed_differences(ours, theirs).items():
            by_seed.setdefault(seed, []).append(value)
        if by_seed:
            errors = np.nan_to_num([found.item_error, found.mean_error])
            self.gaps[task] = {seed: float(np.mean(of)) for seed, of in by_seed.items()}, *errors.tolist()

    def measure(
        self, claim: str, part: str, weights: dict[str, float], paper: float | None = None, *, aside: bool = False
    ) -> list[Measurement]:
        """Measure a weighted sum of tasks over the seeds that have all of them; nothing where a task has no run.

        The errors over the items of different tasks are independent. One seed borrows the spread over seeds that the
        tasks of this study show, as if tasks were independent.
        """
        if not set(weights) <= set(self.gaps):
            return []
        seeds = sorted(set.intersection(*(set(self.gaps[task][0]) for task in weights)))
        if not seeds:
            return []
        values = [sum(weight * self.gaps[task][0][seed] for task, weight in weights.items()) for seed in seeds]
        sizes = np.abs([*weights.values()])
        items, least = (float(np.linalg.norm(sizes * [self.gaps[task][k] for task in weights])) for k in (1, 2))
        error, method = self._error(values, items, least, float(np.linalg.norm(sizes)))
        interval = ends(float(np.mean(values)), error)
        title, scope = f"{part}, {labels.model_title(self.model)}", scope_of(self.study, [self.model])
        return [Measurement(
            claim, title, scope, self.study, float(np.mean(values)), interval, len(values), "seeds", method, self.names,
            paper, aside, error=error,
        )]  # fmt: skip

    def _error(self, values: list[float], items: float, least: float, size: float) -> tuple[Error | None, str]:
        if len(values) > 1:
            spread = float(np.std(values, ddof=1) / np.sqrt(len(values)))
            return Error.of(spread, len(values) - 1, items, least=least), PAIRED
        if self.spread is None:
            return None, "one seed and no other: no interval"
        variance, freedom = self.spread
        return Error(((size * variance**0.5, freedom), (items, inf))), LENT

    def excluded(self, claim: str, task: str) -> list[Measurement]:
        """Name a task on which both sides predict one answer: shown, and not counted."""
        title, scope = f"{TASKS[task].title}, {labels.model_title(self.model)}", scope_of(self.study, [self.model])
        nothing = fixed(0.0, 0.0)
        return [
            Measurement(claim, title, scope, self.study, 0.0, nothing, 0, "seeds", CONSTANT, self.names, aside=True)
        ]


def _each(studies: Studies, stage: str = "finetune", *, decoder: bool = False) -> list[Scores]:
    found = []
    for study, runs in studies.of(stage).items():
        for model in sorted({run["parameters"]["model"] for run in runs}):
            if labels.is_decoder(model) == decoder:
                if ("scores", study, model) not in studies.memory:
                    studies.memory["scores", study, model] = Scores(study, model, runs)
                found.append(studies.memory["scores", study, model])
    return found


def _paper(studies: Studies, number: int, model: str, metric: str) -> float | None:
    high, original = (
        studies.paper.value(number, model=labels.published_model(model), algorithm=name, metric=metric)
        for name in ("High", "Original")
    )
    return None if high is None or original is None else high - original


def gains(studies: Studies) -> list[Measurement]:
    """Every column of Table 2; GLUE is the mean of its nine tasks, constant ones left out."""
    rows = []
    for scores in _each(studies):
        for column, tasks in COLUMNS.items():
            own = [task for task in tasks if task not in scores.constant]
            printed = _paper(studies, 2, scores.model, PRINTED[column])
            if own:
                rows += scores.measure("gains", column, dict.fromkeys(own, 1 / len(own)), printed)
    return rows


def glue(studies: Studies) -> list[Measurement]:
    """Each of the nine tasks of Table 8."""
    rows = []
    for scores in _each(studies):
        for task in estimates.GLUE:
            if task in scores.constant:
                rows += scores.excluded("gains-glue", task)
            else:
                printed = _paper(studies, 8, scores.model, TASKS[task].title.replace("SST-2", "SST2"))
                rows += scores.measure("gains-glue", TASKS[task].title, {task: 1.0}, printed)
    return rows


def long_range(studies: Studies) -> list[Measurement]:
    """The gain on QNLI and on RACE-Middle, each minus the mean gain on the other tasks of Table 2 that were run."""
    rows = []
    for scores in _each(studies):
        others = [task for tasks in COLUMNS.values() for task in tasks if task in scores.gaps]
        for task in ("qnli", "race"):
            rest = [other for other in others if other not in ("qnli", "race")]
            if task in scores.gaps and rest:
                weights = {task: 1.0} | dict.fromkeys(rest, -1 / len(rest))
                rows += scores.measure("gains-long-range", TASKS[task].title, weights)
    return rows


def zero_shot(studies: Studies) -> list[Measurement]:
    """A decoder's zero-shot accuracy on RACE-Middle and BoolQ; seeds borrow the spread of the study's encoders."""
    rows, encoders = [], {scores.study: scores.spread for scores in _each(studies)}
    for scores in _each(studies, "decoder", decoder=True):
        scores.spread = scores.spread or encoders.get(scores.study)
        for task, metric in ZERO_SHOT.items():
            if task in scores.constant:
                rows += scores.excluded("decoder-zero-shot", task)
            else:
                printed = _paper(studies, 7, scores.model, metric)
                rows += scores.measure("decoder-zero-shot", TASKS[task].title, {task: 1.0}, printed)
    return rows


def versus(claim: str, tasks: Sequence[tuple[str, str, str]], studies: Studies) -> list[Measurement]:
    """The first algorithm's score minus the second's, on each of some tasks."""
    rows = []
    for study, runs in studies.of("finetune").items():
        for model in sorted({run["parameters"]["model"] for run in runs}):
            for task, first, second in tasks:
                sides = [task_scores.scores(studies.records[study], model, name, task) for name in (first, second)]
                if all(sides):
                    found = estimates.score_difference(*sides)
                    by_seed = [*estimates.seed_differences(*sides).values()]
                    spread = float(np.std(by_seed, ddof=1) / np.sqrt(len(by_seed))) if len(by_seed) > 1 else 0.0
                    error = Error.of(spread, max(1, len(by_seed) - 1), found.item_error) if len(by_seed) > 1 else None
                    part = f"{TASKS[task].title}, {labels.model_title(model)}, {labels.algorithm_title(second)}"
                    names = tuple(run["name"] for run in runs)
                    rows.append(Measurement(
                        claim, part, scope_of(study, [model]), study, found.value, ends(found.value, error),
                        found.seeds, "seeds", PAIRED, names, error=error,
                    ))  # fmt: skip
    return rows


SUITED = (
    ("squad", "elemmul", "high"),
    ("sst2", "elemmul", "high"),
    ("race", "high", "elemmul"),
    ("mnli", "high", "elemmul"),
)
REGULARIZERS = tuple((task, "high", name) for name in ("entropy_reg", "eigen_reg") for task in ("qnli", "squad"))
MEASURES = {
    "gains": gains,
    "gains-glue": glue,
    "gains-long-range": long_range,
    "decoder-zero-shot": zero_shot,
    "elemmul-suits": partial(versus, "elemmul-suits", SUITED),
    "regularizers-accuracy": partial(versus, "regularizers-accuracy", REGULARIZERS),
}
