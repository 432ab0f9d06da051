"""Rows of cost: High's time over plain attention's in training and inference, and attention alone by
length.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from statistics import median
from typing import Any

from companion.records import tracked
from companion.records.schema import Record
from companion.results.row import Endpoint, Row
from companion.results.study import Study
from companion.setup import labels, paths
from companion.statistics import Estimate, median_interval

# what is timed, and what plan and keys call it
PHASES = {
    "train": "training step with dropout",
    "train_no_dropout": "training step without dropout",
    "inference": "inference",
}
TIME = Endpoint("time", "ratio", 0, of_what="alternations", reference=1.0)
ROUNDS = replace(TIME, of_what="rounds")
AGAIN = Endpoint("time", "ratio", of_what="alternations")
BY_LENGTH = Endpoint("attention alone", "ratio of times", of_what="rounds")
MEMORY = Endpoint("attention alone", "ratio of peak memory", of_what="rounds")
ON_GPU = Endpoint("attention alone on a GPU", "ratio of times")
# of the plan's secondary endpoint of inference
INFERENCE = "the same for inference at 1 x 128, 8 x 128, 32 x 128 and 1 x 512"
# what the plan times: a step of 32 sequences of 128 tokens, on two threads
PRIMARY = ("train", 32, 128, 2)
# attention's passes in a setting: compiled as one call, or torch's own
COMPILED, TORCH = "one call", "torch"
# how a setting says so; of "compiled", in an earlier record, the products were torch's own
PASSES_OF = {COMPILED: "", TORCH: ", not compiled", "compiled": ", compiled in part"}


def rows(study: Study) -> Iterator[Row]:
    """Yield the rows of a study's timings."""
    for run in study.runs("alternations"):
        yield from _alternations(study, run)
    timed = study.runs("cost")
    for model in study.models("cost"):
        yield from _whole_model(study, study.runs("cost", model=model))
    # attention alone is of no size: a study of several says nothing of its own about it
    for run in timed if len(timed) == 1 else ():
        yield from _lengths(study, run)


def setting(run: Record) -> str:
    """Return what a setting of the planned study is called: "inference, 1 x 128, 2 threads"."""
    timed = run["parameters"]
    threads = f"{timed['threads']} thread" + ("s" if timed["threads"] > 1 else "")
    shape = f"{timed['sequences']} x {timed['length']}"
    passes = timed.get("passes", TORCH)
    return f"{PHASES[timed['phase']]}, {shape}, {threads}{PASSES_OF[passes]}"


def _alternations(study: Study, run: Record) -> Iterator[Row]:
    """Yield one setting's ratio to torch's own attention and to attention spelled out, and that of
    its re-run.
    """
    timed, metrics = run["parameters"], run["metrics"]
    phase = timed["phase"]
    deciding = timed.get("passes") == COMPILED
    primary = (phase, timed["sequences"], timed["length"], timed["threads"]) == PRIMARY
    planned = ""
    if deciding and primary:
        planned = "primary"
    elif deciding and phase == "inference":
        planned = INFERENCE
    suffix = f" of {setting(run)}"
    endpoint = TIME.of(suffix, planned=planned)
    for contrast, estimate in _ratios(metrics, phase):
        yield study.row(endpoint, contrast, estimate, timed["model"])
    again = tracked.repeats().query("study == @study.name")
    for row in again[again["record"] == run["name"]].itertuples():
        yield study.level(AGAIN.of(suffix), "High / Original (fused), second run", row.second)


def _ratios(metrics: dict[str, Any], phase: str) -> Iterator[tuple[str, Estimate]]:
    """Yield High's time over torch's own attention and over attention spelled out, by contrast."""
    for column, to in (("ratio", "fused"), ("ratio_to_eager", "eager")):
        ratio = metrics["ways"]["high"][phase].get(column)
        if ratio:
            quartiles = (ratio["low"], ratio["median"], ratio["high"])
            yield f"High / Original ({to})", median_interval(*quartiles, metrics["repeats"])


def _whole_model(study: Study, runs: list[Record]) -> Iterator[Row]:
    """Yield the ratios of a study's own timing of one size: of one run the median of few rounds, of
    several the median of theirs, with their range.
    """
    model = runs[0]["parameters"]["model"]
    name = labels.model_title(model)
    of_several = f", {name}" if len(study.models("cost")) > 1 else ""
    for phase, title in PHASES.items():
        timed = [dict(_ratios(run["metrics"], phase)) for run in runs]
        for contrast, estimate in timed[0].items():
            endpoint = ROUNDS.of(f" of {title}{of_several}")
            if len(runs) > 1:
                ratios = [ratio[contrast].value for ratio in timed]
                estimate = Estimate(median(ratios), min(ratios), max(ratios), len(ratios))
                endpoint = replace(endpoint, of_what="runs")
            row = study.row(endpoint, contrast, estimate, model)
            yield replace(row, scope=f"{name}, random tokens, CPU")


def _lengths(study: Study, run: Record) -> Iterator[Row]:
    """Yield attention alone, forward and backward, by length: times and peak memory over those of a
    fused kernel.
    """
    ways: dict[tuple[str, int], dict[str, Any]] = {}
    for row in run["metrics"].get("lengths") or []:
        ways[row["way"], row["length"]] = row
    titles = {"high": "High / fused", "materialised": "High with its matrix / fused"}
    for (way, length), row in ways.items():
        if way not in titles:
            continue
        endpoint = BY_LENGTH.of(f", {length} tokens")
        ratio = row["ratio_to_sdpa"]["median"]
        yield study.level(endpoint, titles[way], ratio, row["rounds"])
        peak, fused = row.get("peak_mib"), ways["sdpa", length].get("peak_mib")
        if peak and fused:
            named = replace(MEMORY, name=f"memory of {endpoint.name}")
            yield study.level(named, titles[way], peak["median"] / fused["median"], row["rounds"])


def on_a_gpu() -> Iterator[Row]:
    """Yield High's time over the fused kernel's on a GPU, attention alone (benchmarks/gpu.json).

    The device's own times and, called from Python, those that include the processor.
    """
    text = (paths.root() / "benchmarks" / "gpu.json").read_text(encoding="utf-8")
    measured = json.loads(text)
    scope = f"attention alone, {measured['device']['name']}"
    study = Study("benchmarks", (), data=scope)
    passes = {"forward": "forward", "forward_and_backward": "forward and backward"}
    kinds = {"bfloat16": "half precision", "float32": "single precision"}
    for row in measured["rows"]:
        if row["way"] != "high":
            continue
        sequences, _, length, _ = row["shape"]
        for key, title in passes.items():
            timed = row[key]
            place = f", {sequences} x {length}, {kinds[row['dtype']]}, {title}"
            endpoint = ON_GPU.of(place, of_what="rounds")
            rounds = timed["rounds"]
            yield study.level(endpoint, "High / fused", timed["alone"]["ratio"], rounds)
            yield study.level(endpoint, "High / fused, from Python", timed["ratio"], rounds)
