"""Run records: one JSON a run, the only thing that tables, figures and the report read."""

import importlib.metadata
import json
import math
import os
import platform
import subprocess
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from saobp.study.setup import paths, schema
from saobp.study.setup.schema import Data, Departure, Device, Record

PACKAGES = ("torch", "transformers", "datasets", "tokenizers", "numpy", "scipy", "scikit-learn", "igraph")
ANSWERS_END = ".answers.parquet"
ANSWERS = pa.schema([("run", pa.int32()), ("hops", pa.int32()), ("right", pa.list_(pa.int8()))])


class RecordError(ValueError):
    """A record that cannot be read or is not one; the message names the file."""


class Run:
    """One execution of one notebook: starts the clock, leaves exactly one record.

    `stage` is what was done ("pretrain", "finetune", …); `parameters` are the notebook's own.
    """

    def __init__(self, stage: str, *, profile: str, parameters: dict[str, Any]):
        self.stage = stage
        self.profile = Path(profile).stem
        self.parameters = dict(parameters)
        self.started = datetime.now(UTC)
        self._clock = time.perf_counter()

    def save(
        self,
        path: str | Path,
        metrics: dict[str, Any],
        *,
        data: Data | None = None,
        departures: Sequence[Departure] = (),
        precision: str | None = None,
    ) -> Record:
        """Write the record to `path` (empty: the study's default place), whole or not at all.

        `data` says which splits were used and how complete they are; `departures` are everything that differs from
        the paper's training configuration; `precision` is that of training, if any. Returns the record.
        Raises RecordError if the record has not the form of `schema.Record`.
        """
        path = Path(path) if str(path) else default_path(self.profile, self.stage, self.parameters)
        record = {
            "schema": schema.SCHEMA,
            "stage": self.stage,
            "profile": self.profile,
            "name": path.stem,
            "parameters": self.parameters,
            "metrics": metrics,
            "data": data or {},
            "code": {"version": importlib.metadata.version("saobp"), "commit": commit()},
            "packages": {name: importlib.metadata.version(name) for name in PACKAGES},
            "device": device(precision or trained_in(metrics)),
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


def default_path(profile: str, stage: str, parameters: dict[str, Any]) -> Path:
    """Return where a run's record goes when nobody says: `build/<study>/interactive/`.

    A reader's own execution never overwrites a record that the workflow made.
    """
    named = ("model", "algorithm", "seed", "group", "finetune_seed", "task")
    identity = [str(parameters[key]) for key in named if parameters.get(key) not in (None, "")]
    return paths.build(profile) / "interactive" / ("-".join([stage, *identity]) + ".json")


def finite(value: Any) -> Any:
    """Replace NaN and infinities by None all through, and tensors' and numpy's numbers by Python's."""
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if hasattr(value, "tolist"):
        return finite(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value


@cache
def commit() -> str:
    """Return the git commit of the code, with a plus sign when files differ from it.

    A copy without git's history may be told by the environment variable SAOBP_COMMIT; else it is "unknown".
    """

    def git(*command: str) -> str:
        given = {"cwd": paths.root(), "stderr": subprocess.DEVNULL, "text": True}
        return subprocess.check_output(["git", *command], **given).strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", "saobp")
        return git("rev-parse", "--short=12", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return os.environ.get("SAOBP_COMMIT") or "unknown"


def trained_in(metrics: dict[str, Any]) -> str | None:
    """Return the precision that a run's own metrics tell of: that of its last sitting, or of its tasks."""
    sittings, tasks = metrics.get("sittings"), metrics.get("tasks")
    if sittings:
        return sittings[-1]["device"]["precision"]
    found = [entry["precision"]["name"] for entry in (tasks or {}).values() if "precision" in entry]
    return found[-1] if found else None


def device(precision: str | None = None) -> Device:
    """Describe what does the work: the processor's or GPU's name, the threads in use and the precision of training."""
    import torch

    on_gpu = torch.cuda.is_available()
    name = torch.cuda.get_device_name() if on_gpu else processor()
    return {"name": name, "threads": torch.get_num_threads(), "precision": precision}


def processor() -> str:
    """Return the CPU's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


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
    return _put_back(record, Path(path))


def files(study_or_folder: str | Path) -> list[Path]:
    """Name the files of all records of a study or folder, in their order.

    A study's finished build (`build/<study>/records`) comes before its tracked results.
    """
    text = str(study_or_folder)
    candidates = [Path(text), paths.build(text) / "records", paths.results(text)]
    found = (sorted(folder.glob("*.json")) for folder in candidates if folder.is_dir())
    return next(filter(None, found), [])


def load(study_or_folder: str | Path) -> list[Record]:
    """Read all records of a study or folder, in the order of their names."""
    return [read(path) for path in files(study_or_folder)]


def hashes(study_or_folder: str | Path) -> dict[str, str]:
    """Map each record's name to the SHA-256 of its file's bytes, as `sha256sum` prints it."""
    return {path.stem: paths.digest(path) for path in files(study_or_folder)}


def select(records: list[Record], stage: str | None = None, **parameters: Any) -> list[Record]:
    """Keep the records of a stage whose parameters have the given values."""
    return [
        record
        for record in records
        if (stage is None or record["stage"] == stage)
        and all(record["parameters"].get(key) == value for key, value in parameters.items())
    ]


def move_answers(record: dict[str, Any], path: Path) -> dict[str, Any]:
    """Write the answers of a record's exam beside `path`, and return the record without them.

    Their table has run (place in `metrics.multihop`), hops, and right: 0 or 1 per question, the same questions in each.
    """
    runs = record.get("metrics", {}).get("multihop") or []
    rows = [(n, int(hops), right) for n, run in enumerate(runs) for hops, right in run.get("outcomes", {}).items()]
    if not rows:
        return record
    with paths.new_file(path.with_suffix(ANSWERS_END)) as file:
        pq.write_table(pa.table(dict(zip(ANSWERS.names, zip(*rows))), schema=ANSWERS), file, compression="zstd")
    return _with_answers(record, {})


def _put_back(record: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return a record with the answers that lie beside its file, if any do."""
    file = path.with_suffix(ANSWERS_END)
    if not file.is_file():
        return record
    found: dict[int, dict[str, list[int]]] = {}
    for run, hops, right in zip(*pq.read_table(file, columns=ANSWERS.names).to_pydict().values()):
        found.setdefault(run, {})[str(hops)] = right
    return _with_answers(record, found)


def _with_answers(record: dict[str, Any], found: dict[int, dict[str, list[int]]]) -> dict[str, Any]:
    runs = [run | {"outcomes": found.get(n, {})} for n, run in enumerate(record["metrics"]["multihop"])]
    return record | {"metrics": record["metrics"] | {"multihop": runs}}
