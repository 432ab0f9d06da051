"""Independent pieces of one operation side by side, a thread each, instead of each small step on
all threads.

torch splits each call over its threads and waits for all of them; on tiles that fit a cache the
waiting is a good part of the time. A few heads need nothing of the others, so a thread may keep
them from first to last.
"""

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import torch

_pools: dict[int, ThreadPoolExecutor] = {}
_starting = threading.Lock()
# threads do not survive a fork
os.register_at_fork(after_in_child=_pools.clear)


def side_by_side(work: Callable[..., None], pieces: Iterable[tuple]) -> None:
    """Call `work` once for each piece, on as many threads as torch may use here, without gradient.

    With fewer pieces than threads they are worked on one after the other, each on all threads.
    """
    pieces, threads = list(pieces), torch.get_num_threads()
    if threads == 1 or len(pieces) < threads:
        with torch.no_grad():
            for piece in pieces:
                work(*piece)
        return
    inference = torch.is_inference_mode_enabled()
    for finished in [pool(threads).submit(alone, work, piece, inference) for piece in pieces]:
        finished.result()


def alone(work: Callable[..., None], piece: tuple, inference: bool) -> None:
    """Work on a piece on this thread only, in the mode of the thread that asked."""
    # inference_mode(False) switches gradients on
    with torch.inference_mode(inference), torch.no_grad():
        work(*piece)


def pool(threads: int) -> ThreadPoolExecutor:
    """Return threads on each of which torch works alone; they are started once."""
    with _starting:
        if threads not in _pools:
            started = threading.Barrier(threads + 1)
            executor = ThreadPoolExecutor(threads, "saobp")
            for _ in range(threads):
                executor.submit(be_single, started)
            started.wait()
            # the setting of this thread, and of threads to come
            torch.set_num_threads(threads)
            _pools[threads] = executor
    return _pools[threads]


def be_single(started: threading.Barrier) -> None:
    """Make torch work on this thread only."""
    # a new thread takes over the common setting when first asked
    torch.get_num_threads()
    torch.set_num_threads(1)
    started.wait()
