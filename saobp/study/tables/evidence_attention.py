"""Evidence on attention: sparsity, entropy, graph measures, GTD and performance (Q06, Q08, Q10, Q15-Q17, Q19)."""

from collections.abc import Sequence
from functools import partial
from math import tanh
from typing import Any

import numpy as np
import pandas as pd

from saobp.study.setup import labels
from saobp.study.setup.benchmarks import TASKS
from saobp.study.setup.records import select
from saobp.study.statistics import Estimate, estimates, mean_interval, task_scores, trajectories
from saobp.study.tables import measures
from saobp.study.tables.evidence import Looks, Part, by_seed, each_size, seed_means
from saobp.study.tables.quantifiers import NEAREST
from saobp.study.training.architectures import SIZES

Record = dict[str, Any]
ENTROPIES = {"entropy": "entropy", "indirect_entropy": "indirect entropy"}
RIVALS = ("original", "low", "elemmul")  # of High in Fig. 4
SIGNS = {"GTD": 1, "IE": 1, "BC": -1}  # of a more accurate model, in Table 1
STRONG = 0.5  # |r| above it, say Sec. 7 and App. B
EXCEPTED = ("small", "hellaswag")  # by App. B itself


def _sizes(records: Sequence[Record]) -> dict[str, str]:
    return {labels.size(model): model for model in estimates.models(records)}


def _own(models: list[str]) -> list[str]:
    """The paper's own sizes; the stand-ins where there are no others."""
    return [model for model in models if not labels.is_twin(model)] or models


def _sparsity(records: Sequence[Record]) -> Looks:
    """Every size, a mean over the tasks whose attention was measured."""

    def mean(run: Record) -> float | None:
        return estimates.nested_mean(estimates.matrix(run).get("sparsity"))

    seen = {run["metrics"].get("task") for run in select(list(records), "attention")}
    named = labels.joined([TASKS[task].title for task in TASKS if task in seen])
    parts = each_size(_sizes(records), lambda model: by_seed(records, mean, "attention", model))
    return Looks(f"sparsity on {named}, High − Original:", parts, 3)


