import dataclasses
import json

import datasets
import numpy as np
import pytest

from companion.data.task_rows import Task
from companion.evaluation.scoring import finished, floor, score, score_predictions, table
from companion.records.schema import Failed
from companion.setup.tasks_and_metrics import TASKS
from companion.statistics.task_scores import headline_interval


def rows(labels, **columns):
    return datasets.Dataset.from_dict({"label": labels, **columns})


def logits(predictions):
    return np.eye(2)[predictions]


def test_accuracy_correlations_and_the_overlap_of_spans_by_hand():
    found = score(TASKS["mrpc"], logits([1, 1, 0, 1, 0]), rows([1, 0, 0, 1, 1]))
    # 2 of 3 said, 2 of 3 true
    assert found["scores"] == pytest.approx({"accuracy": 60, "f1": 100 * 2 * 2 / (3 + 3)})
    assert found["outcomes"] == [1, 0, 1, 1, 0]
    assert (found["metric"], found["headline"]) == ("accuracy", found["scores"]["accuracy"])
    assert (found["items"], found["chance"], found["majority"]) == (5, 50, 60)
    # the likeliest option
    found = score(TASKS["race"], np.array([[0, 2, 1, 0], [3, 0, 0, 0.0]]), rows([1, 2]))
    assert (found["headline"], found["chance"], found["outcomes"]) == (50, 25, [1, 0])
    # true positives 2, true negatives 1, false positives 1, false negatives 1
    found = score(TASKS["cola"], logits([1, 1, 0, 1, 0]), rows([1, 0, 0, 1, 1]))
    assert found["headline"] == pytest.approx(100 * (2 * 1 - 1 * 1) / np.sqrt(3 * 3 * 2 * 2))
    assert (found["chance"], found["majority"]) == (0, 0)
    assert (found["outcomes"], found["labels"]) == ([1, 1, 0, 1, 0], [1, 0, 0, 1, 1])
    found = score(TASKS["stsb"], np.array([[1.0], [2.0], [4.0]]), rows([1.0, 2.0, 3.0]))
    assert found["scores"] == pytest.approx(
        {"pearson": 100 * 3 / np.sqrt(2 * 14 / 3), "spearman": 100}
    )
    assert found["outcomes"] == [1, 2, 4]
    answers = [
        {"text": ["Ben", "the baker Ben"], "answer_start": [0, 0]},
        {"text": ["red kite"], "answer_start": [3]},
    ]
    data = datasets.Dataset.from_dict({"answers": answers, "context": ["", ""], "hops": [1, 2]})
    found = score_predictions(TASKS["squad"], ["the Ben", "kite"], data)
    assert found["scores"] == pytest.approx({"exact_match": 50, "f1": 100 * (1 + 2 / 3) / 2})
    assert found["outcomes"] == [1, 0]
    assert found["outcomes_f1"] == pytest.approx([1, 2 / 3])
    assert found["by_hops"] == {"1": [1, 1], "2": [0, 1]}


@pytest.mark.parametrize("name, headline", [("rte", 60), ("cola", 0), ("stsb", 0)])
def test_a_constant_predictor_is_named_and_scores_the_majority_or_no_correlation(name, headline):
    outputs = np.full((10, 1), 2.5) if name == "stsb" else logits([1] * 10)
    found = score(TASKS[name], outputs, rows([1] * 6 + [0] * 4))
    assert (found["headline"], found["constant"]) == (headline, True)
    assert found["majority"] == headline


def test_similarities_that_hardly_differ_are_constant_and_a_class_given_to_one_item_of_very_many_is_not():
    random = np.random.default_rng(0)
    gold, noise = random.uniform(0, 5, 300), random.normal(size=300)
    for share in (1e-5, 0.0099, 0.0101, 0.5):
        predicted = 2.5 + share * gold.std() * noise / noise.std()
        assert score(TASKS["stsb"], predicted, rows(gold))["constant"] is (share < 0.01)
    predicted = np.eye(1, 50_000, 7, dtype=int)[0]
    assert score_predictions(TASKS["rte"], predicted, rows([0, 1] * 25_000))["constant"] is False
    # nor one right about a constant
    assert score(TASKS["rte"], logits([1, 1]), rows([1, 1]))["constant"] is False


def test_below_chance_needs_more_than_bad_luck():
    def below(right, items):
        return score(TASKS["rte"], logits([1] * right + [0] * (items - right)), rows([1] * items))[
            "below_chance"
        ]

    # its interval reaches 50.3
    assert below(40, 100) is False
    # 49.3
    assert below(39, 100) is True
    assert below(1, 4) is False
    gold = np.linspace(0, 5, 40)
    assert score(TASKS["stsb"], -gold, rows(gold))["below_chance"] is True
    assert score(TASKS["stsb"], gold, rows(gold))["below_chance"] is False


def test_the_interval_of_a_correlation_is_fishers_and_that_of_matthews_wider_where_a_class_is_rare():
    low, high = headline_interval("pearson", 50.0, 103)
    assert np.arctanh([low / 100, high / 100]) == pytest.approx(
        np.arctanh(0.5) + np.array([-0.196, 0.196]), abs=1e-4
    )
    assert headline_interval("pearson", 100.0, 3) == (-100, 100)
    random, misses = np.random.default_rng(0), 0
    true = 100 * (0.855 * 0.095 - 0.045 * 0.005) / np.sqrt(0.86 * 0.9 * 0.1 * 0.14)
    # 9 of 10 sentences are acceptable, and 1 of 20 answers is wrong, whatever the class
    for _ in range(100):
        gold = (random.random(400) < 0.9).astype(int)
        entry = score_predictions(
            TASKS["cola"], np.where(random.random(400) < 0.05, 1 - gold, gold), rows(gold)
        )
        low, high = entry["interval"]
        misses += not low <= true <= high
        assert high - low >= np.ptp(headline_interval("matthews", entry["headline"], 400)) - 1e-9
    assert misses <= 0.09 * 100


