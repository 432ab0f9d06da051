"""Where data come from: the public hub, a folder laid out like it, or the embedded story world: the
same columns.
"""

import hashlib
import json
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
from datasets.table import table_cast
from pydantic import TypeAdapter, ValidationError

from companion import storyworld
from companion.data.splits import Absent, DataError, Source, base_splits, first_line
from companion.setup import paths, typed_by_hand
from companion.setup.tasks_and_metrics import HUB_ROWS, TASKS

REMEDY = "set SAOBP_DATA to 'hub', 'synthetic' or a folder laid out like the hub"
# times its size that a file may unpack to; tokens take three to ten
UNPACKED_AT_MOST = 100
# bytes that a split may take in memory in any case
UNPACKED_AT_LEAST = 2 * 10**9
UNREADABLE = "what it says of its columns cannot be read"
UNREAD_NAMES = "may name classes; name them by `huggingface`"
# in the metadata of a column
SPEAKS_OF_CLASSES = re.compile("ClassLabel|names|classes|categor|labels", re.IGNORECASE)
# keys there, which other texts may hold as words
KEYS_OF_CLASSES = re.compile("label2id|id2label|label_?map|mapping|levels|enum", re.IGNORECASE)
# metadata of a file that is read by its own rules
OWN_WORDS = (b"huggingface", b"pandas")
WORDS = re.compile(r"\w+")
JSON_TRUTHS = re.compile(r"(?<![\w\"])(true|false)(?![\w\"])")
# as huggingface_hub finds the head of a card
HEAD_OF_CARD = re.compile(r"^\s*---(?:\r\n|\r|\n)([\S\s]*?)(?:\r\n|\r|\n)---[ \t]*(?:\r\n|\n|$)")
MANIFEST = TypeAdapter(dict[str, dict[str, dict[str, dict[str, Any]]]])


@dataclass(frozen=True)
class HubSource(Source):
    """The public Hugging Face hub, through `datasets.load_dataset`; cached where datasets
    caches.
    """

    name: str = "hub"

    def load(self, dataset: str, config: str | None, split: str) -> datasets.Dataset:
        return _ask(datasets.load_dataset, dataset, config, split=split)

    def stream(self, dataset: str, config: str | None, split: str) -> Iterator[dict[str, Any]]:
        # then from the cache
        offline = os.environ.get("HF_HUB_OFFLINE", "0").upper() in {"1", "ON", "YES", "TRUE"}
        rows = _ask(datasets.load_dataset, dataset, config, split=split, streaming=not offline)
        try:
            yield from rows
        # a dozen classes, some of them OSError: none is about our disk
        except Exception as error:
            reason = first_line(error)
            raise DataError(
                f"{dataset} {split}: the hub broke off ({reason}); give the same command again"
            ) from None

    def fingerprint(self, dataset: str, config: str | None, split: str) -> str:
        # its hash holds the hub's revision
        builder = _ask(datasets.load_dataset_builder, dataset, config)
        return hashlib.sha256(f"{dataset} {config} {split} {builder.hash}".encode()).hexdigest()[
            :16
        ]

    def files(self, repository: str, *names: str) -> str:
        return repository

    def known(self, dataset: str, config: str | None, split: str) -> dict[str, Any]:
        stated = _ask(datasets.load_dataset_builder, dataset, config).info.splits
        names = stated or _ask(datasets.get_dataset_split_names, dataset, config)
        if split not in names:
            name = f"{dataset} {config or ''}".strip()
            raise Absent(
                f"{name}: no split {split!r} (found: {', '.join(names)}); name one of these"
            )
        rows = stated[split].num_examples or None if stated else None
        due = HUB_ROWS.get((dataset, config), {}).get(split, rows)
        note = "" if rows == due else f"the hub has {rows} rows of {due}"
        note = "the hub states no count" if rows is None else note
        return {"rows": rows or due or 0, "hub_rows": due, "complete": not note, "note": note}

    def count(self, dataset: str, config: str | None, split: str) -> int:
        return super().count(dataset, config, split) or len(self.load(dataset, config, split))


