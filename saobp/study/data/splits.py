"""Where data come from, which rows a split expression means, and how many of the published ones they are."""

import re

import datasets

from saobp.study.setup.schema import Split


class DataError(ValueError):
    """Data that cannot be had; one line that names the file or split and the remedy."""


class Absent(DataError):
    """Data that a source does not have, or too little of: another try finds no more."""


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, shortened."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def base_splits(split: str) -> list[str]:
    """Return the splits that an expression takes its rows from: `train[:10%]+validation` -> both names."""
    parts = [part.strip() for part in split.split("+")]
    if not all(re.fullmatch(r"\w+(\[[^\[\]]*\])?", part) for part in parts):
        raise DataError(f"{split!r} is no split: write a name or a slice such as validation[:80%]")
    return [part.split("[")[0] for part in parts]


class Source:
    """A place that data sets come from, by dataset, config and split, which may be a slice such as `validation[:80%]`.

    Each has `load` (the rows), `stream` (the same one by one, without holding them in memory), `fingerprint` (hex
    digits that change with the content alone), `known` (rows, hub_rows, complete and note of a whole split), and
    `files` (what transformers' `from_pretrained` takes for a repository that holds these files).
    """

    name: str

    def count(self, dataset: str, config: str | None, split: str) -> int:
        """Return the rows of a whole split."""
        return self.known(dataset, config, split)["rows"]

    def intervals(self, dataset: str, config: str | None, split: str) -> list[tuple[str, int, int]]:
        """Return the (split, first row, end row) pieces that a split expression means."""
        counts = {base: self.count(dataset, config, base) for base in base_splits(split)}
        try:
            pieces = datasets.ReadInstruction.from_spec(split).to_absolute(counts)
        except (ValueError, AssertionError) as error:
            raise DataError(f"{split!r} is no slice ({first_line(error)}): write validation[:80%]") from None
        return [(p.splitname, p.from_ or 0, counts[p.splitname] if p.to is None else p.to) for p in pieces]

    def completeness(self, dataset: str, config: str | None, split: str) -> Split:
        """Say how much of the published split a split holds; a slice is never complete."""
        bases = base_splits(split)
        known = {base: self.known(dataset, config, base) for base in bases}  # two slices of a split count it once
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
