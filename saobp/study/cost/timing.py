"""Ways of doing the same, timed in turns in one process, and the memory that a call takes at its peak."""

import itertools
import multiprocessing
import os
import resource
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from operator import truediv
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from saobp.study.setup.records import commit

THREADS, ROUNDS, WARM_UP = 2, 31, 3
PROCESSES = 3


def interleaved(
    ways: dict[str, Callable[[], object]], rounds: int = ROUNDS, against: Sequence[str] = ()
) -> dict[str, dict[str, Any]]:
    """Time each way once a round, in turning order; compare with the first way round by round.

    The machine's speed drifts, so a ratio is the median of the rounds' ratios, with their quartiles. For each way
    named in `against` there is a further entry "ratio_to_<way>": {"median", "low", "high"}.
    """
    names, spent = list(ways), {name: [] for name in ways}
    for turn in range(rounds + WARM_UP):
        shift = turn % len(names)
        for name in names[shift:] + names[:shift]:
            start = time.perf_counter()
            ways[name]()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            spent[name].append(1e3 * (time.perf_counter() - start))
    timed = {name: times[WARM_UP:] for name, times in spent.items()}
    found = {name: summary(timed[name], timed[names[0]]) for name in names}
    for name, other in itertools.product(names, against):
        found[name][f"ratio_to_{other}"] = ratio(timed[name], timed[other])
    return found


def ratio(milliseconds: list[float], base: list[float]) -> dict[str, float]:
    """Return median and quartiles of the ratios to the base's time of the same round."""
    low, middle, high = statistics.quantiles(map(truediv, milliseconds, base), n=4)
    return {"median": middle, "low": low, "high": high}


def summary(milliseconds: list[float], base: list[float]) -> dict[str, Any]:
    """Return medians of times and of ratios to the base's time of the same round."""
    ratios = ratio(milliseconds, base)
    first, _, third = statistics.quantiles(milliseconds, n=4)
    return {
        "median_ms": statistics.median(milliseconds),
        "quartiles_ms": [first, third],
        "fastest_ms": min(milliseconds),
        "ratio": ratios["median"],
        "ratio_quartiles": [ratios["low"], ratios["high"]],
        "ratio_of_fastest": min(milliseconds) / min(base),
        "rounds": len(milliseconds),
    }


def profile(call: Callable[[], object], rows: int = 12) -> dict[str, float]:
    """Return the operations of a call that take most of the time, each with its share of all."""
    call()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as found:
        call()
    times = {event.key: event.self_cpu_time_total for event in found.key_averages()}
    total = sum(times.values())
    first = sorted(times, key=times.get, reverse=True)[:rows]
    return {name: round(times[name] / total, 4) for name in first}


class _Operations(TorchDispatchMode):
    """Notes the names of the operations that reach a device, taking apart the composite ones of inference mode."""

    def __init__(self):
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        with self:
            parts = function.decompose(*args, **(kwargs or {}))
        if parts is not NotImplemented:
            return parts
        self.names.add(function.overloadpacket.__name__)
        return function(*args, **(kwargs or {}))


def attention_kernel(call: Callable[[], object]) -> str:
    """Return the name of the fused kernel by which torch's own attention ran in a call; "" if there was none.

    `scaled_dot_product_attention` is fused only where torch has a kernel for the case; else it holds the matrix.
    """
    prefix = "_scaled_dot_product_"
    with _Operations() as operations:
        call()
    fused = [name for name in operations.names if name.startswith(prefix) and "backward" not in name]
    return ", ".join(sorted(name.removeprefix(prefix) for name in fused))


def kept_for_backward(call: Callable[[], object], but: Iterable[torch.Tensor] = ()) -> float:
    """Return how many MiB autograd keeps for the backward pass of a call, each storage once.

    Tensors in `but` (the parameters) are there anyway and not counted. Other than a peak it does not vary.
    """
    anyway = {tensor.untyped_storage().data_ptr() for tensor in but}
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in anyway:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        result = call()  # held until the sum is taken, lest a freed address count for two
        total = sum(kept.values()) / 2**20
    del result
    return total


def peak_above_now(call: Callable[[], object]) -> float:
    """Return by how many MiB memory rises above what it is now, at most, during a call.

    A GPU's own count where there is one, else resident memory (Linux; NaN elsewhere), which sees nothing of a call
    that fills what was freed before and kept: call it by `in_processes`.
    """
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        call()
        return (torch.cuda.max_memory_allocated() - before) / 2**20
    if not Path("/proc/self/clear_refs").exists():
        return float("nan")
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts anew
    before = resident("VmRSS")
    call()
    return max(0, resident("VmHWM") - before) / 1024  # the two counters lag apart by a page or so


def in_processes(function: Callable[..., float], *given: object) -> dict[str, float]:
    """Return median, lowest ("low") and highest ("high") of what a function gives in `PROCESSES` fresh processes."""
    found = [in_a_process(function, *given) for _ in range(PROCESSES)]
    return {"median": statistics.median(found), "low": min(found), "high": max(found)}


def in_a_process(function: Callable[..., float], *given: object) -> float:
    """Call a function of a module in a fresh process: what this one has allocated and freed would hide a peak.

    The processes fork from a server that has imported torch and started no threads, so each is there at once. Its
    malloc (glibc) returns freed blocks of a page or more to the system: kept, they would be filled again unseen.
    """
    os.environ.setdefault("MALLOC_MMAP_THRESHOLD_", str(resource.getpagesize()))  # read when the server starts
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([function.__module__])
    with ProcessPoolExecutor(1, mp_context=context) as executor:
        return executor.submit(function, *given).result()


def resident(field: str) -> int:
    """Return a field of /proc/self/status in KiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))


def circumstances() -> dict[str, object]:
    """Return what a time depends on: the code's commit, versions, threads, and how busy the machine is."""
    load = os.getloadavg()[0]
    return {"code": commit(), "torch": torch.__version__, "threads": torch.get_num_threads(), "load_average": load}
