"""Measurements of GTD beside performance: over checkpoints, over heads' ranges, over runs."""

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd

from saobp.study.setup import labels
from saobp.study.setup.records import select
from saobp.study.statistics import across_runs, estimates, task_scores, trajectories
from saobp.study.verdicts.graphs import pearson
from saobp.study.verdicts.model import Measurement, on_scale, scope_of
from saobp.study.verdicts.studies import Record, Studies, over_seeds

PRINTED = {"wikitext": "WikiText_PPL", "sst2": "SST2_Acc", "hellaswag": "HellaSwag_Acc", "race": "RACE_middle_Acc"}
GOOD, BAD = (0.6, 0.8), (0.5, 0.85)  # of GTD, Sec. 7
COLUMNS = {"gtd": ("GTD", 1), "indirect_entropy": ("indirect entropy", 1), "betweenness": ("−betweenness", -1)}


def over_checkpoints(claim: str, task: str, studies: Studies) -> list[Measurement]:
    """r of GTD and a score over the checkpoints of a run: the mean over runs per seed, on Fisher's scale.

    Checkpoints of one run are not independent, so a run gives one number and seeds are counted.
    """

    def by_seed(runs: list[Record]) -> dict:
        points = trajectories.checkpoints(runs, runs[0]["parameters"]["model"], task)
        found: dict = {}
        if points.empty:
            return found
        for _, run in points.groupby("run"):
            if (r := pearson(run["gtd"].tolist(), run["score"].tolist())) is not None:
                found.setdefault(run["seed"].iloc[0], []).append(np.arctanh(r))
        return {seed: float(np.mean(values)) for seed, values in found.items()}

    printed = studies.paper.value(6, gtd_kind="Single GTD", task=PRINTED[task])
    stage = "pretrain" if task == "wikitext" else "finetune"
    rows = over_seeds(claim, studies, stage, by_seed, paper=lambda size: printed, lend=False)
    return [on_scale(row, np.tanh, "Fisher's z") for row in rows]


def heads_in_range(claim: str, bounds: tuple[float, float], inside: bool, studies: Studies) -> list[Measurement]:
    """r of a run's log perplexity and the share of its heads whose GTD lies inside or outside a range.

    Over pretraining runs, within algorithms and seeds; GTD on RACE-Middle, per head.
    """
    rows = []
    for study, runs in studies.of("attention").items():
        trained = {_key(run): run for run in studies.of("pretrain").get(study, [])}
        for model in sorted({run["parameters"]["model"] for run in runs}):
            own = [
                run for run in select(runs, model=model) if run["metrics"]["task"] == "race" and _key(run) in trained
            ]
            others = [run for run in own if run["parameters"]["algorithm"] != "elemmul"]  # whose GTD is far above all
            for part, chosen, without in (
                ("share of heads", own, ""),
                ("share of heads, without ElemMul", others, "ElemMul"),
            ):
                pretrained = [trained[_key(run)] for run in chosen]
                losses = [float(np.log(run["metrics"]["perplexity"])) for run in pretrained]
                shares = [_share(run, bounds, inside) for run in chosen]
                for row in _across(claim, part, study, chosen, shares, losses):
                    names = row.records + tuple(run["name"] for run in pretrained)
                    rows.append(replace(row, records=names, aside=bool(without), without=without))
    return rows


def _share(run: Record, bounds: tuple[float, float], inside: bool) -> float:
    """The share of a run's heads whose GTD lies inside the bounds, or outside."""
    heads = np.ravel(estimates.matrix(run)["gtd"])
    share = float(np.mean((heads >= bounds[0]) & (heads <= bounds[1])))
    return share if inside else 1 - share


def _key(run: Record) -> tuple:
    return tuple(run["parameters"].get(key) for key in ("model", "algorithm", "seed"))


def _across(claim: str, part: str, study: str, runs: list[Record], x: list[float], y: list[float]) -> list[Measurement]:
    """r over runs without what algorithm and seed explain; nothing where too few are left."""
    factors = [[run["parameters"][key] for run in runs] for key in ("algorithm", "seed")]
    try:
        found = across_runs(x, y, factors)
    except ValueError:
        return []

    def interval(level: float) -> tuple[float, float]:
        other = across_runs(x, y, factors, level=level)
        return other.low, other.high

    model = runs[0]["parameters"]["model"]
    method = "Fisher's z over runs, algorithm and seed taken out"
    return [Measurement(
        claim, f"{part}, {labels.model_title(model)}", scope_of(study, [model]), study, found.r, interval,
        len(runs), "runs", method, tuple(run["name"] for run in runs), post_hoc=claim != "accurate-models",
    )]  # fmt: skip


def accurate(studies: Studies) -> list[Measurement]:
    """r of RACE-Middle accuracy over runs with GTD, indirect entropy and minus betweenness."""
    rows = []
    for study, runs in studies.of("finetune").items():
        measured = studies.of("attention").get(study, [])
        for model in sorted({run["parameters"]["model"] for run in runs}):
            points = pd.DataFrame(_accurate(study, model, studies.records[study], measured))
            for name, (title, sign) in COLUMNS.items():
                if len(points):
                    own = points["run"].tolist()
                    rows += _across("accurate-models", title, study, own, sign * points[name], points["score"])
    return rows


def _accurate(study: str, model: str, records: list[Record], measured: list[Record]) -> list[dict]:
    found = []
    for run in (run for run in select(measured, model=model) if run["metrics"]["task"] == "race"):
        algorithm, seed = run["parameters"]["algorithm"], run["parameters"]["seed"]
        scores = task_scores.by_pretraining(task_scores.scores(records, model, algorithm, "race"))
        means = {name: estimates.nested_mean(estimates.matrix(run).get(name)) for name in COLUMNS}
        found += [{"run": run, "score": score.value} | means for score in scores if score.key[0] == seed]
    return found


MEASURES = {
    "gtd-perplexity": partial(over_checkpoints, "gtd-perplexity", "wikitext"),
    "gtd-sst2": partial(over_checkpoints, "gtd-sst2", "sst2"),
    "gtd-hellaswag": partial(over_checkpoints, "gtd-hellaswag", "hellaswag"),
    "gtd-race": partial(over_checkpoints, "gtd-race", "race"),
    "gtd-good-range": partial(heads_in_range, "gtd-good-range", GOOD, True),
    "gtd-bad-range": partial(heads_in_range, "gtd-bad-range", BAD, False),
    "accurate-models": accurate,
}