@pytest.mark.parametrize("name", ["rte", "cola", "stsb", "race"])
def test_scores_are_plain_json_and_right_answers_are_counted_by_hops(name):
    labels = [0.0, 2.0] * 3 if name == "stsb" else [0, 1] * 3
    outputs = np.random.default_rng(0).normal(size=(6, {"stsb": 1, "race": 4}.get(name, 2)))
    found = score(TASKS[name], outputs, rows(labels, hops=[1, 1, 2, 2, 3, 3]))
    assert json.loads(json.dumps(found)) == found and "by_hops" not in score(
        TASKS[name], outputs, rows(labels)
    )
    right = (outputs.argmax(1) == labels).astype(int)
    counted = {str(hops): [right[2 * hops - 2 : 2 * hops].sum(), 2] for hops in (1, 2, 3)}
    assert found.get("by_hops") == (None if name == "stsb" else counted)
    outputs[0, 0] = np.nan
    with pytest.raises(
        Failed, match=f"outputs: 1 of {outputs.size} are not finite; the run has diverged"
    ):
        score(TASKS[name], outputs, rows(labels))


def test_the_table_shows_each_finished_task_beside_what_luck_would_get():
    results = {
        "guessed": score_predictions(TASKS["rte"], [0, 0, 1, 1] * 25, rows([0, 1] * 50)),
        "majority": score_predictions(TASKS["rte"], [0] * 100, rows([0] * 75 + [1] * 25)),
        "broken": {"failed": {"reason": "the loss is nan", "message": ""}},
    }
    shown = table(results)
    # Clopper and Pearson's
    assert shown.loc["guessed"].tolist() == [50, "39.8 to 60.2", 100, 50, 50, False]
    assert shown.loc["majority"].tolist() == [75, "65.3 to 83.1", 100, 50, 75, True]
    assert list(shown.index) == list(finished(results)) == ["guessed", "majority"]


def task(name, make, count=120):
    """Return a task whose rows a function makes from their number."""
    made = [make(n, np.random.default_rng(n)) for n in range(count)]
    parts = (
        datasets.Dataset.from_list(rows)
        for rows in (made[: count // 2], made[:5], made[count // 2 :])
    )
    return Task(TASKS[name], *parts, [])


def telling(n, random):
    noise = " ".join(f"w{k}" for k in random.integers(0, 20, 5))
    return {"sentence": f"{noise} {'good' if n % 2 else 'bad'}", "label": n % 2}


def shared(n, random):
    """One word is shared, and which of the two it is tells the label: not only how many are."""
    a, b, c = "xy"[n % 2], "pq"[n // 2 % 2], n // 4 % 2
    other_a, other_b = {"x": "y", "y": "x"}[a], {"p": "q", "q": "p"}[b]
    return {
        "sentence1": f"{a} {b}",
        "sentence2": f"{a} {other_b}" if c else f"{other_a} {b}",
        "label": c,
    }


def named(n, random):
    options = [f"w{k}" for k in random.permutation(100)[:4]]
    return {
        "article": f"it was {options[n % 4]} .",
        "question": "What?",
        "options": options,
        "label": n % 4,
    }


@pytest.mark.parametrize("name, make", [("sst2", telling), ("mrpc", shared), ("race", named)])
def test_words_that_give_the_answer_away_are_found(name, make):
    found = floor(task(name, make))
    assert (found["headline"], found["metric"]) == (100, "accuracy")


def test_similarity_is_learned_from_shared_words_and_their_order_case_and_marks_are_not_seen():
    def similar(n, random):
        same, kept = random.permutation(100)[:5], n % 6
        other = [*same[:kept], *random.integers(100, 200, 5 - kept)]
        texts = (" ".join(f"w{k}" for k in text) for text in (same, other))
        return dict(zip(("sentence1", "sentence2"), texts)) | {"label": float(kept)}

    def turned(n, random):
        one, other = ("ann", "Ben!") if n % 2 else ("ben", "Ann")
        return {"sentence1": f"{one} sees {other}", "sentence2": "ann sees ben", "label": n % 2}

    assert (
        floor(task("stsb", similar))["headline"] > 90
        and floor(task("rte", turned))["constant"] is True
    )


def test_the_floor_learns_from_what_the_weights_are_fitted_on_and_from_no_other_row():
    known = task("sst2", telling, 40)
    reversed_rows = known.train.map(lambda row: {"label": 1 - row["label"]})
    for unseen in (known, dataclasses.replace(known, development=reversed_rows)):
        found = floor(unseen)
        assert (found["headline"], found["trained_on"], found["items"]) == (100, 20, 20)
    assert floor(dataclasses.replace(known, train=reversed_rows))["headline"] == 0


def test_a_few_rows_of_one_class_give_that_class_and_spans_have_no_floor_and_say_so():
    rows = task("sst2", lambda n, _: {"sentence": f"w{n}", "label": int(n >= 5)}, 10)
    # fitted on zeros alone, reported on ones
    assert floor(rows)["scores"]["accuracy"] == 0
    spans = task(
        "squad",
        lambda n, _: {"question": "Who?", "context": "Ann.", "answers": {"text": ["Ann"]}},
        4,
    )
    assert "no span" in floor(spans)["reason"]
