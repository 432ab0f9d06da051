"""Rows of attention: how matrices of trained models differ, and what one step does to a matrix."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from companion.records import kinds
from companion.records.schema import Record
from companion.results.row import CONTRAST, Endpoint, Row
from companion.results.study import Study
from companion.setup import labels
from companion.setup.tasks_and_metrics import TASKS
from companion.statistics import estimates, geometric_interval, mean_interval
from companion.statistics.seeds import by_side, seed_gap, seed_gaps

ENDPOINTS = {
    "sparsity": Endpoint("sparsity", "share of entries below 1/L", -1, planned="primary"),
    "sparsity_fixed": Endpoint("sparsity below 0.01", "share of entries", -1),
    "hoyer": Endpoint("Hoyer's sparsity", "", -1),
    "entropy": Endpoint("row entropy", "nats", 1, planned="entropy"),
    "indirect_entropy": Endpoint("indirect entropy", "nats", 1),
    "gtd": Endpoint("GTD", "", 1),
    "column_mass_maximum": Endpoint("largest column sum", "", -1),
}
LAYER = Endpoint("GTD of layer", "", 1, planned="GTD of each layer")
LAST_ENTROPY = Endpoint("last-layer entropy", "nats", 1)
COLUMN_RATIO = Endpoint(
    "largest column sum", "ratio", -1, planned="largest column sum", reference=1.0
)
STEP = "after − before the step in High"
PAIRS = "pairs of task and seed"
Read = Callable[[Record], float | None]


def rows(study: Study) -> Iterator[Row]:
    """Yield the rows of a study's attention, one model after the other."""
    models = study.models("attention")
    for model in models:
        runs = study.runs("attention", model=model)
        suffix = f", {labels.model_title(model)}" if len(models) > 1 else ""
        for measure, endpoint in ENDPOINTS.items():
            named = endpoint.of(suffix)
            yield from _differences(study, runs, measure, named)
            yield from _by_task(study, runs, measure, named)
            yield from _levels(study, runs, measure, named)
            yield from _step(study, runs, measure, named)
        yield from _by_layer(study, runs, suffix)
        yield from _last_entropy(study, runs, suffix)
        ratios = seed_gaps(runs, reader("column_mass_maximum"), log=True)
        if ratios:
            estimate = geometric_interval(np.exp([*ratios.values()]))
            yield study.row(COLUMN_RATIO.of(suffix), "High / Original", estimate, model)


def reader(measure: str, layers: slice = slice(None)) -> Read:
    """Return what reads a measure of the matrix that multiplies the values, mean of layers and
    heads.
    """
    return partial(estimates.mean_of, name=measure, layers=layers)


def _differences(
    study: Study, runs: Sequence[Record], measure: str, endpoint: Endpoint
) -> Iterator[Row]:
    """Yield each algorithm − Original over seeds, a seed being the mean of all its tasks."""
    model = runs[0]["parameters"]["model"]
    for algorithm in ("high", "low", "elemmul"):
        estimate = seed_gap(runs, reader(measure), (algorithm, "original"))
        if estimate is not None:
            contrast = f"{labels.algorithm_title(algorithm)} − Original"
            yield study.row(endpoint, contrast, estimate, model)


def _by_task(
    study: Study, runs: Sequence[Record], measure: str, endpoint: Endpoint
) -> Iterator[Row]:
    """Yield High − Original on each task, and without the pairs that two machines measured."""
    model = runs[0]["parameters"]["model"]
    mixed = pairs_of_two_machines(runs)
    alike = [run for run in runs if _pair(run) not in mixed]
    gaps = by_side(alike, reader(measure))
    gaps = (gaps["high"] - gaps["original"]).dropna()
    without = endpoint.of(" without pairs of two machines", planned="")
    if mixed and len(gaps):
        by_seed = gaps.groupby("seed").mean().tolist()
        yield study.row(without, CONTRAST, mean_interval(by_seed), model)
    for task in sorted({run["parameters"]["task"] for run in runs}):
        title = TASKS[task].title
        of_task = [run for run in runs if run["parameters"]["task"] == task]
        estimate = seed_gap(of_task, reader(measure))
        if estimate is not None:
            on_task = endpoint.of(f" on {title}", planned="")
            yield study.row(on_task, CONTRAST, estimate, model)