def _deep_entropy(records: Sequence[Record]) -> Looks:
    """Both entropies at every size, averaged over the deeper half of the layers; a fall of any size counts against."""

    def deep(run: Record, name: str) -> float | None:
        layers = estimates.matrix(run).get(name) or []
        return estimates.nested_mean(layers[len(layers) // 2 :] or None)

    sizes, parts = _sizes(records), []
    for name, title in ENTROPIES.items():
        gaps = partial(by_seed, records, partial(deep, name=name), "attention", task="race")
        parts += each_size(sizes, gaps, title, sign=1)
    return Looks("entropy and indirect entropy, deeper half of the layers, High − Original, nats:", parts, 3)


def _second(records: Sequence[Record]) -> Looks:
    """Every size: by how much High's GTD leads the second highest of its rivals, in the layer where it leads least."""
    sizes = _sizes(records)
    parts = each_size(sizes, partial(_least_lead, records), sign=1)
    return Looks("GTD on RACE-Middle, High − second highest of the others, in its least layer:", parts, 3)


def _least_lead(records: Sequence[Record], model: str) -> pd.Series:
    """One number a pretraining seed that has High and all its rivals; over the layers, the least lead of High."""
    layers: dict[str, dict[Any, list[float]]] = {}
    for name in ("high", *RIVALS):
        runs = [run for run in select(list(records), "attention", model=model, algorithm=name) if _on_race(run)]
        layers[name] = {run["parameters"]["seed"]: [estimates.nested_mean(row) for row in estimates.matrix(run)["gtd"]]
                        for run in runs if estimates.matrix(run).get("gtd")}  # fmt: skip
    leads = {}
    for seed in set.intersection(*(set(of) for of in layers.values())):
        second = np.sort([layers[name][seed] for name in RIVALS], axis=0)[-2]
        leads[seed] = float((np.array(layers["high"][seed]) - second).min())
    return pd.Series(leads, dtype=float).sort_index()


def _on_race(run: Record) -> bool:
    return run["metrics"].get("task") == "race"


def _graph(records: Sequence[Record]) -> Looks:
    """Correlations over a run's sample of heads, a mean over the runs of each pretraining seed: r(CC) > 0, r(BC) < 0.

    Runs of one seed start alike, so algorithms, sizes and tasks are no other draws.
    """
    models = _own(estimates.models(select(list(records), "attention")))
    twin, parts, seen = any(map(labels.is_twin, models)), [], set()
    for measure, title, sign in (("clustering", "r(GTD, CC)", 1), ("betweenness", "r(GTD, BC)", -1)):
        rows = []
        for model in models:
            for run in select(list(records), "attention", model=model):
                graph, given = run["metrics"].get("graph") or {}, run["parameters"]
                r = _pearson(graph.get("gtd"), graph.get(measure))
                rows += [] if r is None else [(given["seed"], (model, given["algorithm"], run["metrics"]["task"]), r)]
        seen |= {name for _, (_, name, _), _ in rows}
        parts.append(Part(title, _mean_correlation(rows), sign, twin=twin, correlation=True))
    names = labels.joined([labels.algorithm_title(name) for name in labels.ALGORITHMS if name in seen])
    return Looks(f"mean over {labels.joined(list(map(labels.model_title, models)))} with {names}:", parts)


def _mean_correlation(rows: list[tuple[Any, Any, float]]) -> Estimate | None:
    """The mean r over seeds, from (seed, run, r) rows; its interval is of Student's law on the scale of Fisher's z."""
    seeds = seed_means((seed, str(run), r) for seed, run, r in rows)
    if seeds.empty:
        return None
    mean = float(seeds.mean())
    spread = mean_interval(np.arctanh(seeds.clip(-NEAREST, NEAREST)).tolist())
    centre, half = float(np.arctanh(np.clip(mean, -NEAREST, NEAREST))), spread.half_width
    return Estimate(mean, tanh(centre - half), tanh(centre + half), spread.seeds, error=spread.error)


def _pearson(x: list | None, y: list | None) -> float | None:
    pairs = np.array([(a, b) for a, b in zip(x or [], y or []) if a is not None and b is not None], dtype=float)
    if len(pairs) < 3 or (np.ptp(pairs, axis=0) == 0).any():
        return None
    return float(np.corrcoef(pairs.T)[0, 1])


def _performance(records: Sequence[Record]) -> Looks:
    """|r| above one half over independent runs, within algorithms, for every task and size but the excepted one."""
    sizes, parts = _sizes(records), []
    for size in labels.SIZES:
        for task, title in trajectories.TASKS.items():
            model = sizes.get(size, "")
            found = trajectories.over_runs(trajectories.runs(records, model, task)) if model else None
            sign, name = -1 if found and found.value < 0 else 1, f"{labels.model_title(model)} {title}"
            if (size, task) != EXCEPTED:
                parts.append(Part(name, found, sign, STRONG, labels.is_twin(model), correlation=True))
    what = f"r of scores and GTD before fine-tuning, over runs, within algorithms, r beyond ±{STRONG}:"
    return Looks(what, parts, unit="run")


def _accurate(records: Sequence[Record]) -> Looks:
    """Over runs, within algorithms: RACE-Middle accuracy with GTD, indirect entropy, minus betweenness."""
    rows, models = [], _own(estimates.models(records))
    for model in models:
        for name in estimates.algorithms(records):
            measured = estimates.attention_runs(records, model, name, "race")
            of_seed = {run["parameters"].get("seed"): run for run in measured}
            for score in task_scores.by_pretraining(task_scores.scores(records, model, name, "race")):
                run = of_seed.get(score.key[0])
                means = [measures.measured(run, key) if run else None for key in SIGNS]
                values = [None if mean is None else mean.value for mean in means]
                rows.append((f"{model} {name}", f"{model} {name} {score.key}", score.key[0], *values, score.value))
    points = pd.DataFrame(rows, columns=["algorithm", "run", "seed", *SIGNS, "score"])
    twin = any(map(labels.is_twin, models))
    parts = [
        Part(key, trajectories.over_runs(points, key), sign, twin=twin, correlation=True) for key, sign in SIGNS.items()
    ]
    return Looks("r with accuracy over runs, within algorithms:", parts, unit="run")


def _layers(records: Sequence[Record]) -> Looks:
    """HellaSwag's correlation with GTD over runs: negative with four layers, and higher with eight (Fisher's z)."""
    by_depth = {SIZES[model].layers: model for model in estimates.models(records) if SIZES[model].layers in (4, 8)}
    runs = {depth: trajectories.runs(records, model, "hellaswag") for depth, model in by_depth.items()}
    shallow, deep = (trajectories.over_runs(runs[depth]) if depth in runs else None for depth in (4, 8))
    gap, twin = _between(shallow, deep) if shallow and deep else None, any(map(labels.is_twin, by_depth.values()))
    parts = Part("r with 4 layers", shallow, -1, twin=twin, correlation=True), Part("z of 8 − of 4", gap, twin=twin)
    return Looks("HellaSwag, GTD and accuracy over runs:", parts, unit="run")


def _between(first: Estimate, second: Estimate) -> Estimate:
    """The second correlation minus the first, of independent runs, as Fisher's z."""
    ends = np.array([[r.low, r.value, r.high] for r in (first, second)]).clip(-NEAREST, NEAREST)
    low, value, high = np.arctanh(ends).T
    half = float(np.hypot(*((high - low) / 2)))
    gap = float(value[1] - value[0])
    return Estimate(gap, gap - half, gap + half, min(first.seeds, second.seeds))


JUDGES = {
    "Q06": _accurate, "Q08": _layers, "Q10": _sparsity, "Q15": _deep_entropy, "Q16": _graph, "Q17": _performance,
    "Q19": _second,
}  # fmt: skip
