"""Tables 4, 5 and 9: sizes, schedules and cost."""

from collections.abc import Sequence
from itertools import product
from math import nan

from companion.paper.numbers import Published
from companion.records import select
from companion.records.schema import Record
from companion.setup import labels
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


def of_settings(number: int, records: Sequence[Record], published: Published) -> Table:
    """Table 4 (the sizes of the models) or 5 (the schedule of pretraining), ours from the
    pretraining records.
    """
    cells = {}
    for model, (key, (_, name)) in product(estimates.sizes(records), SETTINGS[number].items()):
        runs = select(records, "pretrain", model=model)
        printed = published.printed(number, model=labels.published_model(model), metric=key)
        used = []
        for run in runs:
            metrics = run["metrics"]
            value = (
                metrics | metrics.get("recipe", {}) | metrics.get("size", {}) | run["parameters"]
            )[name]
            text = f"{value:g}" if isinstance(value, float) else str(value)
            used.append(f"{value / 1e6:.2f}M" if name == "parameters" else text)
        ours = ", ".join(dict.fromkeys(used))
        reason = "" if runs else captions.reason("measured", "stage", stage="pretraining")
        cells[(model,), key] = Cell(printed, ours or None, reason=reason)
    titles = {key: title for key, (title, _) in SETTINGS[number].items()}
    rows = {row: (labels.model_title(*row),) for row, _ in cells}
    return Table(number, titles, rows, cells, "Setting")


def of_cost(number: int, records: Sequence[Record], published: Published) -> Table:
    """Time and multiply-accumulates of each way of computing attention; medians with quartiles of
    rounds in turns.
    """
    rows, cells = {}, {}
    for model in estimates.sizes(select(records, "cost")):
        run = next(iter(select(records, "cost", model=model)), None)
        ways = run["metrics"]["ways"] if run else {}
        for way in dict.fromkeys((*ways, *labels.PAPER_ALGORITHMS)):
            algorithm, _, kind = way.partition("_")
            title = labels.algorithm_title(algorithm) + f" ({kind})" * bool(kind)
            rows[model, way] = (labels.model_title(model), title)
            for (phase, metric), (_, name) in COST.items():
                keys = {"model": labels.published_model(model), "phase": phase, "metric": metric}
                cells[(model, way), f"{phase} {name}"] = _cost_cell(run, published, way, name, keys)
    titles = {f"{phase} {name}": title for (phase, _), (title, name) in COST.items()}
    return Table(number, titles, rows, cells, "Quantity")


def _cost_cell(
    run: Record | None, published: Published, way: str, name: str, keys: dict[str, str]
) -> Cell:
    """One quantity of a way; a time has its ratio to Original's, ours round by round, the paper's
    of its numbers.
    """
    found = (run["metrics"]["ways"].get(way, {}) if run else {}).get(keys["phase"]) or {}
    # the paper's Original is the fused one: its multiply-accumulates lack what a counter cannot see
    printed = (
        "" if "_" in way else published.printed(9, algorithm=labels.algorithm_title(way), **keys)
    )
    ours, ratio, theirs = None, None, None
    value, samples = found.get(name), found.get("samples_per_second")
    # tokens follow from samples and their length
    if name == "million_tokens_per_second" and samples:
        value = {end: rate * run["parameters"]["length"] / 1e6 for end, rate in samples.items()}
    # a median with its range
    if isinstance(value, dict):
        ours = Estimate(value["median"], value["low"], value["high"], run["metrics"]["repeats"])
    elif value is not None:
        # counted, and not repeated
        ours = Estimate(float(value), nan, nan, None)
    if name == "milliseconds" and way != "original":
        plain, of = published.value(9, algorithm="Original", **keys), found.get("ratio")
        ratio = Estimate(of["median"], of["low"], of["high"], 1) if of else None
        theirs = float(printed) / plain if printed and plain else None
    reason = (
        "" if ours else captions.reason("measured", "measure" if run else "stage", stage="cost")
    )
    return Cell(printed, ours, reason=reason, ratio=ratio, published_ratio=theirs)
