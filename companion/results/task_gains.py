"""Rows of fine-tuned scores: what High adds to Original, task by task, and what a bag of words
scores.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from companion.records.schema import Record
from companion.results.row import CONTRAST, Endpoint, Row
from companion.results.study import Study
from companion.setup import labels
from companion.setup.tasks_and_metrics import GLUE, TASKS
from companion.statistics import estimates, mean_interval, task_scores

GAIN = Endpoint("score", "points", 1)
GLUE_MEAN = Endpoint("mean of GLUE tasks", "points", 1)
BELOW = Endpoint("tasks below a bag of words", "tasks", of_what="tasks")
ARMS = ("high", "low", "elemmul")


def rows(study: Study) -> Iterator[Row]:
    """Yield the rows of a study's fine-tuned scores, one model after the other.

    The story world's own tasks have a benchmark's name and none of its rows: they are left out.
    """
    models = study.models("finetune")
    for model in models:
        runs = study.runs("finetune", model=model)
        if {run["data"].get("source") for run in runs} == {"synthetic"}:
            continue
        suffix = f", {labels.model_title(model)}" if len(models) > 1 else ""
        for task in TASKS:
            yield from _of_task(study, runs, task, suffix)
        yield from _mean_of_glue(study, runs, suffix)
        yield from _below_words(study, runs, suffix)


def _of_task(study: Study, runs: Sequence[Record], task: str, suffix: str) -> Iterator[Row]:
    """Yield each algorithm − Original on one task, paired over seeds and items."""
    model = runs[0]["parameters"]["model"]
    plain = task_scores.scores(runs, model, "original", task)
    named = GAIN.of(f" on {TASKS[task].title}{suffix}")
    for algorithm in ARMS:
        scores = task_scores.scores(runs, model, algorithm, task)
        estimate = estimates.score_difference(scores, plain)
        if estimate is not None:
            yield study.row(
                named, f"{labels.algorithm_title(algorithm)} − Original", estimate, model
            )
    if plain:
        mean = np.mean([score.value for score in plain])
        yield study.level(replace(named, unit="percent"), "Original", mean, len(plain), model)


def _mean_of_glue(study: Study, runs: Sequence[Record], suffix: str) -> Iterator[Row]:
    """Yield High − Original of the mean over the GLUE tasks that most seeds have.

    A task on which both sides give one answer to all items says nothing and is left out.
    """
    model = runs[0]["parameters"]["model"]
    by_task = {}
    for task in GLUE:
        high, plain = (task_scores.scores(runs, model, name, task) for name in ("high", "original"))
        varying = [score for score in (*high, *plain) if not score.constant]
        gaps = estimates.seed_differences(high, plain)
        if varying and gaps:
            by_task[task] = {seed: gap for (seed, _), gap in gaps.items()}
    frame = pd.DataFrame(by_task)
    if frame.empty:
        return
    most = frame.count().max()
    kept = frame[[task for task in frame if frame[task].count() == most]]
    estimate = mean_interval(kept.mean(axis=1, skipna=False).dropna().tolist())
    note = ", ".join(TASKS[task].title for task in kept)
    named = GLUE_MEAN.of(suffix)
    yield study.row(named, CONTRAST, estimate, model, note)


def _below_words(study: Study, runs: Sequence[Record], suffix: str) -> Iterator[Row]:
    """Yield on how many GLUE tasks Original scores below a bag of words."""
    model = runs[0]["parameters"]["model"]
    below, tasks = 0, 0
    for task in GLUE:
        plain = task_scores.scores(runs, model, "original", task)
        entries = task_scores.entries(runs, task)
        floors = [(entry.get("floor") or {}).get("headline") for entry in entries]
        floors = [floor for floor in floors if floor is not None]
        if plain and floors:
            tasks += 1
            below += np.mean([score.value for score in plain]) < np.mean(floors)
    if tasks:
        named = BELOW.of(suffix)
        yield study.level(named, "Original", below, tasks, model)
