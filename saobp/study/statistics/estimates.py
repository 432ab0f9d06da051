"""From runs to numbers: which of them answer a question, and the estimate that they give."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import isfinite, nan
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from saobp.study.setup import labels
from saobp.study.setup.records import select
from saobp.study.setup.schema import Record
from saobp.study.statistics import Estimate, item_errors, mean_interval
from saobp.study.statistics.paired import paired_correlations, paired_difference
from saobp.study.statistics.task_scores import Score, by_pretraining, headline_interval, same_items


def models(records: Iterable[Record], *, decoder: bool = False) -> list[str]:
    """The models with runs, one per size in the paper's order; a scaled-down one only where the size itself has no run.

    A size whose cost alone was measured was not trained: it hides no scaled-down one, and is named where there is
    nothing else.
    """
    records = list(records)
    timed, trained = (
        {record["parameters"].get("model") for record in records if (record["stage"] == "cost") == only} - {None}
        for only in (True, False)
    )
    names = [name for name in trained or timed if labels.is_decoder(name) == decoder]
    chosen = []
    for size in labels.PAPER_SIZES:
        same = sorted((name for name in names if labels.size(name) == size), key=labels.is_scaled_down)
        chosen += same[:1]
    return chosen


def sizes(records: Iterable[Record], *, decoder: bool = False) -> list[str]:
    """Every size of the paper, by the model that has its runs (`models`), or by its own name where there are none."""
    found = {labels.size(name): name for name in models(records, decoder=decoder)}
    return [found.get(size, labels.DECODER * decoder + size) for size in labels.PAPER_SIZES]


def algorithms(records: Iterable[Record]) -> list[str]:
    """The algorithms with runs, in the order of `labels.ALGORITHMS`."""
    present = {record["parameters"].get("algorithm") for record in records}
    return [name for name in labels.ALGORITHMS if name in present]


def score_estimate(runs: list[Score]) -> Estimate | None:
    """Mean score in percent with its interval over seeds and items; None without a run."""
    if not runs:
        return None
    runs = by_pretraining(runs)
    if len(runs) > 1:
        shared, least = errors_over_items(runs)
        return mean_interval([run.value for run in runs], item_error=shared, least=least, items=runs[0].items)
    (run,) = runs
    error = 0.0 if run.labels is None else item_errors([run.predictions], run.labels)[0]
    return Estimate(run.value, *headline_interval(run.metric, run.value, run.items, error), 1, run.items)


def errors_over_items(runs: list[Score]) -> tuple[float, float]:
    """Standard errors over the items, in points: what several runs share (`item_errors`), and that of their mean.

    Both are a run's whole error, which is too wide rather than too narrow, for runs on different items and where no
    draw of items moves a score, as with a constant predictor's correlation.
    """
    whole, found = float(np.mean([run.item_error for run in runs])), (0.0, 0.0)
    if len(runs) > 1 and same_items(runs):
        gold = runs[0].labels
        found = item_errors([run.outcomes if gold is None else run.predictions for run in runs], gold)
    return found[0] or whole, found[1] or whole


def average_estimate(by_task: dict[str, list[Score]]) -> Estimate | None:
    """Mean over tasks of a benchmark, as the paper's GLUE column; None unless some seed has all tasks."""
    values = _means([{run.key: run.value for run in runs} for runs in by_task.values()])
    if not values:
        return None
    shared = ([run for run in runs if run.key in values] for runs in by_task.values())
    errors = [errors_over_items(by_pretraining(runs)) for runs in shared]
    return _average(values, errors, sum(runs[0].items for runs in by_task.values()))


def _means(by_task: list[dict[Any, float]]) -> dict[Any, float]:
    """The mean over tasks of each seed that has all: a seed's tasks move together."""
    shared = sorted(set.intersection(*map(set, by_task)), key=str)
    return {key: float(np.mean([found[key] for found in by_task])) for key in shared}


