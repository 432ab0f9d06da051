"""From runs to numbers: which of them answer a question, and the estimate that they give."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from math import isfinite, nan
from typing import Any

import numpy as np
import pandas as pd

from companion.records import select
from companion.records.schema import Record
from companion.setup import labels
from companion.setup.studies import FRESH_DECODERS, FRESH_ENCODERS, LADDER
from companion.statistics import Estimate, item_errors, mean_interval, paired_difference
from companion.statistics.intervals import NORMAL
from companion.statistics.task_scores import Score, by_pretraining, headline_interval, same_items

# studies of seeds that none had seen, which belong to the study that they train like
FRESH = (FRESH_ENCODERS, FRESH_DECODERS)
# whose records stand beside those of another study
BESIDE = (*FRESH, LADDER)


def study_of(records: Sequence[Record]) -> str:
    """The one study that records come from ("none" without a record); ValueError for records of
    several.

    The fresh seeds of a study belong to it, and so do the times of larger sizes.
    """
    names = sorted({record["study"] for record in records})
    if len(names) > 1:
        names = [name for name in names if name not in BESIDE]
    if len(names) > 1:
        listed = ", ".join(names)
        raise ValueError(f"records: of several studies ({listed}); choose the records of one")
    return names[0] if names else "none"


def deciding(records: Iterable[Record], fresh: Collection[str] = FRESH) -> list[Record]:
    """The records without those that fresh seeds of some studies replace: of the same stage, model,
    algorithm and task.
    """
    records = list(records)
    replaced = {_arm(run) for run in records if run["study"] in fresh}
    return [run for run in records if run["study"] in fresh or _arm(run) not in replaced]


def fresh_alone(records: Iterable[Record], stage: str) -> list[Record]:
    """The records of a stage: of fresh seeds alone, where there are any."""
    runs = select(records, stage)
    return [run for run in runs if run["study"] == FRESH_ENCODERS] or runs


def _arm(run: Record) -> tuple[str | None, ...]:
    parameters = run["parameters"]
    return run["stage"], *map(parameters.get, ("model", "algorithm", "task"))


def models(records: Iterable[Record]) -> list[str]:
    """The encoders with runs, one a size in the paper's order; a scaled-down one only where the
    size itself has no run.

    A size whose cost alone was measured is named where nothing else has a run.
    """
    by_size = _by_size(records)
    return [by_size[size] for size in labels.PAPER_SIZES if size in by_size]


def sizes(records: Iterable[Record], *, decoder: bool = False) -> list[str]:
    """Every size of the paper, by the model that has its runs (`models`), or by its own name where
    there are none.
    """
    by_size = _by_size(records, decoder)
    return [by_size.get(size, labels.DECODER * decoder + size) for size in labels.PAPER_SIZES]


def _by_size(records: Iterable[Record], decoder: bool = False) -> dict[str, str]:
    trained, timed = set(), set()
    for run in records:
        name = run["parameters"].get("model")
        if name and run["stage"] == "cost":
            timed.add(name)
        elif name:
            trained.add(name)
    # the last one stays
    names = sorted(trained or timed, key=lambda name: (not labels.is_scaled_down(name), name))
    return {labels.size(name): name for name in names if labels.is_decoder(name) == decoder}


def algorithms(records: Iterable[Record]) -> list[str]:
    """The algorithms with runs, in the order of `labels.ALGORITHMS`."""
    present = {record["parameters"].get("algorithm") for record in records}
    return [name for name in labels.ALGORITHMS if name in present]


def score_estimate(*tasks: list[Score]) -> Estimate | None:
    """Mean score of one task or of several, in percent, over seeds and items; None unless some seed
    has all tasks.
    """
    values = [{run.key: run.value for run in runs} for runs in tasks]
    keys = _in_all(values)
    if not keys:
        return None
    if len(tasks) == len(tasks[0]) == 1:
        run = tasks[0][0]
        error = 0.0 if run.labels is None else item_errors([run.answers], run.labels)[0]
        low, high = headline_interval(run.metric, run.value, run.items, error)
        return Estimate(run.value, low, high, 1, run.items)
    errors, items = [], 0
    for runs in tasks:
        shared = [run for run in runs if run.key in keys]
        errors.append(errors_over_items(by_pretraining(shared)))
        items += shared[0].items
    return _average(values, errors, items)


def errors_over_items(runs: list[Score]) -> tuple[float, float]:
    """`item_errors` of runs, in points; a run's whole error where items differ, or no draw of them
    moves a score.
    """
    if len(runs) > 1 and same_items(runs):
        errors = item_errors([run.answers for run in runs], runs[0].labels)
        # a shared error of 0 is one: seeds may share nothing
        if errors[1]:
            return errors
    whole = float(np.mean([run.item_error for run in runs]))
    return whole, whole


def _in_all(tasks: Sequence[Collection[Any]]) -> list[Any]:
    """The seeds that all tasks have: a seed's tasks move together."""
    return sorted(set.intersection(*map(set, tasks)), key=str)


