"""Measurements of GTD: beside graph measures, and beside performance over checkpoints, heads and runs."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from saobp.study.setup import labels
from saobp.study.setup.records import select
from saobp.study.setup.schema import Record
from saobp.study.statistics import Estimate, across_runs, estimates, task_scores, trajectories
from saobp.study.verdicts.claims_and_measurements import Measurement, measured, on_scale
from saobp.study.verdicts.studies import ALONE, Studies, over_seeds, seed_means

TASK = "race"  # of Fig. 2
QUARTERS = (0.25, 0.75)  # the sparsest and the densest graphs, by betweenness
CHECKPOINTS = "Student's t over seeds, no surer than the checkpoints of a run"
BESIDE_ACCURACY = {"gtd": ("GTD", 1), "indirect_entropy": ("indirect entropy", 1), "betweenness": ("−betweenness", -1)}


def correlation(studies: Studies, number: str, printed: str, sampled: str = "") -> list[Measurement]:
    """r of GTD and a graph measure: over the heads of a run, and beside it over single heads on single samples.

    The mean over the paper's four algorithms per seed, on the scale of Fisher's z. `sampled`: the measure's name among
    the samples, empty where it was kept per head alone.
    """

    def of_heads(run: Record) -> float | None:
        matrix = estimates.matrix(run)
        return fisher(*(np.ravel(matrix.get(name) or []).tolist() for name in ("gtd", number)))

    def of_samples(run: Record) -> float | None:
        graph = run["metrics"].get("graph") or {}
        return fisher(graph.get("gtd") or [], graph.get(sampled) or [])

    rows = []
    for z, part, left_out in (
        (of_heads, "heads", ""),
        (of_heads, "heads, without ElemMul", "elemmul"),
        *([(of_samples, "heads × samples", "")] if sampled else []),
    ):
        among = [algorithm for algorithm in labels.PAPER_ALGORITHMS if algorithm != left_out]
        rows += over_seeds(
            studies, "attention", lambda runs, z=z, among=among: seed_means(_on_race(runs, among), z), part=part,
            lend=False, paper=lambda paper, size: paper.claim(printed), aside=part != "heads",
            without="ElemMul" if left_out else "",
        )  # fmt: skip
    return [on_scale(row, np.tanh, "Fisher's z") for row in rows]


def _on_race(runs: list[Record], among: Sequence[str] = tuple(labels.ALGORITHMS)) -> list[Record]:
    return [run for run in runs if run["metrics"]["task"] == TASK and run["parameters"]["algorithm"] in among]


def fisher(x: list, y: list) -> float | None:
    """Return Fisher's z of Pearson's r of the defined pairs; None of fewer than three or where one side is constant."""
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
        if not graph.get("clustering"):
            return None
        clustering, between = (np.array(graph[key], dtype=float) for key in ("clustering", "betweenness"))
        few, many = np.nanquantile(between, QUARTERS)
        return [np.nanstd(clustering[chosen]) for chosen in (between <= few, between >= many)]

    def gaps(runs: list[Record]) -> dict:
        means = seed_means(_on_race(runs), spreads)  # over algorithms; some have none
        return {seed: float(few / many) for seed, (few, many) in means.items() if many}

    return over_seeds(studies, "attention", gaps, lend=False, post_hoc=True)


def undefined(studies: Studies) -> list[Measurement]:
    """Share of a model's heads with an undefined clustering on any sample; exact interval of a proportion."""
    rows = []
    for study, model, runs in studies.cells("attention"):
        runs = [run for run in _on_race(runs) if run["metrics"].get("nan")]
        heads = [np.size(estimates.matrix(run)["gtd"]) for run in runs]
        undefined = [(run["metrics"]["nan"].get("refined") or {}).get("clustering_barrat", 0) for run in runs]
        if total := sum(heads):  # at most one per undefined number
            lost = int(np.minimum(heads, undefined).sum())
            facts = {"of": "heads", "method": "Clopper-Pearson", "records": tuple(run["name"] for run in runs)}
            test = stats.binomtest(lost, total)
            facts["interval"] = lambda level, test=test: tuple(map(float, test.proportion_ci(level)))
            rows.append(measured(study, model, Estimate(lost / total, 0, 1, total), **facts))
    return rows


