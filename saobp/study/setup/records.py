"""Run records: one JSON a run, the only thing that tables, figures and the report read."""

import importlib.metadata
import json
import logging
import os
import platform
import re
import subprocess
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic_core import to_jsonable_python

from saobp.study.setup import paths, schema
from saobp.study.setup.schema import Data, Departure, Device, Record

PACKAGES = ("torch", "transformers", "datasets", "tokenizers", "numpy", "scipy", "scikit-learn", "igraph")
PRETRAINED = ("model", "algorithm", "seed")  # parameters that name a pretrained model
IDENTITY = (*PRETRAINED, "group", "finetune_seed", "task")  # and a run
ANSWERS_END = ".answers.parquet"
# run: its place in `metrics.multihop`; right: 0 or 1 per question, the same questions in each run
ANSWERS = pa.schema([("run", pa.int32()), ("hops", pa.int32()), ("right", pa.list_(pa.int8()))])
log = logging.getLogger(__name__)


class RecordError(ValueError):
    """A record that cannot be read or is not one; the message names the file."""


class Run:
    """One execution of one notebook: starts the clock, leaves exactly one record.

    `stage` is what was done ("pretrain", "finetune", …); `parameters` are the notebook's own.
    """

    def __init__(self, stage: str, *, study_name: str, parameters: dict[str, Any]):
        self.stage, self.study_name, self.parameters = stage, Path(study_name).stem, dict(parameters)
        self.started, self._clock = datetime.now(UTC), time.perf_counter()
        commit()  # of the code that runs, before another comes

    def save(
        self, path: str | Path, metrics: dict[str, Any], *, data: Data | None = None,
        departures: Sequence[Departure] = (), precision: str | None = None,
    ) -> Record:  # fmt: skip
        """Write the record to `path`, whole or not at all, and return it.

        Without a path it goes to `build/<study>/interactive/`, never among those that the workflow made. `precision`
        is that of training, if the metrics do not tell it. Raises RecordError if it has not the form of `Record`.
        """
        named = (self.parameters.get(key) for key in IDENTITY)
        name = "-".join([self.stage, *(str(value) for value in named if value not in (None, ""))])
        path = Path(path or paths.build(self.study_name) / "interactive" / f"{name}.json")
        sittings, tasks = metrics.get("sittings") or [], (metrics.get("tasks") or {}).values()
        trained = [sitting["device"]["precision"] for sitting in sittings]
        trained = trained or [entry["precision"]["name"] for entry in tasks if "precision" in entry]
        record = {
            "schema": schema.SCHEMA,
            "stage": self.stage,
            "study": self.study_name,
            "name": path.stem,
            "parameters": self.parameters,
            "metrics": metrics,
            "data": data or {},
            "code": {"version": importlib.metadata.version("saobp"), "commit": commit()},
            "packages": {name: importlib.metadata.version(name) for name in PACKAGES},
            "device": device(precision or (trained[-1] if trained else None)),
            "started": self.started.isoformat(timespec="seconds"),
            "seconds": round(time.perf_counter() - self._clock, 1),
            "departures": list(departures),
        }
        record = finite(record)
        if flaw := schema.flaw(record):
            raise RecordError(f"{path}: not written, {flaw}")
        paths.write_text(path, as_text(record))
        return record


