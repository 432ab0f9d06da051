"""Refined attention in C (the folder `compiled`), made once for each processor that has a C
compiler.

One call instead of torch's two products and seven passes for every tile. Without a compiler, or
with the environment variable SAOBP_NATIVE=0, `saobp.fused.tiled.plain` gives the same numbers by
torch, up to rounding.
"""

import atexit
import ctypes
import hashlib
import math
import os
import platform
import shutil
import stat
import subprocess
import tempfile
import threading
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from saobp.fused.tiled.heads import Call
from saobp.fused.tiled.products import RANGE
from saobp.fused.tiled.tiles import sums_like

SOURCES = sorted(Path(__file__).with_name("compiled").iterdir())
FLAGS = ("-O3", "-shared", "-fPIC", "-fno-math-errno", "-fno-trapping-math")
CHOICES = (("-march=native", "-fopenmp"), ("-mcpu=native",), ())
"""What is tried in turn; a compiler without OpenMP makes what works on one thread."""

MAKING = threading.Lock()


def passes() -> ctypes.CDLL | None:
    """Return the compiled functions, None where they are switched off or cannot be made; made once
    for all threads.
    """
    with MAKING:
        return made()


@cache
def made() -> ctypes.CDLL | None:
    """Make what `passes` returns."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if os.environ.get("SAOBP_NATIVE") == "0" or compiler is None:
        return None
    for choice in CHOICES:
        try:
            library = ctypes.CDLL(str(compiled(compiler, (*FLAGS, *choice))))
        except (OSError, subprocess.SubprocessError):
            continue
        place = ctypes.c_void_p
        library.saobp_attend.argtypes = [*[Rows] * 4, place, place, Sizes, ctypes.c_double]
        library.saobp_gradients.argtypes = [*[Rows] * 8, place, place, Sizes]
        library.saobp_statistics.restype = None
        return library
    return None


def compiled(compiler: str, flags: tuple[str, ...]) -> Path:
    """Compile the sources, unless they lie compiled in the user's cache, by these flags and for
    this processor; a file that others may write to is made again.
    """
    recipe = repr(([source.read_text() for source in SOURCES], compiler, flags, processor()))
    folder = cache_folder()
    made = folder / f"{hashlib.sha256(recipe.encode()).hexdigest()[:16]}.so"
    if not made.exists() or not only_ours(made):
        new = made.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
        command = [
            compiler,
            *flags,
            "-o",
            new,
            *(source for source in SOURCES if source.suffix == ".c"),
        ]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        # under umask 002 a group could write to it
        new.chmod(0o700)
        new.replace(made)
    return made


def processor() -> str:
    """Return what tells this processor from another that the same home may be used on."""
    description = Path("/proc/cpuinfo")
    lines = description.read_text().splitlines() if description.exists() else []
    return platform.machine() + next(
        (x for x in lines if x.startswith(("flags", "Features"))), platform.processor()
    )


def cache_folder() -> Path:
    """Return a folder that lasts and that only this user can write to, or else one for this process.

    What lies in it is loaded as code: a folder of somebody else, or one that a group may write to,
    is not used.
    """
    try:
        # relative, it would be looked for in the current folder, which may hold anything
        chosen = Path(os.environ.get("XDG_CACHE_HOME", ""))
        folder = (chosen if chosen.is_absolute() else Path.home() / ".cache") / "saobp"
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        if only_ours(folder) and os.access(folder, os.W_OK):
            return folder
    # nowhere to write, or a user without a home
    except (OSError, RuntimeError):
        pass
    folder = tempfile.mkdtemp(prefix="saobp-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def only_ours(place: Path) -> bool:
    """Tell whether a folder or file is this user's and nobody else may write to it."""
    # Windows numbers no users, and keeps a home to its own
    if not hasattr(os, "geteuid"):
        return True
    status = place.stat()
    shared = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return status.st_uid == os.geteuid() and not shared


class Rows(ctypes.Structure):
    """A tensor (sequence, head, row, column) as C sees it: where it starts, and the steps of all
    but its columns.
    """

    _fields_ = [
        ("at", ctypes.c_void_p),
        *((name, ctypes.c_long) for name in ("sequence", "head", "row")),
    ]

    @classmethod
    def of(cls, tensor: Tensor) -> "Rows":
        """Return those of a tensor whose columns lie side by side."""
        return cls(tensor.data_ptr(), *tensor.stride()[:3])


