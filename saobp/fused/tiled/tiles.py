"""How large a tile is, how tensors are cut into tiles, and the memory that they share from call to
call.
"""

import math
import threading
from collections.abc import Iterator

import torch
from torch import Tensor

TILE = 65536
"""Entries of a tile that holds whole matrices: 256 KiB in float32, of which three or four live at
once in the cache.
"""

LONG = 262144
"""Entries of a tile of a longer sequence, whose matrix is cut between queries."""

WHOLE = 512
"""Longest sequence whose attention matrix is one tile: saves computing it twice in each direction.
"""

ACCELERATED = 2**25
"""Entries of a tile on an accelerator, where every call costs the same however little it does: 128
MiB in float32.
"""

QUERIES = 64
"""Least number of queries in a tile of a longer sequence: fewer starve the matrix products."""


def queries_per_tile(length: int) -> int:
    """Return the number of queries of a tile."""
    return length if length <= WHOLE else max(QUERIES, LONG // length)


def is_single(length: int) -> bool:
    """Tell whether one tile holds all queries."""
    return queries_per_tile(length) >= length


def heads_per_tile(length: int, place: torch.device) -> int:
    """Return how many heads go into a tile."""
    return (TILE if place.type == "cpu" else ACCELERATED) // (
        queries_per_tile(length) * length
    ) or 1


def sequences_per_tile(heads: int, length: int, place: torch.device) -> int:
    """Return how many whole sequences go into a tile; 1 also where a tile holds a few heads of
    one.
    """
    return heads_per_tile(length, place) // heads or 1


def parts(*tensors: Tensor, length: int) -> Iterator[tuple[slice, tuple[Tensor, ...]]]:
    """Cut tensors (batch, head, ...) into as many heads as fit a tile; yield slices and pieces
    (head, ...).

    A slice counts all heads of all sequences. Pieces of one sequence are views, whatever its layout
    in memory.
    """
    heads, place = tensors[0].shape[1], tensors[0].device
    together, size = sequences_per_tile(heads, length, place), heads_per_tile(length, place)
    start = 0
    for pieces in zip(*(cut(x, together, size) for x in tensors)):
        yield slice(start, start + len(pieces[0])), pieces
        start += len(pieces[0])


def cut(tensor: Tensor, sequences: int, heads: int) -> list[Tensor]:
    """Cut (batch, head, ...) into pieces of some sequences, or of some heads of one."""
    if sequences > 1:
        return [piece.flatten(0, 1) for piece in tensor.split(sequences)]
    if heads >= tensor.shape[1]:
        return list(tensor.unbind())
    return [piece for sequence in tensor.unbind() for piece in sequence.split(heads)]


def like(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a tensor (batch, head, L, D) to fill, of the same layout where its pieces are of one
    sequence.
    """
    whole = sequences_per_tile(*tensor.shape[1:3], tensor.device) == 1
    layout = torch.preserve_format if whole else torch.contiguous_format
    return torch.empty_like(tensor, dtype=dtype, memory_format=layout)


def sums_like(query: Tensor) -> tuple[Tensor, Tensor]:
    """Return room for the rows' normalisers, (batch, head, L, 1), and the keys' loads, (batch,
    head, 1, L).
    """
    batch, heads, length, _ = query.shape
    return query.new_empty(batch, heads, length, 1), query.new_empty(batch, heads, 1, length)


class Kept(threading.local):
    """Scratch space of a thread, kept from call to call: new memory costs a page fault every 4
    KiB.
    """

    def __init__(self):
        self.scratch: dict = {}


_kept = Kept()


def scratch_for(like: Tensor) -> dict:
    """Return the scratch space of this thread; a new one for very long sequences, and where calls
    may overlap.
    """
    length = like.shape[-2]
    return (
        _kept.scratch
        if like.device.type == "cpu" and queries_per_tile(length) * length <= 4 * LONG
        else {}
    )


def buffer(
    scratch: dict, number: int, shape: tuple[int, int, int], like: Tensor, dtype: torch.dtype
) -> Tensor:
    """Return a tensor of a shape (head, query, key) whose content is nobody's; those of one number
    share memory.
    """
    memory, view = scratch.get((number, dtype), (None, None))
    if view is None or view.shape != shape:
        # what is made inside may not be written to outside
        with torch.inference_mode(False):
            room = max(LONG, math.prod(shape))
            if memory is None or len(memory) < room:
                memory = like.new_empty(room, dtype=dtype)
            view = memory[: math.prod(shape)].view(shape)
        scratch[number, dtype] = memory, view
    return view
