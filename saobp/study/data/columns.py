"""What the columns of a benchmark must hold; anything else is refused with its set, split, row and column."""

import re
from collections.abc import Callable, Iterable, Mapping
from textwrap import shorten
from typing import Any

import datasets

from saobp.study.data.splits import DataError
from saobp.study.data.squad import located

UNPLACED = 0.01  # share of a split's answers that may not occur in their contexts: more are another data set's
MEND = "; mend the row or leave it out"
NO_ANSWER = "no answer; choose a split whose rows have them"


def answered(spec: Any, rows: datasets.Dataset, split: str) -> datasets.Dataset:
    """Check every column that a benchmark reads, and put each row's answer in `label`.

    `label` is a class's or an option's number, or a similarity from 0 to 5. A span's answers stay in their column, as
    one mapping per row: `text` and `answer_start`, both lists.
    Raises DataError that names set, split, row and column if a text, option or answer is missing or impossible.
    """
    place, count = f"{spec.dataset} {spec.config} {split}", len(spec.labels)
    *texts, options = spec.texts if spec.kind == "choice" else (*spec.texts, "")
    wanted = [*filter(None, spec.texts), spec.gold]
    if missing := [column for column in wanted if column not in rows.column_names]:
        raise DataError(f"{place}: no column {', '.join(missing)}; name columns as the hub does")
    for column in filter(None, texts):
        _refuse(place, column, rows[column][:], _is_text, f"not a text{MEND}")
    if options:
        _refuse(place, options, rows[options][:], lambda each: _are_texts(each, count), f"not {count} texts{MEND}")
    if "hops" in rows.column_names:
        _refuse(place, "hops", rows["hops"][:], lambda hops: isinstance(hops, int), f"not a count{MEND}")
    if spec.kind == "span":
        return _with_spans(spec, rows, place)
    named, given = _named(spec, rows, place), rows[spec.gold][:]
    _refuse(place, spec.gold, given, lambda value: value not in (None, "", -1) and value == value, NO_ANSWER)
    known = f"one of {', '.join(spec.labels)}" if spec.labels else "a similarity from 0 to 5"
    _refuse(place, spec.gold, given, lambda value: _number(spec, value) is not None, f"not {known}{MEND}")
    kept = rows.remove_columns("label") if "label" in rows.column_names else rows
    return kept.add_column("label", [_number(spec, named.get(value, value)) for value in given])


def unplaced(spec: Any, rows: datasets.Dataset) -> int:
    """Count the rows whose first answer does not occur in their context; 0 for a benchmark without spans."""
    return sum(_places(spec, rows)) if spec.kind == "span" else 0


def _refuse(place: str, column: str, values: Iterable[Any], right: Callable[[Any], bool], said: str) -> None:
    """Refuse the first value that is not right."""
    for row, value in enumerate(values):
        if not right(value):
            raise DataError(f"{place}, row {row}, column '{column}': {shorten(repr(value), 60)} is {said}")


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _are_texts(value: Any, count: int) -> bool:
    return isinstance(value, list) and len(value) == count and all(map(_is_text, value))


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
    _refuse(place, spec.gold, given, lambda answers: bool(_texts_of(answers)), NO_ANSWER)
    _refuse(place, spec.gold, given, _has_starts, f"not one answer_start per text{MEND}")
    lost = [row for row, gone in enumerate(_places(spec, rows)) if gone]
    if len(lost) > UNPLACED * len(rows):
        said = f"the answers of {len(lost)} of {len(rows)} rows do not occur in their contexts"
        raise DataError(f"{place}, row {lost[0]}, column '{spec.gold}': {said}; copy the data again")
    return rows


def _texts_of(answers: Any) -> list[str]:
    """Return the texts of a row's answers; none if one is missing or blank."""
    texts = answers.get("text") if isinstance(answers, Mapping) else None
    return texts if texts and all(_is_text(text) and text.strip() for text in texts) else []


def _has_starts(answers: Mapping[str, Any]) -> bool:
    starts = answers.get("answer_start")
    return isinstance(starts, list) and len(starts) == len(answers["text"]) and all(isinstance(n, int) for n in starts)


def _places(spec: Any, rows: datasets.Dataset) -> list[bool]:
    """Say of each row whether its first answer is nowhere in its context."""
    pairs = zip(rows[spec.texts[1]][:], rows[spec.gold][:])
    return [located(context, gold["text"][0], gold["answer_start"][0]) is None for context, gold in pairs]
