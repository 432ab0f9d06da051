"""From runs to numbers: which of them answer a question, and the estimate that they give."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import inf, isfinite, nan
from typing import Any

import numpy as np
from scipy import stats

from saobp.study.setup import labels
from saobp.study.setup.records import select
from saobp.study.statistics import Difference, Error, Estimate, item_errors, mean_interval
from saobp.study.statistics.paired import paired_correlations, paired_difference
from saobp.study.statistics.task_scores import CORRELATIONS, Score, by_pretraining, headline_interval, same_labels

Record = dict[str, Any]
GLUE = ("cola", "mrpc", "rte", "sst2", "stsb", "wnli", "qnli", "mnli", "qqp")  # the columns of Table 8


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
        same = sorted((name for name in names if labels.size(name) == size), key=labels.is_twin)
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
    if len(runs) == 1 and (_is_binary(runs[0].outcomes) or runs[0].metric in CORRELATIONS):
        (run,) = runs
        error = item_errors([run.predictions], run.labels)[0] if same_labels(runs) else 0.0
        interval = headline_interval(run.metric, run.value, run.items, error)  # as its record has it
        return Estimate(run.value, *interval, 1, run.items)
    shared, least = errors_over_items(runs)
    return mean_interval([run.value for run in runs], item_error=shared, least=least, items=runs[0].items)


def errors_over_items(runs: list[Score]) -> tuple[float, float]:
    """Standard errors over the items, in points: what several runs share (`item_errors`), and that of their mean.

    Both are a run's whole error, which is too wide rather than too narrow, without each item's outcome and where no
    draw of items moves a score, as with a constant predictor's correlation.
    """
    outcomes, found = [run.outcomes for run in runs], (0.0, 0.0)
    if len(runs) > 1 and same_labels(runs):
        found = item_errors([run.predictions for run in runs], runs[0].labels)
    elif len(runs) > 1 and all(row is not None for row in outcomes) and len({len(row) for row in outcomes}) == 1:
        found = item_errors(np.stack(outcomes))
    whole = float(np.mean([run.item_error for run in runs]))
    return found[0] or whole, found[1] or whole


def _is_binary(outcomes: np.ndarray | None) -> bool:
    return outcomes is not None and bool(np.isin(outcomes, (0, 100)).all())


def average_estimate(by_task: dict[str, list[Score]]) -> Estimate | None:
    """Mean over tasks of a benchmark, as the paper's GLUE column; None unless some seed has all tasks."""
    keys = set.intersection(*({run.key for run in runs} for runs in by_task.values()))
    if not keys:
        return None
    chosen = {task: {run.key: run for run in runs} for task, runs in by_task.items()}
    values = [
        Score(float(np.mean([runs[key].value for runs in chosen.values()])), "mean", 0, key)
        for key in sorted(keys, key=str)
    ]
    shared = ([runs[key] for key in sorted(keys, key=str)] for runs in chosen.values())
    errors = np.array([errors_over_items(by_pretraining(runs)) for runs in shared])
    items = sum(runs[0].items for runs in by_task.values())
    seeds = [run.value for run in by_pretraining(values)]
    over_items, least = np.linalg.norm(errors, axis=0) / len(errors)
    return mean_interval(seeds, item_error=float(over_items), least=float(least), items=items)


def score_difference(ours: list[Score], theirs: list[Score]) -> Difference | None:
    """Ours minus theirs, paired by item and seed where the score is a mean over items.

    A correlation (Matthews, Pearson) is computed anew on the items drawn, for each run; without its labels,
    its difference takes both sampling errors as if they were independent, which is too wide rather than too
    narrow. None where either side has no run.
    """
    if not ours or not theirs:
        return None
    ours, theirs = (by_pretraining(side) for side in _paired(ours, theirs))
    tables = [[run.outcomes for run in side] for side in (ours, theirs)]
    lengths = {len(row) if row is not None else 0 for table in tables for row in table}
    if len(lengths) == 1 and lengths != {0}:
        return paired_difference(np.stack(tables[0]), np.stack(tables[1]))
    if same_labels(ours + theirs):
        return paired_correlations(*([run.predictions for run in side] for side in (ours, theirs)), ours[0].labels)
    return _approximate_difference(ours, theirs)


