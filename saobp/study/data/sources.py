"""Where data come from: the public hub, a folder laid out like it, or the embedded story world.

All three give the same columns under the same names, so whoever loads a split never asks which one it was.
`SAOBP_DATA` overrides a profile's choice.
"""

import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import TypeAdapter, ValidationError

from saobp.study.data import splits
from saobp.study.data.hub import HubSource
from saobp.study.data.splits import REMEDY, DataError, MissingSplit, first_line
from saobp.study.setup import paths, seals

MANIFEST = TypeAdapter(dict[str, dict[str, dict[str, dict[str, Any]]]])


class Source(Protocol):
    """A place that data sets come from; `split` may be a slice in datasets' syntax, `validation[:80%]`."""

    name: str

    def load(self, dataset: str, config: str | None, split: str) -> datasets.Dataset:
        """Return a split, or a slice of one."""

    def stream(self, dataset: str, config: str | None, split: str) -> Iterator[dict[str, Any]]:
        """Yield the rows of a split in order without holding it in memory."""

    def intervals(self, dataset: str, config: str | None, split: str) -> list[tuple[str, int, int]]:
        """Return the (split, first row, end row) pieces that a split expression means."""

    def completeness(self, dataset: str, config: str | None, split: str) -> dict[str, Any]:
        """Return dataset, config, split, rows, published_rows, complete and a note."""

    def fingerprint(self, dataset: str, config: str | None, split: str) -> str:
        """Return hex digits that change when the split's content does."""

    def files(self, repository: str, *names: str) -> str | Path:
        """Return what transformers' `from_pretrained` takes for a repository that holds these files."""


@dataclass(frozen=True)
class FolderSource:
    """A folder laid out like the hub: `<owner>/<name>/<config>/<split>-*.parquet`, and a manifest.json.

    Or as the hub converts sets, `<config>/<split>/0000.parquet`; `data/`, or no folder at all, is the configuration
    `default`.
    Only files inside the folder are read: an identifier with `..` and a link that leads outside are refused.
    """

    root: Path
    name: str = "mirror"
    substitute: str = ""  # said of every split that would otherwise pass for the published one

    def load(self, dataset: str, config: str | None, split: str) -> datasets.Dataset:
        """Return a split, or a slice of one, held in memory."""
        pieces = []
        for base, start, stop in self.intervals(dataset, config, split):
            shards = [_plain(_read(_table, f)) for f in self._parquet(dataset, config, base)]
            pieces.append(_joined(shards, f"{dataset} {config or ''} {base}").slice(start, stop - start))
        digest = hashlib.sha256(f"{self.fingerprint(dataset, config, split)}{split}".encode()).hexdigest()
        return datasets.Dataset(_joined(pieces, f"{dataset} {split}"), fingerprint=digest[:16])

    def stream(self, dataset: str, config: str | None, split: str) -> Iterator[dict[str, Any]]:
        """Yield the rows of a whole split in order, one batch of the file in memory at a time."""
        for file in self._parquet(dataset, config, split):
            batches = _read(pq.ParquetFile, file).iter_batches(batch_size=1024)
            while (batch := _read(lambda _, b=batches: next(b, None), file)) is not None:
                yield from batch.to_pylist()

    def intervals(self, dataset: str, config: str | None, split: str) -> list[tuple[str, int, int]]:
        """Return the (split, first row, end row) pieces that a split expression means."""
        return splits.intervals(split, lambda base: self._rows(dataset, config, base))

    def completeness(self, dataset: str, config: str | None, split: str) -> dict[str, Any]:
        """Say how many of the published rows a split holds, from manifest.json where it knows the split."""
        pieces = self.intervals(dataset, config, split)
        known = self.manifest.get(dataset, {}).get(self._config(dataset, config), {})
        entries = [known.get(base, {}) for base, _, _ in pieces]
        published = splits.PUBLISHED_ROWS.get((dataset, config), {})
        counts = [e.get("published_rows", published.get(b)) for e, (b, _, _) in zip(entries, pieces)]
        posing = bool(self.substitute and published)  # under a published name, but not the published text
        whole = all(e.get("complete", False) for e in entries) and not posing
        notes = [e.get("note") or self.substitute for e in entries]
        notes += [f"manifest.json does not know {b}" for e, (b, _, _) in zip(entries, pieces) if not e]
        return splits.completeness(dataset, config, split, pieces, counts, whole, notes)

    def fingerprint(self, dataset: str, config: str | None, split: str) -> str:
        """Hash the content of a split's files; the same bytes give the same digits on any machine."""
        digest = hashlib.sha256()
        for base in splits.base_splits(split):
            for file in self._parquet(dataset, config, base):
                with file.open("rb") as stream:
                    digest.update(hashlib.file_digest(stream, "sha256").digest())
        return digest.hexdigest()[:16]

    def files(self, repository: str, *names: str) -> Path:
        """Return the folder of a repository, once it is known to hold the named files."""
        folder = self._folder(repository)
        for name in names:
            if not self._inside(folder / name).is_file():
                raise DataError(f"{folder / name}: no such file; copy it there from the hub's {repository}")
        return folder

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """What manifest.json says of every split: dataset -> config -> split -> rows, complete, note."""
        file = self._inside(self.root / "manifest.json")
        if not file.exists():
            return {}
        try:
            return MANIFEST.validate_json(file.read_bytes())
        except (OSError, ValidationError) as error:
            reason = error.strerror if isinstance(error, OSError) else error.errors()[0]["msg"]
            form = "JSON of data set -> config -> split -> what is known of it"
            raise DataError(f"{file}: is not {form} ({reason}); copy it again") from None

    def _parquet(self, dataset: str, config: str | None, split: str) -> list[Path]:
        """Return the files of one split, whole ones inside the folder, or say which splits there are."""
        folder = self._folder(dataset) / self._config(dataset, config)
        files = _by_split(folder)
        here = files.get(split, [])
        if not here:
            found = ", ".join(sorted(files)) or "none"
            raise MissingSplit(f"{folder}: no split {split!r} (found: {found}); name one of these")
        if len(here) != (count := _promised(here)):
            raise DataError(f"{folder}: {len(here)} of the {count} files of split {split!r}; copy the others")
        sizes = self.manifest.get(dataset, {}).get(folder.name, {}).get(split, {})
        size = sum(self._inside(f).stat().st_size for f in here)
        if sizes.get("bytes", size) != size:
            said = f"{size} bytes where manifest.json says {sizes['bytes']}"
            raise DataError(f"{here[0]}: {said}; copy the file again")
        return here

    def _rows(self, dataset: str, config: str | None, split: str) -> int:
        return sum(_read(pq.read_metadata, f).num_rows for f in self._parquet(dataset, config, split))

    def _config(self, dataset: str, config: str | None) -> str:
        """Return the folder of a configuration, "" for the data set's own; without a name the only one there is."""
        folder = self._folder(dataset)
        found = sorted(p.name for p in folder.iterdir() if p.is_dir() and _by_split(p))
        if config in (None, "default") and "default" not in found:
            if any(folder.glob("*.parquet")):
                return ""
            config = "data" if "data" in found else config
        chosen = config or ("default" if "default" in found else found[0] if len(found) == 1 else None)
        if chosen not in found:
            listed = ", ".join(found) or "none"
            raise DataError(f"{folder}: no configuration {config!r} (found: {listed}); choose one of these")
        return chosen

    def _folder(self, dataset: str) -> Path:
        """Return the folder of a data set or tokenizer, or say that it is not here."""
        parts = PurePosixPath(dataset).parts
        if not parts or ".." in parts or dataset.startswith("/") or "\\" in dataset:
            raise DataError(f"{dataset!r} is no data set identifier: write owner/name")
        folder = self._inside(self.root / dataset)
        if not folder.is_dir():
            raise DataError(f"{folder}: no such data set; copy it there from the hub, or {REMEDY}")
        return folder

    def _inside(self, path: Path) -> Path:
        """Return a path unless links lead it out of the source's folder."""
        if not path.resolve().is_relative_to(self.root.resolve()):
            raise DataError(f"{path}: leads outside {self.root}; put a copy there instead of a link")
        return path


