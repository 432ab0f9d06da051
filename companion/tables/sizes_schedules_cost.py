"""Tables 4, 5 and 9: sizes, schedules and cost."""

from collections.abc import Sequence
from dataclasses import asdict
from itertools import product
from math import nan
from typing import Any

from companion.cost.cost_tables import over_runs, timings
from companion.paper.arithmetic import VOCABULARY
from companion.paper.numbers import Published
from companion.records import select
from companion.records.schema import Record
from companion.setup import labels
from companion.setup.sizes_and_strengths import SIZES, body_parameters
from companion.setup.studies import PAPER_STUDY, load_study
from companion.statistics import Estimate, estimates
from companion.tables import captions
from companion.tables.cells import Cell
from companion.tables.render import Table

# table -> the paper's column -> its title and our name
SETTINGS = {
    4: {
        "layers": ("Layers", "layers"),
        "hidden": ("Hidden", "hidden"),
        "heads": ("Heads", "heads"),
        "ffn": ("FFN", "feedforward"),
        "params": ("Parameters", "parameters"),
    },
    5: {
        "max_steps": ("Steps", "steps"),
        "learning_rate": ("Learning rate", "learning_rate"),
        "lr_scheduler_type": ("Scheduler", "scheduler"),
        "warmup_steps": ("Warm-up steps", "warmup"),
        "seed": ("Seed", "seed"),
    },
}
# phase and the paper's column -> its title and our name
COST = {
    ("train", "step_per_s (ms)"): ("ms/step", "milliseconds"),
    ("train", "tok_per_s (tok/s)"): ("tokens/s", "tokens_per_second"),
    ("train", "FLOPs (GFLOPs)"): ("GMACs", "gmacs"),
    ("inference", "Latency/batch (ms)"): ("ms/batch", "milliseconds"),
    ("inference", "Throughput samples/s"): ("samples/s", "samples_per_second"),
    ("inference", "Throughput (Mtok/s)"): ("Mtok/s", "million_tokens_per_second"),
    ("inference", "FLOPs (GFLOPs)"): ("GMACs (inf.)", "gmacs"),
}
# which say how long a step takes in another unit
SAME_TIMING = ("tokens_per_second", "samples_per_second", "million_tokens_per_second")


def of_settings(number: int, records: Sequence[Record], published: Published) -> Table:
    """Table 4 (the sizes of the models) or 5 (the schedule of pretraining), ours from the
    pretraining records.
    """
    cells = {}
    for model, (key, (_, name)) in product(estimates.sizes(records), SETTINGS[number].items()):
        runs = select(records, "pretrain", model=model)
        printed = published.printed(number, model=labels.published_model(model), metric=key)
        settings = [settings_of_run(run) for run in runs] or planned_settings(model)
        used = [_printed(name, each[name]) for each in settings]
        ours = ", ".join(dict.fromkeys(used))
        flags = () if runs else ("not run",)
        cells[(model,), key] = Cell(printed, ours, flags=flags)
    titles = {key: title for key, (title, _) in SETTINGS[number].items()}
    rows = {row: (labels.model_title(*row),) for row, _ in cells}
    return Table(number, titles, rows, cells, "Setting")


def settings_of_run(run: Record) -> dict[str, Any]:
    """Return the size and the training configuration that a record of pretraining tells."""
    metrics = run["metrics"]
    return metrics | metrics.get("recipe", {}) | metrics.get("size", {}) | run["parameters"]


def planned_settings(model: str) -> list[dict[str, Any]]:
    """Return the size and schedule of a size without a run, as the study `paper` has them."""
    study = load_study(PAPER_STUDY)
    planned = asdict(SIZES[model]) | study.recipe(model).model_dump()
    planned["parameters"] = body_parameters(model, VOCABULARY)
    return [planned | {"seed": seed} for seed in study.seeds]


def _printed(name: str, value: Any) -> str:
    """Return a setting as the table prints it; parameters in millions."""
    if name == "parameters":
        return f"{value / 1e6:.2f}M"
    return f"{value:g}" if isinstance(value, float) else str(value)


def of_cost(number: int, records: Sequence[Record], published: Published) -> Table:
    """Time and multiply-accumulates of each way of computing attention: of one run medians with
    quartiles of rounds in turns, of several their range.
    """
    rows, cells = {}, {}
    for model in estimates.sizes(select(records, "cost")):
        runs = timings(records, model)
        ways = runs[0]["metrics"]["ways"] if runs else {}
        for way in dict.fromkeys((*ways, *labels.PAPER_ALGORITHMS)):
            algorithm, _, kind = way.partition("_")
            title = labels.algorithm_title(algorithm) + f" ({kind})" * bool(kind)
            rows[model, way] = (labels.model_title(model), title)
            for (phase, metric), (_, name) in COST.items():
                keys = {"model": labels.published_model(model), "phase": phase, "metric": metric}
                cells[(model, way), f"{phase} {name}"] = _cost_cell(
                    runs, published, way, name, keys
                )
    titles = {
        f"{phase} {name}": title
        for (phase, _), (title, name) in COST.items()
        if name not in SAME_TIMING
    }
    shown = [labels.algorithm_title(name) for name in labels.PAPER_ALGORITHMS]
    return Table(number, titles, rows, cells, "Quantity", shown)


def _cost_cell(
    runs: list[Record], published: Published, way: str, name: str, keys: dict[str, str]
) -> Cell:
    """One quantity of a way; a time has its ratio to Original's, ours round by round, the paper's
    of its numbers.
    """
    timed = [run["metrics"]["ways"].get(way, {}).get(keys["phase"]) for run in runs]
    measured = over_runs(timed) if all(timed) and timed else {}
    # the paper's Original is the fused one: its multiply-accumulates lack what a counter cannot see
    printed = (
        "" if "_" in way else published.printed(9, algorithm=labels.algorithm_title(way), **keys)
    )
    ours, ratio, theirs = None, None, None
    value, samples = measured.get(name), measured.get("samples_per_second")
    # tokens follow from samples and their length
    if name == "million_tokens_per_second" and samples:
        length = runs[0]["parameters"]["length"]
        value = {end: rate * length / 1e6 for end, rate in samples.items()}
    # a median with its range
    if isinstance(value, dict):
        counted = len(runs) if len(runs) > 1 else runs[0]["metrics"]["repeats"]
        ours = Estimate(value["median"], value["low"], value["high"], counted)
    elif value is not None:
        # counted, and not repeated
        ours = Estimate(float(value), nan, nan, None)
    if name == "milliseconds" and way != "original":
        plain, of = published.value(9, algorithm="Original", **keys), measured.get("ratio")
        ratio = Estimate(of["median"], of["low"], of["high"], 1) if of else None
        theirs = float(printed) / plain if printed and plain else None
    reason = (
        "" if ours else captions.reason("measured", "measure" if runs else "stage", stage="cost")
    )
    return Cell(printed, ours, reason=reason, ratio=ratio, published_ratio=theirs)
