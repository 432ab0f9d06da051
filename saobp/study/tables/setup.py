"""Tables 4, 5 and 9: sizes, schedules and cost."""

from collections.abc import Sequence
from dataclasses import replace
from math import nan
from typing import Any

from saobp.study.paper.numbers import Published
from saobp.study.setup import labels
from saobp.study.setup.records import select
from saobp.study.setup.schema import Record
from saobp.study.statistics import Estimate, estimates
from saobp.study.tables.cells import Cell, Row
from saobp.study.tables.render import Table

SETTINGS = {  # table -> the paper's column -> its title and our name
    4: {
        "layers": ("Layers", "layers"), "hidden": ("Hidden", "hidden"), "heads": ("Heads", "heads"),
        "ffn": ("FFN", "feedforward"), "params": ("Parameters", "parameters"),
    },
    5: {
        "max_steps": ("Steps", "steps"), "learning_rate": ("Learning rate", "learning_rate"),
        "lr_scheduler_type": ("Scheduler", "scheduler"), "warmup_steps": ("Warm-up steps", "warmup"),
        "seed": ("Seed", "seed"),
    },
}  # fmt: skip
COST = {
    ("train", "step_per_s (ms)"): "milliseconds",
    ("train", "tok_per_s (tok/s)"): "tokens_per_second",
    ("train", "FLOPs (GFLOPs)"): "gmacs",
    ("inference", "Latency/batch (ms)"): "milliseconds",
    ("inference", "Throughput samples/s"): "samples_per_second",
    ("inference", "Throughput (Mtok/s)"): "million_tokens_per_second",
    ("inference", "FLOPs (GFLOPs)"): "gmacs",
}


def of_settings(number: int, records: Sequence[Record], published: Published) -> Table:
    """Table 4 (the sizes of the models) or 5 (the schedule of pretraining), ours from the pretraining records."""
    rows = []
    for model in estimates.sizes(records):
        runs, shown = select(list(records), "pretrain", model=model), labels.published_model(model)
        cells = {
            key: _setting_cell(published.printed(number, model=shown, metric=key), runs, name)
            for key, (_, name) in SETTINGS[number].items()
        }
        rows.append(Row((labels.model_title(model),), cells))
    titles = {key: title for key, (title, _) in SETTINGS[number].items()}
    return Table(number, ("Model",), titles, tuple(rows), what="Setting")


def _setting_cell(printed: str, runs: list[Record], name: str) -> Cell:
    """All values that the runs used, as one text: "42, 43, 44"; parameters in millions."""
    values = []
    for run in runs:
        metrics = run["metrics"]
        found = {"steps": metrics.get("steps"), "parameters": metrics.get("parameters")}
        values.append((found | metrics.get("recipe", {}) | metrics.get("size", {}) | run["parameters"]).get(name))
    values = [f"{value / 1e6:.2f}M" if name == "parameters" else value for value in values if value is not None]
    ours = ", ".join(dict.fromkeys(f"{value:g}" if isinstance(value, float) else str(value) for value in values))
    return Cell(printed, ours or None, reason="" if ours else "not in the record" if runs else "no pretraining run")


def table9(records: Sequence[Record], published: Published) -> Table:
    """Time and multiply-accumulates of each way of computing attention; medians with quartiles of rounds in turns."""
    rows = []
    for model in estimates.sizes(select(list(records), "cost")):
        runs = select(list(records), "cost", model=model)
        ways = runs[0]["metrics"]["ways"] if runs else {}
        for way in (*ways, *(name for name in labels.PAPER_ALGORITHMS if name not in ways)):
            rows.append(_cost_row(runs, published, model, way))
    titles = {
        "train milliseconds": "ms/step", "train tokens_per_second": "tokens/s", "train gmacs": "GMACs",
        "inference milliseconds": "ms/batch", "inference samples_per_second": "samples/s",
        "inference million_tokens_per_second": "Mtok/s", "inference gmacs": "GMACs (inf.)",
    }  # fmt: skip
    return Table(9, ("Model", "Algorithm"), titles, tuple(rows), what="Quantity")


def _cost_row(runs: list[Record], published: Published, model: str, way: str) -> Row:
    algorithm, _, kind = way.partition("_")
    name, shown = labels.algorithm_title(algorithm), labels.published_model(model)
    found = runs[0]["metrics"]["ways"].get(way, {}) if runs else {}
    cells = {}
    for (phase, metric), key in COST.items():
        # the paper's Original is the fused one: its multiply-accumulates lack what a counter cannot see
        printed = "" if kind else published.printed(9, model=shown, algorithm=name, phase=phase, metric=metric)
        ours = _quantity(found.get(phase) or {}, key, runs)
        reason = "" if ours else "not measured" if runs else "no cost run"
        cell = Cell(printed, ours, reason=reason, exact=key == "gmacs")
        if key == "milliseconds" and way != "original":
            ratio, keys = (found.get(phase) or {}).get("ratio"), {"model": shown, "phase": phase, "metric": metric}
            cell = replace(cell, **_ratios(ratio, printed, published, **keys))
        cells[f"{phase} {key}"] = cell
    return Row((labels.model_title(model), f"{name} ({kind})" if kind else name), cells)


def _ratios(found: dict[str, float] | None, printed: str, published: Published, **keys: str) -> dict[str, Any]:
    """A time over Original's: ours round by round, the paper's of its printed numbers."""
    original = published.value(9, algorithm="Original", **keys)
    theirs = float(printed) / original if printed and original else None
    ours = Estimate(found["median"], found["low"], found["high"], 1) if found else None
    return {"ratio": ours, "published_ratio": theirs}


def _quantity(measured: dict[str, Any], key: str, runs: list[Record]) -> Estimate | None:
    """What was measured: a median with its range, or a plain number; tokens follow from samples and their length."""
    value, samples = measured.get(key), measured.get("samples_per_second")
    if key == "million_tokens_per_second" and samples:
        value = {end: rate * runs[0]["parameters"]["length"] / 1e6 for end, rate in samples.items()}
    if isinstance(value, dict):
        repeats = int(runs[0]["metrics"].get("repeats") or 1)
        return Estimate(value["median"], value["low"], value["high"], repeats)
    return None if value is None else Estimate(float(value), nan, nan, 1)
