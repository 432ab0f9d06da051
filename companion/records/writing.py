"""One execution of one notebook, and the record that it leaves: what was measured, by which code,
on what.
"""

import importlib.metadata
import json
import os
import platform
import re
import subprocess
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

import saobp
from companion.records import schema
from companion.records.reading import RecordError
from companion.records.schema import Data, Departure, Device, Record
from companion.setup import environment, paths

PACKAGES = (
    "torch",
    "transformers",
    "datasets",
    "tokenizers",
    "numpy",
    "scipy",
    "scikit-learn",
    "igraph",
)
# of the repository: what a run reads
READ = ("companion", "data", "figures", "notebooks", "profiles", "saobp", "Snakefile", "texts")
# parameters that name a pretrained model
PRETRAINED = ("model", "algorithm", "seed")
# and a run
IDENTITY = (*PRETRAINED, "group", "finetune_seed", "task")


class Run:
    """One execution of one notebook: starts the clock, leaves exactly one record.

    `stage` is what was done ("pretrain", "finetune", …); `parameters` are the notebook's own.
    Raises RecordError for a stage that `schema.FORMS` has not, before anything runs.
    """

    def __init__(self, stage: str, *, study_name: str, parameters: dict[str, Any]):
        if stage not in schema.FORMS:
            raise RecordError(
                f"stage '{stage}': is none of {', '.join(schema.FORMS)}; add it to records/schema.py"
            )
        self.stage, self.study_name, self.parameters = (
            stage,
            paths.plain(Path(study_name).stem),
            dict(parameters),
        )
        self.started, self._clock = datetime.now(UTC), time.perf_counter()
        # of the code that runs, before another comes
        commit()

    def save(
        self,
        path: str | Path,
        metrics: dict[str, Any],
        *,
        data: Data | None = None,
        departures: Sequence[Departure] = (),
        precision: str | None = None,
    ) -> Record:
        """Write the record to `path`, whole or not at all, and return it.

        Without a path it goes to `build/<study>/interactive/`, never among those that the workflow
        made. `precision` is that of training, if the metrics do not tell it. Raises RecordError if
        it has not the form of `Record`.
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
            "environment": environment.settings(),
            "started": self.started.isoformat(timespec="seconds"),
            "seconds": round(time.perf_counter() - self._clock, 1),
            "departures": list(departures),
        }
        record = finite(record)
        if flaw := schema.flaw(record):
            raise RecordError(
                f"{path}: not written, {flaw}; if it comes from an earlier version's work, delete that"
            )
        paths.write_text(path, as_text(record))
        return record


def as_text(record: dict[str, Any]) -> str:
    """Write a record as JSON, one line a key, so that a difference between two records is easy to
    see.
    """
    lines = [
        f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
        for key, value in record.items()
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def finite(value: Any) -> Any:
    """Replace NaN and infinities by None all through, and tensors' and numpy's numbers by
    Python's.
    """
    return to_jsonable_python(value, inf_nan_mode="null", fallback=lambda array: array.tolist())


@cache
def commit() -> str:
    """Return the git commit of the imported package, with a plus sign when what a run reads differs
    from it.

    It differs too where notebooks and data are those of another folder than the package's. A
    package that is not the top of its own repository, unpacked from an archive or installed, may be
    told by the environment variable SAOBP_COMMIT; else its commit is "unknown".
    """
    top = Path(__file__).resolve().parents[2]
    stated = os.environ.get("SAOBP_COMMIT") or "unknown"
    if Path(saobp.__file__).resolve().parents[1] != top:
        return stated
    try:
        if Path(_git(top, "rev-parse", "--show-toplevel")).resolve() != top:
            return stated
        status = _git(
            top, "status", "--porcelain", "--untracked-files=all", "--ignored", "--", *READ
        )
        # of what git ignores, a run reads modules and all that lies below data
        changed = [
            line
            for line in status.splitlines()
            if not line.startswith("!!")
            or line.endswith((".py", '.py"'))
            or line[3:].lstrip('"').startswith("data/")
        ]
        number = _git(top, "rev-parse", "--short=12", "HEAD")
    except (OSError, subprocess.CalledProcessError):
        return stated
    return number + "+" * bool(changed or paths.root().resolve() != top)


def _git(folder: Path, *words: str) -> str:
    """Return what git says of a folder's own repository, whatever repository it was told of."""
    environment = {name: value for name, value in os.environ.items() if name[:4] != "GIT_"}
    # a run beside this one may ask at the same time
    environment["GIT_OPTIONAL_LOCKS"] = "0"
    how = {"cwd": folder, "env": environment, "stderr": subprocess.DEVNULL, "text": True}
    return subprocess.check_output(["git", *words], **how).strip()


def device(precision: str | None = None) -> Device:
    """Describe what does the work: its name, the threads in use and the precision of training.

    A processor is named with the vector set that torch computes by, on which the last digits
    depend.
    """
    import torch

    info = (
        Path("/proc/cpuinfo").read_text(encoding="utf-8") if Path("/proc/cpuinfo").exists() else ""
    )
    known = re.search(r"^model name\s*: (.*)", info, re.MULTILINE)
    name = known[1] if known else platform.processor() or platform.machine()
    name = f"{name}, {torch.backends.cpu.get_cpu_capability()}"
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else name
    return {"name": name, "threads": torch.get_num_threads(), "precision": precision}
