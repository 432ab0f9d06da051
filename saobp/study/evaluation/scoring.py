"""Scores as the owners of a benchmark count them, and what tells a score from luck."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import datasets
import numpy as np
import pandas as pd
from scipy import stats
from sklearn import metrics as sk

from saobp.study.data import squad
from saobp.study.setup.schema import Failed
from saobp.study.setup.tasks_and_metrics import TaskSpec
from saobp.study.statistics import item_errors
from saobp.study.statistics.task_scores import COLLAPSED, CORRELATIONS, collapsed, headline_interval

Scores = dict[str, Any]
Results = Mapping[str, Mapping[str, Any]]  # task -> its `Scores`, or {"failed": reason}


def _correlation(measure: Callable, gold: np.ndarray, predicted: np.ndarray) -> float:
    """Return a correlation; 0 where one side is constant and none is defined."""
    return measure(gold, predicted).statistic if np.ptp(gold) and np.ptp(predicted) else 0.0


METRICS: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "accuracy": sk.accuracy_score,
    "f1": partial(sk.f1_score, zero_division=0.0),
    "matthews": sk.matthews_corrcoef,
    "pearson": partial(_correlation, stats.pearsonr),
    "spearman": partial(_correlation, stats.spearmanr),
}


def score(spec: TaskSpec, outputs: Any, rows: datasets.Dataset, features: datasets.Dataset | None = None) -> Scores:
    """Score a head's outputs on the rows they belong to; all scores in percent. Raises Failed if any is not finite.

    Logits (item, class or option), similarities (item,) or (item, 1), or of a span start and end logits (window, token)
    with the `features` they were computed from.
    """
    if spec.kind == "span":
        start, end = map(_checked, outputs[:2])
        return score_predictions(spec, squad.best_answers(start, end, features, rows), rows)
    values = _checked(outputs[0] if isinstance(outputs, tuple) else outputs)
    predictions = values.reshape(len(rows)) if spec.kind == "regression" else values.argmax(axis=1)
    return score_predictions(spec, predictions, rows)


def score_predictions(spec: TaskSpec, predictions: Any, rows: datasets.Dataset) -> Scores:
    """Score one prediction a row: a class, an option, a similarity or an answer's text.

    Returns scores and headline in percent, metric, items, interval (95 %, over items), chance, majority, below_chance
    (the interval ends under it), constant (one answer to everything), outcomes (right or wrong, or for a correlation
    the prediction, with `labels`; SQuAD's F1 in outcomes_f1) and, where rows have hops, by_hops (right ones and all).
    """
    grade = _answers if spec.kind == "span" else _labels
    found, correct = grade(spec, predictions, rows)
    headline, items, error = found["scores"][spec.headline], len(rows), 0.0
    if "labels" in found and items > 3:
        error = item_errors([np.asarray(found["outcomes"], float)], np.asarray(found["labels"], float))[0]
    low, high = headline_interval(spec.headline, headline, items, error)
    found |= {"headline": headline, "metric": spec.headline, "items": items, "interval": [low, high]}
    found["below_chance"] = high < found["chance"]
    if "hops" in rows.column_names and spec.kind != "regression":
        counts = pd.Series(correct).groupby(np.asarray(rows["hops"][:])).agg(["sum", "size"])
        found["by_hops"] = counts.rename(str).T.to_dict("list")  # keys are texts because a record is JSON
    return found


def _labels(spec: TaskSpec, predictions: Any, rows: datasets.Dataset) -> tuple[Scores, list[int]]:
    gold, predicted = np.asarray(rows["label"][:]), np.asarray(predictions)
    correct = (gold == predicted).astype(int).tolist()
    found: Scores = {
        "scores": {name: 100 * float(METRICS[name](gold, predicted)) for name in spec.metrics},
        "constant": collapsed(gold, predicted, COLLAPSED if spec.kind == "regression" else 0.0),
    }
    if spec.headline in CORRELATIONS:
        none = {"chance": 0.0, "majority": 0.0}
        return found | none | {"outcomes": predicted.tolist(), "labels": gold.tolist()}, correct
    majority = 100 * float(np.bincount(gold).max()) / len(gold)
    return found | {"chance": 100 / len(spec.labels), "majority": majority, "outcomes": correct}, correct


def _answers(spec: TaskSpec, answers: list[str], rows: datasets.Dataset) -> tuple[Scores, list[int]]:
    golds = [gold["text"] for gold in rows[spec.gold][:]]
    exact = [int(squad.squad_exact_match(answer, gold)) for answer, gold in zip(answers, golds)]
    f1 = [squad.squad_f1(answer, gold) for answer, gold in zip(answers, golds)]
    constant = len({squad.normalize_answer(a) for a in answers}) == 1 < len({g[0] for g in golds if g})
    scores = {"exact_match": 100 * float(np.mean(exact)), "f1": 100 * float(np.mean(f1))}
    found = {"scores": scores, "chance": 0.0, "majority": 0.0, "constant": constant}
    return found | {"outcomes": exact, "outcomes_f1": f1}, exact


def _checked(values: Any) -> np.ndarray:
    found = np.asarray(values, dtype=np.float64)
    if bad := int((~np.isfinite(found)).sum()):
        raise Failed(f"outputs: {bad} of {found.size} are not finite", "; the run has diverged")
    return found


def finished(results: Results) -> dict[str, Mapping[str, Any]]:
    """Leave out the tasks that failed: they have no score, and are never averaged."""
    return {name: entry for name, entry in results.items() if "failed" not in entry}


def table(results: Results) -> pd.DataFrame:
    """Return one row a finished task: its score and 95 % interval over items in percent, beside what luck would get."""
    rows = pd.DataFrame.from_dict(finished(results), orient="index")
    score = rows[["headline", "items", "chance", "majority", "constant"]].round(1)
    score.insert(1, "95 % interval", ["{:.1f} to {:.1f}".format(*ends) for ends in rows["interval"]])
    return score.rename(columns={"headline": "score"})
