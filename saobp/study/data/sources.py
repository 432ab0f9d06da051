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

    def fingerprint(self, dataset: str, config: str | None, split: str) -> str:
        builder = _ask(datasets.load_dataset_builder, dataset, config)  # its hash holds the hub's revision
        return hashlib.sha256(f"{dataset} {config} {split} {builder.hash}".encode()).hexdigest()[:16]

    def files(self, repository: str, *names: str) -> str:
        return repository

    def known(self, dataset: str, config: str | None, split: str) -> dict[str, Any]:
        found = _ask(datasets.load_dataset_builder, dataset, config).info.splits
        names = found or _ask(datasets.get_dataset_split_names, dataset, config)
        if split not in names:
            name = f"{dataset} {config or ''}".strip()
            raise MissingSplit(f"{name}: no split {split!r} (found: {', '.join(names)}); name one of these")
        rows = found[split].num_examples or None if found else None
        due = PUBLISHED_ROWS.get((dataset, config), {}).get(split, rows)
        note = "" if rows == due else f"the hub has {rows} rows, {due} were published"
        note = "the hub states no count" if rows is None else note
        return {"rows": rows or due or 0, "published_rows": due, "complete": not note, "note": note}

    def count(self, dataset: str, config: str | None, split: str) -> int:
        return super().count(dataset, config, split) or len(self.load(dataset, config, split))


def _ask(function: Callable, dataset: str, config: str | None, **options: Any) -> Any:
    """Call a loader of datasets; where a data set still is a script, on the hub's parquet form."""
    try:
        return function(dataset, config, **options)
    except Exception as error:  # the hub fails in a dozen classes; all mean the same here
        if "scripts are no longer supported" in str(error) and "revision" not in options:
            return _ask(function, dataset, config, revision="refs/convert/parquet", **options)
        name = f"{dataset} {config}" if config else dataset
        reason = first_line(error)
        raise DataError(f"{name}: not to be had from the hub ({reason}); connect, or {REMEDY}") from None


def chosen(default: str) -> str:
    """Return what `SAOBP_DATA` names or, where it is not set, the study: "synthetic", "hub", or a folder's whole path.

    A relative folder is looked for from here and then from the repository.
    """
    name = os.environ.get("SAOBP_DATA") or default
    if name in ("hub", "synthetic"):
        return name
    given = Path(name).expanduser()
    return str((given if given.is_dir() else paths.root() / given).resolve())


def resolve(default: str) -> Source:
    """Return the source of what is `chosen`; the story world is written once, to the build's cache.

    `default` is "synthetic", "hub" or a folder laid out like the hub. Raises DataError if a folder is missing.
    """
    name = chosen(default)
    if name == "hub":
        return HubSource()
    if name == "synthetic":
        modules = sorted(Path(storyworld.__file__).parent.glob("*.py"))
        written_by = hashlib.sha256(b"".join(module.read_bytes() for module in modules)).hexdigest()[:12]
        folder = paths.made(paths.cache() / f"synthetic-{written_by}", storyworld.write)
        return FolderSource(folder, "synthetic")
    if not Path(name).is_dir():
        raise DataError(f"{name}: no such data folder; {REMEDY}")
    return FolderSource(Path(name))