def as_text(record: dict[str, Any]) -> str:
    """Write a record as JSON, one line a key, so that a difference between two records is easy to see."""
    lines = [f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in record.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def finite(value: Any) -> Any:
    """Replace NaN and infinities by None all through, and tensors' and numpy's numbers by Python's."""
    return to_jsonable_python(value, inf_nan_mode="null", fallback=lambda found: found.tolist())


@cache
def commit() -> str:
    """Return the git commit of the code, with a plus sign when files differ from it.

    A copy without git's history may be told by the environment variable SAOBP_COMMIT; else it is "unknown".
    """
    how = {"cwd": paths.root(), "stderr": subprocess.DEVNULL, "text": True}
    try:
        changed = subprocess.check_output(["git", "status", "--porcelain", "-uno", "--", "saobp"], **how)
        return subprocess.check_output(["git", "rev-parse", "--short=12", "HEAD"], **how).strip() + "+" * bool(changed)
    except (OSError, subprocess.CalledProcessError):
        return os.environ.get("SAOBP_COMMIT") or "unknown"


def device(precision: str | None = None) -> Device:
    """Describe what does the work: the processor's or GPU's name, the threads in use and the precision of training."""
    import torch

    info = Path("/proc/cpuinfo").read_text(encoding="utf-8") if Path("/proc/cpuinfo").exists() else ""
    known = re.search(r"^model name\s*: (.*)", info, re.MULTILINE)
    name = known[1] if known else platform.processor() or platform.machine()
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else name
    return {"name": name, "threads": torch.get_num_threads(), "precision": precision}


def read(path: str | Path) -> Record:
    """Read one record. Raises RecordError that names the file if it is damaged or of another schema."""
    try:
        record = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RecordError(f"{path}: not a readable record ({error}): delete it and run again") from None
    if isinstance(record, dict) and record.get("schema", schema.SCHEMA) != schema.SCHEMA:
        raise RecordError(f"{path}: schema {record['schema']}, this version reads {schema.SCHEMA}: run it again")
    if flaw := schema.flaw(record):
        raise RecordError(f"{path}: not a run record, {flaw}: delete it and run again")
    answers = Path(path).with_suffix(ANSWERS_END)
    if answers.is_file():
        try:
            record = _with_answers(record, zip(*pq.read_table(answers, columns=ANSWERS.names).to_pydict().values()))
        except (pa.ArrowException, OSError, LookupError):
            raise RecordError(f"{answers}: not the answers of {Path(path).name}: restore them, or run again") from None
    if any(not run.get("outcomes") and not run.get("failed") for run in record["metrics"].get("multihop") or []):
        raise RecordError(f"{path}: its answers, {answers.name}, are missing or not whole: restore them, or run again")
    return record


def files(study_or_folder: str | Path) -> list[Path]:
    """Name the files of all records of a study, in its build or else among its tracked results, or of a folder."""
    text = str(study_or_folder)
    named = [] if Path(text).is_absolute() else [paths.build(text) / "records", paths.results(text)]
    found = (sorted(folder.glob("*.json")) for folder in [*named, Path(text)] if folder.is_dir())
    return next(filter(None, found), [])


def load(study_or_folder: str | Path) -> list[Record]:
    """Read all records of a study or folder, in the order of their names.

    A build that lacks some of the study's tracked records says so: it is unfinished, or made of rows.
    """
    found, tracked = files(study_or_folder), paths.results(str(study_or_folder))
    if hidden := {path.name for path in tracked.glob("*.json")} - {path.name for path in found}:
        told = "%s: lacks %d of the records tracked in %s, and is read in place of them: finish it, or remove it"
        log.warning(told, found[0].parent, len(hidden), tracked)
    return [read(path) for path in found]


def hashes(study_or_folder: str | Path) -> dict[str, str]:
    """Map each record's name to the SHA-256 of its file's bytes, as `sha256sum` prints it."""
    return {path.stem: paths.digest(path) for path in files(study_or_folder)}


def select(records: Iterable[Record], stage: str | None = None, **parameters: Any) -> list[Record]:
    """Keep the records of a stage whose parameters have the given values."""
    found = [record for record in records if stage in (None, record["stage"])]
    return [one for one in found if all(one["parameters"].get(key) == value for key, value in parameters.items())]


def move_answers(record: dict[str, Any], path: Path) -> dict[str, Any]:
    """Write the answers of a record's exam beside `path`, and return the record without them."""
    runs = record.get("metrics", {}).get("multihop") or []
    rows = [(n, int(hops), right) for n, run in enumerate(runs) for hops, right in run.get("outcomes", {}).items()]
    if not rows:
        return record
    with paths.new_file(path.with_suffix(ANSWERS_END)) as file:
        pq.write_table(pa.table(dict(zip(ANSWERS.names, zip(*rows))), schema=ANSWERS), file, compression="zstd")
    return _with_answers(record, [])


def _with_answers(record: dict[str, Any], rows: Iterable[tuple[int, int, list[int]]]) -> dict[str, Any]:
    runs = [run | {"outcomes": {}} for run in record["metrics"]["multihop"]]
    for place, hops, right in rows:
        runs[place]["outcomes"][str(hops)] = right
    return record | {"metrics": record["metrics"] | {"multihop": runs}}
