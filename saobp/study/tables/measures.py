"""Tables 1 and 6: GTD, indirect entropy and graph measures, and their correlation with performance."""

from collections.abc import Sequence
from math import nan
from typing import Any

import pandas as pd

from saobp.study.paper.numbers import Published
from saobp.study.setup import labels
from saobp.study.setup.benchmarks import TASKS
from saobp.study.setup.labels import counted
from saobp.study.setup.records import select
from saobp.study.statistics import Estimate, estimates, trajectories
from saobp.study.tables import context, scores
from saobp.study.tables.cells import Cell, Row, Table, corrected, correction

Record = dict[str, Any]
TITLES = {"GTD": "GTD", "IE": "I.E. (nats)", "Acc_RACE_Middle": "Accuracy", "CC": "CC", "BC": "BC"}


MEASURES = {"GTD": "gtd", "IE": "indirect_entropy", "CC": "clustering_barrat", "BC": "betweenness"}
GRAPH = {"clustering_barrat": "clustering", "betweenness": "betweenness"}  # in a record's sample of heads


def measured(record: Record, key: str) -> Estimate | None:
    """A run's mean of a column's measure over its texts, layers and heads, with the interval over the texts.

    An older record has the mean alone.
    """
    found = (record["metrics"].get("means") or {}).get(MEASURES[key])
    if found and found["mean"] is not None:
        low, high = (nan if found[end] is None else found[end] for end in ("low", "high"))
        return Estimate(found["mean"], low, high, 1, int(found["samples"]))
    value = _older_mean(record, MEASURES[key])
    return None if value is None else Estimate(value, nan, nan, 1)


def _older_mean(record: Record, name: str) -> float | None:
    """Mean of a measure without `means`: of clustering and betweenness over a sample of heads where there is one."""
    graph = record["metrics"].get("graph") or {}
    sources = [graph.get(GRAPH.get(name)), estimates.matrix(record).get(name)]
    return estimates.nested_mean(next((values for values in sources if values), None))


def table1(records: Sequence[Record], published: Published) -> Table:
    """GTD, indirect entropy, accuracy, clustering and betweenness on RACE-Middle."""
    rows = {}
    for model in estimates.sizes(records):
        for algorithm in scores.shown_algorithms(select(list(records), "attention"), model):
            rows[model, algorithm] = _row(records, published, model, algorithm)
    behind, shown = context.behind(records, rows, ["race"]), corrected(list(rows.values()))
    said = [
        graph_words(behind),
        "Intervals: of attention over texts, of accuracy over items, and over seeds where there are several. All rows "
        "read the same texts: a difference between two of them can be sure though their intervals overlap.",
        correction(shown),
    ]
    covered = context.notes(behind, ["texts", "fine-tuning seeds", "items"])
    notes = (*filter(None, said), *_complete_graphs(shown), *covered, context.describe(behind))
    caption = "Attention on RACE-Middle, of the refined matrix, and accuracy, the paper's beside ours."
    counts = "runs×texts, of accuracy runs×items"
    return Table(1, caption, scores.MODEL_ROWS, TITLES, shown, notes, counts, what="Measure")


def _complete_graphs(rows: Sequence[Row]) -> tuple[str, ...]:
    """Say in how many rows CC and BC can say nothing, because every token graph is complete."""
    pairs = [(row.cells["CC"].ours, row.cells["BC"].ours) for row in rows]
    count = sum(clustering.value == 1 and between.value == 0 for clustering, between in pairs if clustering and between)
    if not count:
        return ()
    return (
        f"CC 1 and BC 0, in {counted(count, 'row')}: every graph is complete. Attention this close to uniform exceeds "
        "the threshold between all tokens; that is the definition at work, and says nothing of the model.",
    )


def graph_words(records: Sequence[Record]) -> str:
    """Say of which graph CC and BC are; empty without a run that measured one."""
    runs = [run["metrics"] for run in select(list(records), "attention") if run["metrics"].get("graph_nodes")]
    graphs = dict.fromkeys(
        f"first {counted(run['graph_nodes'], 'token')} in one head, with an edge where the mean attention of both "
        f"directions exceeds {run['graph_threshold']:g}"
        for run in runs
    )
    if not graphs:
        return ""
    return (
        "CC: clustering coefficient weighted by the edges at a node (Barrat et al. 2004); BC: betweenness, the number "
        "of shortest paths through a node, edges unweighted, not normalised; both are means over the nodes of the "
        f"undirected graph of a text's {' or '.join(graphs)}."
    )


def _row(records: Sequence[Record], published: Published, model: str, algorithm: str) -> Row:
    name, shown = labels.algorithm_title(algorithm), labels.published_model(model)
    printed = {key: published.printed(1, model=shown, algorithm=name, metric=key) for key in TITLES}
    runs = estimates.attention_runs(records, model, algorithm, "race")
    cells = {}
    for key in TITLES:
        if key in MEASURES:
            ours = estimates.mean_over_runs(measured(run, key) for run in runs)
            reason = "" if ours else "not measured" if runs else "no attention run"
            cells[key] = Cell(printed[key], ours, reason=reason)
        else:
            cells[key] = scores.score_cell(records, printed[key], model, algorithm, "race")
    return Row((labels.model_title(model), name), cells)


TASK_KEYS = {"wikitext": "WikiText_PPL", "sst2": "SST2_Acc", "hellaswag": "HellaSwag_Acc",
             "race": "RACE_middle_Acc"}  # fmt: skip
UNDEFINED = "undefined"
MEAN = (
    "Over checkpoints: the mean over the runs in which GTD and score move, as many as n says; algorithms "
    "of one pretraining seed do not narrow its interval. Training moves both, and curves that both rise correlate "
    "though nothing ties them: no interval over checkpoints speaks against that. Over runs: centred by algorithm; the "
    "interval counts pretraining seeds."
)
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
    caption = (
        "Pearson correlation of GTD with performance; the paper states no model size. The sign of perplexity is "
        "reversed: lower is better, so a negative r there means what a positive r means for a score."
    )
    behind = context.behind(records, [(model, None) for model in estimates.models(records)], TASK_KEYS)
    notes = (*_opposite(rows), MEAN, *context.notes(behind), context.describe(behind))
    if not any(row.labels[1].endswith("runs") for row in rows):
        notes = ("One pretraining seed an algorithm: no correlation over independent runs to set beside it.", *notes)
    return Table(6, caption, ("Model", "GTD"), titles, tuple(rows), notes, "runs×checkpoints", what="Score")


def _opposite(rows: Sequence[Row]) -> tuple[str, ...]:
    """Name the cells in which ours has another sign than the paper's."""
    found = [
        f"{row.labels[1].partition(',')[0]} with {'perplexity' if task == 'wikitext' else TASKS[task].title}"
        for row in rows
        for task, cell in row.cells.items()
        if cell.published and isinstance(cell.ours, Estimate) and cell.ours.value * float(cell.published) < 0
    ]
    return (f"Opposite in sign to the paper's: {'; '.join(found)}.",) if found else ()


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
        why = f"{UNDEFINED}, {trajectories.why_undefined(known, measure)}" if isinstance(ours, str) else ""
        cells[task] = Cell(printed.get(task, ""), ours, reason=why or _why(known, measure, checkpoints))
    return Row((labels.model_title(model), name), cells)


def _why(known: pd.DataFrame, measure: str, checkpoints: bool) -> str:
    """Why a cell is empty."""
    what = "GTD" if measure == "gtd" else "cross-layer GTD"
    return "" if len(known) else f"no {what} with a score" + (" at checkpoints" if checkpoints else "")
