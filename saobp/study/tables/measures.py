"""Tables 1 and 6: GTD, indirect entropy and graph measures, and their correlation with performance."""

from collections.abc import Sequence
from math import inf, nan
from typing import Any

import pandas as pd

from saobp.study.paper.numbers import Published
from saobp.study.setup import labels
from saobp.study.setup.records import select
from saobp.study.statistics import Difference, Estimate, estimates, mean_interval, on_scale, trajectories
from saobp.study.tables import scores
from saobp.study.tables.cells import Cell, Row, corrected
from saobp.study.tables.render import Table

Record = dict[str, Any]
TITLES = {"GTD": "GTD", "IE": "I.E. (nats)", "Acc_RACE_Middle": "Accuracy", "CC": "CC", "BC": "BC"}
MEASURES = {"GTD": "gtd", "IE": "indirect_entropy", "CC": "clustering_barrat", "BC": "betweenness"}
TOP = {"GTD": 1.0, "CC": 1.0, "IE": inf, "BC": inf}  # what a measure cannot exceed; none falls below 0
ORIGINAL = "original"


def measured(record: Record, key: str) -> Estimate | None:
    """A run's mean of a column's measure over its texts, layers and heads, with the interval over the texts."""
    found = record["metrics"]["means"][MEASURES[key]]
    if found["mean"] is None:
        return None
    low, high = (nan if found[end] is None else found[end] for end in ("low", "high"))
    return Estimate(found["mean"], low, high, 1, int(found["samples"]))


def table1(records: Sequence[Record], published: Published) -> Table:
    """GTD, indirect entropy, accuracy, clustering and betweenness on RACE-Middle."""
    rows = []
    for model in estimates.sizes(records):
        for algorithm in scores.shown_algorithms(select(list(records), "attention"), model):
            rows.append(_row(records, published, model, algorithm))
    runs = [run["metrics"] for run in select(list(records), "attention") if run["metrics"].get("graph_nodes")]
    graphs = {f" (first {run['graph_nodes']} tokens, edges above {run['graph_threshold']:g})" for run in runs}
    return Table(1, scores.MODEL_ROWS, TITLES, corrected(rows), "Measure", {"graph": " or".join(sorted(graphs))})


def _row(records: Sequence[Record], published: Published, model: str, algorithm: str) -> Row:
    name, shown = labels.algorithm_title(algorithm), labels.published_model(model)
    runs, plain = (estimates.attention_runs(records, model, one, "race") for one in (algorithm, ORIGINAL))
    cells = {}
    for key in TITLES:
        printed = published.printed(1, model=shown, algorithm=name, metric=key)
        if key in MEASURES:
            ours = estimates.mean_over_runs(measured(run, key) for run in runs)
            reason = "" if ours else "not measured" if runs else "no attention run"
            gap = None if algorithm == ORIGINAL else difference(runs, plain, key)
            cells[key] = Cell(printed, ours and on_scale(ours, TOP[key]), gap, reason=reason)
        else:
            cells[key] = scores.score_cell(records, printed, model, algorithm, "race")
    return Row((labels.model_title(model), name), cells)


def difference(runs: Sequence[Record], plain: Sequence[Record], key: str) -> Difference | None:
    """A measure's mean minus Original's, seed by seed; Student's t over seeds, None without a seed of both."""
    sides = [{run["parameters"]["seed"]: measured(run, key) for run in side} for side in (runs, plain)]
    ours, theirs = ({seed: one.value for seed, one in side.items() if one} for side in sides)
    gaps = [ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())]
    if not gaps:
        return None
    found = mean_interval(gaps)
    return Difference(found.value, found.low, found.high, found.p, found.seeds, 0)


TASK_KEYS = {"wikitext": "WikiText_PPL", "sst2": "SST2_Acc", "hellaswag": "HellaSwag_Acc",
             "race": "RACE_middle_Acc"}  # fmt: skip
KINDS = {"gtd": "Single GTD", "cross_gtd": "Cross GTD"}
WHOLE = 1.9  # width of an interval that leaves a correlation open


def table6(records: Sequence[Record], published: Published) -> Table:
    """Correlation of single-layer and cross-layer GTD with performance.

    The paper's is over checkpoints of (it seems) one run; beside it stands the one over independent runs.
    """
    rows = []
    for model in estimates.models(records) or ["mini"]:
        for measure, name in KINDS.items():
            printed = {task: published.printed(6, gtd_kind=name, task=key) for task, key in TASK_KEYS.items()}
            rows.append(_correlation_row(records, model, f"{name}, checkpoints", measure, printed, checkpoints=True))
            if _has_several_seeds(records, model):
                rows.append(_correlation_row(records, model, f"{name}, runs", measure, {}, checkpoints=False))
    titles = {"wikitext": "Perplexity", "sst2": "SST2", "hellaswag": "HellaSwag", "race": "RACE-Middle"}
    return Table(6, ("Model", "GTD"), titles, tuple(rows), "Score")


def _has_several_seeds(records: Sequence[Record], model: str) -> bool:
    """Say whether an algorithm was pretrained on a model more than once."""
    trained = [run["parameters"]["algorithm"] for run in select(list(records), "pretrain", model=model)]
    return len(trained) > len(set(trained))


def _correlation_row(records, model, name, measure, printed, *, checkpoints: bool) -> Row:
    cells = {}
    for task in TASK_KEYS:
        source = trajectories.checkpoints if checkpoints else trajectories.runs
        points = source(records, model, task)
        ours = (trajectories.over_checkpoints if checkpoints else trajectories.over_runs)(points, measure)
        known = points.dropna(subset=[measure, "score"])
        reason = "" if ours else _why(known, measure, checkpoints)
        cells[task] = Cell(printed.get(task, ""), ours, flags=_flags(ours, printed.get(task)), reason=reason)
    return Row((labels.model_title(model), name), cells)


def _flags(ours: Estimate | None, printed: str | None) -> tuple[str, ...]:
    """Mark an r that says nothing, or else one of another sign than the paper's."""
    if ours is None:
        return ()
    if ours.seeds < trajectories.FEW or ours.high - ours.low > WHOLE:
        return ("says nothing",)
    return ("opposite sign",) if printed and ours.value * float(printed) < 0 else ()


def _why(known: pd.DataFrame, measure: str, checkpoints: bool) -> str:
    """Why a cell is empty."""
    if len(known):
        return f"undefined, {trajectories.why_undefined(known, measure)}"
    what = "GTD" if measure == "gtd" else "cross-layer GTD"
    return f"no {what} with a score" + (" at checkpoints" if checkpoints else "")
