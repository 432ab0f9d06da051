"""The scores of runs on tasks, read from their records: one a run, with what its sampling error needs."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite, sqrt
from typing import Any

import numpy as np
from scipy import stats

from saobp.study.setup.records import select
from saobp.study.statistics import binomial_error, correlation_error

Record = dict[str, Any]
CORRELATIONS = ("matthews", "pearson", "spearman")
# Similarities never agree to the last bit, even where a regressor ignores its input; a hundredth of the gold's spread
# can explain at most 2 % of its variance (at r = 1: 1 - 0.99^2).
COLLAPSED = 0.01


@dataclass(frozen=True)
class Score:
    """One run's score on one task, in percent, with what its sampling error needs."""

    value: float
    metric: str
    items: int
    key: tuple[Any, ...]  # the run's seeds: what pairs it with a run of another algorithm
    outcomes: np.ndarray | None = None  # one number an item, in percent, whose mean is `value`
    predictions: np.ndarray | None = None  # of a correlation, a row a run (several once merged), with `labels`
    labels: np.ndarray | None = None
    constant: bool = False  # one answer to every item

    @property
    def item_error(self) -> float:
        """Standard error of the score over the items, in points."""
        if self.outcomes is not None and len(self.outcomes) > 1:
            return float(self.outcomes.std(ddof=1) / sqrt(len(self.outcomes)))
        share = min(max(self.value / 100, -1.0), 1.0)
        if self.metric in CORRELATIONS:
            return 100 * correlation_error(share, self.items)
        return 100 * binomial_error(abs(share), self.items)


def seed_key(record: Record) -> tuple[Any, ...]:
    """The seeds of a run, pretraining's first; equal keys pair runs of two algorithms."""
    parameters = record["parameters"]
    return parameters.get("seed"), parameters.get("finetune_seed")


def scores(records: Iterable[Record], model: str, algorithm: str, task: str) -> list[Score]:
    """All finished runs' scores on a task; a run that failed (no finite score) is left out."""
    found = []
    for record in select(list(records), model=model, algorithm=algorithm):
        entry = (record["metrics"].get("tasks") or {}).get(task)
        if entry and not entry.get("failed") and _value(entry) is not None:  # the others: `failures`
            found.append(_score(entry, seed_key(record)))
    return found


def failures(records: Iterable[Record], model: str, algorithm: str, task: str) -> list[str]:
    """Return why runs of a task have no score, one reason per failed run."""
    entries = [run["metrics"].get("tasks") or {} for run in select(list(records), model=model, algorithm=algorithm)]
    lost = [found for entry in entries if (found := entry.get(task)) and (found.get("failed") or _value(found) is None)]
    return [found["failed"]["reason"] if found.get("failed") else "no finite score" for found in lost]


def _value(entry: dict[str, Any]) -> float | None:
    value = (entry.get("scores") or {}).get(entry.get("metric"))  # a failed run has neither
    return float(value) if value is not None and isfinite(value) else None


def _score(entry: dict[str, Any], key: tuple[Any, ...]) -> Score:
    value = _value(entry)
    outcomes, gold = _array(entry.get("outcomes")), _array(entry.get("labels"))
    constant = bool(entry.get("constant")) or _collapsed(entry["metric"], outcomes, gold)
    items = int(entry.get("items") or (0 if outcomes is None else len(outcomes)))
    if gold is not None and outcomes is not None and len(gold) == len(outcomes):
        return Score(value, entry["metric"], items, key, None, outcomes[None], gold, constant)
    if outcomes is not None and abs(100 * outcomes.mean() - value) < 0.06:  # the rounding of a score
        return Score(value, entry["metric"], items, key, 100 * outcomes, constant=constant)
    return Score(value, entry["metric"], items, key, constant=constant)


def _collapsed(metric: str, predicted: np.ndarray | None, gold: np.ndarray | None) -> bool:
    """Whether similarities hardly differ; an older record's own mark knows only of those that are equal."""
    known = metric in ("pearson", "spearman") and predicted is not None and gold is not None
    return known and collapsed(gold, predicted)


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


def _array(values: Any) -> np.ndarray | None:
    """Numbers without gaps, or None."""
    array = np.asarray(values if values is not None else [], dtype=float)
    return array if array.size and np.isfinite(array).all() else None


def by_pretraining(runs: list[Score]) -> list[Score]:
    """One score a pretraining seed, the mean over its fine-tuning seeds; unchanged for a single one.

    Runs from one checkpoint are no independent runs: with several checkpoints, these are what counts.
    """
    groups: dict[Any, list[Score]] = {}
    for run in runs:
        groups.setdefault(run.key[0], []).append(run)
    if len(groups) < 2 or len(groups) == len(runs):
        return runs
    return [_merged(group) for group in groups.values()]


def _merged(group: list[Score]) -> Score:
    first, value = group[0], float(np.mean([run.value for run in group]))
    constant = any(run.constant for run in group)
    whole = all(run.outcomes is not None and len(run.outcomes) == first.items for run in group)
    outcomes = np.mean([run.outcomes for run in group], axis=0) if whole else None
    predictions = np.vstack([run.predictions for run in group]) if same_labels(group) else None
    gold = None if predictions is None else first.labels
    return Score(value, first.metric, first.items, (first.key[0], None), outcomes, predictions, gold, constant)


def same_labels(runs: list[Score]) -> bool:
    """Whether all runs predicted a correlation on the same items (Spearman's ranks are not redrawn)."""
    if any(run.labels is None or run.metric == "spearman" for run in runs):
        return False
    return all(np.array_equal(run.labels, runs[0].labels) for run in runs)