def _ask(function: Callable, dataset: str, config: str | None, **options: Any) -> Any:
    """Call a loader of datasets; where a data set still is a script, on the hub's parquet form."""
    try:
        return function(dataset, config, **options)
    # the hub fails in a dozen classes; all mean the same here
    except Exception as error:
        if "scripts are no longer supported" in str(error) and "revision" not in options:
            return _ask(function, dataset, config, revision="refs/convert/parquet", **options)
        name = f"{dataset} {config or ''}".strip()
        raise DataError(
            f"{name}: not to be had from the hub ({first_line(error)}); connect, or {REMEDY}"
        ) from None


@dataclass(frozen=True)
class FolderSource(Source):
    """A folder laid out like the hub: `<owner>/<name>/<config>/<split>-*.parquet`, and a
    manifest.json.

    Or as the hub converts sets, `<config>/<split>/0000.parquet`; `data/`, or no folder at all, is
    the configuration `default`. Only files inside the folder are read: an identifier or a link that
    leads outside is refused.
    """

    root: Path
    name: str = "mirror"

    def load(self, dataset: str, config: str | None, split: str) -> datasets.Dataset:
        with _reading(f"{dataset} {split}"):
            pieces = [
                self._table(dataset, config, base).slice(start, stop - start)
                for base, start, stop in self.intervals(dataset, config, split)
            ]
            rows = pa.concat_tables(pieces, promote_options="permissive")
            features = datasets.Features.from_arrow_schema(rows.schema)
            features |= self._classes(dataset, config, split)
            rows = table_cast(rows, datasets.Features(features).arrow_schema)
        return datasets.Dataset(rows, fingerprint=self.fingerprint(dataset, config, split))

    def stream(self, dataset: str, config: str | None, split: str) -> Iterator[dict[str, Any]]:
        self._refuse_bombs(dataset, config, split)
        with _reading(f"{dataset} {split}"):
            for batch in self._scan(dataset, config, split).to_batches(batch_size=1024):
                yield from batch.to_pylist()

    def fingerprint(self, dataset: str, config: str | None, split: str) -> str:
        files = [
            file for base in base_splits(split) for file in self._split(dataset, config, base)[0]
        ]
        # a slice is another text than the whole
        cut = split if "[" in split else ""
        contents = b"".join(bytes.fromhex(paths.digest(file)) for file in files)
        # other names make other classes of the same numbers
        classes = self._card(dataset, config)[1]
        cut += json.dumps(classes) if classes else ""
        return hashlib.sha256(contents + cut.encode()).hexdigest()[:16]

    def files(self, repository: str, *names: str) -> Path:
        folder = self._folder(repository)
        for name in names:
            if not self._inside(folder / name).is_file():
                raise DataError(
                    f"{folder / name}: no such file; copy it there from the hub's {repository}"
                )
        return folder

    def known(self, dataset: str, config: str | None, split: str) -> dict[str, Any]:
        rows, (_, entry) = (
            self._scan(dataset, config, split).count_rows(),
            self._split(dataset, config, split),
        )
        public = HUB_ROWS.get((dataset, config), {})
        # under a public set's name, but not its text
        posing = self.name == "synthetic" and bool(public)
        return {
            "rows": rows,
            "hub_rows": entry.get("published_rows", public.get(split)),
            "complete": entry.get("complete", False) and not posing,
            "note": entry.get("note") if entry else f"manifest.json does not know {split}",
        }

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """What manifest.json says of every split: dataset -> config -> split -> rows, complete,
        note.
        """
        file = self._inside(self.root / "manifest.json")
        try:
            return MANIFEST.validate_json(file.read_bytes()) if file.exists() else {}
        except (OSError, ValidationError) as error:
            form = "JSON of data set -> config -> split -> what is known of it"
            raise DataError(f"{file}: is not {form} ({first_line(error)}); copy it again") from None

    def _scan(self, dataset: str, config: str | None, split: str) -> pyarrow.dataset.Dataset:
        """Return a split's files as one table on disk; a column has one type, whoever wrote which
        of them.
        """
        (files, _), schemas = self._split(dataset, config, split), []
        for file in files:
            with _reading(file):
                schemas.append(
                    pa.schema(
                        [field.with_type(_simple(field.type)) for field in pq.read_schema(file)]
                    )
                )
        with _reading(f"{dataset} {config or ''} {split}", "its files do not fit together"):
            schema = pa.unify_schemas(schemas, promote_options="permissive")
        return pyarrow.dataset.dataset(files, schema, format="parquet")

    def _table(self, dataset: str, config: str | None, split: str) -> pa.Table:
        """Return the rows of a split."""
        self._refuse_bombs(dataset, config, split)
        return self._scan(dataset, config, split).to_table()

    def _refuse_bombs(self, dataset: str, config: str | None, split: str) -> None:
        """Raise DataError before the rows of a split take much more memory than files of their size
        can mean: a small one may repeat a value for ever.
        """
        files = self._split(dataset, config, split)[0]
        most = max(UNPACKED_AT_LEAST, UNPACKED_AT_MOST * sum(file.stat().st_size for file in files))
        size = 0
        for file in files:
            with _reading(file):
                # a scan would unpack a whole group of rows before its first batch
                for batch in pq.ParquetFile(file).iter_batches(batch_size=64):
                    size += sum(_unpacked(column).nbytes for column in batch.columns)
                    if size > most:
                        raise DataError(
                            f"{files[0]}: its split unpacks to over {most / 1e6:.0f} MB; copy it again"
                        )

    def _classes(
        self, dataset: str, config: str | None, split: str
    ) -> dict[str, datasets.ClassLabel]:
        """Return the columns whose numbers stand for named classes, as every file states them.

        datasets' own loader takes the first file's names for all of them. Raises DataError where
        two files, or a file and the data set's card, state other names.
        """
        card, of_card = self._card(dataset, config)
        stated: dict[str, list[str]] = {}
        for base in base_splits(split):
            for file in self._split(dataset, config, base)[0]:
                with _reading(file, UNREADABLE):
                    named = _class_names(pq.read_schema(file))
                for column, names in named.items():
                    names = names or of_card.get(column, [])
                    if of_card.get(column, names) != names:
                        raise DataError(
                            f"{file}: column '{column}' has the classes {names}, {card} says "
                            f"{of_card[column]}; write both with the same"
                        )
                    if (known := stated.setdefault(column, names)) != names:
                        raise DataError(
                            f"{file}: column '{column}' has the classes {names}, another file of "
                            f"'{split}' {known}; write both with the same"
                        )
        return {
            column: datasets.ClassLabel(names=names) for column, names in stated.items() if names
        }

    def _card(self, dataset: str, config: str | None) -> tuple[Path | None, dict[str, list[str]]]:
        """Return the file that describes the data set as on the hub, if there is one, and the names
        that it states of the classes of columns.
        """
        folder, name = self._folder(dataset), self._config(dataset, config)
        for file, read in (
            (folder / "README.md", _of_card),
            (folder / "dataset_infos.json", _of_infos),
        ):
            if file.is_file():
                with _reading(self._inside(file), UNREADABLE):
                    infos = read(file.read_text(encoding="utf-8-sig"))
                    features = infos.get("default" if name in ("", "data") else name, {})
                    named = {key: getattr(kind, "names", None) for key, kind in features.items()}
                if infos:
                    return file, {column: names for column, names in named.items() if names}
        return None, {}

    def _split(
        self, dataset: str, config: str | None, split: str
    ) -> tuple[list[Path], dict[str, Any]]:
        """Return the files of one split, whole ones inside the folder, and what manifest.json says
        of it.
        """
        config = self._config(dataset, config)
        folder = self._folder(dataset) / config
        files = _by_split(folder)
        if not (here := files.get(split)):
            names = ", ".join(sorted(files)) or "none"
            raise Absent(f"{folder}: no split {split!r} (found: {names}); name one of these")
        # as many as their names tell: `-of-00003`, or numbers from 0000 on
        numbered = re.search(r"-of-(\d+)(-[0-9a-f]+)?$", last := here[-1].stem)
        if len(here) != (
            count := int(numbered[1])
            if numbered
            else int(last) + 1
            if last.isdecimal()
            else len(here)
        ):
            raise DataError(
                f"{folder}: {len(here)} of the {count} files of split {split!r}; copy the others"
            )
        entry = self.manifest.get(dataset, {}).get(config, {}).get(split, {})
        size = sum(self._inside(f).stat().st_size for f in here)
        if (stated := entry.get("bytes", size)) != size:
            raise DataError(
                f"{here[0]}: {size} bytes where manifest.json says {stated}; copy the file again"
            )
        return here, entry

    def _config(self, dataset: str, config: str | None) -> str:
        """Return the folder of a configuration, "" for the data set's own; without a name the only
        one there is.
        """
        folder = self._folder(dataset)
        configs = sorted(p.name for p in folder.iterdir() if p.is_dir() and _by_split(p))
        root = [""] if any(folder.glob("*.parquet")) else []
        usual = [
            "default",
            *root,
            "data",
            *(configs if config is None and len(configs) == 1 else []),
        ]
        for chosen in usual if config in (None, "default") else [config]:
            if chosen in [*configs, *root]:
                return chosen
        listed = ", ".join(configs) or "none"
        raise Absent(
            f"{folder}: no configuration {config!r} (found: {listed}); choose one of these"
        )

    def _folder(self, dataset: str) -> Path:
        """Return the folder of a data set or tokenizer, or say that it is not here."""
        folder = self._inside(self.root / dataset)
        if not folder.is_dir():
            names = ", ".join(
                sorted(path.relative_to(self.root).as_posix() for path in self.root.glob("*/*"))
            )
            raise Absent(
                f"{folder}: no such data set (found: {names}); name one of these, or {REMEDY}"
            )
        return folder

    def _inside(self, path: Path) -> Path:
        """Return a path unless links lead it out of the source's folder."""
        if not path.resolve().is_relative_to(self.root.resolve()):
            raise DataError(
                f"{path}: leads outside {self.root}; put a copy there instead of a link"
            )
        return path


