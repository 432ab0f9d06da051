"""Which rows a split expression means, and how many of the published ones they are."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import datasets

Piece = tuple[str, int, int]  # a split, its first row of it and the row behind the last
INVENTED = "written by the story world"  # what a split of generated text says of itself
REMEDY = "set SAOBP_DATA to 'hub', 'synthetic' or a folder laid out like the hub"


class DataError(ValueError):
    """Data that cannot be had; one line that names the file or split and the remedy."""


class MissingSplit(DataError):
    """A data set that is there, without the split that was asked for."""


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, shortened."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def base_splits(split: str) -> list[str]:
    """Return the splits that an expression takes its rows from: `train[:10%]+validation` -> both names."""
    parts = [part.strip() for part in split.split("+")]
    if not all(re.fullmatch(r"\w+(\[[^\[\]]*\])?", part) for part in parts):
        raise DataError(f"{split!r} is no split: write a name or a slice such as validation[:80%]")
    return [part.split("[")[0] for part in parts]


def intervals(split: str, rows: Callable[[str], int]) -> list[Piece]:
    """Return the (split, first row, end row) pieces that an expression means; `rows` counts a whole split."""
    counts = {base: rows(base) for base in base_splits(split)}
    try:
        pieces = datasets.ReadInstruction.from_spec(split).to_absolute(counts)
    except (ValueError, AssertionError) as error:
        raise DataError(f"{split!r} is no slice ({first_line(error)}): write validation[:80%]") from None
    return [(p.splitname, p.from_ or 0, counts[p.splitname] if p.to is None else p.to) for p in pieces]


class Source(Protocol):
    """A place that data sets come from; `split` may be a slice in datasets' syntax, `validation[:80%]`."""

    name: str

    def load(self, dataset: str, config: str | None, split: str) -> datasets.Dataset:
        """Return a split, or a slice of one."""

    def stream(self, dataset: str, config: str | None, split: str) -> Iterator[dict[str, Any]]:
        """Yield the rows of a split in order without holding it in memory."""

    def completeness(self, dataset: str, config: str | None, split: str) -> dict[str, Any]:
        """Return dataset, config, split, rows, published_rows, complete and a note."""

    def fingerprint(self, dataset: str, config: str | None, split: str) -> str:
        """Return hex digits that change when the split's content does, and with nothing else."""

    def files(self, repository: str, *names: str) -> str | Path:
        """Return what transformers' `from_pretrained` takes for a repository that holds these files."""

    def _rows(self, dataset: str, config: str | None, split: str) -> int: ...

    def intervals(self, dataset: str, config: str | None, split: str) -> list[Piece]:
        """Return the (split, first row, end row) pieces that a split expression means."""
        return intervals(split, lambda base: self._rows(dataset, config, base))


def overlap(one: list[Piece], other: list[Piece]) -> bool:
    """Say whether two lists of pieces share a row."""
    return any(a[0] == b[0] and a[1] < b[2] and b[1] < a[2] for a in one for b in other)


def completeness(
    place: tuple[str, str | None, str], pieces: list[Piece], published: list[int | None], whole: bool, notes: list[str]
) -> dict[str, Any]:
    """Say what a split (`place`: dataset, config, split) holds of the published one; a slice is never complete."""
    dataset, config, split = place
    rows = sum(stop - start for _, start, stop in pieces)
    counts = {base: count for (base, *_), count in zip(pieces, published)}  # two slices of a split count it once
    due = None if None in published else sum(counts.values())
    if "[" in split:
        bases = " and ".join(dict.fromkeys(base for base, _, _ in pieces))
        whole, notes = False, [*notes, f"{rows} rows of {bases}"]
    note = "; ".join(dict.fromkeys(filter(None, notes)))
    found = {"rows": rows, "published_rows": due, "complete": whole, "note": note}
    return {"dataset": dataset, "config": config, "split": split, **found}
