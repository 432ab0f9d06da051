"""The scores of runs on tasks, read from their records: one a run, with what its sampling error needs."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import nan, sqrt
from typing import Any

import numpy as np
from scipy import stats

from saobp.study.setup.records import select
from saobp.study.setup.schema import Record
from saobp.study.statistics import correlation_error

CORRELATIONS = ("matthews", "pearson")
# Similarities never agree to the last bit, even where a regressor ignores its input; a hundredth of the gold's spread
# can explain at most 2 % of its variance (at r = 1: 1 - 0.99^2).
COLLAPSED = 0.01


@dataclass(frozen=True)
class Score:
    """One run's score on one task, in percent, with what its sampling error needs: outcomes, or of a correlation
    predictions (a row a run; several once merged) and labels.
    """

    value: float
    metric: str
    items: int
    key: tuple[Any, ...]  # the run's seeds: what pairs it with a run of another algorithm
    outcomes: np.ndarray | None = None  # one number per item, in percent, whose mean is `value`
    predictions: np.ndarray | None = None
    labels: np.ndarray | None = None
    constant: bool = False  # one answer to every item

    @property
    def item_error(self) -> float:
        """Standard error of the score over the items, in points."""
        if self.outcomes is None:
            return 100 * correlation_error(float(np.clip(self.value / 100, -1, 1)), self.items)
        return float(self.outcomes.std(ddof=1) / sqrt(self.items)) if self.items > 1 else nan


def entries(records: Iterable[Record], task: str) -> list[dict[str, Any]]:
    """Return what each run measured on a task, of the runs that have it."""
    return [entry for run in records if (entry := (run["metrics"].get("tasks") or {}).get(task))]


def _entries(records: Iterable[Record], model: str, algorithm: str, task: str) -> list[tuple[Record, dict, bool]]:
    """The runs on a task with what each measured there, and whether it has a score; a failed run has none."""
    runs = select(list(records), model=model, algorithm=algorithm)
    found = [(run, entry) for run in runs if (entry := (run["metrics"].get("tasks") or {}).get(task))]
    done = ("failed" not in entry and entry["scores"][entry["metric"]] is not None for _, entry in found)
    return [(*one, whole) for one, whole in zip(found, done)]


def scores(records: Iterable[Record], model: str, algorithm: str, task: str) -> list[Score]:
    """All finished runs' scores on a task; a run that failed (no finite score) is left out."""
    found = []
    for run, entry, done in _entries(records, model, algorithm, task):
        if done:
            given, metric, answers = run["parameters"], entry["metric"], np.asarray(entry["outcomes"], float)
            key = (given.get("seed"), given.get("finetune_seed"))
            facts = {"outcomes": 100 * answers, "constant": bool(entry.get("constant"))}
            if "labels" in entry:
                gold = np.asarray(entry["labels"], float)
                constant = facts["constant"] or (metric == "pearson" and collapsed(gold, answers))
                facts = {"predictions": answers[None], "labels": gold, "constant": constant}
            found.append(Score(float(entry["scores"][metric]), metric, entry["items"], key, **facts))
    return found


def failures(records: Iterable[Record], model: str, algorithm: str, task: str) -> list[str]:
    """Return why runs of a task have no score, one reason per failed run."""
    lost = [entry for _, entry, done in _entries(records, model, algorithm, task) if not done]
    return [entry["failed"]["reason"] if "failed" in entry else "no finite score" for entry in lost]


def collapsed(gold: np.ndarray, predicted: np.ndarray, tolerance: float = COLLAPSED) -> bool:
    """Say whether predictions spread over no more than a share of the gold's standard deviation: one answer to all."""
    return bool(np.ptp(gold) > 0 and (np.ptp(predicted) == 0 or np.std(predicted) < tolerance * np.std(gold)))


def headline_interval(metric: str, value: float, items: int, error: float = 0.0) -> tuple[float, float]:
    """Return a score's 95 % interval over items, in percent: Clopper-Pearson, for correlations Fisher's z.

    `error`: a correlation's standard error, of its bootstrap (percent). Without one, or where no draw of items moves
    it, that of normal data serves; of classes, and rare ones above all, it is too small.
    """
    if metric in CORRELATIONS:
        if items <= 3:
            return -100.0, 100.0
        r = np.clip(value / 100, -1 + 1e-12, 1 - 1e-12)
        centre = np.arctanh(r)
        half = stats.norm.ppf(0.975) * max(error / 100 / (1 - r**2), 1 / np.sqrt(items - 3))
        return float(100 * np.tanh(centre - half)), float(100 * np.tanh(centre + half))
    found = stats.binomtest(round(value / 100 * items), items).proportion_ci(0.95, method="exact")
    return float(100 * found.low), float(100 * found.high)


def by_pretraining(runs: list[Score]) -> list[Score]:
    """One score per pretraining seed, the mean over its fine-tuning seeds; unchanged for a single one.

    Runs from one checkpoint are no independent runs: with several checkpoints, these are what counts.
    """
    groups: dict[Any, list[Score]] = {}
    for run in runs:
        groups.setdefault(run.key[0], []).append(run)
    if len(groups) < 2 or len(groups) == len(runs):
        return runs
    return [_merged(group) for group in groups.values()]


def _merged(group: list[Score]) -> Score:
    first, alike = group[0], same_items(group)
    return replace(
        first,
        value=float(np.mean([run.value for run in group])),
        key=(first.key[0], None),
        outcomes=np.mean([run.outcomes for run in group], axis=0) if alike and first.labels is None else None,
        predictions=np.vstack([run.predictions for run in group]) if alike and first.labels is not None else None,
        labels=first.labels if alike else None,
        constant=any(run.constant for run in group),
    )


def same_items(runs: list[Score]) -> bool:
    """Whether all runs answered the same items."""
    first = runs[0]
    return all(run.items == first.items and np.array_equal(run.labels, first.labels) for run in runs)