def resolve(default: str, *, cache: Path | None = None) -> Source:
    """Return the source that `SAOBP_DATA` names or, where it is not set, the profile's own choice.

    `default` is "synthetic", "hub" or a folder laid out like the hub; a relative folder is looked for from
    here and then from the repository. The story world is written once, to `cache` (default: the build's).
    Raises DataError if a folder is missing.
    """
    choice = os.environ.get("SAOBP_DATA") or default
    if choice == "hub":
        return HubSource()
    if choice == "synthetic":
        note = f"{splits.INVENTED}, not the published set"
        return FolderSource(_story_world(cache or paths.cache()), "synthetic", note)
    given = Path(choice).expanduser()
    folder = given if given.is_absolute() or given.is_dir() else paths.root() / given
    if not folder.is_dir():
        raise DataError(f"{given}: no such data folder; {REMEDY}")
    return FolderSource(folder)


def _story_world(cache: Path) -> Path:
    """Write the story world once; a folder under its final name is always whole, whoever else is writing."""
    from saobp import storyworld

    code = Path(storyworld.__file__)
    modules = sorted(code.parent.rglob("*.py")) if code.name == "__init__.py" else [code]
    written_by = hashlib.sha256(b"".join(m.read_bytes() for m in modules)).hexdigest()[:12]
    return seals.made(cache / f"synthetic-{written_by}", storyworld.write)


def _by_split(folder: Path) -> dict[str, list[Path]]:
    """Return the files of every split: those named after it, else those in a folder of its name."""
    found: dict[str, list[Path]] = {}
    for file in sorted(folder.glob("*.parquet")):
        found.setdefault(file.stem.split("-")[0], []).append(file)
    nested: dict[str, list[Path]] = {}
    for file in sorted(folder.glob("*/*.parquet")):
        nested.setdefault(file.parent.name, []).append(file)
    return nested | found


def _promised(files: list[Path]) -> int:
    """Return how many files a split must have, as far as their names tell: `-of-00003`, or numbers from 0000 on."""
    if count := re.search(r"-of-(\d+)(-[0-9a-f]+)?$", files[-1].stem):
        return int(count[1])
    return int(files[-1].stem) + 1 if files[-1].stem.isdecimal() else len(files)


def _table(file: Path) -> pa.Table:
    """Read one file by itself: its folders' names are no columns."""
    return pq.ParquetFile(file).read()


def _joined(tables: list[pa.Table], place: str) -> pa.Table:
    """Put shards, or slices, behind each other; a column that one of them holds no value of takes the others' type."""
    try:
        return pa.concat_tables(tables, promote_options="permissive")
    except pa.ArrowException as error:
        raise DataError(f"{place}: its files do not fit together ({first_line(error)}); copy them again") from None


def _plain(table: pa.Table) -> pa.Table:
    """Return a table without dictionaries and large or fixed-size forms: one type for a column, whoever wrote it."""
    return table.cast(pa.schema([field.with_type(_simple(field.type)) for field in table.schema]))


def _simple(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _simple(kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(_simple(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_simple(field.type)) for field in kind])
    return kind


def _read(reader: Any, file: Path) -> Any:
    """Read a parquet file, or say in one line which one is damaged."""
    try:
        return reader(file)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{file}: cannot be read as parquet ({first_line(error)}); copy it again") from None
