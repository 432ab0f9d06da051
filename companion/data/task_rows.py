"""The rows of a benchmark from any source: its training, development and reported splits, every
column checked.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from textwrap import shorten
from typing import Any

import datasets
import numpy as np
from sklearn.model_selection import GroupShuffleSplit

from companion.data.splits import DataError, Source
from companion.data.squad import located
from companion.records.schema import Split
from companion.setup.labels import counted
from companion.setup.tasks_and_metrics import TASKS, TaskSpec

# share of a split's answers that may not occur in their contexts: more are another data set's
UNPLACED = 0.01
MEND = "; mend the row or leave it out"
NO_ANSWER = "no answer; choose a split whose rows have them"


@dataclass(frozen=True)
class Task:
    """A benchmark's rows, each with its answer in `label`; `development`, a slice of train, chooses
    the epoch.
    """

    spec: TaskSpec
    train: datasets.Dataset
    development: datasets.Dataset
    evaluation: datasets.Dataset
    # what each split is and lacks, for the record and the caption
    splits: list[Split]


def load_task(
    name: str,
    source: Source,
    splits: Sequence[str] | None = None,
    limits: tuple[int | None, int | None] = (None, None),
) -> Task:
    """Load a benchmark and set aside a tenth of train, about 1,000 rows at most, for choosing the
    epoch.

    `splits` and `limits` are of train and of what is reported; a split may be a slice
    (`validation[:80%]`). A limit draws that many rows, train's with its development slice, the same
    for every run.
    Raises DataError if a split is unknown or too small, if a row lacks a text or its answer, or if
    the two share rows.
    """
    usual = TASKS[name]
    splits = splits or (usual.train_split, usual.evaluation_split)
    spec = replace(usual, train_split=splits[0], evaluation_split=splits[1])
    trained, reported = (source.intervals(spec.dataset, spec.config, split) for split in splits)
    if any(a[0] == b[0] and a[1] < b[2] and b[1] < a[2] for a in trained for b in reported):
        raise DataError(
            f"{name}: the splits '{splits[0]}' and '{splits[1]}' share rows; slice them apart"
        )
    train, of_train = _part(source, spec, "train", limits[0])
    passages = train[spec.passage][:] if spec.passage else []
    evaluation, of_evaluation = _part(source, spec, "evaluation", limits[1], set(passages))
    kept, aside = _set_aside(len(train), passages)
    return Task(
        spec, train.select(kept), train.select(aside), evaluation, [of_train, of_evaluation]
    )


def _set_aside(count: int, passages: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Draw the rows that are trained on and those that choose the epoch; a passage is in one of the
    two.
    """
    order = np.random.default_rng(0).permutation(count)
    rows = min(1000, max(1, count // 10))
    if len(set(passages)) < 2:
        return order[rows:], order[:rows]
    draw = GroupShuffleSplit(1, test_size=rows / count, random_state=0)
    kept, aside = next(draw.split(order, groups=np.asarray(passages)[order]))
    return order[kept], order[aside]


def load_reported(
    name: str, source: Source, *, split: str | None = None, limit: int | None = None
) -> tuple[TaskSpec, datasets.Dataset, Split]:
    """Load a benchmark's reported rows alone, as `load_task` does; returns it, the rows, and what
    they are and lack.
    """
    spec = replace(TASKS[name], evaluation_split=split or TASKS[name].evaluation_split)
    return spec, *_part(source, spec, "evaluation", limit)


def _part(
    source: Source,
    spec: TaskSpec,
    role: str,
    limit: int | None,
    seen: Collection[str] = (),
) -> tuple[datasets.Dataset, Split]:
    """Return the rows of a role's split, or a draw of them in their own order, and what the split
    is and lacks.
    """
    split, usual = (getattr(each, f"{role}_split") for each in (spec, TASKS[spec.name]))
    # of train one row is set aside
    least = 2 if role == "train" else 1
    rows = _answered(spec, source.load(spec.dataset, spec.config, split), split)
    if min(len(rows), len(rows) if limit is None else limit) < least:
        count = counted(len(rows), "row") + (
            "" if limit is None else f", of which {limit} may be drawn"
        )
        raise DataError(f"{spec.dataset} {spec.config} {split}: {count}; give at least {least}")
    if limit is not None and limit < len(rows):
        rows = rows.select(
            np.sort(np.random.default_rng(0).choice(len(rows), limit, replace=False))
        )
    completeness = source.completeness(spec.dataset, spec.config, split)
    notes = [completeness["note"]]
    notes += [f"stands in for the {usual} split"] if split != usual else []
    notes += [f"{len(rows)} rows drawn"] if len(rows) < completeness["rows"] else []
    complete = completeness["complete"] and len(notes) == 1
    lost = len(_unplaced(spec, rows)) if spec.kind == "span" else 0
    notes += [f"{counted(lost, 'answer')} not in the context"] if lost else []
    known = sum(passage in seen for passage in rows[spec.passage][:]) if seen else 0
    notes += [f"{counted(known, 'row')} about a passage of train"] if known else []
    use = {
        "role": role,
        "used": len(rows),
        "complete": complete,
        "note": "; ".join(filter(None, notes)),
    }
    return rows, completeness | use


def _answered(spec: TaskSpec, rows: datasets.Dataset, split: str) -> datasets.Dataset:
    """Check every column that is read, and put each answer in `label`: a class's or option's
    number, or a similarity.

    A span's answers stay in their column, as one mapping per row: `text` and `answer_start`, both
    lists.
    """
    place = f"{spec.dataset} {spec.config} {split}"
    if missing := [
        column for column in (*spec.texts, spec.gold) if column and column not in rows.column_names
    ]:
        raise DataError(f"{place}: no column {', '.join(missing)}; name columns as the hub does")
    if spec.kind == "span" and any(isinstance(answers, list) for answers in rows[spec.gold][:]):
        # one mapping per answer
        keys = ("text", "answer_start")
        turned = [
            {key: [answer.get(key) for answer in each or ()] for key in keys}
            for each in rows[spec.gold][:]
        ]
        rows = rows.remove_columns(spec.gold).add_column(spec.gold, turned)
    for column, right, flaw in _checks(spec, rows):
        for row, value in enumerate(rows[column][:]):
            if not right(value):
                raise DataError(
                    f"{place}, row {row}, column '{column}': {shorten(repr(value), 60)} is {flaw}"
                )
    if spec.kind != "span":
        named = _named(spec, rows, place)
        labels = [_number(spec, named.get(value, value)) for value in rows[spec.gold][:]]
        others = [column for column in rows.column_names if column != "label"]
        return rows.select_columns(others).add_column("label", labels)
    if len(lost := _unplaced(spec, rows)) > UNPLACED * len(rows):
        flaw = f"the answers of {len(lost)} of {len(rows)} rows do not occur in their contexts"
        raise DataError(
            f"{place}, row {lost[0]}, column '{spec.gold}': {flaw}; copy the data again"
        )
    return rows


def _checks(
    spec: TaskSpec, rows: datasets.Dataset
) -> Iterator[tuple[str, Callable[[Any], Any], str]]:
    """Yield each column that is read, what its values must pass, and what is said of one that does
    not.
    """
    gold, count = spec.gold, len(spec.labels)
    *texts, options = spec.texts if spec.kind == "choice" else (*spec.texts, "")
    yield from (
        (column, lambda text: isinstance(text, str), f"not a text{MEND}")
        for column in texts
        if column
    )
    if options:
        yield (
            options,
            lambda each: _are_texts(each) and len(each) == count,
            f"not {count} texts{MEND}",
        )
    if "hops" in rows.column_names:
        yield "hops", lambda hops: isinstance(hops, int), f"not a count{MEND}"
    if spec.kind == "span":
        yield gold, lambda each: isinstance(each, dict) and _are_texts(each.get("text")), NO_ANSWER
        yield gold, lambda each: all(map(str.strip, each["text"])), NO_ANSWER
        places = f"not one answer_start per text{MEND}"
        yield (
            gold,
            lambda each: [*map(type, each.get("answer_start") or ())] == [int] * len(each["text"]),
            places,
        )
    else:
        known = f"one of {', '.join(spec.labels)}" if spec.labels else "a similarity from 0 to 5"
        yield gold, lambda value: value not in (None, "", -1) and value == value, NO_ANSWER
        yield gold, lambda value: _number(spec, value) is not None, f"not {known}{MEND}"


def _named(spec: TaskSpec, rows: datasets.Dataset, place: str) -> dict[int, str]:
    """Return the benchmark's name of each number in a column of named classes; nothing where
    numbers are plain.
    """
    names = getattr(rows.features[spec.gold], "names", None)
    if names is None or names == [str(number) for number in range(len(spec.labels))]:
        return {}
    labels = {label.lower(): label for label in spec.labels}
    if "different" in labels:
        labels |= {f"not_{label}": "different" for label in spec.labels[1:]}
    named = [labels.get(re.sub(r"[\s-]+", "_", name.strip().lower()), "") for name in names]
    if sorted(named) != sorted(spec.labels):
        due = ", ".join(spec.labels) or "similarities from 0 to 5"
        flaw = f"classes {', '.join(names)} are not {due}; name them so"
        raise DataError(f"{place}, column '{spec.gold}': {flaw}")
    return dict(enumerate(named))


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, str) for each in value)


def _number(spec: TaskSpec, value: Any) -> int | float | None:
    if isinstance(value, str):
        return spec.labels.index(value) if value in spec.labels else None
    # true is not "entailment" because its number is 1
    if isinstance(value, bool) and spec.labels != ("False", "True"):
        return None
    if spec.kind == "regression":
        return float(value) if isinstance(value, int | float) and 0 <= value <= 5 else None
    return int(value) if value in range(len(spec.labels)) else None


def _unplaced(spec: TaskSpec, rows: datasets.Dataset) -> list[int]:
    """Return the rows whose first answer is nowhere in their context."""
    pairs = enumerate(zip(rows[spec.texts[1]][:], rows[spec.gold][:]))
    return [row for row, (text, gold) in pairs if not located(text, gold)]
