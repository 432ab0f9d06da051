"""The floor under every score: a logistic regression on bags of words, which knows no order and no hops."""

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import Pipeline, make_pipeline

from saobp.study.data.encoding import option_texts
from saobp.study.data.task_rows import Task
from saobp.study.evaluation.scoring import score_predictions
from saobp.study.setup.tasks_and_metrics import TaskSpec

KEPT = ("headline", "metric", "scores", "items", "interval", "constant")  # of a score, in a record

Words = list[str]


def floor(task: Task) -> dict[str, Any]:
    """Fit the floor on the rows that a model's weights are fitted on, and score it on the reported ones.

    Returns what a record holds: the score and how many rows it learned from, or the reason for none.
    """
    spec, train, evaluation = task.spec, task.train, task.evaluation
    if spec.kind == "span":
        return {"reason": "a bag of words marks no span"}
    if spec.kind == "choice":
        options = [(bag, number == row["label"]) for row in train for number, bag in enumerate(_option_bags(spec, row))]
        right = _fitted(*zip(*options)).decision_function
        found = [int(np.argmax(right([*_option_bags(spec, row)]))) for row in evaluation]
    else:
        bags, asked = ([_text_bag(spec, row) for row in part] for part in (train, evaluation))
        found = _fitted(bags, train["label"][:], spec.kind).predict(asked)
    scores = score_predictions(spec, found, evaluation)
    return {key: scores[key] for key in KEPT} | {"trained_on": len(train)}


def words(text: str) -> Words:
    """Return a text's words in lower case."""
    return re.findall(r"\w+", text.lower())


def _fitted(bags: Iterable[Words], gold: Any, kind: str = "classification") -> Pipeline:
    """Fit what learns the words of some bags and says of others which they hold, not how often."""
    model = Ridge() if kind == "regression" else LogisticRegression(max_iter=200)
    if kind != "regression" and len(set(gold)) == 1:  # logistic regression refuses rows that are all of one class
        model = DummyClassifier()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a floor need not be the last digit's best
        return make_pipeline(CountVectorizer(analyzer=list, binary=True), model).fit(bags, gold)


def _text_bag(spec: TaskSpec, row: Mapping[str, Any]) -> Words:
    """Mark each word with the text it is in, and again where both texts have it."""
    texts = [words(row[column]) for column in spec.texts]
    bag = [f"{place}:{word}" for place, text in enumerate(texts) for word in text]
    if len(texts) == 2:
        shared = set(texts[0]) & set(texts[1])
        bag += [f"both:{word}" for word in shared]
        bag.append(f"share:{round(10 * len(shared) / max(1, len(set(texts[0]) | set(texts[1]))))}")
    return bag


def _option_bags(spec: TaskSpec, row: Mapping[str, Any]) -> Iterator[Words]:
    """Yield a bag an option: its words, those also in the article, and how large a share that is."""
    article = set(words(row[spec.texts[0]]))
    for plain, asked in zip(row[spec.texts[2]], option_texts(spec, row)):
        option = words(plain)
        shared = [word for word in option if word in article]
        share = round(5 * len(shared) / max(1, len(option)))
        yield [*option, *(f"asked:{w}" for w in words(asked)), *(f"both:{w}" for w in shared), f"share:{share}"]
