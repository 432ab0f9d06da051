"""Measurements of GTD beside performance: over checkpoints, over heads' ranges, over runs."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from saobp.study.setup.records import select
from saobp.study.statistics import Estimate, across_runs, estimates, task_scores, trajectories
from saobp.study.verdicts.model import Measurement, measured, on_scale
from saobp.study.verdicts.studies import ALONE, Record, Studies

CHECKPOINTS = "Student's t over seeds, no surer than the checkpoints of a run"
COLUMNS = {"gtd": ("GTD", 1), "indirect_entropy": ("indirect entropy", 1), "betweenness": ("−betweenness", -1)}


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
        own = [run for run in runs if run["metrics"]["task"] == "race" and _key(run) in trained]
        others = [run for run in own if run["parameters"]["algorithm"] != "elemmul"]
        for part, chosen, without in (
            ("share of heads", own, ""),
            ("share of heads, without ElemMul", others, "ElemMul"),
        ):
            pretrained = [trained[_key(run)] for run in chosen]
            losses = [float(np.log(run["metrics"]["perplexity"])) for run in pretrained]
            shares = [_share(run, low, high, inside) for run in chosen]
            facts = {"aside": bool(without), "without": without, "post_hoc": True}
            rows += _across(study, model, part, chosen, shares, losses, also=pretrained, **facts)
    return rows


def _share(run: Record, low: float, high: float, inside: bool) -> float:
    """The share of a run's heads whose GTD lies between two bounds, or outside."""
    heads = np.ravel(estimates.matrix(run)["gtd"])
    share = float(np.mean((heads >= low) & (heads <= high)))
    return share if inside else 1 - share


def _key(run: Record) -> tuple:
    return tuple(run["parameters"].get(key) for key in ("model", "algorithm", "seed"))


def _across(
    study: str, model: str, part: str, runs: list[Record], x: Sequence[float], y: Sequence[float],
    also: Sequence[Record] = (), **given: object,
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
    names = tuple(run["name"] for run in [*runs, *also])
    return [
        measured(
            study, model, Estimate(found.r, found.low, found.high, len(runs)), part, records=names, **facts, **given
        )
    ]


def accurate(studies: Studies) -> list[Measurement]:
    """r of RACE-Middle accuracy over runs with GTD, indirect entropy and minus betweenness."""
    rows = []
    for study, model, _ in studies.cells("finetune"):
        points = pd.DataFrame(_accurate(studies, study, model))
        for name, (title, sign) in COLUMNS.items() if len(points) else ():
            rows += _across(study, model, title, points["run"].tolist(), sign * points[name], points["score"])
    return rows


def _accurate(studies: Studies, study: str, model: str) -> list[dict]:
    found = []
    for run in select(studies.of("attention").get(study, []), model=model):
        algorithm, seed = run["parameters"]["algorithm"], run["parameters"]["seed"]
        if run["metrics"]["task"] == "race":
            scores = task_scores.by_pretraining(task_scores.scores(studies.records[study], model, algorithm, "race"))
            means = {name: estimates.nested_mean(estimates.matrix(run).get(name)) for name in COLUMNS}
            found += [{"run": run, "score": score.value} | means for score in scores if score.key[0] == seed]
    return found
