"""Nothing on the surface of a multi-hop question gives its answer away: what cannot chain scores at
chance.

Each baseline is a logistic regression, trained on one half of the items and scored on the other,
both ways.
"""

import re
from functools import lru_cache
from random import Random

import numpy as np
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import scale

from companion.storyworld import inference

# three points are nearly three standard deviations of a coin's 2,000 throws
ITEMS, MARGIN = 2000, 0.03
TASKS = {
    "rte": (inference.rte, "sentence1", "sentence2", "label"),
    "mnli": (inference.mnli, "premise", "hypothesis", "label"),
    "qnli": (inference.qnli, "sentence", "question", "label"),
    "wnli": (inference.wnli, "sentence1", "sentence2", "label"),
    "boolq": (inference.boolq, "passage", "question", "answer"),
}
SMALL = set(
    re.findall(r"\w+", "the a an is of in to by with what who whom whose where which does do that")
)


def many_hops(make, name, count):
    """Return items of two hops and more; their labels are as balanced as among the others."""
    random = Random(f"cues/{name}")
    made = [make(random, index) for index in range(count * 4 // 3) if index % 4]
    random.shuffle(made)
    return made


@lru_cache(maxsize=8)
def read(story):
    """Return a story's words, their pairs, where each first stands, and its sentences as sets of
    words.
    """
    words = re.findall(r"\w+", story.lower())
    places = {word: place / len(words) for place, word in reversed(list(enumerate(words)))}
    sentences = [set(re.findall(r"\w+", sentence)) for sentence in story.lower().split(". ")]
    return words, set(zip(words, words[1:])), places, sentences


def cues(story, text):
    """Return what can be counted without chaining facts: lengths, overlaps, places, shared
    sentences.
    """
    (words, pairs, places, sentences), asked = read(story), re.findall(r"\w+", text.lower())
    content = [word for word in asked if word not in SMALL]
    met, shared = list(zip(asked, asked[1:])), [len(s.intersection(content)) for s in sentences]
    where = [places[word] for word in content if word in places] or [1.0]
    overlaps = [
        sum(word in places for word in content) / len(content),
        sum(words.count(word) for word in content),
    ]
    overlaps += [
        sum(pair in pairs for pair in met) / len(met),
        max(shared),
        sum(n > 1 for n in shared),
    ]
    lengths = [len(words), len(asked), len(shared), len(places) - len(words)]
    return [*lengths, *overlaps, min(where), max(where), where[0], where[-1]]


def predicted(pairs, labels, sides=(0, 1), method="predict"):
    """Return what a model of words and pairs of words of the texts, and of the cues, that was
    trained on the other half
    of the items says of each."""
    words = CountVectorizer(ngram_range=(1, 2), binary=True, min_df=5)
    counted = [words.fit_transform([pair[side] for pair in pairs]) for side in sides]
    table = sparse.hstack([*counted, scale([cues(*pair) for pair in pairs])]).tocsr()
    model = OneVsRestClassifier(LogisticRegression(C=0.05, solver="liblinear", max_iter=300))
    return cross_val_predict(model, table, labels, cv=KFold(2), method=method)


@pytest.mark.parametrize("task", TASKS)
def test_words_and_overlaps_do_not_tell_the_label_of_many_hop_items(task):
    make, story, text, label = TASKS[task]
    items = many_hops(make, task, ITEMS)
    labels = np.array([int(item[label]) for item in items])
    right = predicted([(item[story], item[text]) for item in items], labels) == labels
    assert right.mean() == pytest.approx(1 / len(np.unique(labels)), abs=MARGIN)


def test_words_and_overlaps_do_not_choose_the_option_of_many_hop_items():
    items = many_hops(inference.race, "race", ITEMS)
    pairs = [
        (row["article"], f"{row['question']} {option}")
        for row in items
        for option in row["options"]
    ]
    right = np.array(
        [place == "ABCD".index(item["answer"]) for item in items for place in range(4)]
    )
    # the article's own words weigh the same for its four options: only the cues compare them with
    # it
    chosen = (
        predicted(pairs, right, sides=(1,), method="decision_function").reshape(-1, 4).argmax(1)
    )
    assert (chosen == right.reshape(-1, 4).argmax(1)).mean() == pytest.approx(0.25, abs=MARGIN)


def test_the_span_of_squad_is_at_no_preferred_place():
    """Among the sentences of a story, the answer's stands anywhere equally often."""
    items, places = many_hops(inference.squad, "squad", 2 * ITEMS), []
    for item in items:
        (start,) = item["answers"]["answer_start"]
        before = item["context"][:start].count(". ")
        places.append((before + 0.5) / item["context"].count("."))
    assert np.mean(places) == pytest.approx(0.5, abs=MARGIN / 2)
    assert np.histogram(places, bins=4, range=(0, 1))[0] / len(items) == pytest.approx(
        0.25, abs=MARGIN
    )


def test_the_baselines_do_see_a_cue_where_there_is_one():
    """The same regression on stories that lose a sentence where they do not answer the question."""
    items = many_hops(inference.qnli, "leak", 1200)
    labels = np.array([item["label"] for item in items])
    pairs = [(item["sentence"].split(". ", item["label"])[-1], item["question"]) for item in items]
    assert (predicted(pairs, labels) == labels).mean() > 0.6
