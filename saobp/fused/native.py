"""The passes over a tile in C (`native.c`), compiled once for each processor where a C compiler is at hand.

torch takes seven passes over a tile for what is three here, and as many calls. Without a compiler, or with the
environment variable SAOBP_NATIVE=0, torch's passes give the same numbers up to rounding.
"""

import ctypes
import hashlib
import math
import os
import platform
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from saobp.fused.products import RANGE

SOURCE = Path(__file__).with_suffix(".c")
FLAGS = ("-O3", "-shared", "-fPIC", "-fno-math-errno", "-fno-trapping-math")
CHOICES = (("-march=native", "-fopenmp"), ("-mcpu=native",), ())
"""What is tried in turn; a compiler without OpenMP makes what works on one thread."""


@cache
def passes() -> ctypes.CDLL | None:
    """Return the compiled passes, None where they are switched off or cannot be made."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if os.environ.get("SAOBP_NATIVE") == "0" or compiler is None:
        return None
    for choice in CHOICES:
        try:
            return declared(ctypes.CDLL(str(compiled(compiler, (*FLAGS, *choice)))))
        except (OSError, subprocess.SubprocessError):
            continue
    return None


def compiled(compiler: str, flags: tuple[str, ...]) -> Path:
    """Compile the source, unless it lies compiled in the user's cache, by these flags and for this processor."""
    asked = repr((SOURCE.read_text(), compiler, flags, processor()))
    folder = cache_folder()
    made = folder / f"{hashlib.sha256(asked.encode()).hexdigest()[:16]}.so"
    if not made.exists():
        new = made.with_suffix(f".{os.getpid()}")
        subprocess.run([compiler, *flags, "-o", new, SOURCE], check=True, capture_output=True, timeout=120)
        new.replace(made)
    return made


def processor() -> str:
    """Return what tells this processor from another that the same home may be used on."""
    told = Path("/proc/cpuinfo")
    lines = told.read_text().splitlines() if told.exists() else []
    return platform.machine() + next((x for x in lines if x.startswith(("flags", "Features"))), platform.processor())


def cache_folder() -> Path:
    """Return a folder of this user's that lasts, or else one for this process."""
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "saobp"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # nowhere to write, or a user without a home
        return Path(tempfile.mkdtemp(prefix="saobp-"))
    return folder if os.access(folder, os.W_OK) else Path(tempfile.mkdtemp(prefix="saobp-"))


def declared(found: ctypes.CDLL) -> ctypes.CDLL:
    """Tell ctypes what the functions take."""
    place, count = ctypes.c_void_p, ctypes.c_long
    found.saobp_weights.argtypes = [place, place, *[count] * 4, ctypes.c_float, ctypes.c_int]
    found.saobp_weights.restype = None
    found.saobp_totals.argtypes = [place] * 4 + [count] * 3 + [ctypes.c_double]
    found.saobp_again.argtypes = [place] * 4 + [count] * 3 + [ctypes.c_float, ctypes.c_int]
    found.saobp_gradient.argtypes = [place] * 4 + [count] * 3 + [ctypes.c_float, ctypes.c_int]
    found.saobp_again.restype = found.saobp_gradient.restype = None
    return found


def serves(tensor: Tensor) -> bool:
    """Tell whether the passes over tiles of a tensor may be these."""
    return tensor.dtype is torch.float32 and tensor.device.type == "cpu" and passes() is not None


def weigh(rows: Tensor, product: Tensor, change: float, own: bool) -> None:
    """Turn scores (head, query, key) into attention over messages, in place; multiply the messages into `product`.

    `rows` may be some of a larger tile's; `product` (head, key) is in float64. `own` leaves the attention as it is.
    """
    heads, count, keys = rows.shape
    pitch, *_ = rows.stride()
    passes().saobp_weights(rows.data_ptr(), product.data_ptr(), heads, count, keys, pitch, change, own)


def total(weights: Tensor, product: Tensor, strongest: float) -> tuple[Tensor, Tensor] | None:
    """Return loads (head, 1, key), the largest of a head 1, and what weights times loads add up to (head, query, 1).

    None if a load is too small beside the largest for float32.
    """
    heads, rows, keys = weights.shape
    load, found = weights.new_empty(heads, 1, keys), weights.new_empty(heads, rows, 1)
    places = (x.data_ptr() for x in (weights, product, load, found))
    return (load, found) if passes().saobp_totals(*places, heads, rows, keys, math.exp(strongest - RANGE)) else None


def weigh_again(scores: Tensor, weights: Tensor, last: Tensor, change: float, own: bool) -> Tensor:
    """Turn scores (head, query, key) into attention in place and put weights beside it; return last^T weights."""
    heads, _, keys = scores.shape
    heard = scores.new_empty(heads, 1, keys)
    places = (x.data_ptr() for x in (scores, weights, last.contiguous(), heard))
    passes().saobp_again(*places, *scores.shape, change, own)
    return heard


def scores_gradient(
    attention: Tensor, through: Tensor, load: Tensor, heard: Tensor, change: float, own: bool
) -> Tensor:
    """Turn the gradient of weights (head, query, key) into that of scores, in place; load, heard are (head, 1, key)."""
    places = (x.data_ptr() for x in (attention, through, load, heard))
    passes().saobp_gradient(*places, *attention.shape, change, own)
    return through