def average_difference(ours: dict[str, list[Score]], theirs: dict[str, list[Score]]) -> Difference | None:
    """Difference of two averages over tasks, seed by seed; None unless every task has both sides."""
    gaps = [score_difference(ours[task], theirs[task]) for task in ours]
    if None in gaps:
        return None
    pooled = pool([(gap, seed_differences(ours[task], theirs[task])) for task, gap in zip(ours, gaps)])
    items = sum(gap.items for gap in gaps)
    return Difference.of(pooled.value, pooled.error, pooled.seeds, items)


def seed_differences(ours: list[Score], theirs: list[Score]) -> dict[tuple[Any, ...], float]:
    """Ours minus theirs for each seed that both sides have."""
    right = {run.key: run.value for run in theirs}
    return {run.key: run.value - right[run.key] for run in ours if run.key in right}


def pool(
    gaps: list[tuple[Difference, dict[tuple[Any, ...], float]]],
    weights: Sequence[float] | None = None,
    items: Sequence[str] | None = None,
) -> Estimate:
    """Mean difference over tasks, or their sum by `weights`, within each seed first: its tasks move together.

    The spread over seeds has all that a seed brings; added to it is only the error over items that the seeds
    share. The items of different tasks are independent, so their errors add in squares; gaps of the same `items` (a
    task of several sizes) have errors that add up, which is the most they can do. The seeds are those of
    pretraining; with a single one it counts as one run, whose interval covers fine-tuning seeds and items. Without
    a seed that all tasks share, the mean of the tasks' differences counts as one run, with their whole errors.
    """
    weights = np.full(len(gaps), 1 / len(gaps)) if weights is None else np.asarray(weights, dtype=float)
    shared = sorted(set.intersection(*(set(by_seed) for _, by_seed in gaps)), key=str)
    sums = [Score(float(weights @ [by_seed[key] for _, by_seed in gaps]), "sum", 0, key) for key in shared]
    checkpoints = len({key[0] for key in shared})
    if not sums:
        errors = least = [(gap.high - gap.low) / 2 / stats.norm.ppf(0.975) for gap, _ in gaps]
        values = [float(weights @ [gap.value for gap, _ in gaps])]
    else:
        errors, least = [gap.item_error for gap, _ in gaps], [gap.mean_error for gap, _ in gaps]
        values = [run.value for run in by_pretraining(sums)]
    error, at_least = (_added(np.abs(weights) * np.nan_to_num(each), items) for each in (errors, least))
    found = mean_interval(values, item_error=error, least=at_least, items=sum(gap.items for gap, _ in gaps))
    return found if checkpoints > 1 else replace(found, seeds=1)


def _added(errors: np.ndarray, items: Sequence[str] | None) -> float:
    """Standard error of a sum: in squares over different items, straight over the same ones."""
    which = np.arange(len(errors)) if items is None else np.unique(items, return_inverse=True)[1]
    return float(np.linalg.norm(np.bincount(which, errors)))


def _paired(ours: list[Score], theirs: list[Score]) -> tuple[list[Score], list[Score]]:
    """The runs whose seeds both sides have, in one order; all runs if no seed is shared."""
    left, right = ({run.key: run for run in side} for side in (ours, theirs))
    keys = sorted(left.keys() & right.keys(), key=str)
    return ([left[k] for k in keys], [right[k] for k in keys]) if keys else (ours, theirs)


def _approximate_difference(ours: list[Score], theirs: list[Score]) -> Difference:
    """Welch's difference of two means that share nothing."""
    first, second = score_estimate(ours), score_estimate(theirs)
    value, seeds = first.value - second.value, min(first.seeds, second.seeds)
    error = _error(first) + _error(second)
    over_items = float(np.hypot(*(np.mean([run.item_error for run in side]) for side in (ours, theirs))))
    return Difference.of(value, error, seeds, first.items, over_items)


def _error(found: Estimate) -> Error:
    """The error behind an estimate; of an interval over items alone it is read off the interval."""
    return found.error or Error(((found.half_width / float(stats.norm.ppf(0.975)), inf),))


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
    flat = np.asarray(_flatten(values), dtype=float)
    flat = flat[np.isfinite(flat)]
    return float(flat.mean()) if flat.size else None


def _flatten(values: Any) -> list[float]:
    if isinstance(values, list | tuple):
        return [number for value in values for number in _flatten(value)]
    return [float("nan") if values is None else float(values)]
