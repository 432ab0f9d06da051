"""Ways of doing the same, timed in turns in one process, and the memory that a call takes at its
peak.
"""

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
from torch.utils.flop_counter import FlopCounterMode

from companion.records import commit
from companion.setup import environment

THREADS, ROUNDS, WARM_UP, PROCESSES = 2, 31, 3, 3
# bytes: glibc takes larger blocks from the system, and gives them back when freed
RETURNED = "MALLOC_MMAP_THRESHOLD_"


def place() -> str:
    """Return where there is the most to measure: "cuda" where torch finds a GPU, else "cpu"."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def interleaved(
    ways: dict[str, Callable[[], object]],
    rounds: int = ROUNDS,
    against: Sequence[str] = (),
    warm_up: int = WARM_UP,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, dict[str, Any]]:
    """Time each way once a round, in turning order; the machine's speed drifts, so compare within a
    round (`summary`).

    The base is the first way; for each way named in `against` there are the `quartiles`
    "ratio_to_<way>". `clock` in seconds: that of the processor does not count what others run.
    """
    names, spent = list(ways), {name: [] for name in ways}
    for turn in range(rounds + warm_up):
        shift = turn % len(names)
        for name in names[shift:] + names[:shift]:
            start = clock()
            ways[name]()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            spent[name].append(1e3 * (clock() - start))
    timed = {name: times[warm_up:] for name, times in spent.items()}
    summaries = {name: summary(timed[name], timed[names[0]]) for name in names}
    for name, baseline in itertools.product(names, against):
        summaries[name][f"ratio_to_{baseline}"] = quartiles(
            map(truediv, timed[name], timed[baseline])
        )
    return summaries


def quartiles(values: Iterable[float]) -> dict[str, float]:
    """Return median and quartiles ("low", "high")."""
    low, middle, high = statistics.quantiles(values, n=4)
    return {"median": middle, "low": low, "high": high}


def summary(milliseconds: list[float], base: list[float]) -> dict[str, Any]:
    """Return median and quartiles of times and of ratios to the base's time of the same round."""
    time, ratio = quartiles(milliseconds), quartiles(map(truediv, milliseconds, base))
    return {
        "median_ms": time["median"],
        "quartiles_ms": [time["low"], time["high"]],
        "fastest_ms": min(milliseconds),
        "ratio": ratio["median"],
        "ratio_quartiles": [ratio["low"], ratio["high"]],
        "rounds": len(milliseconds),
    }


def attention_kernel(call: Callable[[], object]) -> str:
    """Return the name of the fused kernel by which `scaled_dot_product_attention` ran in a call; ""
    without one.
    """
    prefix = "aten._scaled_dot_product_"
    on_cpu = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    uncounted = {on_cpu: lambda *inputs, **more: 0}
    with FlopCounterMode(display=False, custom_mapping=uncounted) as counted:
        call()
    kernels = set()
    for operation in counted.get_flop_counts().get("Global", ()):
        name = str(operation)
        if name.startswith(prefix) and "backward" not in name:
            kernels.add(name.removeprefix(prefix))
    return ", ".join(sorted(kernels))


def kept_for_backward(call: Callable[[], object], but: Iterable[torch.Tensor] = ()) -> float:
    """Return how many MiB autograd keeps for the backward pass of a call, each storage once, `but`
    the parameters.
    """
    anyway = {tensor.untyped_storage().data_ptr() for tensor in but}
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        # held until the sum is taken, lest a freed address count for two
        result = call()
        total = sum(size for address, size in kept.items() if address not in anyway)
    del result
    return total / 2**20


def peak_above_now(call: Callable[[], object]) -> float:
    """Return by how many MiB memory rises above what it is now, at most, during a call.

    A GPU's own count or, on Linux, resident memory, which does not see what was freed and kept: use
    `in_processes`.
    """
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        call()
        return (torch.cuda.max_memory_allocated() - before) / 2**20
    if not Path("/proc/self/clear_refs").exists():
        return float("nan")

    def resident(field: str) -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(field))

    # the high-water mark starts anew
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    call()
    # the two counters lag apart by a page or so
    return max(0, resident("VmHWM") - before) / 1024


def in_processes(function: Callable[..., float], *inputs: object) -> dict[str, float]:
    """Return median, lowest and highest of what a function gives in `PROCESSES` fresh processes."""
    measured = fresh(PROCESSES, function, *inputs)
    return {"median": statistics.median(measured), "low": min(measured), "high": max(measured)}


def fresh(count: int, function: Callable[..., float], *inputs: object) -> list[float]:
    """Call a function of a module in so many fresh processes side by side: what this one has freed
    hides a peak.

    They fork from a server that has imported torch and started no threads, and work on one thread.
    Their malloc (glibc) returns freed blocks of a page or more to the system. Where the server
    began before that was set, new processes are spawned instead of forked.
    """
    # read when a process starts that is no fork
    os.environ.setdefault(RETURNED, str(resource.getpagesize()))
    environment.make_room_for_sockets()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([function.__module__])
    with ProcessPoolExecutor(1, mp_context=context) as executor:
        if not executor.submit(os.getenv, RETURNED).result():
            context = multiprocessing.get_context("spawn")
    # threads of several processes wait for each other
    alone = {"initializer": torch.set_num_threads, "initargs": (1,)}
    with ProcessPoolExecutor(count, mp_context=context, max_tasks_per_child=1, **alone) as executor:
        jobs = [executor.submit(function, *inputs) for _ in range(count)]
        return [job.result() for job in jobs]


def circumstances() -> dict[str, object]:
    """Return what a time depends on: the code's commit, versions, threads, and how busy the machine
    is.
    """
    load = os.getloadavg()[0]
    return {
        "code": commit(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "load_average": load,
    }
