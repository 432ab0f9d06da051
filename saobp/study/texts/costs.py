"""What the refinement costs: time per training step and per inference batch, and attention alone by length."""

from typing import Any

import pandas as pd

from saobp.study.paper import comparisons, numbers
from saobp.study.setup import tracked
from saobp.study.statistics import Estimate, median_interval
from saobp.study.texts.attention import STUDY

EARLIER = "laptop"  # the same model, batch and threads, timed the day before
PLANNED, BATCH, THREADS = "cost", 32, 2  # the study of 300 alternations per setting; a training step of it


def run(study: str = STUDY) -> dict[str, Any]:
    """Return the record of a timing run with its times by length."""
    return tracked.select(study, "cost")[0]


def ratio(phase: str, algorithm: str = "high", study: str = STUDY) -> Estimate:
    """Return an algorithm's time over Original's in `run`: the median of its rounds and its quartiles.

    Phases: "train", "train_no_dropout" and "inference".
    """
    metrics = run(study)["metrics"]
    return _ratio(metrics["ways"][algorithm][phase]["ratio"], metrics["repeats"])


def alternations(to: str = "ratio") -> pd.DataFrame:
    """Return High's time over Original's in each setting of the planned study: phase, sequences, length, passes (see
    `saobp.study.cost.alternations`), then a column per thread count, the most first. Each is the median of the
    alternations with its 95 % interval.

    `to`: "ratio" for torch's own attention, fused where it has a kernel, or "ratio_to_eager".
    """
    rows: dict[tuple[str, int, int, str], dict[int, Estimate]] = {}
    for record in tracked.select(PLANNED, "alternations"):
        setting, metrics = record["parameters"], record["metrics"]
        found = metrics["ways"]["high"][setting["phase"]][to]
        estimate = median_interval(found["low"], found["median"], found["high"], metrics["repeats"])
        key = (setting["phase"], setting["sequences"], setting["length"], setting.get("passes", "torch"))
        rows.setdefault(key, {})[setting["threads"]] = estimate
    frame = pd.DataFrame.from_dict(rows, orient="index")
    frame = frame.rename_axis(["phase", "sequences", "length", "passes"])[sorted(frame, reverse=True)].reset_index()
    return frame.sort_values(["phase", "length", "sequences", "passes"], ignore_index=True)


def timed(phase: str = "train", threads: int = THREADS, to: str = "ratio") -> Estimate:
    """Return one number of `alternations` in one call: that of the largest batch, 32 sequences of 128 tokens."""
    found = alternations(to).query("phase == @phase and passes == 'one call'")
    return found.set_index("sequences").loc[BATCH, threads]


def printed() -> list[float]:
    """Return High's time per training step over Original's that the paper prints, by size."""
    steps = comparisons.times(numbers.load())["train"]["step_per_s (ms)"].unstack("algorithm", sort=False)
    return (steps["High"] / steps["Original"]).tolist()


def at_length(length: int) -> Estimate:
    """Return the time of attention alone with High over fused attention's, forward and backward, with quartiles."""
    metrics = run()["metrics"]
    row = next(row for row in metrics["lengths"] if (row["length"], row["way"]) == (length, "high"))
    return _ratio(row["ratio_to_sdpa"], row["rounds"])


def kept() -> list[float]:
    """Return the time of attention alone with a kept matrix over fused attention's, length by length."""
    return [row["ratio_to_sdpa"]["median"] for row in run()["metrics"]["lengths"] if row["way"] == "materialised"]


def memory() -> list[float]:
    """Return the peak memory of attention alone with High over fused attention's, length by length."""
    peaks = {(row["length"], row["way"]): row["peak_mib"]["median"] for row in run()["metrics"]["lengths"]}
    return [peak / peaks[length, "sdpa"] for (length, way), peak in peaks.items() if way == "high"]


def longest() -> int:
    """Return the largest number of tokens at which every way was timed."""
    return max(row["length"] for row in run()["metrics"]["lengths"] if row["way"] == "materialised")


def _ratio(found: dict[str, float], rounds: int) -> Estimate:
    return Estimate(found["median"], found["low"], found["high"], rounds)
