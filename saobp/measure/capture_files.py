"""The files of a capture: parts that survive a kill, joined into one parquet file, and its summary.

A part is named by a hash of the model, the plan and its inputs: finding it again means that it is
the same computation. Parts and the final file are written aside and renamed; each carries in its
metadata the sums from which the summary is made, so that never more than one part is in memory.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from saobp.equations.checks import quoted
from saobp.measure.streams import POSITIONS, Tally

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ModuleNotFoundError:
    raise ModuleNotFoundError(
        "saobp.measure.capture needs pyarrow: pip install 'saobp[measure]'", name="pyarrow"
    ) from None

MATRICES = ("raw", "refined")
# of a part, and of a map of its, both perhaps not yet whole
PART = re.compile(r"\d{5}-\d+-[0-9a-f]{32}(\.\d+)?\.(parquet|npz)(\.tmp)?")
# an array of the maps that are kept
MAP = re.compile(r"(raw|refined|input_ids)_\d+")
METADATA = b"saobp"


def checked_path(path: Any) -> Path:
    """Return where a capture goes; ValueError for what is no path, a folder or a file of another
    kind.
    """
    if not isinstance(path, str | os.PathLike):
        raise ValueError(f"path: must be a text or a path; got {quoted(path)}")
    path = Path(os.path.expanduser(path))
    try:
        str(path).encode()
        os.lstat(path.with_name(f"{path.name}.parts"))
    except UnicodeEncodeError:
        raise ValueError(f"path: {quoted(str(path))} is no UTF-8; take another name") from None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise ValueError(
                f"path: the name {path.name[:40]}… is too long; take a shorter one"
            ) from None
    if path.is_dir():
        raise ValueError(f"{path}: is a folder; name the parquet file to write")
    if path.exists() and "parts" not in _metadata(path):
        raise ValueError(f"{path}: is no capture and is not overwritten; name another file")
    maps = maps_of(path)
    if maps.exists() and not _holds_maps(maps):
        raise ValueError(f"{maps}: holds no maps and is not overwritten; name another file")
    return path


def maps_of(path: Path) -> Path:
    """Return where the maps of a capture go: "a.v1" and "a.v2" are two."""
    return path.with_name(path.name.removesuffix(".parquet") + ".maps.npz")


def _holds_maps(path: Path) -> bool:
    try:
        with np.load(path) as arrays:
            return all(map(MAP.fullmatch, arrays.files))
    except (OSError, ValueError, AttributeError, zipfile.BadZipFile):
        return False


def _remove_parts(folder: Path) -> None:
    """Remove the parts in a folder, and the folder if nothing else is in it."""
    with suppress(OSError):
        for file in [*folder.iterdir()]:
            if PART.fullmatch(file.name):
                file.unlink()
        folder.rmdir()


class Parts:
    """The parts and the final file of one capture.

    `identity` is the hash of model and plan, `plan` what the summary repeats of it.
    """

    def __init__(self, path: Path, identity: str, plan: dict[str, Any], resume: bool):
        self.path, self.identity, self.plan, self.resume = path, identity, plan, resume
        self.folder = path.with_name(path.name + ".parts")
        self.maps = maps_of(path)
        self.files: list[Path] = []
        self.tables: list[pa.Table] = []
        self.tally = Tally()
        if not resume:
            _remove_parts(self.folder)

    def finished(self, chunks: Iterable[Sequence[Mapping[str, Tensor]]]) -> bool:
        """Tell whether the final file is there and made from exactly these inputs."""
        metadata = _metadata(self.path) if self.resume and self.path.exists() else {}
        if "parts" not in metadata or metadata["parts"] != [
            self._digest(chunk) for chunk in chunks
        ]:
            return False
        if self.plan["keep_maps"] and not self.maps.exists():
            return False
        _remove_parts(self.folder)
        return True

    def begin(self, chunk: Sequence[Mapping[str, Tensor]], first: int) -> bool:
        """Start a part whose samples are numbered from `first`; False if it is already there."""
        self.files.append(
            self.folder / f"{len(self.files):05d}-{first}-{self._digest(chunk)}.parquet"
        )
        self.tables, self.tally = [], Tally()
        return not self.files[-1].exists()

    def add(self, columns: dict[str, np.ndarray], tally: Tally) -> None:
        """Take one batch's values into the part."""
        self.tables.append(_table(columns))
        self.tally.merge(tally)

    def keep(self, sample: int, arrays: dict[str, np.ndarray]) -> None:
        """Put one sample's maps aside until the capture is finished."""
        target = self.files[-1].with_suffix(f".{sample}.npz")
        with _aside(target) as temporary, open(temporary, "wb") as file:
            np.savez(file, **arrays)

    def commit(self) -> None:
        """Write the part, whole or not at all."""
        table = pa.concat_tables(self.tables)
        with _aside(self.files[-1]) as temporary:
            metadata = {METADATA: json.dumps(self.tally.to_json())}
            pq.write_table(table.replace_schema_metadata(metadata), temporary)

    def finish(self) -> dict[str, Any]:
        """Join the parts into the final file, a row group each, and the maps put aside; return the
        summary.
        """
        if not self.files:
            raise ValueError("batches: there were none")
        # raw_0, refined_0, input_ids_0, raw_1, …
        total, maps = Tally(), {}
        for file in self.files:
            total.merge(Tally.from_json(_metadata(file)))
            for kept in self.folder.glob(f"{file.stem}.*.npz"):
                with np.load(kept) as arrays:
                    maps |= {
                        f"{name}_{kept.suffixes[-2][1:]}": arrays[name] for name in arrays.files
                    }
        digests = [file.stem.rpartition("-")[2] for file in self.files]
        metadata = {"plan": self.plan, "parts": digests, "tally": total.to_json()}
        schema = pq.read_schema(self.files[0]).with_metadata({METADATA: json.dumps(metadata)})
        if maps:
            with _aside(self.maps) as temporary, open(temporary, "wb") as file:
                np.savez_compressed(file, **maps)
        else:
            # an earlier capture's, of other inputs or another model
            self.maps.unlink(missing_ok=True)
        with _aside(self.path) as temporary, pq.ParquetWriter(temporary, schema) as writer:
            for file in self.files:
                writer.write_table(pq.read_table(file).replace_schema_metadata(schema.metadata))
        _remove_parts(self.folder)
        return summary(self.path)

    def _digest(self, chunk: Sequence[Mapping[str, Tensor]]) -> str:
        """Hash one part's inputs with the identity of model and plan."""
        digest = hashlib.blake2b(self.identity.encode(), digest_size=16)
        for batch in chunk:
            for name in sorted(batch):
                digest.update(f"{name}{tuple(batch[name].shape)}".encode())
                digest.update(
                    batch[name]
                    .detach()
                    .cpu()
                    .contiguous()
                    .reshape(-1)
                    .view(torch.uint8)
                    .numpy()
                    .data
                )
        return digest.hexdigest()


