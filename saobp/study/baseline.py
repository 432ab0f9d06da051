"""The floor under every score: a logistic regression on bags of words, which knows no order and no hops."""

import re
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import datasets
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import Pipeline, make_pipeline

from saobp.study.encoding import option_texts
from saobp.study.evaluation import Scores, score_predictions
from saobp.study.tasks import Task, TaskSpec

LONGEST_ANSWER = 4  # words of a candidate answer
WRONG_SPANS = 20  # per question, drawn to learn from

Words = list[str]


def baseline(task: Task, *, limit: int = 20_000, seed: int = 0) -> Scores:
    """Fit the floor on train and development (at most `limit` rows of them) and score it on evaluation.

    It sees which words each text has and which both have; for a choice the words of each option and those it
    shares with the article; for a span the words in and beside each candidate and those its sentence shares
    with the question. A regression gets ridge regression on the same.
    """
    rows = datasets.concatenate_datasets([task.train, task.development])
    if len(rows) > limit:
        rows = rows.select(np.sort(np.random.default_rng(seed).choice(len(rows), limit, replace=False)))
    predict = {"choice": _choices, "span": _spans}.get(task.spec.kind, _texts)
    return score_predictions(task.spec, predict(task.spec, rows, task.evaluation, seed), task.evaluation)


def words(text: str) -> Words:
    """Return a text's words in lower case."""
    return re.findall(r"\w+", text.lower())


def _bags() -> CountVectorizer:
    """Return what learns the words of some bags and says of others which they hold, not how often."""
    return CountVectorizer(analyzer=list, binary=True)


def _fitted(bags: list[Words], gold: Any) -> Pipeline:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a floor need not be the last digit's best
        return make_pipeline(_bags(), LogisticRegression(max_iter=200)).fit(bags, gold)


def _text_bag(spec: TaskSpec, row: Mapping[str, Any]) -> Words:
    """Mark each word with the text it is in, and again where both texts have it."""
    texts = [words(row[column]) for column in spec.texts]
    bag = [f"{place}:{word}" for place, text in enumerate(texts) for word in text]
    if len(texts) == 2:
        shared = set(texts[0]) & set(texts[1])
        bag += [f"both:{word}" for word in shared]
        bag.append(f"share:{round(10 * len(shared) / max(1, len(set(texts[0]) | set(texts[1]))))}")
    return bag


def _texts(spec: TaskSpec, rows: datasets.Dataset, evaluation: datasets.Dataset, _: int) -> np.ndarray:
    train, test = ([_text_bag(spec, row) for row in part] for part in (rows, evaluation))
    if spec.kind == "regression":
        return make_pipeline(_bags(), Ridge()).fit(train, rows["label"][:]).predict(test)
    return _fitted(train, rows["label"][:]).predict(test)


def _option_bags(spec: TaskSpec, row: Mapping[str, Any]) -> Iterator[Words]:
    """Yield a bag an option: its words, those also in the article, and how large a share that is."""
    article = set(words(row[spec.texts[0]]))
    for plain, asked in zip(row[spec.texts[2]], option_texts(spec, row)):
        option = words(plain)
        shared = [word for word in option if word in article]
        share = round(5 * len(shared) / max(1, len(option)))
        yield [
            *option,
            *(f"asked:{w}" for w in words(asked)),
            *(f"both:{w}" for w in shared),
            f"share:{share}",
        ]


def _choices(spec: TaskSpec, rows: datasets.Dataset, evaluation: datasets.Dataset, _: int) -> list[int]:
    train = [(bag, number == row["label"]) for row in rows for number, bag in enumerate(_option_bags(spec, row))]
    model = _fitted([bag for bag, _ in train], [right for _, right in train])
    test = [list(_option_bags(spec, row)) for row in evaluation]
    values = iter(model.decision_function([bag for bags in test for bag in bags]))
    return [int(np.argmax([next(values) for _ in bags])) for bags in test]


def _candidates(row: Mapping[str, Any]) -> Iterator[tuple[str, Words]]:
    """Yield each run of a few words of each sentence with what can be seen of it."""
    question = words(row["question"])
    for sentence in re.split(r"(?<=[.!?])\s", row["context"]):
        tokens = [(m.group(), m.start(), m.end()) for m in re.finditer(r"[\w'-]+", sentence)]
        near = len({t.lower() for t, _, _ in tokens} & set(question))
        for first in range(len(tokens)):
            for last in range(first, min(first + LONGEST_ANSWER, len(tokens))):
                text = sentence[tokens[first][1] : tokens[last][2]]
                left = tokens[first - 1][0] if first else "^"
                right = tokens[last + 1][0] if last + 1 < len(tokens) else "$"
                inside = words(text)
                asked = any(word in question for word in inside)
                shape = f"{question[0] if question else ''}:{text[0].isupper()}:{text[0].isdigit()}"
                bag = [f"in:{w}" for w in inside] + [f"left:{left.lower()}", f"right:{right.lower()}"]
                yield (
                    text,
                    [*bag, f"words:{last - first}", f"asked:{asked}", f"near:{near}", f"shape:{shape}"],
                )


def _spans(spec: TaskSpec, rows: datasets.Dataset, evaluation: datasets.Dataset, seed: int) -> list[str]:
    random = np.random.default_rng(seed)
    bags, right = [], []
    for row in rows.select(range(min(len(rows), 2000))):
        found = list(_candidates(row))
        gold = [n for n, (text, _) in enumerate(found) if text in row[spec.gold]["text"]]
        wrong = random.permutation([n for n in range(len(found)) if n not in gold])[:WRONG_SPANS]
        bags += [found[n][1] for n in (*gold, *wrong)]
        right += [True] * len(gold) + [False] * len(wrong)
    model = _fitted(bags, right)
    answers = []
    for row in evaluation:
        found = list(_candidates(row))
        best = model.decision_function([bag for _, bag in found]).argmax() if found else None
        answers.append(found[best][0] if found else "")
    return answers
