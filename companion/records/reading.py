"""Run records: one JSON a run, the only thing that tables, figures and the report read."""

import json
import logging
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from companion.records import schema
from companion.records.schema import Record
from companion.setup import paths

ANSWERS_END = ".answers.parquet"
# run: its place in `metrics.multihop`; right: 0 or 1 per question, the same questions in each run
ANSWERS = pa.schema([("run", pa.int32()), ("hops", pa.int32()), ("right", pa.list_(pa.int8()))])
# numbers in a file of answers, of which the longest that is tracked has 300,000
MOST_ANSWERS = 10**7
log = logging.getLogger(__name__)


class RecordError(ValueError):
    """A record that cannot be read or is not one; the message names the file."""


def read(path: str | Path) -> Record:
    """Read one record. Raises RecordError that names the file if it is damaged or of another
    schema.
    """
    try:
        record = json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=_no_number)
    except (OSError, ValueError, RecursionError) as error:
        raise RecordError(
            f"{path}: not a readable record ({error}): delete it and run again"
        ) from None
    if isinstance(record, dict) and record.get("schema", schema.SCHEMA) != schema.SCHEMA:
        raise RecordError(
            f"{path}: schema {record['schema']}, this version reads {schema.SCHEMA}: run it again"
        )
    if flaw := schema.flaw(record):
        raise RecordError(f"{path}: not a run record, {flaw}: delete it and run again")
    answers = Path(path).with_suffix(ANSWERS_END)
    if answers.is_file():
        try:
            with pq.ParquetFile(answers) as file:
                _refuse_a_bomb(file)
                table = file.read()
            record = _with_answers(record, zip(*table.to_pydict().values()))
        except (pa.ArrowException, OSError, LookupError):
            raise RecordError(
                f"{answers}: not the answers of {Path(path).name}: restore them, or run again"
            ) from None
    if any(
        not run.get("outcomes") and not run.get("failed")
        for run in record["metrics"].get("multihop") or []
    ):
        raise RecordError(
            f"{path}: its answers, {answers.name}, are missing or not whole: restore them, or run again"
        )
    return record


def _refuse_a_bomb(file: pq.ParquetFile) -> None:
    """Raise ArrowInvalid for other columns than those of answers, or more numbers than an exam has:
    a small file may repeat one for ever.
    """
    groups = [file.metadata.row_group(group) for group in range(file.num_row_groups)]
    numbers = [
        group.column(place).num_values for group in groups for place in range(group.num_columns)
    ]
    if not file.schema_arrow.equals(ANSWERS) or sum(numbers) > MOST_ANSWERS:
        raise pa.ArrowInvalid("no answers")


def _no_number(text: str) -> None:
    raise ValueError(f"it holds {text}, which no record does")


def files(study_or_folder: str | Path) -> list[Path]:
    """Name the files of all records of a study, in its build or else among its tracked results, or
    of a folder.
    """
    text = str(study_or_folder)
    folders = [Path(text)]
    if paths.is_plain(text):
        folders = [paths.build(text) / "records", paths.results(text), *folders]
    for folder in folders:
        # no folder has none
        listed = sorted(folder.glob("*.json"))
        if listed:
            return listed
    return []


def is_record(path: Path) -> bool:
    """Tell whether a file is what a run left, of this schema or another."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(content, dict) and {"schema", "stage"} <= content.keys()


def names(folder: Path) -> set[str]:
    """Return the names of the files of a folder that are records, and of their answers."""
    names = set()
    for path in folder.glob("*.json"):
        if is_record(path):
            names |= {path.name, path.with_suffix(ANSWERS_END).name}
    return names


def load(study_or_folder: str | Path) -> list[Record]:
    """Read all records of a study or folder, in the order of their names.

    A build that lacks some of the study's tracked records says so: it is unfinished, or made of
    rows.
    """
    chosen, name = files(study_or_folder), str(study_or_folder)
    tracked = paths.results(name) if paths.is_plain(name) else Path(name)
    hidden = {path.name for path in tracked.glob("*.json")} - {path.name for path in chosen}
    if hidden:
        message = "%s: lacks %d of the records tracked in %s, and is read in place of them: finish it, or remove it"
        log.warning(message, chosen[0].parent, len(hidden), tracked)
    return [read(path) for path in chosen]


def hashes(study_or_folder: str | Path) -> dict[str, str]:
    """Map each record's name to the SHA-256 of its file's bytes, as `sha256sum` prints it."""
    return {path.stem: paths.digest(path) for path in files(study_or_folder)}


def select(records: Iterable[Record], stage: str | None = None, **parameters: Any) -> list[Record]:
    """Keep the records of a stage whose parameters have the given values."""
    selected = []
    for record in records:
        values = {key: record["parameters"].get(key) for key in parameters}
        if stage in (None, record["stage"]) and values == parameters:
            selected.append(record)
    return selected


def kinds(names: Iterable[str]) -> dict[str, str]:
    """Map each name of a device to its kind, whose members compute alike: the name itself, but for
    early records.

    These lack the vector set. Beside "AMD EPYC" the only name that adds one, "AMD EPYC, AVX2", is
    of the kind "AMD EPYC"; of two that do, "AMD EPYC" may be either, and all three are kinds.
    """
    every = set(names)
    early = {name: name.rpartition(", ")[0] for name in every}
    sets = Counter(early.values())
    return {
        name: short if short in every and sets[short] == 1 else name
        for name, short in early.items()
    }


def move_answers(record: dict[str, Any], path: Path) -> dict[str, Any]:
    """Write the answers of a record's exam beside `path`, and return the record without them."""
    runs = record.get("metrics", {}).get("multihop") or []
    rows = [
        (n, int(hops), right)
        for n, run in enumerate(runs)
        for hops, right in run.get("outcomes", {}).items()
    ]
    if not rows:
        return record
    with paths.new_file(path.with_suffix(ANSWERS_END)) as file:
        pq.write_table(
            pa.table(dict(zip(ANSWERS.names, zip(*rows))), schema=ANSWERS), file, compression="zstd"
        )
    return _with_answers(record, [])


def _with_answers(
    record: dict[str, Any], rows: Iterable[tuple[int, int, list[int]]]
) -> dict[str, Any]:
    runs = [run | {"outcomes": {}} for run in record["metrics"]["multihop"]]
    for place, hops, right in rows:
        runs[place]["outcomes"][str(hops)] = right
    return record | {"metrics": record["metrics"] | {"multihop": runs}}
