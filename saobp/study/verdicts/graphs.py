"""Measurements of GTD beside graph measures: clustering by two definitions, betweenness, dense graphs."""

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy import stats

from saobp.study.setup import labels
from saobp.study.statistics import Estimate, estimates
from saobp.study.verdicts.model import Measurement, measured, on_scale
from saobp.study.verdicts.studies import Record, Studies, over_seeds, seed_means

TASK = "race"  # of Fig. 2
QUARTERS = (0.25, 0.75)  # the sparsest and the densest graphs, by betweenness
Points = Callable[[Record], tuple[list, list]]


def correlation(studies: Studies, number: str, printed: str, sampled: str = "") -> list[Measurement]:
    """r of GTD and a graph measure: over the heads of a run, and beside it over single heads on single samples.

    The mean over the paper's four algorithms per seed, on the scale of Fisher's z. `sampled`: the measure's name among
    the samples, empty where it was kept per head alone.
    """

    def of_heads(run: Record) -> tuple[list, list]:
        matrix = estimates.matrix(run)
        return np.ravel(matrix["gtd"]).tolist(), np.ravel(matrix.get(number) or []).tolist()

    def of_samples(run: Record) -> tuple[list, list]:
        graph = run["metrics"].get("graph") or {}
        return graph.get("gtd") or [], graph.get(sampled) or []

    def over(points: Points, part: str, left_out: str = "", **given: object) -> list[Measurement]:
        among = [algorithm for algorithm in labels.PAPER if algorithm != left_out]

        def gaps(runs: list[Record]) -> dict:
            return seed_means(_shown(runs, among), lambda run: fisher(*points(run)))

        rows = over_seeds(studies, "attention", gaps, part=part, lend=False,
                          paper=lambda paper, size: paper.claim(printed), **given)  # fmt: skip
        return [on_scale(row, np.tanh, "Fisher's z") for row in rows]

    rows = over(of_heads, "heads")
    rows += over(of_heads, "heads, without ElemMul", "elemmul", aside=True, without="ElemMul")
    return rows + (over(of_samples, "heads × samples", aside=True) if sampled else [])


def _shown(runs: list[Record], among: object = labels.PAPER) -> list[Record]:
    return [run for run in runs if run["metrics"]["task"] == TASK and run["parameters"]["algorithm"] in among]


def fisher(x: list, y: list) -> float | None:
    """Fisher's z of Pearson's r of the defined pairs; None of fewer than three or where one side is constant."""
    pairs = np.array([pair for pair in zip(x, y) if None not in pair], dtype=float)
    if len(pairs) < 3 or (np.ptp(pairs, axis=0) == 0).any():
        return None
    return float(np.arctanh(np.corrcoef(pairs.T)[0, 1]))


def dense(studies: Studies) -> list[Measurement]:
    """Spread of clustering among the quarter of graphs with the lowest betweenness, over that with the highest.

    A path of one hop adds nothing to betweenness, so the lowest is of the densest graphs; the density was not kept.
    """

    def spreads(run: Record) -> list[float] | None:
        graph = run["metrics"].get("graph") or {}
        if run["metrics"]["task"] != TASK or not graph.get("clustering"):
            return None
        clustering, between = (np.array(graph[key], dtype=float) for key in ("clustering", "betweenness"))
        few, many = np.nanquantile(between, QUARTERS)
        return [np.nanstd(clustering[chosen]) for chosen in (between <= few, between >= many)]

    def gaps(runs: list[Record]) -> dict:
        means = seed_means(runs, spreads)  # over algorithms; some have none
        return {seed: float(few / many) for seed, (few, many) in means.items() if many}

    return over_seeds(studies, "attention", gaps, lend=False, post_hoc=True)


def undefined(studies: Studies) -> list[Measurement]:
    """Share of a model's heads with an undefined clustering on any sample; exact interval of a proportion."""
    rows = []
    for study, model, runs in studies.cells("attention"):
        runs = [run for run in runs if run["metrics"]["task"] == TASK and run["metrics"].get("nan")]
        if total := sum(map(_heads, runs)):
            lost = sum(map(_undefined, runs))
            facts = {"of": "heads", "method": "Clopper-Pearson", "records": tuple(run["name"] for run in runs)}
            share, interval = Estimate(lost / total, 0, 1, total), partial(_exact, stats.binomtest(lost, total))
            rows.append(measured(study, model, share, interval=interval, **facts))
    return rows


def _heads(run: Record) -> int:
    return np.size(estimates.matrix(run)["gtd"])


def _undefined(run: Record) -> int:
    """Heads that have an undefined clustering, at most one per undefined number."""
    return min(_heads(run), (run["metrics"]["nan"].get("refined") or {}).get("clustering_barrat", 0))


def _exact(test, level: float) -> tuple[float, float]:
    found = test.proportion_ci(level)
    return float(found.low), float(found.high)
