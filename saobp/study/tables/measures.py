"""Tables 1 and 6: GTD, indirect entropy and graph measures, and their correlation with performance."""

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from saobp.study import estimates, labels, trajectories
from saobp.study.published import Published
from saobp.study.records import select
from saobp.study.tables import context, scores
from saobp.study.tables.cells import Cell, Row, Table, corrected

Record = dict[str, Any]
TITLES = {"GTD": "GTD", "IE": "I.E. (nats)", "Acc_RACE_Middle": "Accuracy", "CC": "CC", "BC": "BC"}


def graph_mean(record: Record, measure: str) -> float | None:
    """Mean clustering or betweenness of a record: of its graph sample, else of its refined matrices."""
    graph = record["metrics"].get("graph") or {}
    names = [measure, f"{measure}_barrat"]
    sources = [*(graph.get(name) for name in names), *(estimates.matrix(record).get(name) for name in names)]
    return estimates.nested_mean(next((values for values in sources if values), None))


MEASURES: dict[str, Callable[[Record], float | None]] = {
    "GTD": lambda record: estimates.nested_mean(estimates.matrix(record).get("gtd")),
    "IE": lambda record: estimates.nested_mean(estimates.matrix(record).get("indirect_entropy")),
    "CC": lambda record: graph_mean(record, "clustering"),
    "BC": lambda record: graph_mean(record, "betweenness"),
}


def table1(records: Sequence[Record], published: Published) -> Table:
    """GTD, indirect entropy, accuracy, clustering and betweenness on RACE-Middle."""
    rows = []
    for model in estimates.models(records) or ["mini"]:
        for algorithm in scores.shown_algorithms(select(list(records), "attention"), model):
            rows.append(_row(records, published, model, algorithm))
    caption = f"Attention on RACE-Middle (refined matrix) and accuracy. {context.describe(records)}"
    return Table(1, caption, scores.MODEL_ROWS, TITLES, corrected(rows), context.notes(records))


def _row(records: Sequence[Record], published: Published, model: str, algorithm: str) -> Row:
    name, shown = labels.algorithm_title(algorithm), labels.published_model(model)
    printed = {key: published.printed(1, model=shown, algorithm=name, metric=key) for key in TITLES}
    runs = estimates.attention_runs(records, model, algorithm, "race")
    cells = {}
    for key in TITLES:
        if key in MEASURES:
            ours = estimates.mean_over_runs(map(MEASURES[key], runs))
            reason = "" if ours else "not measured" if runs else "no attention run"
            cells[key] = Cell(printed[key], ours, reason=reason)
        else:
            cells[key] = scores.score_cell(records, printed[key], model, algorithm, "race")
    return Row((labels.model_title(model), name), cells)


TASK_KEYS = {"wikitext": "WikiText_PPL", "sst2": "SST2_Acc", "hellaswag": "HellaSwag_Acc",
             "race": "RACE_middle_Acc"}  # fmt: skip
UNDEFINED = "undefined"
WHY_UNDEFINED = f"undefined: fewer than {trajectories.LEAST} different points a run, or a score that never moves."
KINDS = {"gtd": "Single GTD", "cross_gtd": "Cross GTD"}


def table6(records: Sequence[Record], published: Published) -> Table:
    """Correlation of single-layer and cross-layer GTD with performance.

    The paper's is over checkpoints of (it seems) one run; beside it stands the one over independent runs.
    """
    rows = []
    for model in estimates.models(records) or ["mini"]:
        for measure, name in KINDS.items():
            printed = {task: published.printed(6, gtd_kind=name, task=key) for task, key in TASK_KEYS.items()}
            rows.append(_correlation_row(records, model, f"{name}, checkpoints", measure, printed))
            if _has_several_seeds(records, model):
                rows.append(_correlation_row(records, model, f"{name}, runs", measure, {}))
    titles = {"wikitext": "Perplexity", "sst2": "SST2", "hellaswag": "HellaSwag", "race": "RACE-Middle"}
    caption = "Pearson correlation of GTD with performance; the paper states no model size."
    notes = context.notes(records)
    if not any(row.labels[1].endswith("runs") for row in rows):
        notes = ("One pretraining seed an algorithm: no correlation over independent runs to set beside it.", *notes)
    if any(str(cell.ours).startswith(UNDEFINED) for row in rows for cell in row.cells.values()):
        notes = (WHY_UNDEFINED, *notes)
    return Table(
        6, f"{caption} {context.describe(records)}", ("Model", "GTD"), titles, tuple(rows), notes, "runs×checkpoints"
    )


def _has_several_seeds(records: Sequence[Record], model: str) -> bool:
    """Say whether an algorithm was pretrained on a model more than once."""
    trained = [run["parameters"]["algorithm"] for run in select(list(records), "pretrain", model=model)]
    return len(trained) > len(set(trained))


def _correlation_row(records, model, name, measure, printed) -> Row:
    cells = {}
    for task in TASK_KEYS:
        checkpoints = name.endswith("checkpoints")
        source = trajectories.checkpoints if checkpoints else trajectories.runs
        points = source(records, model, task)
        ours = (trajectories.over_checkpoints if checkpoints else trajectories.over_runs)(points, measure)
        known = points.dropna(subset=[measure, "score"])
        if ours is None and len(known):
            ours = f"{UNDEFINED} ({known['run'].nunique()}×{len(known) // known['run'].nunique()})"
        cells[task] = Cell(printed.get(task, ""), ours, reason=_why(known, measure, checkpoints))
    return Row((labels.model_title(model), name), cells)


def _why(known: pd.DataFrame, measure: str, checkpoints: bool) -> str:
    """Why a cell is empty."""
    what = "GTD" if measure == "gtd" else "cross-layer GTD"
    return "" if len(known) else f"no {what} with a score" + (" at checkpoints" if checkpoints else "")
