"""Scores against luck, in a table, a sentence and a picture."""

import numpy as np

from saobp.study.evaluation import luck
from saobp.study.evaluation.metrics import score_predictions
from saobp.study.setup.benchmarks import TASKS


class Rows(dict):
    """What a data set shows to `score_predictions`: columns, and how many rows."""

    column_names = ("label",)

    def __len__(self):
        return len(self["label"])


def scored(gold, predicted):
    return score_predictions(TASKS["rte"], np.array(predicted), Rows(label=np.array(gold)))


HALF = [0, 1] * 50
RESULTS = {
    "learned": scored(HALF, HALF) | {"epoch": 2},
    "guessed": scored(HALF, [0, 0, 1, 1] * 25) | {"epoch": 1},
    "majority": scored([0] * 75 + [1] * 25, [0] * 100) | {"epoch": 1},
    "reversed": scored(HALF, [1, 0] * 50) | {"epoch": 1},
    "broken": {"failed": {"reason": "the loss is nan", "message": ""}},
}


def test_the_table_shows_each_finished_task_beside_what_luck_would_get():
    table = luck.table(RESULTS)
    assert list(table.index) == ["learned", "guessed", "majority", "reversed"]
    assert list(table["interval below chance"]) == [False, False, False, True]
    assert list(table.constant) == [False, False, True, False]
    assert table.score["majority"] == 75 and table.majority["majority"] == 75 and table.chance["majority"] == 50
    assert table["95 % interval"]["guessed"] == "39.8 to 60.2"  # Clopper and Pearson's for 50 of 100
    assert table.epoch["learned"] == 2


def test_a_score_without_epochs_has_no_such_column():
    assert "epoch" not in luck.table({"race": scored(HALF, HALF)})


def test_the_floor_stands_beside_the_score_or_the_reason_for_none():
    floors = {"learned": {"headline": 61.26}, "guessed": {"reason": "a bag of words marks no span"}}
    table = luck.table({name: RESULTS[name] | {"floor": floor} for name, floor in floors.items()})
    assert list(table["bag of words"]) == [61.3, "a bag of words marks no span"]
    assert "bag of words" not in luck.table(RESULTS)
