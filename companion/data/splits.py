"""Where data come from, which rows a split expression means, and how many of the public ones they
are.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import datasets

from companion.records.schema import Split


class DataError(ValueError):
    """Data that cannot be had; one line that names the file or split and the remedy."""


class Absent(DataError):
    """Data that a source does not have, or too little of: another try finds no more."""


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, shortened."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def base_splits(split: str) -> list[str]:
    """Return the splits that an expression takes its rows from: `train[:10%]+validation` -> both
    names.
    """
    parts = [part.strip() for part in split.split("+")]
    if not all(re.fullmatch(r"\w+(\[[^\[\]]*\])?", part) for part in parts):
        raise DataError(f"{split!r} is no split: write a name or a slice such as validation[:80%]")
    return [part.split("[")[0] for part in parts]


class Source(Protocol):
    """A place that data sets come from; `split` may be a slice in datasets' syntax,
    `validation[:80%]`.
    """

    name: str

    def load(self, dataset: str, config: str | None, split: str) -> datasets.Dataset:
        """Return a split, or a slice of one."""

    def stream(self, dataset: str, config: str | None, split: str) -> Iterator[dict[str, Any]]:
        """Yield the rows of a split in order without holding it in memory."""

    def fingerprint(self, dataset: str, config: str | None, split: str) -> str:
        """Return hex digits that change when the split's content does, and with nothing else."""

    def files(self, repository: str, *names: str) -> str | Path:
        """Return what transformers' `from_pretrained` takes for a repository that holds these
        files.
        """

    def known(self, dataset: str, config: str | None, split: str) -> dict[str, Any]:
        """Return the rows, hub_rows, complete and note of a whole split."""

    def count(self, dataset: str, config: str | None, split: str) -> int:
        """Return the rows of a whole split."""
        return self.known(dataset, config, split)["rows"]

    def intervals(self, dataset: str, config: str | None, split: str) -> list[tuple[str, int, int]]:
        """Return the (split, first row, end row) pieces that a split expression means."""
        counts = {base: self.count(dataset, config, base) for base in base_splits(split)}
        try:
            pieces = datasets.ReadInstruction.from_spec(split).to_absolute(counts)
        except (ValueError, AssertionError) as error:
            raise DataError(
                f"{split!r} is no slice ({first_line(error)}): write validation[:80%]"
            ) from None
        return [
            (p.splitname, p.from_ or 0, counts[p.splitname] if p.to is None else p.to)
            for p in pieces
        ]

    def completeness(self, dataset: str, config: str | None, split: str) -> Split:
        """Say how much of the public split a split holds; a slice is never complete."""
        bases = base_splits(split)
        # two slices of a split count it once
        known = {base: self.known(dataset, config, base) for base in bases}
        due = [each["hub_rows"] for each in known.values()]
        notes = [each["note"] for each in known.values()]
        rows = sum(known[base]["rows"] for base in bases)
        if sliced := "[" in split:
            rows = sum(stop - start for _, start, stop in self.intervals(dataset, config, split))
            notes.append(f"{rows} rows of {' and '.join(known)}")
        return {
            "dataset": dataset,
            "config": config,
            "split": split,
            "rows": rows,
            "hub_rows": None if None in due else sum(due),
            "complete": not sliced and all(each["complete"] for each in known.values()),
            "note": "; ".join(dict.fromkeys(filter(None, notes))),
        }