def over_checkpoints(studies: Studies, task: str, printed: str) -> list[Measurement]:
    """r of GTD and a score over the checkpoints of a run, as Table 6 and Figure 3 have it; one seed is descriptive."""
    paper = studies.paper.value(6, gtd_kind="Single GTD", task=printed)
    stage, found = "pretrain" if task == "wikitext" else "finetune", []
    for study, model, runs in studies.cells(stage):
        points = trajectories.checkpoints(runs, model, task)
        if (r := trajectories.on_fisher_scale(points)) is not None:
            found.append((study, model, r, {"records": tuple(dict.fromkeys(points["run"])), "paper": paper}))
    several = any(r.seeds > 1 for _, _, r, _ in found)
    rows = [
        measured(study, model, r, **facts, method=CHECKPOINTS) if r.seeds > 1
        else measured(study, model, replace(r, error=None), **facts, method=ALONE, aside=several)
        for study, model, r, facts in found
    ]  # fmt: skip
    return [on_scale(row, np.tanh, "Fisher's z") for row in rows]


def heads_in_range(studies: Studies, low: float, high: float, inside: bool) -> list[Measurement]:
    """r of a run's log perplexity and the share of its heads whose GTD lies inside or outside a range.

    Over pretraining runs, within algorithms and seeds; GTD on RACE-Middle, per head. Beside it without ElemMul, whose
    GTD is far above that of all others.
    """
    rows = []
    for study, model, runs in studies.cells("attention"):
        trained = {_key(run): run for run in studies.of("pretrain").get(study, [])}
        own = [run for run in _on_race(runs) if _key(run) in trained]
        for without in ("", "ElemMul"):
            chosen = [run for run in own if not without or run["parameters"]["algorithm"] != "elemmul"]
            heads = [np.ravel(estimates.matrix(run)["gtd"]) for run in chosen]
            shares = [np.mean(((each >= low) & (each <= high)) == inside) for each in heads]
            pretrained = [trained[_key(run)] for run in chosen]
            losses = [float(np.log(run["metrics"]["perplexity"])) for run in pretrained]
            part = "share of heads, without ElemMul" if without else "share of heads"
            facts = {"aside": bool(without), "without": without, "post_hoc": True}
            rows += _across(study, model, part, chosen, shares, losses, also=pretrained, **facts)
    return rows


def _key(run: Record) -> tuple:
    return tuple(run["parameters"].get(key) for key in ("model", "algorithm", "seed"))


def _across(
    study: str, model: str, part: str, runs: Sequence[Record], x: Sequence[float], y: Sequence[float],
    also: Sequence[Record] = (), **given: Any,
) -> list[Measurement]:  # fmt: skip
    """r over runs without what algorithm and seed explain; nothing where too few are left."""
    factors = [[run["parameters"][key] for run in runs] for key in ("algorithm", "seed")]

    def interval(level: float) -> tuple[float, float]:
        found = across_runs(x, y, factors, level=level)
        return found.low, found.high

    try:
        found = across_runs(x, y, factors)
    except ValueError:
        return []
    facts = {"of": "runs", "method": "Fisher's z over runs, algorithm and seed taken out", "interval": interval}
    facts["records"] = tuple(run["name"] for run in [*runs, *also])
    r = Estimate(found.r, found.low, found.high, len(runs))
    return [measured(study, model, r, part, **facts, **given)]


def accurate(studies: Studies) -> list[Measurement]:
    """r of RACE-Middle accuracy over runs with GTD, indirect entropy and minus betweenness."""
    rows = []
    for study, model, tuned in studies.cells("finetune"):
        points = []
        for run in _on_race(select(studies.of("attention").get(study, []), model=model)):
            given = run["parameters"]
            scores = task_scores.by_pretraining(task_scores.scores(tuned, model, given["algorithm"], TASK))
            means = {name: estimates.nested_mean(estimates.matrix(run).get(name)) for name in BESIDE_ACCURACY}
            points += [means | {"run": run, "score": one.value} for one in scores if one.key[0] == given["seed"]]
        frame = pd.DataFrame(points)
        for name, (title, sign) in BESIDE_ACCURACY.items() if points else ():
            rows += _across(study, model, title, frame["run"].tolist(), sign * frame[name], frame["score"])
    return rows
