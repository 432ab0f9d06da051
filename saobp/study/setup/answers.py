"""The answers of an exam, beside their record: a parquet file with a row per run and number of hops."""

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

SUFFIX = ".answers.parquet"


def beside(path: Path) -> Path:
    """Return where the answers of a record are."""
    return path.with_suffix(SUFFIX)


def taken_out(record: dict[str, Any]) -> tuple[dict[str, Any], pa.Table | None]:
    """Return a record without the answers of its exam, and a table of them; None for a record without an exam.

    The table has run (place in `metrics.multihop`), hops, and right: 0 or 1 per question, the same questions in each.
    """
    runs = record.get("metrics", {}).get("multihop") or []
    rows = [(n, int(hops), right) for n, run in enumerate(runs) for hops, right in run.get("outcomes", {}).items()]
    if not rows:
        return record, None
    kept = [run | {"outcomes": {}} for run in runs]
    columns = dict(zip(("run", "hops", "right"), zip(*rows)))
    types = pa.schema([("run", pa.int32()), ("hops", pa.int32()), ("right", pa.list_(pa.int8()))])
    return record | {"metrics": record["metrics"] | {"multihop": kept}}, pa.table(columns, schema=types)


def put_back(record: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return a record with the answers that lie beside its file, if any do."""
    if not beside(path).is_file():
        return record
    found: dict[int, dict[str, list[int]]] = {}
    for run, hops, right in pd.read_parquet(beside(path)).itertuples(index=False):
        found.setdefault(run, {})[str(hops)] = right.tolist()
    runs = [run | {"outcomes": found.get(n, {})} for n, run in enumerate(record["metrics"]["multihop"])]
    return record | {"metrics": record["metrics"] | {"multihop": runs}}


def move(record: dict[str, Any], path: Path) -> dict[str, Any]:
    """Write the answers of a record beside `path`, and return the record without them."""
    without, table = taken_out(record)
    if table is not None:
        temporary = beside(path).with_name(f".{beside(path).name}")
        pq.write_table(table, temporary, compression="zstd")
        temporary.replace(beside(path))
    return without