def _by_split(folder: Path) -> dict[str, list[Path]]:
    """Return the files of every split: those named after it, else those in a folder of its name."""
    named, nested = defaultdict(list), defaultdict(list)
    for file in sorted(folder.glob("*.parquet")):
        named[file.stem.split("-")[0]].append(file)
    for file in sorted(folder.glob("*/*.parquet")):
        nested[file.parent.name].append(file)
    return nested | named


def _class_names(schema: pa.Schema) -> dict[str, list[str]]:
    """Return each column that holds anything, with the names of its classes; none where its values
    are plain.

    datasets writes them into the metadata of the file, and its `Features.from_arrow_schema` loses
    those of a column that is not of 64 bits. Raises ValueError if what stands there cannot be read,
    or if names may stand anywhere else.
    """
    metadata = schema.metadata or {}
    for key, value in metadata.items():
        speaks = _speaks_of_classes(key.decode()) or _names_classes(value.decode())
        if key not in OWN_WORDS and (speaks or key.lower() == b"huggingface"):
            raise ValueError(f"{key.decode()}: {value.decode()[:80]} {UNREAD_NAMES}")
    categories = _categories(json.loads(metadata.get(b"pandas", b"{}")))
    written = json.loads(metadata.get(b"huggingface", b"{}"))
    described = written.get("info", {}).get("features") or written.get("features") or {}
    features = datasets.Features.from_dict(described)
    columns = {}
    for field in schema:
        _refuse_names_beside(field)
        if field.name in categories and pa.types.is_integer(field.type):
            raise ValueError(
                f"column {field.name!r}: pandas calls it categorical, so that its numbers may be "
                "codes; write their names, or plain numbers"
            )
        if not pa.types.is_null(field.type):
            columns[field.name] = getattr(features.get(field.name), "names", None) or []
    return columns


