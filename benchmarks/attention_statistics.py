"""Time the statistics of attention beside the matrix: `python benchmarks/attention_statistics.py`.

Writes benchmarks/attention_statistics.json: processor time and peak memory of one head of width 64 at 512 to
16,384 tokens, on one thread, each way of a setting in a process of its own; and where the time goes at
8,192. The matrix is left out where it would take some ten GiB.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from companion.cost.timing import circumstances, fresh
from companion.records import device
from companion.setup.paths import write_text
from saobp import attention_statistics, refine
from saobp.measure import gtd_and_entropy

LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
LONGEST_MATRIX, HEAD = 8192, 64
REPEATS = {"statistics": 3, "matrix": 1}
STEPS = {
    "aten::baddbmm": "scores",
    "aten::exp": "exponentials",
    "aten::bmm": "column sums and probes",
    "aten::mul": "entropies",
    "aten::linalg_vector_norm": "squares",
    "aten::ge": "sparsity",
    "aten::log1p_": "messages",
    "aten::add_": "biases and messages before a row",
}


def of_the_matrix(query: Tensor, key: Tensor, *, probes: int, is_causal: bool, factor: str) -> None:
    """Do by the L x L matrix what `attention_statistics` does."""
    scores = query @ key.mT / HEAD**0.5
    if is_causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu_(1)
        scores = scores.masked_fill(later, -torch.inf)
    scores.logsumexp(-1)
    attention = refine(scores.softmax(-1), factor, causal=is_causal)
    attention.sum(-2)
    gtd_and_entropy.row_entropy(attention)
    gtd_and_entropy.sparsity(attention)
    if probes:
        gtd_and_entropy.gtd(attention)


WAYS = {"statistics": attention_statistics, "matrix": of_the_matrix}
SETTINGS = {
    "without GTD": {"probes": 0, "is_causal": False, "factor": "none"},
    "with GTD": {"probes": 64, "is_causal": False, "factor": "none"},
    "causal, without GTD": {"probes": 0, "is_causal": True, "factor": "none"},
    "causal, with GTD": {"probes": 64, "is_causal": True, "factor": "none"},
    "causal, refined by High, with GTD": {"probes": 64, "is_causal": True, "factor": "high"},
}


def call(way: str, setting: str, length: int) -> Callable[[], object]:
    """Return a call on random tensors of one head."""
    torch.manual_seed(0)
    query, key = torch.randn(2, 1, 1, length, HEAD)
    return lambda: WAYS[way](query, key, **SETTINGS[setting])


def peak_of_process() -> float:
    """Return the most memory that this process has held, in MiB."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def measured(way: str, setting: str, lengths: list[int]) -> list[dict]:
    """Time calls in this process, and how far its memory rises above that after a small call.

    Lengths must rise: the peak of a process never falls.
    """
    torch.set_num_threads(1)
    call(way, setting, 64)()
    before, rows = peak_of_process(), []
    for length in lengths:
        run, seconds = call(way, setting, length), []
        for _ in range(REPEATS[way]):
            start = time.process_time()
            run()
            seconds.append(time.process_time() - start)
        times = {"seconds": statistics.median(seconds), "fastest_seconds": min(seconds)}
        place = {"setting": setting, "length": length, "way": way}
        rows.append({**place, **times, "peak_mib": peak_of_process() - before})
    return rows


def where_the_time_goes(setting: str, length: int) -> dict[str, float]:
    """Return the shares of the clock's time in torch's operations, and what is left beside them."""
    torch.set_num_threads(1)
    run = call("statistics", setting, length)
    run()
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        run()
    spent: dict[str, float] = {}
    for event in profiler.key_averages():
        name = STEPS.get(event.key, "the rest")
        spent[name] = spent.get(name, 0.0) + event.self_cpu_time_total
    total = sum(spent.values())
    return {name: value / total for name, value in sorted(spent.items(), key=lambda x: -x[1])}


def rows(lengths: list[int]) -> list[dict]:
    """Return a row for each setting, way and length."""
    table = []
    for setting in SETTINGS:
        for way in WAYS:
            fitting = [x for x in sorted(lengths) if way != "matrix" or x <= LONGEST_MATRIX]
            (some,) = fresh(1, measured, way, setting, fitting)
            print(json.dumps(some), flush=True)
            table.extend(some)
    return table


def main(path: Path, lengths: list[int]) -> None:
    """Measure everything and write the numbers."""
    longest = min(8192, max(lengths))
    found = {
        "device": device(),
        **circumstances(),
        "threads": 1,
        "head_width": HEAD,
        "rows": rows(lengths),
        "shares": {
            setting: fresh(1, where_the_time_goes, setting, longest)[0] for setting in SETTINGS
        },
        "shares_at": longest,
    }
    write_text(path, json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    chosen = parser.parse_args()
    main(chosen.out, list(chosen.lengths))