class Sizes(ctypes.Structure):
    """What C is told of a call beside its tensors."""

    _fields_ = [
        *(
            (name, ctypes.c_void_p)
            for name in ("real", "changes", "spared", "query_bits", "key_bits")
        ),
        *(
            (name, ctypes.c_long)
            for name in ("sequences", "heads", "length", "width", "depth", "threads")
        ),
        *((name, ctypes.c_float) for name in ("scale", "kept", "share", "change", "strength")),
        *((name, ctypes.c_int) for name in ("own", "spares", "threshold")),
    ]

    @classmethod
    def of(cls, call: Call, changes: Tensor, query: Tensor, value: Tensor) -> "Sizes":
        """Return those of a call with these tensors, and with what `room_for_changes` returned."""
        keys = [None if x is None else x.data_ptr() for x in (call.real, changes, call.spared)]
        counts = (*query.shape, value.shape[3], torch.get_num_threads())
        switches = not call.exclude_self, len(changes) > 2
        bits, kept, threshold = (None, None), 1, 0
        if call.dropout is not None:
            bits = [x.data_ptr() for x in (call.dropout.query_bits, call.dropout.key_bits)]
            kept, threshold = 1 / (1 - call.dropout.probability), call.dropout.threshold
        numbers = call.scale, kept, call.share, call.change, call.strongest
        return cls(*keys, *bits, *counts, *numbers, *switches, threshold)


def room_for_changes(call: Call, query: Tensor) -> Tensor:
    """Return room for a row of zeros, for queries that are silent, and rows of what a message changes
    by key: one for all heads, or where each spares keys of its own one a head. C fills it in.
    """
    shared = call.spared is None or call.spared.stride(0) == 0
    return query.new_empty(2 if shared else 1 + len(call.spared), query.shape[2])


def serves(tensor: Tensor) -> bool:
    """Tell whether attention of a tensor may be worked out here."""
    return tensor.dtype is torch.float32 and tensor.device.type == "cpu" and passes() is not None


def attend(call: Call, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor] | None:
    """Return the output (batch, head, L, D), the rows' normalisers (…, L, 1) and the keys' loads
    (…, 1, L); fill in `call.spared` where there is a share.

    None if a load is too small beside the largest for float32, or no memory is left. Raises
    MemoryError where that leaves it open which keys are spared.
    """
    query, key, value = (side_by_side(x) for x in (query, key, value))
    results = out, *sums = room_like(value), *sums_like(query)
    rows, places = map(Rows.of, (query, key, value, out)), (x.data_ptr() for x in sums)
    changes = room_for_changes(call, query)
    sizes = Sizes.of(call, changes, query, value)
    mild = passes().saobp_attend(*rows, *places, sizes, math.exp(call.strongest - RANGE))
    if mild == -1 and call.share:
        raise MemoryError("saobp_attention has no memory left for the shares of its keys")
    return [*results] if mild == 1 else None


def gradients(call: Call, *tensors: Tensor) -> list[Tensor]:
    """Return the gradients of query, key and value from those three, the results of `attend` and
    the output's.
    """
    query, key, value, mean, total, load, output_gradient = (side_by_side(x) for x in tensors)
    results = [room_like(x) for x in (query, key, value)]
    rows = map(Rows.of, (query, key, value, mean, output_gradient, *results))
    changes = room_for_changes(call, query)
    sizes = Sizes.of(call, changes, query, value)
    if not passes().saobp_gradients(*rows, total.data_ptr(), load.data_ptr(), sizes):
        raise MemoryError("saobp_attention has no memory left for its gradient")
    return results


def room_like(tensor: Tensor) -> Tensor:
    """Return room of the same layout, if its columns lie side by side; rows that overlap give
    another.
    """
    room = torch.empty_like(tensor)
    return (
        room
        if room.stride(-1) == 1
        else torch.empty_like(tensor, memory_format=torch.contiguous_format)
    )


def side_by_side(tensor: Tensor) -> Tensor:
    """Return a tensor whose columns lie side by side in memory."""
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()
