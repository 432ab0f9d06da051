"""Rows of held-out loss: encoders trained from scratch, when they start to learn, and branches of one
trunk.
"""

from collections.abc import Iterator, Sequence
from math import log

import numpy as np
import pandas as pd

from companion.records import tracked
from companion.records.schema import Record
from companion.results.row import CONTRAST, Endpoint, Row
from companion.results.study import Study
from companion.setup import labels
from companion.setup.sizes_and_strengths import strength_of
from companion.statistics import geometric_interval, mean_interval, trajectories
from companion.statistics.intervals import LEVEL
from companion.statistics.seeds import branch_gaps, metric, seed_gap
from companion.studies.strengths import read as strengths

LOSS = Endpoint("held-out loss", "nats", -1, planned="held-out loss at the last step")
ON_WIKITEXT = Endpoint("loss on WikiText-103", "nats", -1)
# by which loss a run has started to learn, and the endpoint that it gives
STARTS = {
    "curve": Endpoint(
        "start of learning",
        "ratio of steps",
        -1,
        planned="step at which the held-out loss passes 5 nats",
        reference=1.0,
    ),
    "training": Endpoint("start of learning by training loss", "ratio of steps", -1, reference=1.0),
}
START_AND_END = Endpoint("start of learning and final loss", "r", of_what="runs")
RERUN = Endpoint("held-out loss of the same seed", "nats", of_what="re-runs")
BRANCH = Endpoint("held-out loss", "nats", -1, of_what="trunks", planned="primary")
SIZES = Endpoint("held-out loss of all sizes", "nats", -1, of_what="pairs of runs")
STRENGTHS = Endpoint("held-out loss by strength", "nats", of_what="seeds")
# what a sweep over λ measures at its end: a column of `strengths.sweep`, and its endpoint
SWEPT = {
    "loss": Endpoint("held-out loss by strength", "nats"),
    "accuracy": Endpoint("masked words right by strength", "share"),
    "refined_entropy": Endpoint("row entropy by strength", "nats"),
    "refined_gtd": Endpoint("GTD by strength", ""),
    "refined_largest_column": Endpoint("largest column sum by strength", ""),
}
UNLIKE = Endpoint("strengths", "strengths", of_what="strengths")
PARAMETERS = Endpoint("parameters", "million")
TOKENS = Endpoint("tokens read", "million")
STRENGTH = Endpoint("strength", "nats")
LENGTH = Endpoint("tokens of a text", "tokens")
SEQUENCES = Endpoint("held-out sequences", "sequences")


def rows(study: Study) -> Iterator[Row]:
    """Yield the rows of a study's encoders, one model after the other, and of its branches."""
    models = study.models("pretrain")
    for model in models:
        runs = study.runs("pretrain", model=model)
        suffix = f", {labels.model_title(model)}" if len(models) > 1 else ""
        yield from _losses(study, runs, suffix)
        yield from _starts(study, runs, suffix)
    yield from _reruns(study)
    yield from _branches(study)
    for run in study.runs("beyond"):
        yield from _strengths(study, run)


def _losses(study: Study, runs: Sequence[Record], suffix: str) -> Iterator[Row]:
    """Yield the last held-out loss of each algorithm − Original's, and its mean."""
    model = runs[0]["parameters"]["model"]
    algorithms = [name for name in labels.ALGORITHMS if _of(runs, name)]
    on_wikitext = metric("wikitext", "perplexity")
    for endpoint, read in ((LOSS, metric("perplexity")), (ON_WIKITEXT, on_wikitext)):
        named = endpoint.of(suffix)
        for algorithm in algorithms:
            title = labels.algorithm_title(algorithm)
            if algorithm != "original":
                estimate = seed_gap(runs, read, (algorithm, "original"), log=True)
                if estimate is not None:
                    yield study.row(named, f"{title} − Original", estimate, model)
            perplexities = [read(run) for run in _of(runs, algorithm)]
            losses = [log(value) for value in perplexities if value]
            if losses:
                yield study.level(named, title, np.mean(losses), len(losses), model)
    metrics = [run["metrics"] for run in runs]
    parameters = max(metric.get("parameters") or 0 for metric in metrics)
    tokens = max(metric.get("tokens") or 0 for metric in metrics)
    strength = max(run["parameters"]["strength"] or 0 for run in runs)
    sequences = metrics[0].get("sequences") or 0
    yield study.level(PARAMETERS.of(suffix), "largest", parameters / 1e6, model=model)
    yield study.level(TOKENS.of(suffix), "most", tokens / 1e6, model=model)
    yield study.level(STRENGTH.of(suffix), "High", strength, model=model)
    length = metrics[0].get("recipe", {}).get("length") or 0
    yield study.level(LENGTH.of(suffix), "High", length, model=model)
    yield study.level(SEQUENCES.of(suffix), "measured", sequences, model=model)