def _refuse_names_beside(field: pa.Field) -> None:
    """Raise ValueError if what stands in the metadata of a column may name its classes."""
    for key, value in (field.metadata or {}).items():
        # parquet's own number of the column
        if key.startswith(b"PARQUET:"):
            continue
        text = f"{key.decode()}: {value.decode()}"
        listed = pa.types.is_integer(field.type) and value[:1] in (b"[", b"{")
        if listed or _speaks_of_classes(key.decode(), text) or _names_classes(text):
            raise ValueError(f"column {field.name!r}: {text[:80]} {UNREAD_NAMES}")


def _speaks_of_classes(key: str, text: str = "") -> bool:
    """Tell whether a key of metadata, or the text beside it, may name classes."""
    return bool(KEYS_OF_CLASSES.fullmatch(key) or SPEAKS_OF_CLASSES.search(text or key))


def _names_classes(text: str) -> bool:
    """Tell whether a text holds names of several classes of one benchmark."""
    words = set(WORDS.findall(JSON_TRUTHS.sub("", text).lower()))
    for spec in TASKS.values():
        names = {name.lower() for name in spec.labels if len(name) > 1}
        if len(words & (names | {f"not_{name}" for name in names})) > 1:
            return True
    return False


def _categories(written: dict[str, Any]) -> set[str]:
    """Return the columns that pandas calls categorical; where its file holds numbers, they may be
    those of categories that were taken out.
    """
    columns = written.get("columns", [])
    kind = "categorical"
    return {column.get("field_name") for column in columns if column.get("pandas_type") == kind}


