"""The rows of a benchmark: its training, development and reported splits, from any source."""

from dataclasses import dataclass, replace
from typing import Any

import datasets
import numpy as np
from sklearn.model_selection import GroupShuffleSplit

from saobp.study.data.columns import answered, unplaced
from saobp.study.data.sources import DataError, Source
from saobp.study.data.splits import overlap
from saobp.study.setup.benchmarks import TASKS, TaskSpec
from saobp.study.setup.labels import counted


@dataclass(frozen=True)
class Task:
    """A benchmark's rows, every one with its answer in `label` (a span's answers stay in `answers`).

    `development` is a slice of train that chooses the epoch; `evaluation` is reported and chooses nothing.
    """

    spec: TaskSpec
    train: datasets.Dataset
    development: datasets.Dataset
    evaluation: datasets.Dataset
    splits: list[dict[str, Any]]  # what each split is and lacks, for the record and the caption


def load_task(
    name: str,
    source: Source,
    *,
    train_split: str | None = None,
    evaluation_split: str | None = None,
    limit_train: int | None = None,
    limit_evaluation: int | None = None,
    seed: int = 0,
) -> Task:
    """Load a benchmark and set aside a tenth of train, about 1,000 rows at most, for choosing the epoch.

    Questions of one passage stay together, so that none is chosen on that was trained on.

    Splits may be slices (`validation[:80%]`); a limit draws that many rows by `seed`, train's limit with its
    development slice. Every substitution and limit is noted in `splits`.
    Raises DataError if the name or a split is unknown, if a row lacks a text or its answer, if train has fewer than
    two rows or evaluation none, or if the two share rows.
    """
    spec = _with_splits(name, train_split, evaluation_split)
    pieces = [source.intervals(spec.dataset, spec.config, s) for s in (spec.train_split, spec.evaluation_split)]
    if overlap(*pieces):
        shared = f"'{spec.train_split}' and '{spec.evaluation_split}'"
        raise DataError(f"{name}: the splits {shared} share rows; slice them apart")
    train = _load(spec, source, spec.train_split, limit_train, seed, least=2)
    evaluation = _load(spec, source, spec.evaluation_split, limit_evaluation, seed)
    kept, aside = _set_aside(spec, train, seed)
    described = [
        _described(source, spec, "train", train),
        _described(source, spec, "evaluation", evaluation, _known(spec, train, evaluation)),
    ]
    return Task(spec, train.select(kept), train.select(aside), evaluation, described)


def rows_aside(rows: int) -> int:
    """Return how many of a task's training rows choose the epoch, where no passage has to stay whole."""
    return min(1000, max(1, rows // 10))


def _set_aside(spec: TaskSpec, train: datasets.Dataset, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw the rows that are trained on and those that choose the epoch; a passage is in one of the two."""
    order = np.random.default_rng(seed).permutation(len(train))
    rows = rows_aside(len(train))
    passages = train[spec.passage][:] if spec.passage else []
    if len(set(passages)) < 2:
        return order[rows:], order[:rows]
    draw = GroupShuffleSplit(1, test_size=rows / len(train), random_state=seed)
    kept, aside = next(draw.split(order, groups=np.asarray(passages)[order]))
    return order[kept], order[aside]


def load_reported(
    name: str, source: Source, *, split: str | None = None, limit: int | None = None, seed: int = 0
) -> tuple[TaskSpec, datasets.Dataset, dict[str, Any]]:
    """Load the reported rows of a benchmark alone, as `load_task` does: all that a model which is not trained needs.

    Returns the benchmark, its rows, and what their split is and lacks.
    Raises DataError if the name or the split is unknown, if it has no rows, or if one lacks a text or its answer.
    """
    spec = _with_splits(name, None, split)
    rows = _load(spec, source, spec.evaluation_split, limit, seed)
    return spec, rows, _described(source, spec, "evaluation", rows)


def _with_splits(name: str, train: str | None, evaluation: str | None) -> TaskSpec:
    """Return a benchmark that reads these splits, its usual ones where none is given."""
    if name not in TASKS:
        raise DataError(f"no task is called '{name}': choose from {', '.join(TASKS)}")
    usual = TASKS[name]
    return replace(usual, train_split=train or usual.train_split, evaluation_split=evaluation or usual.evaluation_split)


def _load(spec: TaskSpec, source: Source, split: str, limit: int | None, seed: int, least: int = 1) -> datasets.Dataset:
    """Return a split with its answers in `label`, or a seeded draw of its rows in their own order."""
    rows = answered(spec, source.load(spec.dataset, spec.config, split), split)
    if min(len(rows), len(rows) if limit is None else limit) < least:
        said = f"{counted(len(rows), 'row')}" + ("" if limit is None else f", of which {limit} may be drawn")
        raise DataError(f"{spec.dataset} {spec.config} {split}: {said}; give at least {least}")
    if limit is None or limit >= len(rows):
        return rows
    return rows.select(np.sort(np.random.default_rng(seed).choice(len(rows), limit, replace=False)))


def _known(spec: TaskSpec, train: datasets.Dataset, evaluation: datasets.Dataset) -> str:
    """Say how many reported rows are about a passage of train, if any are."""
    seen = set(train[spec.passage][:]) if spec.passage else set()
    count = sum(passage in seen for passage in evaluation[spec.passage][:]) if seen else 0
    return f"{counted(count, 'row')} about a passage of train" if count else ""


def _described(source: Source, spec: TaskSpec, role: str, rows: datasets.Dataset, known: str = "") -> dict[str, Any]:
    """Return a split's completeness, its role and the rows used; the note holds every substitution."""
    split, usual = (getattr(each, f"{role}_split") for each in (spec, TASKS[spec.name]))
    found = source.completeness(spec.dataset, spec.config, split)
    notes = [found["note"]]
    if split != usual:
        notes.append(f"stands in for the {usual} split")
    if len(rows) < found["rows"]:
        notes.append(f"{len(rows)} rows drawn")
    complete = found["complete"] and len(notes) == 1
    if lost := unplaced(spec, rows):
        notes.append(f"{counted(lost, 'answer')} not in the context")
    note = "; ".join(filter(None, [*notes, known]))
    return {**found, "role": role, "used": len(rows), "complete": complete, "note": note}