def _average(
    by_task: list[dict[Any, float]], errors: Sequence[tuple[float, float]], items: int
) -> Estimate:
    """Mean over tasks, then over pretraining seeds or the fine-tuning seeds of a single one; errors
    add in squares.
    """
    keys = _in_all(by_task)
    values = pd.Series([float(np.mean([scores[key] for scores in by_task])) for key in keys])
    by_seed = values.groupby([key[0] for key in keys]).mean()
    shared, least = np.linalg.norm(np.nan_to_num(errors), axis=0) / len(errors)
    each = by_seed if len(by_seed) > 1 else values
    return mean_interval(each.tolist(), item_error=float(shared), least=float(least), items=items)


def score_difference(ours: list[Score], theirs: list[Score]) -> Estimate | None:
    """Ours minus theirs, by seed where they share seeds; None where a side has no run, or a run
    other items.
    """
    if not ours or not theirs or not same_items(ours + theirs):
        return None
    left, right = ({run.key: run for run in side} for side in (ours, theirs))
    keys = sorted(left.keys() & right.keys(), key=str)
    # else all runs
    if keys:
        ours = [left[key] for key in keys]
        theirs = [right[key] for key in keys]
    answers = ([run.answers for run in by_pretraining(side)] for side in (ours, theirs))
    return paired_difference(*answers, ours[0].labels)


def average_difference(
    ours: dict[str, list[Score]], theirs: dict[str, list[Score]]
) -> Estimate | None:
    """Difference of two averages over tasks; None unless every task has both sides and some seed
    has all tasks.

    The seeds are those of pretraining; a single one counts as one run, whose interval covers its
    fine-tuning seeds.
    """
    by_task = [seed_differences(ours[task], theirs[task]) for task in ours]
    keys = _in_all(by_task)
    gaps = []
    for task in ours:
        sides = ([run for run in side[task] if run.key in keys] for side in (ours, theirs))
        gaps.append(score_difference(*sides))
    if None in gaps:
        return None
    items = sum(gap.items for gap in gaps)
    difference = _average(by_task, [gap.over_items for gap in gaps], items)
    return replace(difference, seeds=len({key[0] for key in keys}))


def seed_differences(ours: list[Score], theirs: list[Score]) -> dict[tuple[Any, ...], float]:
    """Ours minus theirs for each seed that both sides have."""
    right = {run.key: run.value for run in theirs}
    return {run.key: run.value - right[run.key] for run in ours if run.key in right}


def matrix(record: Record, kind: str = "refined") -> dict[str, Any]:
    """The attention measures of a record: of the refined matrix or, as of plain attention, the raw,
    its only one.
    """
    matrices = record["metrics"]["matrices"]
    return matrices.get(kind) or matrices.get("raw") or {}


def mean_of(
    run: Record, name: str, layers: slice = slice(None), kind: str = "refined"
) -> float | None:
    """One attention measure of a run: the mean over some of its layers and all heads, None where it
    is undefined.
    """
    return nested_mean((matrix(run, kind).get(name) or [])[layers] or None)


def mean_over_runs(values: Iterable[float | Estimate | None]) -> Estimate | None:
    """Mean over runs with Student's interval and the error over samples where all have one; a
    single run keeps its.
    """
    runs = []
    for value in values:
        if value is None:
            continue
        run = value if isinstance(value, Estimate) else Estimate(value, nan, nan, 1)
        if isfinite(run.value):
            runs.append(run)
    if len(runs) < 2:
        return runs[0] if runs else None
    error = float(np.mean([run.half_width for run in runs])) / NORMAL
    shared = {"item_error": error, "items": runs[0].items} if isfinite(error) else {}
    return mean_interval([run.value for run in runs], **shared)


def nested_mean(values: Any) -> float | None:
    """Mean of nested lists of numbers, undefined entries (None, NaN) left out; None if nothing is
    left.
    """
    flat = np.array(values, dtype=float)
    flat = flat[np.isfinite(flat)]
    return float(flat.mean()) if flat.size else None