def _average(values: dict[Any, float], errors: Sequence[tuple[float, float]], items: int) -> Estimate:
    """Mean over pretraining seeds, or the fine-tuning seeds of a single one, with the tasks' errors over their items.

    Different tasks have different items, so their errors add in squares.
    """
    by_seed = pd.Series([*values.values()]).groupby([key[0] for key in values]).mean().tolist()
    shared, least = np.linalg.norm(np.nan_to_num(errors), axis=0) / len(errors)
    each = by_seed if len(by_seed) > 1 else [*values.values()]
    return mean_interval(each, item_error=float(shared), least=float(least), items=items)


def score_difference(ours: list[Score], theirs: list[Score]) -> Estimate | None:
    """Ours minus theirs, paired by item and by seed where both sides share seeds.

    A correlation (Matthews, Pearson) is computed anew on the items drawn, for each run. None where either side has no
    run, or another has other items.
    """
    if not ours or not theirs or not same_items(ours + theirs):
        return None
    left, right = ({run.key: run for run in side} for side in (ours, theirs))
    if keys := sorted(left.keys() & right.keys(), key=str):  # else all runs
        ours, theirs = ([side[key] for key in keys] for side in (left, right))
    ours, theirs = by_pretraining(ours), by_pretraining(theirs)
    if (gold := ours[0].labels) is None:
        return paired_difference(*(np.stack([run.outcomes for run in side]) for side in (ours, theirs)))
    return paired_correlations(*([run.predictions for run in side] for side in (ours, theirs)), gold)


def average_difference(ours: dict[str, list[Score]], theirs: dict[str, list[Score]]) -> Estimate | None:
    """Difference of two averages over tasks; None unless every task has both sides and some seed has all tasks.

    The spread over seeds has all that a seed brings; added to it is only the error over items that the seeds share.
    The seeds are those of pretraining; a single one counts as one run, whose interval covers its fine-tuning seeds.
    """
    gaps = [score_difference(ours[task], theirs[task]) for task in ours]
    values = _means([seed_differences(ours[task], theirs[task]) for task in ours])
    if None in gaps or not values:
        return None
    items = sum(gap.items for gap in gaps)
    return replace(_average(values, [gap.over_items for gap in gaps], items), seeds=len({key[0] for key in values}))


def seed_differences(ours: list[Score], theirs: list[Score]) -> dict[tuple[Any, ...], float]:
    """Ours minus theirs for each seed that both sides have."""
    right = {run.key: run.value for run in theirs}
    return {run.key: run.value - right[run.key] for run in ours if run.key in right}


def matrix(record: Record, kind: str = "refined") -> dict[str, Any]:
    """The attention measures of a record: of the refined matrix (that multiplies the values) or the raw one.

    Plain attention has one matrix; whichever a record holds serves for both.
    """
    matrices = record["metrics"].get("matrices") or {}
    return matrices.get(kind) or matrices.get("raw") or {}


def attention_runs(records: Iterable[Record], model: str, algorithm: str, task: str) -> list[Record]:
    """The attention records of a model and algorithm on a task."""
    runs = select(list(records), "attention", model=model, algorithm=algorithm)
    return [run for run in runs if run["metrics"].get("task") == task]


def mean_over_runs(values: Iterable[float | Estimate | None]) -> Estimate | None:
    """Mean of one number a run, over runs; one with an interval over the samples of its run brings that in.

    A single run keeps its own interval, none if it is a bare number. Several: Student's over runs, with the error
    over the samples, which the runs share, where all runs have one.
    """
    runs = [x if isinstance(x, Estimate) else Estimate(x, nan, nan, 1) for x in values if x is not None]
    runs = [run for run in runs if isfinite(run.value)]
    if len(runs) < 2:
        return runs[0] if runs else None
    error = float(np.mean([run.half_width for run in runs])) / stats.norm.ppf(0.975)
    shared = {"item_error": error, "items": runs[0].items} if isfinite(error) else {}
    return mean_interval([run.value for run in runs], **shared)


def nested_mean(values: Any) -> float | None:
    """Mean of nested lists of numbers, undefined entries (None, NaN) left out; None if nothing is left."""
    flat = np.array(values, dtype=float)
    flat = flat[np.isfinite(flat)]
    return float(flat.mean()) if flat.size else None