def _of(runs: Sequence[Record], algorithm: str) -> list[Record]:
    return [run for run in runs if run["parameters"]["algorithm"] == algorithm]


def _starts(study: Study, runs: Sequence[Record], suffix: str) -> Iterator[Row]:
    """Yield when High starts to learn over when Original does, and how start and end go together.

    ElemMul hardly starts in these steps and is left out of the correlation.
    """
    model = runs[0]["parameters"]["model"]
    for by, endpoint in STARTS.items():
        starts = trajectories.starts(runs, by)
        wide = starts.pivot(index="seed", columns="algorithm", values="start")
        if {"high", "original"} <= set(wide):
            ratios = (wide["high"] / wide["original"]).dropna()
            if len(ratios):
                estimate = geometric_interval(ratios)
                yield study.row(endpoint.of(suffix), "High / Original", estimate, model)
    begun = trajectories.starts(runs).query("algorithm != 'elemmul'").dropna()
    if len(begun) >= trajectories.FEW:
        r = float(np.corrcoef(begun["start"], begun["end"])[0, 1])
        yield study.level(START_AND_END.of(suffix), "all but ElemMul", r, len(begun), model)


def _reruns(study: Study) -> Iterator[Row]:
    """Yield how far a re-run of the same seed ends from the first run, at most."""
    pairs = tracked.repeats().query("study == @study.name")
    names = {run["name"] for run in study.records if run["stage"] in ("pretrain", "branched")}
    reruns = pairs[pairs["record"].isin(names)]
    if len(reruns):
        apart = (reruns["second"] - reruns["first"]).abs()
        yield study.level(RERUN, "second − first at most", apart.max(), len(apart))


def _branches(study: Study) -> Iterator[Row]:
    """Yield a branch's held-out loss − that of Original's branch of the same trunk."""
    runs = study.runs("branched")
    for algorithm in ("high", "uniform"):
        gaps = branch_gaps(runs, (algorithm, "original"))
        if gaps:
            contrast = f"{labels.algorithm_title(algorithm)} − Original"
            model = runs[0]["parameters"]["model"]
            if algorithm == "high":
                yield study.level(STRENGTH, "High", strength_of(model), model=model)
            yield study.row(BRANCH, contrast, mean_interval([*gaps.values()]), model)


def _strengths(study: Study, run: Record) -> Iterator[Row]:
    """Yield the loss at each strength, how many differ from λ = 0, and High beside Original over all
    sizes.
    """
    metrics, model = run["metrics"], run["parameters"]["model"]
    swept = strengths.sweep(metrics.get("strengths") or [])
    if len(swept):
        fixed = swept[~swept["strength"].isin(strengths.TAUGHT)]
        for strength, losses in fixed.groupby("strength")["loss"]:
            yield study.level(STRENGTHS, f"{strength:g}", losses.mean(), len(losses), model)
        yield from _ends_of_sweep(study, fixed, model)
        compared = strengths.against_plain(swept)
        if len(compared):
            unlike = int((compared["p_holm"] < LEVEL).sum())
            yield study.level(UNLIKE, "unlike 0 after Holm", unlike, len(compared), model)
    if metrics.get("larger"):
        pairs = strengths.pairs(strengths.by_size(run))
        gaps = (pairs["refined"] - pairs["plain"]).tolist()
        yield study.row(SIZES, CONTRAST, mean_interval(gaps))


def _ends_of_sweep(study: Study, fixed: pd.DataFrame, model: str) -> Iterator[Row]:
    """Yield what changes from the least strength to the largest, over the seeds that have every
    one, on one kind of processor.
    """
    for column, endpoint in SWEPT.items():
        wide = fixed.pivot(index=["seed", "processor"], columns="strength", values=column).dropna()
        least, most = wide.columns[[0, -1]]
        if len(wide) and most > least:
            estimate = mean_interval((wide[most] - wide[least]).tolist())
            yield study.row(endpoint, f"{most:g} − {least:g}", estimate, model)