def _of_card(text: str) -> dict[str, datasets.Features]:
    """Return the columns of each configuration as the head of a README.md describes them."""
    head = HEAD_OF_CARD.search(text)
    infos = typed_by_hand.parse(head[1]).get("dataset_info", []) if head else []
    infos = infos if isinstance(infos, list) else [infos]
    return {
        info.get("config_name", "default"): datasets.Features._from_yaml_list(info["features"])
        for info in infos
        if "features" in info
    }


def _of_infos(text: str) -> dict[str, datasets.Features]:
    """Return the columns of each configuration as dataset_infos.json, an earlier card, has them."""
    infos = json.loads(text).items()
    return {
        name: datasets.Features.from_dict(info["features"])
        for name, info in infos
        if "features" in info
    }


def _simple(kind: pa.DataType) -> pa.DataType:
    """Return a type without dictionaries and large or fixed-size forms."""
    if pa.types.is_dictionary(kind):
        return _simple(kind.value_type)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(_simple(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_simple(field.type)) for field in kind])
    return kind


def _unpacked(column: pa.Array) -> pa.Array:
    """Return a column with each value written out."""
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


@contextmanager
def _reading(place: Any, flaw: str = "cannot be read as parquet") -> Iterator[None]:
    try:
        yield
    except DataError:
        raise
    # of pyarrow, and of datasets where a file's metadata are not what it writes
    except (
        pa.ArrowException,
        OSError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
    ) as error:
        raise DataError(f"{place}: {flaw} ({first_line(error)}); copy it again") from None


def chosen(default: str) -> str:
    """Return what `SAOBP_DATA` or else the study names: "synthetic", "hub", or a folder, from here
    or the root.
    """
    name = os.environ.get("SAOBP_DATA") or default
    folder = Path(os.path.expanduser(name))
    return (
        name
        if name in ("hub", "synthetic")
        else str((folder if folder.is_dir() else paths.root() / folder).resolve())
    )


def resolve(default: str) -> Source:
    """Return the source that is `chosen`; the story world is written once, to the build's cache."""
    name = chosen(default)
    if name == "hub":
        return HubSource()
    if name == "synthetic":
        modules = sorted(Path(storyworld.__file__).parent.glob("*.py"))
        written_by = hashlib.sha256(
            b"".join(module.read_bytes() for module in modules)
        ).hexdigest()[:12]
        folder = paths.made(paths.cache() / f"synthetic-{written_by}", storyworld.write)
        return FolderSource(folder, "synthetic")
    if not Path(name).is_dir():
        raise DataError(f"{name}: no such data folder; {REMEDY}")
    paths.check_letters(name)
    return FolderSource(Path(name))
