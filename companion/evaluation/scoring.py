"""Scores as the owners of a benchmark count them, and what tells a score from luck."""

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import datasets
import numpy as np
import pandas as pd
from scipy import stats
from sklearn import metrics as sk
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import Pipeline, make_pipeline

from companion.data import squad
from companion.data.encoding import option_texts
from companion.data.task_rows import Task
from companion.records.schema import Failed
from companion.setup.tasks_and_metrics import TaskSpec
from companion.statistics import item_errors
from companion.statistics.task_scores import COLLAPSED, CORRELATIONS, collapsed, headline_interval

# of a score, in a record
KEPT = ("headline", "metric", "scores", "items", "interval", "constant")
Scores = dict[str, Any]
# task -> its `Scores`, or {"failed": reason}
Results = Mapping[str, Mapping[str, Any]]
Words = list[str]


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


def score(
    spec: TaskSpec, outputs: Any, rows: datasets.Dataset, features: datasets.Dataset | None = None
) -> Scores:
    """Score a head's outputs on the rows they belong to; all scores in percent. Raises Failed if
    any is not finite.

    Logits (item, class or option), similarities (item,) or (item, 1), or of a span start and end
    logits (window, token) with the `features` they were computed from.
    """
    if spec.kind == "span":
        start, end = map(_checked, outputs[:2])
        return score_predictions(spec, squad.best_answers(start, end, features, rows), rows)
    values = _checked(outputs[0] if isinstance(outputs, tuple) else outputs)
    predictions = values.reshape(len(rows)) if spec.kind == "regression" else values.argmax(axis=1)
    return score_predictions(spec, predictions, rows)


def score_predictions(spec: TaskSpec, predictions: Any, rows: datasets.Dataset) -> Scores:
    """Score one prediction a row: a class, an option, a similarity or an answer's text.

    Returns scores and headline in percent, metric, items, interval (95 %, over items), chance,
    majority, below_chance (the interval ends under it), constant (one answer to everything),
    outcomes (right or wrong, or for a correlation the prediction, with `labels`; SQuAD's F1 in
    outcomes_f1) and, where rows have hops, by_hops (right ones and all).
    """
    grade = _answers if spec.kind == "span" else _labels
    result, correct = grade(spec, predictions, rows)
    headline, items, error = result["scores"][spec.headline], len(rows), 0.0
    if "labels" in result and items > 3:
        outcomes, gold = (np.asarray(result[key], float) for key in ("outcomes", "labels"))
        error = item_errors([outcomes], gold)[0]
    low, high = headline_interval(spec.headline, headline, items, error)
    result |= {"headline": headline, "metric": spec.headline, "items": items}
    result["interval"] = [low, high]
    result["below_chance"] = high < result["chance"]
    if "hops" in rows.column_names and spec.kind != "regression":
        counts = pd.Series(correct).groupby(np.asarray(rows["hops"][:])).agg(["sum", "size"])
        # keys are texts because a record is JSON
        result["by_hops"] = counts.rename(str).T.to_dict("list")
    return result


def _labels(spec: TaskSpec, predictions: Any, rows: datasets.Dataset) -> tuple[Scores, list[int]]:
    gold, predicted = np.asarray(rows["label"][:]), np.asarray(predictions)
    correct = (gold == predicted).astype(int).tolist()
    result: Scores = {
        "scores": {name: 100 * float(METRICS[name](gold, predicted)) for name in spec.metrics},
        "constant": collapsed(gold, predicted, COLLAPSED if spec.kind == "regression" else 0.0),
    }
    if spec.headline in CORRELATIONS:
        none = {"chance": 0.0, "majority": 0.0}
        return result | none | {"outcomes": predicted.tolist(), "labels": gold.tolist()}, correct
    majority = 100 * float(np.bincount(gold).max()) / len(gold)
    return result | {
        "chance": 100 / len(spec.labels),
        "majority": majority,
        "outcomes": correct,
    }, correct


def _answers(
    spec: TaskSpec, answers: list[str], rows: datasets.Dataset
) -> tuple[Scores, list[int]]:
    golds = [gold["text"] for gold in rows[spec.gold][:]]
    graded = [squad.exact_match_and_f1(answer, gold) for answer, gold in zip(answers, golds)]
    exact, f1 = [same for same, _ in graded], [shared for _, shared in graded]
    constant = (
        len({squad.normalize_answer(a) for a in answers}) == 1 < len({g[0] for g in golds if g})
    )
    scores = {"exact_match": 100 * float(np.mean(exact)), "f1": 100 * float(np.mean(f1))}
    result = {"scores": scores, "chance": 0.0, "majority": 0.0, "constant": constant}
    return result | {"outcomes": exact, "outcomes_f1": f1}, exact


