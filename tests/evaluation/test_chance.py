"""Scores against luck, in a table."""

import datasets
import numpy as np

from saobp.study.evaluation import luck
from saobp.study.evaluation.scoring import score_predictions
from saobp.study.setup.tasks_and_metrics import TASKS


def scored(gold, predicted):
    return score_predictions(TASKS["rte"], np.array(predicted), datasets.Dataset.from_dict({"label": gold}))


def test_the_table_shows_each_finished_task_beside_what_luck_would_get():
    results = {
        "guessed": scored([0, 1] * 50, [0, 0, 1, 1] * 25),
        "majority": scored([0] * 75 + [1] * 25, [0] * 100),
        "broken": {"failed": {"reason": "the loss is nan", "message": ""}},
    }
    table = luck.table(results)
    assert table.loc["guessed"].tolist() == [50, "39.8 to 60.2", 100, 50, 50, False]  # Clopper and Pearson's
    assert table.loc["majority"].tolist() == [75, "65.3 to 83.1", 100, 50, 75, True]
    assert list(table.index) == list(luck.finished(results)) == ["guessed", "majority"]
