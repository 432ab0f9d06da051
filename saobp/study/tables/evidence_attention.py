"""Evidence on attention: sparsity, entropy, graph measures, GTD and performance (Q06, Q08, Q10, Q15-Q17)."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from saobp.study import estimates, labels, trajectories
from saobp.study.labels import counted
from saobp.study.models import SIZES
from saobp.study.records import select
from saobp.study.statistics import Estimate, mean_interval
from saobp.study.tables import measures
from saobp.study.tables.evidence import Evidence, change, judged, words_of
from saobp.study.tasks import TASKS

Record = dict[str, Any]


def _sparsity(records: Sequence[Record]) -> Evidence | None:
    def mean(run: Record) -> float | None:
        return estimates.nested_mean(estimates.matrix(run).get("sparsity"))

    seen = {run["metrics"].get("task") for run in select(list(records), "attention")}
    named = " and ".join(TASKS[task].title for task in TASKS if task in seen)
    return judged(change(records, mean, "attention"), f"sparsity on {named}, High − Original:", -1)


def _deep_entropy(records: Sequence[Record]) -> Evidence | None:
    """Both entropies, averaged over the deeper half of the layers; the weaker of the two decides."""

    def deep(run: Record, name: str) -> float | None:
        layers = estimates.matrix(run).get(name) or []
        return estimates.nested_mean(layers[len(layers) // 2 :] or None)

    parts = [
        judged(
            change(records, partial(deep, name=name), "attention", "race"),
            f"{title}, deeper half of the layers, High − Original, nats:",
        )
        for name, title in (("entropy", "entropy"), ("indirect_entropy", "indirect entropy"))
    ]
    if None in parts:
        return None
    words = "; ".join(part.words for part in parts)
    return Evidence(words, min(p.low for p in parts), min(p.high for p in parts), parts[0].twins)


def _graph(records: Sequence[Record]) -> Evidence | None:
    """Correlations within each run's sample of heads, averaged over runs: r(CC) > 0 and r(BC) < 0."""
    found: dict[str, list[float]] = {"clustering": [], "betweenness": []}
    models = []
    for run in select(list(records), "attention"):
        graph = run["metrics"].get("graph") or {}
        for measure, values in found.items():
            r = _pearson(graph.get("gtd"), graph.get(measure))
            if r is not None:
                values.append(r)
                models.append(run["parameters"]["model"])
    intervals = [mean_interval(values) for values in found.values() if values]
    if len(intervals) < 2:
        return None
    clustering, betweenness = intervals
    words = (
        f"r(GTD, CC) = {words_of(clustering)}, r(GTD, BC) = {words_of(betweenness)}, {counted(clustering.seeds, 'run')}"
    )
    low, high = min(clustering.low, -betweenness.high), min(clustering.high, -betweenness.low)
    return Evidence(words, low, high, all(map(labels.is_twin, models)))


def _pearson(x: list | None, y: list | None) -> float | None:
    pairs = np.array([(a, b) for a, b in zip(x or [], y or []) if a is not None and b is not None], dtype=float)
    if len(pairs) < 3 or (np.ptp(pairs, axis=0) == 0).any():
        return None
    return float(np.corrcoef(pairs.T)[0, 1])


def _performance(records: Sequence[Record]) -> Evidence | None:
    """Positive if |r| over independent runs, within algorithms, is above one half for every task."""
    found = []
    for model in estimates.models(records):
        for task, name in trajectories.TASKS.items():
            estimate = trajectories.over_runs(trajectories.runs(records, model, task))
            if estimate is not None:
                found.append((model, name, estimate))
    if not found:
        return None
    low, high = min(e.value for _, _, e in found), max(e.value for _, _, e in found)
    excludes = sum(e.low > 0 or e.high < 0 for _, _, e in found)
    words = f"over runs, within algorithms, {counted(len(found), 'pair')} of model and task: "
    words += f"r from {low:.2f} to {high:.2f}, {excludes} with an interval that leaves out 0"
    reach = [_distance(e) for _, _, e in found]
    low, high = min(a for a, _ in reach) - 0.5, min(b for _, b in reach) - 0.5
    return Evidence(words, low, high, all(labels.is_twin(model) for model, _, _ in found))


def _distance(estimate: Estimate) -> tuple[float, float]:
    """Smallest and largest |r| in an interval."""
    ends = abs(estimate.low), abs(estimate.high)
    return (0.0 if estimate.low < 0 < estimate.high else min(ends)), max(ends)


def _accurate(records: Sequence[Record]) -> Evidence | None:
    """Over runs, within algorithms: RACE-Middle accuracy with GTD, indirect entropy, minus betweenness."""
    rows = []
    for model in estimates.models(records):
        for name in estimates.algorithms(records):
            measured = estimates.attention_runs(records, model, name, "race")
            by_seed = {run["parameters"].get("seed"): run for run in measured}
            for score in estimates.by_pretraining(estimates.scores(records, model, name, "race")):
                run = by_seed.get(score.key[0])
                means = [measures.measured(run, key) if run else None for key in ("GTD", "IE", "BC")]
                values = [None if mean is None else mean.value for mean in means]
                rows.append((f"{model} {name}", f"{model} {name} {score.key}", *values, score.value))
    points = pd.DataFrame(rows, columns=["algorithm", "run", "GTD", "IE", "BC", "score"])
    found = {key: trajectories.over_runs(points, key) for key in ("GTD", "IE", "BC")}
    if None in found.values():
        return None
    words = "over runs, within algorithms: " + "; ".join(f"{k} r = {words_of(e)}" for k, e in found.items())
    lows = (found["GTD"].low, found["IE"].low, -found["BC"].high)
    highs = (found["GTD"].high, found["IE"].high, -found["BC"].low)
    return Evidence(words, min(lows), min(highs), all(map(labels.is_twin, estimates.models(records))))


def _layers(records: Sequence[Record]) -> Evidence | None:
    """HellaSwag's correlation with GTD over runs: that of the deepest model minus that of one of four layers."""
    by_depth = {SIZES[model].layers: model for model in estimates.models(records)}
    ends = [by_depth[depth] for depth in (4, 8) if depth in by_depth]
    found = [trajectories.over_runs(trajectories.runs(records, model, "hellaswag")) for model in ends]
    if len(found) < 2 or None in found:
        return None
    shallow, deep = found
    gap, half = deep.value - shallow.value, float(np.hypot(deep.half_width, shallow.half_width))
    words = f"HellaSwag, over runs: r = {words_of(shallow)} with 4 layers, {words_of(deep)} with 8"
    return Evidence(words, gap - half, gap + half, all(map(labels.is_twin, ends)))


JUDGES = {"Q06": _accurate, "Q08": _layers, "Q10": _sparsity, "Q15": _deep_entropy, "Q16": _graph, "Q17": _performance}