def _checked(values: Any) -> np.ndarray:
    numbers = np.asarray(values, dtype=np.float64)
    bad = int((~np.isfinite(numbers)).sum())
    if bad:
        raise Failed(f"outputs: {bad} of {numbers.size} are not finite", "; the run has diverged")
    return numbers


def finished(results: Results) -> dict[str, Mapping[str, Any]]:
    """Leave out the tasks that failed: they have no score, and are never averaged."""
    return {name: entry for name, entry in results.items() if "failed" not in entry}


def table(results: Results) -> pd.DataFrame:
    """Return one row a finished task: its score and 95 % interval over items in percent, beside
    what luck would get.
    """
    rows = pd.DataFrame.from_dict(finished(results), orient="index")
    score = rows[["headline", "items", "chance", "majority", "constant"]].round(1)
    score.insert(
        1, "95 % interval", ["{:.1f} to {:.1f}".format(*ends) for ends in rows["interval"]]
    )
    return score.rename(columns={"headline": "score"})


def floor(task: Task) -> dict[str, Any]:
    """Fit the floor under every score, a logistic regression on bags of words, on the rows that a
    model is fitted on.

    Returns what a record holds: its score on the reported rows, and on how many it was fitted, or
    the reason for none.
    """
    spec, train, evaluation = task.spec, task.train, task.evaluation
    if spec.kind == "span":
        return {"reason": "a bag of words marks no span"}
    if spec.kind == "choice":
        bags, gold = [], []
        for row in train:
            for number, bag in enumerate(_option_bags(spec, row)):
                bags.append(bag)
                gold.append(number == row["label"])
        right = _fitted(bags, gold).decision_function
        predictions = [int(np.argmax(right([*_option_bags(spec, row)]))) for row in evaluation]
    else:
        bags, items = ([_text_bag(spec, row) for row in part] for part in (train, evaluation))
        predictions = _fitted(bags, train["label"][:], spec.kind).predict(items)
    scores = score_predictions(spec, predictions, evaluation)
    return {key: scores[key] for key in KEPT} | {"trained_on": len(train)}


def _words(text: str) -> Words:
    """Return a text's words in lower case."""
    return re.findall(r"\w+", text.lower())


def _fitted(bags: Iterable[Words], gold: Any, kind: str = "classification") -> Pipeline:
    """Fit what learns the words of some bags and says of others which they hold, not how often."""
    model = Ridge() if kind == "regression" else LogisticRegression(max_iter=200)
    # logistic regression refuses rows that are all of one class
    if kind != "regression" and len(set(gold)) == 1:
        model = DummyClassifier()
    with warnings.catch_warnings():
        # a floor need not be the last digit's best
        warnings.simplefilter("ignore", ConvergenceWarning)
        return make_pipeline(CountVectorizer(analyzer=list, binary=True), model).fit(bags, gold)


def _text_bag(spec: TaskSpec, row: Mapping[str, Any]) -> Words:
    """Mark each word with the text it is in, and again where both texts have it."""
    texts = [_words(row[column]) for column in spec.texts]
    bag = [f"{place}:{word}" for place, text in enumerate(texts) for word in text]
    if len(texts) == 2:
        first, second = map(set, texts)
        bag += [f"both:{word}" for word in first & second]
        share = len(first & second) / max(1, len(first | second))
        bag.append(f"share:{round(10 * share)}")
    return bag


def _option_bags(spec: TaskSpec, row: Mapping[str, Any]) -> Iterator[Words]:
    """Yield a bag an option: its words, those also in the article, and how large a share that
    is.
    """
    article = set(_words(row[spec.texts[0]]))
    for plain, question in zip(row[spec.texts[2]], option_texts(spec, row)):
        option = _words(plain)
        shared = [word for word in option if word in article]
        share = round(5 * len(shared) / max(1, len(option)))
        bag = option + [f"asked:{word}" for word in _words(question)]
        bag += [f"both:{word}" for word in shared]
        yield [*bag, f"share:{share}"]
