"""What the columns of a benchmark must hold; anything else is refused with its set, split, row and column."""

import re
from collections.abc import Callable, Iterable, Mapping
from textwrap import shorten
from typing import Any

import datasets

from saobp.study.data.splits import DataError
from saobp.study.data.squad import located

UNPLACED = 0.01  # share of a split's answers that may not occur in their contexts: more are another data set's

Fault = str | None  # what is wrong with a value


def answered(spec: Any, rows: datasets.Dataset, split: str) -> datasets.Dataset:
    """Check every column that a benchmark reads, and put each row's answer in `label`.

    `label` is a class's or an option's number, or a similarity from 0 to 5. A span's answers stay in their column, as
    one mapping per row: `text` and `answer_start`, both lists.
    Raises DataError that names set, split, row and column if a text, option or answer is missing or impossible.
    """
    place = f"{spec.dataset} {spec.config} {split}"
    *texts, options = spec.texts if spec.kind == "choice" else (*spec.texts, "")
    wanted = [*filter(None, spec.texts), spec.gold]
    if missing := [column for column in wanted if column not in rows.column_names]:
        raise DataError(f"{place}: no column {', '.join(missing)}; name columns as the hub does")
    for column in filter(None, texts):
        _check(place, column, rows[column][:], _text)
    if options:
        _check(place, options, rows[options][:], lambda value: _options(value, len(spec.labels)))
    if "hops" in rows.column_names:
        _check(place, "hops", rows["hops"][:], lambda value: _none_but(isinstance(value, int), value, "a count"))
    if spec.kind == "span":
        return _with_spans(spec, rows, place)
    named = _named(spec, rows, place)
    labels = [_number(spec, named.get(value, value)) for value in rows[spec.gold][:]]
    _check(place, spec.gold, zip(labels, rows[spec.gold][:]), lambda pair: _answer(spec, *pair))
    kept = rows.remove_columns("label") if "label" in rows.column_names else rows
    return kept.add_column("label", labels)


def unplaced(spec: Any, rows: datasets.Dataset) -> int:
    """Count the rows whose first answer does not occur in their context; 0 for a benchmark without spans."""
    return sum(_places(spec, rows)) if spec.kind == "span" else 0


def _check(place: str, column: str, values: Iterable[Any], fault: Callable[[Any], Fault]) -> None:
    """Refuse the first value that something is wrong with."""
    for row, value in enumerate(values):
        if said := fault(value):
            raise DataError(f"{place}, row {row}, column '{column}': {said}")


def _none_but(right: bool, value: Any, what: str) -> Fault:
    return None if right else f"{shorten(repr(value), 60)} is not {what}; mend the row or leave it out"


def _text(value: Any) -> Fault:
    return _none_but(isinstance(value, str), value, "a text")


def _options(value: Any, count: int) -> Fault:
    right = isinstance(value, list) and len(value) == count and all(isinstance(option, str) for option in value)
    return _none_but(right, value, f"{count} texts")


def _named(spec: Any, rows: datasets.Dataset, place: str) -> dict[int, str]:
    """Return the benchmark's name of each number in a column of named classes; nothing where numbers are plain."""
    names = getattr(rows.features[spec.gold], "names", None)
    if names is None or names == [str(number) for number in range(len(spec.labels))]:
        return {}
    plain = [re.sub(r"[\s-]+", "_", name.strip().lower()) for name in names]
    own = {label.lower(): label for label in spec.labels}
    if "different" in own:
        own |= {f"not_{label}": "different" for label in spec.labels[1:]}
    found = [own.get(name) for name in plain]
    if None in found or sorted(found) != sorted(spec.labels):
        said = f"classes {', '.join(names)} are not {', '.join(spec.labels)}; name them so"
        raise DataError(f"{place}, column '{spec.gold}': {said}")
    return dict(enumerate(found))


def _answer(spec: Any, number: float | None, value: Any) -> Fault:
    if number is not None:
        return None
    if value in (None, "", -1) or value != value:
        return _lacks(value)
    return _none_but(False, value, f"one of {', '.join(spec.labels)}" if spec.labels else "a similarity from 0 to 5")


def _lacks(value: Any) -> str:
    return f"{shorten(repr(value), 60)} is no answer; choose a split whose rows have them"


def _number(spec: Any, value: Any) -> int | float | None:
    """Return an answer as a number, or None if it is none of the benchmark's."""
    if spec.kind == "regression":
        right = isinstance(value, int | float) and 0 <= value <= 5
        return float(value) if right else None
    if isinstance(value, str):
        return spec.labels.index(value) if value in spec.labels else None
    right = isinstance(value, int | float) and value in range(len(spec.labels))
    return int(value) if right else None


def _with_spans(spec: Any, rows: datasets.Dataset, place: str) -> datasets.Dataset:
    """Check every row's answers and that they occur in their contexts."""
    given = rows[spec.gold][:]
    if any(isinstance(answers, list) for answers in given):  # one mapping per answer
        turned = [{key: [a.get(key) for a in each or ()] for key in ("text", "answer_start")} for each in given]
        rows = rows.remove_columns(spec.gold).add_column(spec.gold, turned)
        given = turned
    _check(place, spec.gold, given, _span)
    lost = [row for row, gone in enumerate(_places(spec, rows)) if gone]
    if len(lost) > UNPLACED * len(rows):
        said = f"the answers of {len(lost)} of {len(rows)} rows do not occur in their contexts"
        raise DataError(f"{place}, row {lost[0]}, column '{spec.gold}': {said}; copy the data again")
    return rows


def _span(answers: Any) -> Fault:
    texts, starts = (answers.get(key) if isinstance(answers, Mapping) else None for key in ("text", "answer_start"))
    if not texts or not all(isinstance(text, str) and text.strip() for text in texts):
        return _lacks(answers)
    right = isinstance(starts, list) and len(starts) == len(texts) and all(isinstance(n, int) for n in starts)
    return _none_but(right, answers, "one answer_start per text")


def _places(spec: Any, rows: datasets.Dataset) -> list[bool]:
    """Say of each row whether its first answer is nowhere in its context."""
    pairs = zip(rows[spec.texts[1]][:], rows[spec.gold][:])
    return [located(context, gold["text"][0], gold["answer_start"][0]) is None for context, gold in pairs]
