import dataclasses

import datasets
import numpy as np
import pytest

from saobp.study.data.task_rows import Task
from saobp.study.evaluation.bag_of_words import floor
from saobp.study.setup.tasks_and_metrics import TASKS


def task(name, make, count=120):
    """Return a task whose rows a function makes from their number."""
    made = [make(n, np.random.default_rng(n)) for n in range(count)]
    parts = (datasets.Dataset.from_list(rows) for rows in (made[: count // 2], made[:5], made[count // 2 :]))
    return Task(TASKS[name], *parts, [])


def telling(n, random):
    noise = " ".join(f"w{k}" for k in random.integers(0, 20, 5))
    return {"sentence": f"{noise} {'good' if n % 2 else 'bad'}", "label": n % 2}


def shared(n, random):
    """One word is shared, and which of the two it is tells the label: not only how many are."""
    a, b, c = "xy"[n % 2], "pq"[n // 2 % 2], n // 4 % 2
    other_a, other_b = {"x": "y", "y": "x"}[a], {"p": "q", "q": "p"}[b]
    return {"sentence1": f"{a} {b}", "sentence2": f"{a} {other_b}" if c else f"{other_a} {b}", "label": c}


def named(n, random):
    options = [f"w{k}" for k in random.permutation(100)[:4]]
    return {"article": f"it was {options[n % 4]} .", "question": "What?", "options": options, "label": n % 4}


@pytest.mark.parametrize("name, make", [("sst2", telling), ("mrpc", shared), ("race", named)])
def test_words_that_give_the_answer_away_are_found(name, make):
    found = floor(task(name, make))
    assert (found["headline"], found["metric"]) == (100, "accuracy")


def test_word_order_alone_is_not_seen_nor_case_nor_marks():
    def make(n, random):
        one, other = ("ann", "Ben!") if n % 2 else ("ben", "Ann")
        return {"sentence1": f"{one} sees {other}", "sentence2": "ann sees ben", "label": n % 2}

    assert floor(task("rte", make))["constant"] is True


def test_similarity_is_learned_from_shared_words():
    def make(n, random):
        same, kept = random.permutation(100)[:5], n % 6
        other = [*same[:kept], *random.integers(100, 200, 5 - kept)]
        texts = (" ".join(f"w{k}" for k in text) for text in (same, other))
        return dict(zip(("sentence1", "sentence2"), texts)) | {"label": float(kept)}

    assert floor(task("stsb", make))["headline"] > 90


def test_the_floor_learns_from_what_the_weights_are_fitted_on_and_from_no_other_row():
    known = task("sst2", telling, 40)
    reversed_rows = known.train.map(lambda row: {"label": 1 - row["label"]})
    for unseen in (known, dataclasses.replace(known, development=reversed_rows)):
        found = floor(unseen)
        assert (found["headline"], found["trained_on"], found["items"]) == (100, 20, 20)
    assert floor(dataclasses.replace(known, train=reversed_rows))["headline"] == 0


def test_a_few_rows_of_one_class_give_that_class_and_spans_have_no_floor_and_say_so():
    rows = task("sst2", lambda n, _: {"sentence": f"w{n}", "label": int(n >= 5)}, 10)
    assert floor(rows)["scores"]["accuracy"] == 0  # fitted on zeros alone, reported on ones
    spans = task("squad", lambda n, _: {"question": "Who?", "context": "Ann.", "answers": {"text": ["Ann"]}}, 4)
    assert floor(spans) == {"reason": "a bag of words marks no span"}
