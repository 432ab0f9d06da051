"""Measurements of GTD beside graph measures: clustering by two definitions, betweenness, dense graphs."""

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy import stats

from saobp.study.setup import labels
from saobp.study.statistics import estimates
from saobp.study.verdicts.model import Measurement, on_scale, scope_of
from saobp.study.verdicts.studies import Record, Studies, over_seeds

TASK = "race"  # of Fig. 2
QUARTERS = (0.25, 0.75)  # the sparsest and the densest graphs, by betweenness
Points = Callable[[Record], tuple[list, list]]


def correlation(claim: str, name: str, sampled: str, printed: str, studies: Studies) -> list[Measurement]:
    """r of GTD and a graph measure: over the heads of a run, and beside it over single heads on single samples.

    The mean over the paper's four algorithms per seed, on the scale of Fisher's z. `sampled`: the measure's name among
    the samples, empty where it was kept per head alone.
    """
    paper = studies.paper.claim(printed)

    def of_heads(run: Record) -> tuple[list, list]:
        matrix = estimates.matrix(run)
        return np.ravel(matrix["gtd"]).tolist(), np.ravel(matrix.get(name) or []).tolist()

    def of_samples(run: Record) -> tuple[list, list]:
        graph = run["metrics"].get("graph") or {}
        return graph.get("gtd") or [], graph.get(sampled) or []

    rows = _over_algorithms(claim, of_heads, "heads,", paper, studies, aside=False)
    others = tuple(name for name in labels.PAPER if name != "elemmul")
    rows += _over_algorithms(claim, of_heads, "heads, without ElemMul,", paper, studies, aside=True, among=others)
    if sampled:
        rows += _over_algorithms(claim, of_samples, "heads × samples,", paper, studies, aside=True)
    return rows


def _over_algorithms(
    claim: str, points: Points, part: str, paper: float, studies: Studies, *, aside: bool,
    among: tuple[str, ...] = tuple(labels.PAPER),
) -> list:  # fmt: skip
    def by_seed(runs: list[Record]) -> dict:
        found: dict = {}
        for run in runs:
            shown = run["metrics"]["task"] == TASK and run["parameters"]["algorithm"] in among
            if shown and (r := pearson(*points(run))) is not None:
                found.setdefault(run["parameters"]["seed"], []).append(np.arctanh(r))
        return {seed: float(np.mean(values)) for seed, values in found.items()}

    without = "ElemMul" if len(among) < len(labels.PAPER) else ""
    rows = over_seeds(claim, studies, "attention", by_seed, paper=lambda size: paper, part=part, lend=False,
                      **({"aside": True, "without": without} if aside else {}))  # fmt: skip
    return [on_scale(row, np.tanh, "Fisher's z") for row in rows]


def pearson(x: list, y: list) -> float | None:
    """Pearson's r of the defined pairs; None of fewer than three or where one side is constant."""
    pairs = np.array([pair for pair in zip(x, y) if None not in pair], dtype=float)
    if len(pairs) < 3 or (np.ptp(pairs, axis=0) == 0).any():
        return None
    return float(np.corrcoef(pairs.T)[0, 1])


def dense(studies: Studies) -> list[Measurement]:
    """Spread of clustering among the quarter of graphs with the lowest betweenness, over that with the highest.

    A path of one hop adds nothing to betweenness, so the lowest is of the densest graphs; the density was not kept.
    """

    def by_seed(runs: list[Record]) -> dict:
        found: dict = {}
        for run in runs:
            graph = run["metrics"].get("graph") or {}
            if run["metrics"]["task"] == TASK and graph.get("clustering"):
                clustering, between = (np.array(graph[key], dtype=float) for key in ("clustering", "betweenness"))
                few, many = np.nanquantile(between, QUARTERS)
                spreads = [np.nanstd(clustering[chosen]) for chosen in (between <= few, between >= many)]
                found.setdefault(run["parameters"]["seed"], []).append(spreads)
        means = {seed: np.mean(values, axis=0) for seed, values in found.items()}  # over algorithms; some have none
        return {seed: float(few / many) for seed, (few, many) in means.items() if many}

    return over_seeds("clustering-dense", studies, "attention", by_seed, lend=False, post_hoc=True)


def undefined(studies: Studies) -> list[Measurement]:
    """Share of a model's heads with an undefined clustering on any sample; exact interval of a proportion."""
    rows = []
    for study, runs in studies.of("attention").items():
        runs = [run for run in runs if run["metrics"]["task"] == TASK and run["metrics"].get("nan")]
        total = sum(map(_heads, runs))
        lost = sum(_undefined(run) for run in runs)
        if total:
            interval = partial(_exact, stats.binomtest(lost, total))
            scope = scope_of(study, [run["parameters"]["model"] for run in runs])
            names = tuple(run["name"] for run in runs)
            rows.append(Measurement(
                "clustering-undefined", labels.model_title(runs[0]["parameters"]["model"]), scope, study, lost / total,
                interval, total, "heads", "Clopper-Pearson", names,
            ))  # fmt: skip
    return rows


def _heads(run: Record) -> int:
    return np.size(estimates.matrix(run)["gtd"])


def _undefined(run: Record) -> int:
    """Heads that have an undefined clustering, at most one per undefined number."""
    return min(_heads(run), (run["metrics"]["nan"].get("refined") or {}).get("clustering_barrat", 0))


def _exact(test, level: float) -> tuple[float, float]:
    found = test.proportion_ci(level)
    return float(found.low), float(found.high)


MEASURES = {
    "clustering-onnela": partial(correlation, "clustering-onnela", "clustering_onnela", "", "C18"),
    "clustering-barrat": partial(correlation, "clustering-barrat", "clustering_barrat", "clustering", "C18"),
    "betweenness": partial(correlation, "betweenness", "betweenness", "betweenness", "C19"),
    "clustering-dense": dense,
    "clustering-undefined": undefined,
}
