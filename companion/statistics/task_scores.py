"""The scores of runs on tasks, read from their records: one a run, with what its sampling error
needs.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import nan, sqrt
from typing import Any

import numpy as np
from scipy import stats

from companion.records import select
from companion.records.schema import Record
from companion.statistics.intervals import NORMAL

CORRELATIONS = ("matthews", "pearson")
# Similarities never agree to the last bit, even where a regressor ignores its input; a hundredth of
# the gold's spread can explain at most 2 % of its variance (at r = 1: 1 - 0.99^2).
COLLAPSED = 0.01


@dataclass(frozen=True)
class Score:
    """One run's score on one task, in percent, with what its sampling error needs."""

    value: float
    metric: str
    items: int
    # the run's seeds: what pairs it with a run of another algorithm
    key: tuple[Any, ...]
    # a number per item, in percent, whose mean is `value`; with labels, predictions
    answers: np.ndarray | None = None
    # of a correlation, whose predictions are a row a run, several once merged
    labels: np.ndarray | None = None
    # one answer to every item
    constant: bool = False

    @property
    def item_error(self) -> float:
        """Standard error of the score over the items, in points; of r (1 - r^2)/sqrt(n - 1), as of
        normal data.
        """
        if self.items < 2:
            return nan
        if self.labels is not None or self.answers is None:
            return 100 * (1 - np.clip(self.value / 100, -1, 1) ** 2) / sqrt(self.items - 1)
        return float(self.answers.std(ddof=1) / sqrt(self.items))


def entries(records: Iterable[Record], task: str) -> list[dict[str, Any]]:
    """Return what each run measured on a task, of the runs that have it."""
    each = [(run["metrics"].get("tasks") or {}).get(task) for run in records]
    return [entry for entry in each if entry]


def scores(records: Iterable[Record], model: str, algorithm: str, task: str) -> list[Score]:
    """All finished runs' scores on a task; a run that failed (no finite score) is left out."""
    finished = []
    for run in select(records, model=model, algorithm=algorithm):
        for entry in entries([run], task):
            if _lost(entry):
                continue
            answers = np.asarray(entry["outcomes"], float)
            gold = np.asarray(entry["labels"], float) if "labels" in entry else None
            score = Score(
                value=float(entry["scores"][entry["metric"]]),
                metric=entry["metric"],
                items=entry["items"],
                key=(run["parameters"].get("seed"), run["parameters"].get("finetune_seed")),
                answers=100 * answers if gold is None else answers[None],
                labels=gold,
                constant=bool(entry.get("constant")),
            )
            finished.append(score)
    return finished


def failures(records: Iterable[Record], model: str, algorithm: str, task: str) -> list[str]:
    """Return why runs of a task have no score, one reason per failed run."""
    runs = select(records, model=model, algorithm=algorithm)
    return [*filter(None, map(_lost, entries(runs, task)))]


def _lost(entry: dict[str, Any]) -> str:
    """Why a task has no score; empty if it has one."""
    if "failed" in entry:
        return entry["failed"]["reason"]
    return "no finite score" if entry["scores"][entry["metric"]] is None else ""


def collapsed(gold: np.ndarray, predicted: np.ndarray, tolerance: float = COLLAPSED) -> bool:
    """Say whether predictions spread over no more than a share of the gold's standard deviation:
    one answer to all.
    """
    alike = np.ptp(predicted) == 0 or np.std(predicted) < tolerance * np.std(gold)
    return bool(np.ptp(gold) > 0 and alike)


def headline_interval(
    metric: str, value: float, items: int, error: float = 0.0
) -> tuple[float, float]:
    """Return a score's 95 % interval over items, in percent: Clopper-Pearson, for correlations
    Fisher's z.

    `error`: a correlation's standard error over draws of the items (percent), not below that of
        normal data.
    """
    if metric in CORRELATIONS:
        if items <= 3:
            return -100.0, 100.0
        r = np.clip(value / 100, -1 + 1e-12, 1 - 1e-12)
        centre = np.arctanh(r)
        half = NORMAL * max(error / 100 / (1 - r**2), 1 / np.sqrt(items - 3))
        return float(100 * np.tanh(centre - half)), float(100 * np.tanh(centre + half))
    interval = stats.binomtest(round(value / 100 * items), items).proportion_ci(
        0.95, method="exact"
    )
    return float(100 * interval.low), float(100 * interval.high)


def by_pretraining(runs: list[Score]) -> list[Score]:
    """One score per pretraining seed, the mean over its fine-tuning seeds; unchanged for a single
    one.

    Runs from one checkpoint are no independent runs: with several checkpoints, these are what
    counts.
    """
    groups, merged = defaultdict(list), []
    for run in runs:
        groups[run.key[0]].append(run)
    if not 1 < len(groups) < len(runs):
        return runs
    for seed, group in groups.items():
        answers = [run.answers for run in group]
        if not same_items(group):
            items = {"answers": None, "labels": None}
        elif group[0].labels is None:
            items = {"answers": np.mean(answers, axis=0)}
        else:
            items = {"answers": np.vstack(answers)}
        value = float(np.mean([run.value for run in group]))
        constant = any(run.constant for run in group)
        first = replace(group[0], key=(seed, None), value=value, constant=constant)
        merged.append(replace(first, **items))
    return merged


def same_items(runs: list[Score]) -> bool:
    """Whether all runs answered the same items."""
    first = runs[0]
    return all(
        run.items == first.items and np.array_equal(run.labels, first.labels) for run in runs
    )