def summary(path: str | Path) -> dict[str, Any]:
    """Summarise a finished capture from its file's metadata: means over samples and counts of
    NaN.
    """
    metadata = _metadata(Path(path))
    if "parts" not in metadata:
        raise ValueError(f"{path}: not a finished capture; run saobp.measure.capture.capture again")
    tally = Tally.from_json(metadata["tally"])
    layers, heads = tally.sums["gtd"].shape[1:]
    size = {"samples": tally.samples, "tokens": tally.tokens, "layers": layers, "heads": heads}
    missing = {
        name: tally.samples - count for name, count in tally.counts.items() if name != POSITIONS
    }
    numbers: dict[str, Any] = {"matrices": {}, "nan": {}}
    for index, matrix in enumerate(MATRICES):
        numbers["matrices"][matrix] = _means(tally, index)
        numbers["nan"][matrix] = {name: int(count[index].sum()) for name, count in missing.items()}
    return size | metadata["plan"] | numbers


def _means(tally: Tally, matrix: int) -> dict[str, Any]:
    """Mean every number over the samples where it is defined; NaN where it is nowhere."""
    numbers: dict[str, Any] = {"by_layer": {}, "overall": {}}
    for name in tally.sums:
        total, count = tally.sums[name][matrix], tally.counts[name][matrix]
        if name == POSITIONS:
            numbers[name] = _ratio(total.sum(0), count.sum(0))
            numbers[f"{name}_by_layer"] = _ratio(total, count)
            continue
        numbers[name] = _ratio(total, count)
        numbers["overall"][name] = _ratio(total.sum(), count.sum())
        if total.ndim == 2:
            numbers["by_layer"][name] = _ratio(total.sum(-1), count.sum(-1))
    return numbers


def _ratio(total: np.ndarray, count: np.ndarray) -> Any:
    with np.errstate(invalid="ignore"):
        return np.true_divide(total, count).tolist()


def _table(columns: dict[str, np.ndarray]) -> pa.Table:
    """Lay values (sample, layer, head, matrix) out in rows; `sample` and `tokens` have one a
    sample.
    """
    measures = {name: value for name, value in columns.items() if value.ndim == 4}
    shape = next(iter(measures.values())).shape
    sample, layer, head, matrix = (index.reshape(-1) for index in np.indices(shape))
    names = pa.DictionaryArray.from_arrays(pa.array(matrix, pa.int8()), pa.array(MATRICES))
    places = {
        "sample": pa.array(columns["sample"][sample], pa.int32()),
        "tokens": pa.array(columns["tokens"][sample], pa.int32()),
        "layer": pa.array(layer, pa.int16()),
        "head": pa.array(head, pa.int16()),
        "matrix": names,
    }
    return pa.table(
        places | {name: pa.array(value.reshape(-1)) for name, value in measures.items()}
    )


def _metadata(path: Path) -> dict[str, Any]:
    """Read what a part or a final file says of itself; nothing from a file that is not one."""
    try:
        return json.loads((pq.read_schema(path).metadata or {}).get(METADATA, "{}"))
    except (OSError, pa.ArrowInvalid):
        return {}


@contextmanager
def _aside(target: Path) -> Iterator[str]:
    """Yield a temporary path that takes the target's place when it has been written."""
    temporary = f"{target}.tmp"
    target.parent.mkdir(parents=True, exist_ok=True)
    yield temporary
    os.replace(temporary, target)
