"""Where data come from: the public hub, a folder laid out like it, or the embedded story world.

All three give the same columns under the same names, so whoever loads a split never asks which one it was.
`SAOBP_DATA` overrides a study's choice.
"""

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets

from saobp import storyworld
from saobp.study.data import splits
from saobp.study.data.folders import FolderSource
from saobp.study.data.splits import REMEDY, DataError, MissingSplit, Source, first_line
from saobp.study.setup import paths
from saobp.study.setup.tasks_and_metrics import PUBLISHED_ROWS


@dataclass(frozen=True)
class HubSource(Source):
    """The public Hugging Face hub, through `datasets.load_dataset`; cached where datasets caches."""

    name: str = "hub"

    def load(self, dataset: str, config: str | None, split: str) -> datasets.Dataset:
        return _ask(datasets.load_dataset, dataset, config, split=split)

    def stream(self, dataset: str, config: str | None, split: str) -> Iterator[dict[str, Any]]:
        offline = os.environ.get("HF_HUB_OFFLINE", "0").upper() in {"1", "ON", "YES", "TRUE"}  # then from the cache
        rows = _ask(datasets.load_dataset, dataset, config, split=split, streaming=not offline)
        try:
            yield from rows
        except Exception as error:  # a dozen classes, some of them OSError: none is about our disk
            reason = first_line(error)
            raise DataError(f"{dataset} {split}: the hub broke off ({reason}); give the same command again") from None

    def completeness(self, dataset: str, config: str | None, split: str) -> dict[str, Any]:
        published = PUBLISHED_ROWS.get((dataset, config), {})
        if "[" not in split and not self._counts(dataset, config).get(split):
            rows, notes = published.get(split), ["the hub states no count"]
            return splits.completeness((dataset, config, split), [(split, 0, rows or 0)], [rows], False, notes)
        pieces = self.intervals(dataset, config, split)
        totals = [self._rows(dataset, config, base) for base, _, _ in pieces]
        counts = [published.get(base, total) for (base, _, _), total in zip(pieces, totals)]
        pairs = zip(counts, totals)
        notes = [f"the hub has {has} rows, {due} were published" for due, has in pairs if due != has]
        return splits.completeness((dataset, config, split), pieces, counts, counts == totals, notes)

    def fingerprint(self, dataset: str, config: str | None, split: str) -> str:
        builder = _ask(datasets.load_dataset_builder, dataset, config)  # its hash holds the hub's revision
        return hashlib.sha256(f"{dataset} {config} {split} {builder.hash}".encode()).hexdigest()[:16]

    def files(self, repository: str, *names: str) -> str:
        return repository

    def _counts(self, dataset: str, config: str | None) -> dict[str, int | None]:
        """Return the rows of every split, None where the hub does not state them."""
        found = _ask(datasets.load_dataset_builder, dataset, config).info.splits
        if not found:
            return dict.fromkeys(_ask(datasets.get_dataset_split_names, dataset, config))
        return {name: split.num_examples or None for name, split in found.items()}

    def _rows(self, dataset: str, config: str | None, split: str) -> int:
        counts, name = self._counts(dataset, config), f"{dataset} {config or ''}".strip()
        if split not in counts:
            raise MissingSplit(f"{name}: no split {split!r} (found: {', '.join(counts)}); name one of these")
        known = counts[split] or PUBLISHED_ROWS.get((dataset, config), {}).get(split)
        return len(self.load(dataset, config, split)) if known is None else known


def _ask(function: Callable, dataset: str, config: str | None, **options: Any) -> Any:
    """Call a loader of datasets; where a data set still is a script, on the hub's parquet form."""
    try:
        try:
            return function(dataset, config, **options)
        except RuntimeError as error:
            if "scripts are no longer supported" not in str(error):
                raise
            return function(dataset, config, revision="refs/convert/parquet", **options)
    except Exception as error:  # the hub fails in a dozen classes; all mean the same here
        name = f"{dataset} {config}" if config else dataset
        reason = first_line(error)
        raise DataError(f"{name}: not to be had from the hub ({reason}); connect, or {REMEDY}") from None


def resolve(default: str, *, cache: Path | None = None) -> Source:
    """Return the source that `SAOBP_DATA` names or, where it is not set, the study's own choice.

    `default` is "synthetic", "hub" or a folder laid out like the hub; a relative folder is looked for from
    here and then from the repository. The story world is written once, to `cache` (default: the build's).
    Raises DataError if a folder is missing.
    """
    choice = os.environ.get("SAOBP_DATA") or default
    if choice == "hub":
        return HubSource()
    if choice == "synthetic":
        modules = sorted(Path(storyworld.__file__).parent.glob("*.py"))
        written_by = hashlib.sha256(b"".join(module.read_bytes() for module in modules)).hexdigest()[:12]
        folder = paths.made((cache or paths.cache()) / f"synthetic-{written_by}", storyworld.write)
        return FolderSource(folder, "synthetic", f"{splits.INVENTED}, not the published set")
    given = Path(choice).expanduser()
    folder = given if given.is_absolute() or given.is_dir() else paths.root() / given
    if not folder.is_dir():
        raise DataError(f"{given}: no such data folder; {REMEDY}")
    return FolderSource(folder)