def pairs_of_two_machines(runs: Sequence[Record]) -> set[tuple[int, str]]:
    """Return seed and task of each pair of High and Original that was measured on two kinds of
    machine.
    """
    kind = kinds(run["device"]["name"] for run in runs)
    machines = defaultdict(set)
    for run in runs:
        if run["parameters"]["algorithm"] in ("high", "original"):
            machines[_pair(run)].add(kind[run["device"]["name"]])
    return {pair for pair, names in machines.items() if len(names) > 1}


def _pair(run: Record) -> tuple[int, str]:
    return run["parameters"]["seed"], run["parameters"]["task"]


def _levels(
    study: Study, runs: Sequence[Record], measure: str, endpoint: Endpoint
) -> Iterator[Row]:
    """Yield the mean of each side over seeds and tasks, and in how many pairs High has the lower
    number.
    """
    sides = by_side(runs, reader(measure)).dropna()
    if sides.empty:
        return
    model = runs[0]["parameters"]["model"]
    seeds = sides.index.unique("seed").size
    for side in ("high", "original"):
        mean = sides[side].mean()
        yield study.level(endpoint, labels.algorithm_title(side), mean, seeds, model)
    pairs = replace(endpoint, of_what=PAIRS, unit="pairs")
    lower = int((sides["high"] < sides["original"]).sum())
    yield study.level(pairs, "High below Original", lower, len(sides), model)


def _step(study: Study, runs: Sequence[Record], measure: str, endpoint: Endpoint) -> Iterator[Row]:
    """Yield what the step makes of High's own softmax: both levels, the change, and where it rises
    or falls beyond the interval over texts.
    """
    model = runs[0]["parameters"]["model"]
    changes, before = {}, []
    for run in runs:
        change = run["metrics"]["changes"].get(measure, {})
        if run["parameters"]["algorithm"] == "high" and change.get("change") is not None:
            changes[_pair(run)] = change
            before.append(change["softmax"])
    if not changes:
        return
    by_seed = defaultdict(list)
    for (seed, _), change in changes.items():
        by_seed[seed].append(change["change"])
    estimate = mean_interval([float(np.mean(values)) for values in by_seed.values()])
    of_step = replace(endpoint, planned="")
    yield study.row(of_step, STEP, estimate, model)
    yield study.level(endpoint, "High before the step", np.mean(before), estimate.seeds, model)
    pairs = replace(endpoint, of_what=PAIRS, unit="pairs")
    rises = sum(change["low"] > 0 for change in changes.values())
    falls = sum(change["high"] < 0 for change in changes.values())
    yield study.level(pairs, "the step raises it", rises, len(changes), model)
    yield study.level(pairs, "the step lowers it", falls, len(changes), model)


def _by_layer(study: Study, runs: Sequence[Record], suffix: str) -> Iterator[Row]:
    """Yield High − Original of each layer's GTD."""
    model = runs[0]["parameters"]["model"]
    depth = max(len(estimates.matrix(run).get("gtd") or []) for run in runs)
    for layer in range(depth):
        estimate = seed_gap(runs, reader("gtd", slice(layer, layer + 1)))
        if estimate is not None:
            endpoint = LAYER.of(f" {layer + 1}{suffix}")
            yield study.row(endpoint, CONTRAST, estimate, model)


def _last_entropy(study: Study, runs: Sequence[Record], suffix: str) -> Iterator[Row]:
    """Yield High − Original of the last layer's entropy on each task."""
    model = runs[0]["parameters"]["model"]
    for task in sorted({run["parameters"]["task"] for run in runs}):
        of_task = [run for run in runs if run["parameters"]["task"] == task]
        estimate = seed_gap(of_task, reader("entropy", slice(-1, None)))
        if estimate is not None:
            endpoint = LAST_ENTROPY.of(f" on {TASKS[task].title}{suffix}")
            yield study.row(endpoint, CONTRAST, estimate, model)
