"""What the refinement costs: time per training step and per inference batch, and attention alone by
length.
"""

import json

import pandas as pd

from companion.paper import comparisons, numbers
from companion.records import tracked
from companion.setup import paths
from companion.setup.studies import ALTERNATIONS, ENCODERS
from companion.statistics import Estimate, median_interval

# the same model, batch and threads, timed before attention was compiled
EARLIER = "laptop"
# of a training step in the planned study
BATCH, MOST_THREADS = 32, 2
# of High's time over Original's, at most, on a CPU
AIMS = {"train": 1.05, "train_no_dropout": 1.05, "inference": 1.10}
# of attention alone, by tokens
AIMS_ON_A_GPU = {128: 1.15, 4096: 2.2}


def ratio(phase: str, study: str = ENCODERS) -> Estimate:
    """Return High's time over Original's in a study's timing run: the median of its rounds and its
    quartiles.
    """
    metrics = tracked.metrics(study, "cost")[0]
    found = metrics["ways"]["high"][phase]["ratio"]
    return Estimate(found["median"], found["low"], found["high"], metrics["repeats"])


def alternations(to: str = "ratio") -> pd.DataFrame:
    """Return High's time over Original's in each setting of the planned study, a column per thread
    count.

    The median of the alternations with its 95 % interval. `to`: "ratio" for torch's own attention,
    fused where it has a kernel, or "ratio_to_eager". Settings: phase, sequences, length, passes
    (see `companion.cost.alternations`).
    """
    by = ["phase", "sequences", "length", "passes"]
    rows = []
    for record in tracked.select(ALTERNATIONS, "alternations"):
        setting, metrics = {"passes": "torch"} | record["parameters"], record["metrics"]
        found = metrics["ways"]["high"][setting["phase"]][to]
        estimate = median_interval(found["low"], found["median"], found["high"], metrics["repeats"])
        rows.append([*(setting[key] for key in (*by, "threads")), estimate])
    frame = pd.DataFrame(rows, columns=[*by, "threads", "ratio"]).pivot(
        index=by, columns="threads", values="ratio"
    )
    frame = frame[sorted(frame, reverse=True)].rename_axis(None, axis=1).reset_index()
    return frame.sort_values(["phase", "length", "sequences", "passes"], ignore_index=True)


def timed(phase: str = "train", threads: int = MOST_THREADS, to: str = "ratio") -> Estimate:
    """Return one number of `alternations` in one call: that of the largest batch, 32 sequences of
    128 tokens.
    """
    found = alternations(to).query("phase == @phase and passes == 'one call'")
    return found.set_index("sequences").loc[BATCH, threads]


def aims() -> pd.DataFrame:
    """Return what High was to take at most, and takes, of plain attention's time; a row a setting,
    and if it is met.

    On a CPU the setting is a phase by its "passes", the ratio the larger of both thread counts; on
    a GPU it is the type and the direction, the ratio that of device time. The aims were set before
    compiled passes and kernels were written.
    """
    # which came between the two
    own = alternations().query("phase in @AIMS and passes != 'compiled'")
    slower = own[[1, 2]].apply(lambda row: max(found.value for found in row.dropna()), axis=1)
    own = own.assign(
        aim=own["phase"].map(AIMS), setting=own["phase"] + ", " + own["passes"], ratio=slower
    )
    gpu = on_a_gpu()[1].melt(
        ["sequences", "length", "dtype"], ["forward", "both"], "direction", "ratio"
    )
    gpu = gpu.assign(
        aim=gpu["length"].map(AIMS_ON_A_GPU), setting=gpu["dtype"] + ", " + gpu["direction"]
    ).dropna()
    found = pd.concat([own, gpu], ignore_index=True)[
        ["setting", "sequences", "length", "aim", "ratio"]
    ]
    return found.assign(met=found["ratio"] <= found["aim"])


def reruns() -> tuple[int, int]:
    """Count the settings of the planned study that were timed again, and those whose second ratio
    lies outside.
    """
    again, outside = tracked.repeats().query("study == @ALTERNATIONS"), 0
    runs = {run["name"]: run for run in tracked.study(ALTERNATIONS)}
    for row in again.itertuples():
        metrics, phase = runs[row.record]["metrics"], runs[row.record]["parameters"]["phase"]
        found = metrics["ways"][row.algorithm][phase]["ratio"]
        first = median_interval(found["low"], found["median"], found["high"], metrics["repeats"])
        outside += not first.low <= row.second <= first.high
    return len(again), outside


def printed() -> list[float]:
    """Return High's time per training step over Original's that the paper prints, by size."""
    steps = comparisons.times(numbers.load())["train"]["step_per_s (ms)"].unstack(
        "algorithm", sort=False
    )
    return (steps["High"] / steps["Original"]).tolist()


def lengths(way: str = "high", study: str = ENCODERS) -> pd.DataFrame:
    """Return attention alone by length, "high" or "materialised" over the fused one: time
    (quartiles), peak memory.
    """
    found = pd.json_normalize(tracked.metrics(study, "cost")[0]["lengths"]).set_index(
        ["way", "length"]
    )
    own, fused = found.loc[way], found.loc["sdpa"]
    ends = own[[f"ratio_to_sdpa.{end}" for end in ("median", "low", "high")]].itertuples(
        index=False
    )
    times = [Estimate(*end, row) for end, row in zip(ends, own["rounds"])]
    return pd.DataFrame(
        {"time": times, "memory": own["peak_mib.median"] / fused["peak_mib.median"]}, own.index
    )


def on_a_gpu(*, called: bool = False) -> tuple[str, pd.DataFrame]:
    """Return the GPU, and High's time there over the fused kernel's, attention alone:
    benchmarks/gpu.json.

    A row a batch ("sequences", "length") and "dtype", "forward" and with its backward pass
    ("both"), medians of rounds. The times are the device's own or, if `called`, those of calls from
    Python, which include the processor.
    """
    found = json.loads((paths.root() / "benchmarks" / "gpu.json").read_text(encoding="utf-8"))
    rows = pd.json_normalize(found["rows"]).query("way == 'high'")
    shape, ratio = rows["shape"].str, "ratio" if called else "alone.ratio"
    batches = {"sequences": shape[0], "length": shape[2], "dtype": rows["dtype"]}
    times = {"forward": rows[f"forward.{ratio}"], "both": rows[f"forward_and_backward.{ratio}"]}
    return found["device"]["name"], pd.DataFrame(batches | times)
