"""Tables 1 and 6: GTD, indirect entropy and graph measures, and their correlation with performance."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import inf, nan

import pandas as pd

from saobp.study.paper.numbers import Published
from saobp.study.setup import labels
from saobp.study.setup.records import select
from saobp.study.setup.schema import Record
from saobp.study.statistics import Estimate, estimates, on_scale, trajectories
from saobp.study.tables import scores
from saobp.study.tables.cells import Cell, Row, corrected
from saobp.study.tables.render import Table, captions

COLUMN_TITLES = {"GTD": "GTD", "IE": "I.E. (nats)", "Acc_RACE_Middle": "Accuracy", "CC": "CC", "BC": "BC"}
DIAGNOSTICS = {"GTD": "gtd", "IE": "indirect_entropy", "CC": "clustering_barrat", "BC": "betweenness"}
TOP = {"GTD": 1.0, "CC": 1.0, "IE": inf, "BC": inf}  # what a measure cannot exceed; none falls below 0
ORIGINAL = "original"


def measured(record: Record, key: str) -> Estimate | None:
    """A run's mean of a column's measure over its texts, layers and heads, with the interval over the texts."""
    found = record["metrics"]["means"][DIAGNOSTICS[key]]
    if found["mean"] is None:
        return None
    low, high = (nan if found[end] is None else found[end] for end in ("low", "high"))
    return Estimate(found["mean"], low, high, 1, int(found["samples"]))


def table1(records: Sequence[Record], published: Published) -> Table:
    """GTD, indirect entropy, accuracy, clustering and betweenness on RACE-Middle."""
    looked = select(list(records), "attention")
    names = [(model, name) for model in estimates.sizes(records) for name in scores.shown_algorithms(looked, model)]
    rows = [_row(records, published, *pair) for pair in names]
    runs = [run["metrics"] for run in looked if run["metrics"].get("graph_nodes")]
    graphs = {f" (first {run['graph_nodes']} tokens, edges above {run['graph_threshold']:g})" for run in runs}
    return Table(1, scores.MODEL_ROWS, COLUMN_TITLES, corrected(rows), "Measure", {"graph": " or".join(sorted(graphs))})


def _row(records: Sequence[Record], published: Published, model: str, algorithm: str) -> Row:
    name, shown = labels.algorithm_title(algorithm), labels.published_model(model)
    runs, plain = (estimates.attention_runs(records, model, one, "race") for one in (algorithm, ORIGINAL))
    cells = {}
    for key in COLUMN_TITLES:
        printed = published.printed(1, model=shown, algorithm=name, metric=key)
        if key in DIAGNOSTICS:
            ours = estimates.mean_over_runs(measured(run, key) for run in runs)
            reason = "" if ours else "not measured" if runs else "no attention run"
            gap = None if algorithm == ORIGINAL else scores.by_seed(runs, plain, partial(measured, key=key))
            cells[key] = Cell(printed, ours and on_scale(ours, TOP[key]), gap, reason=reason)
        else:
            cells[key] = scores.score_cell(records, printed, model, algorithm, "race")
    return Row((labels.model_title(model), name), cells)


TASK_KEYS = {  # in Table 6
    "wikitext": "WikiText_PPL", "sst2": "SST2_Acc", "hellaswag": "HellaSwag_Acc", "race": "RACE_middle_Acc",
}  # fmt: skip
GTD_TITLES = {"gtd": "Single GTD", "cross_gtd": "Cross GTD"}
WHOLE = 1.9  # width of an interval that leaves a correlation open


def table6(records: Sequence[Record], published: Published) -> Table:
    """Correlation of single-layer and cross-layer GTD with performance.

    The paper's is over checkpoints of (it seems) one run; beside it stands the one over independent runs.
    """
    rows = []
    for model in estimates.models(records) or ["mini"]:
        trained = [run["parameters"]["algorithm"] for run in select(list(records), "pretrain", model=model)]
        ways = ("checkpoints", "runs") if len(trained) > len(set(trained)) else ("checkpoints",)  # of several seeds
        rows += [_correlation_row(records, published, model, measure, way) for measure in GTD_TITLES for way in ways]
    return Table(6, ("Model", "GTD"), trajectories.FOLLOWED, tuple(rows), "Score")


def _correlation_row(records, published, model, measure, way) -> Row:
    """One row of r over "checkpoints", beside the paper's, or over "runs"."""
    cells = {}
    for task, key in TASK_KEYS.items():
        printed = published.printed(6, gtd_kind=GTD_TITLES[measure], task=key) if way == "checkpoints" else ""
        points = getattr(trajectories, way)(records, model, task)
        ours = getattr(trajectories, f"over_{way}")(points, measure)
        if ours and ours.seeds < trajectories.FEW:
            ours = replace(ours, low=nan, high=nan)  # as among the claims
        reason = "" if ours else _why(points.dropna(subset=[measure, "score"]), measure, way)
        cells[task] = Cell(printed, ours, flags=_flags(ours, printed), reason=reason)
    return Row((labels.model_title(model), f"{GTD_TITLES[measure]}, {way}"), cells)


def _flags(ours: Estimate | None, printed: str) -> tuple[str, ...]:
    """Mark an r that says nothing, or else one of another sign than the paper's."""
    if ours is None:
        return ()
    if ours.seeds < trajectories.FEW or ours.high - ours.low > WHOLE:
        return ("says nothing",)
    return ("opposite sign",) if printed and ours.value * float(printed) < 0 else ()


def _why(known: pd.DataFrame, measure: str, way: str) -> str:
    """Why a cell is empty."""
    if len(known):
        why = captions()["lacking"][trajectories.lacking(known, measure)]
        return f"undefined, {why.format(least=trajectories.LEAST)}"
    what = "GTD" if measure == "gtd" else "cross-layer GTD"
    return f"no {what} with a score" + " at checkpoints" * (way == "checkpoints")
