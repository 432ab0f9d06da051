"""Measurements of GTD: beside graph measures, and beside performance over checkpoints, heads and
runs.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import inf, nan, sqrt
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from companion.records import PRETRAINED
from companion.records.schema import Record
from companion.setup import labels
from companion.setup.tasks_and_metrics import GRAPHS_OF
from companion.statistics import Error, Estimate, estimates, task_scores, trajectories
from companion.statistics.trajectories import NEARLY_ONE, across_runs
from companion.verdicts.claims_and_measurements import Measurement, measured, on_scale
from companion.verdicts.studies import ALONE, Studies, over_seeds

# the runs with graph measures
ON_RACE = {"task": GRAPHS_OF}
NO_SURER = "Student's t over seeds, no surer than the {} of a run"
BESIDE_ACCURACY = {
    "gtd": ("GTD", 1),
    "indirect_entropy": ("indirect entropy", 1),
    "betweenness": ("−betweenness", -1),
}


def correlation(
    studies: Studies, number: str, printed: str, sampled: str = ""
) -> Iterator[Measurement]:
    """r of GTD and a graph measure: over the heads of a run, and beside it over single heads on
    single samples.

    The mean over the paper's four algorithms per seed, on Fisher's scale. `sampled`: its name among
    samples, if any.
    """

    def of_heads(run: Record) -> float | None:
        return fisher(
            *(np.ravel(estimates.matrix(run).get(name) or []) for name in ("gtd", number))
        )

    def of_samples(run: Record) -> float | None:
        graph = run["metrics"]["graph"]
        return fisher(graph.get("gtd") or [], graph.get(sampled) or [])

    def over_heads(runs: Sequence[Record]) -> float:
        # the error of z
        return 1 / sqrt(np.median([np.size(estimates.matrix(run)["gtd"]) for run in runs]) - 3)

    def measure(
        z: Callable[[Record], float | None], part: str, key: str, without: str = ""
    ) -> Iterator[Measurement]:
        among = [algorithm for algorithm in labels.PAPER_ALGORITHMS if algorithm != without]
        rows = over_seeds(
            studies,
            "attention",
            lambda run: z(run) if run["parameters"]["algorithm"] in among else None,
            where=ON_RACE,
            part=part,
            key=key,
            lend=False,
            paper=lambda model: studies.paper.claim(printed),
            aside=(key, without) != ("heads", ""),
            without=without,
            least=over_heads,
            method=NO_SURER.format("heads"),
        )
        return (on_scale(row, np.tanh, "Fisher's z") for row in rows)

    yield from measure(of_heads, "heads", "heads")
    without = measure(of_heads, "heads, without ElemMul", "heads", "elemmul")
    yield from (row for row in without if row.study in studies.of("attention", algorithm="elemmul"))
    yield from measure(of_samples, "heads × samples", "samples") if sampled else ()


def fisher(x: Sequence[float | None], y: Sequence[float | None]) -> float | None:
    """Return Fisher's z of Pearson's r of the defined pairs; None of fewer than three or where one
    side is constant.
    """
    r = pd.Series(x, dtype=float).corr(pd.Series(y, dtype=float), min_periods=3)
    return None if np.isnan(r) else float(np.arctanh(r))


def dense(studies: Studies) -> Iterator[Measurement]:
    """Spread of clustering among the quarter of graphs with the lowest betweenness, over that with
    the highest.

    A path of one hop adds nothing to betweenness, so the lowest is of the densest graphs; the
    density was not kept. The ratio is that of means over algorithms, some of which have no spread.
    """

    def spreads(run: Record) -> list[float] | None:
        graph = run["metrics"]["graph"]
        if not graph.get("clustering"):
            return None
        clustering, between = (
            np.array(graph[key], dtype=float) for key in ("clustering", "betweenness")
        )
        few, many = np.nanquantile(between, (0.25, 0.75))
        return [np.nanstd(clustering[chosen]) for chosen in (between <= few, between >= many)]

    def ratio(spreads: np.ndarray) -> float:
        return spreads[0] / spreads[1] if spreads[1] else nan

    rows = over_seeds(
        studies, "attention", spreads, where=ON_RACE, of_mean=ratio, lend=False, post_hoc=True
    )
    return (on_scale(row, lambda value: max(value, 0.0), "none below zero") for row in rows)


def undefined(studies: Studies) -> Iterator[Measurement]:
    """Share of a model's heads with an undefined clustering on any sample; a run's heads are no
    draws of their own.
    """
    for study, model, every in studies.cells("attention", **ON_RACE):
        runs = [run for run in every if run["metrics"]["nan"]]
        heads = [np.size(estimates.matrix(run)["gtd"]) for run in runs]
        undefined = [
            (run["metrics"]["nan"].get("refined") or {}).get("clustering_barrat", 0) for run in runs
        ]
        if runs and all(heads):
            # at most one head per undefined number
            shares = np.minimum(1, np.divide(undefined, heads))
            found, method = (
                Estimate(float(shares.mean()), 0, 1, len(runs)),
                "Clopper-Pearson, a run as one draw",
            )
            ends = partial(_of_shares, shares)
            yield measured(study, model, found, runs=runs, of="run", method=method, interval=ends)


def _of_shares(shares: np.ndarray, level: float) -> tuple[float, float]:
    """Interval of the mean of shares: as if each were 0 or 1, for no shares of that mean vary
    more.
    """
    total, count, tail = shares.sum(), len(shares), (1 - level) / 2
    low = stats.beta.ppf(tail, total, count - total + 1) if total > 0 else 0.0
    return float(low), float(
        stats.beta.ppf(1 - tail, total + 1, count - total)
    ) if total < count else 1.0


def over_checkpoints(studies: Studies, task: str, printed: str) -> Iterator[Measurement]:
    """r of GTD and a score over the checkpoints of a run, as Table 6 and Figure 3 have it; one seed
    is descriptive.
    """
    paper = studies.paper.value(6, gtd_kind="Single GTD", task=printed)
    stage, rows = "pretrain" if task == "wikitext" else "finetune", []
    for study, model, runs in studies.cells(stage):
        points = trajectories.checkpoints(runs, model, task)
        if (r := trajectories.on_fisher_scale(points)) is not None:
            facts = {"records": tuple(dict.fromkeys(points["run"])), "paper": paper}
            facts["method"] = NO_SURER.format("checkpoints") if r.seeds > 1 else ALONE
            rows.append(
                measured(study, model, r if r.seeds > 1 else Estimate.of(r.value, None, 1), **facts)
            )
    several = any(row.n > 1 for row in rows)
    return (
        on_scale(replace(row, aside=several and row.n == 1), np.tanh, "Fisher's z") for row in rows
    )


def heads_in_range(
    studies: Studies, low: float, high: float, inside: bool
) -> Iterator[Measurement]:
    """r, over pretraining runs, of log perplexity and the share of heads whose GTD lies inside or
    outside a range.

    GTD on RACE-Middle, per head. Beside it without ElemMul, whose GTD is far above that of all
    others.
    """
    for study, model, runs in studies.cells("attention", **ON_RACE):
        trained = {
            tuple(map(run["parameters"].get, PRETRAINED)): run
            for run in studies.of("pretrain").get(study, [])
        }
        points = []
        for run in runs:
            if before := trained.get(tuple(map(run["parameters"].get, PRETRAINED))):
                heads = np.ravel(estimates.matrix(run)["gtd"])
                share = np.mean(((heads >= low) & (heads <= high)) == inside)
                points.append((run, before, share, np.log(before["metrics"]["perplexity"])))
        for without in ("", "elemmul")[
            : 1 + (study in studies.of("attention", algorithm="elemmul"))
        ]:
            chosen = [point for point in points if point[0]["parameters"]["algorithm"] != without]
            part = "share of heads" + (
                f", without {labels.algorithm_title(without)}" if without else ""
            )
            yield from _across(
                study, model, part, chosen, aside=bool(without), without=without, post_hoc=True
            )


def _across(
    study: str, model: str, part: str, points: Sequence[tuple], **given: Any
) -> Iterator[Measurement]:
    """r over points (run, record that lends it a number, x, y) without what algorithm and seed
    explain of either.

    Nothing where too few are left, and no interval where more than half of the runs have one x: the
    others, which may be of one algorithm, are then all that r is of.
    """
    runs, lenders, *series = zip(*points) if points else [()] * 4
    try:
        found = across_runs(
            *series, [[run["parameters"][key] for run in runs] for key in ("algorithm", "seed")]
        )
    except ValueError:
        return
    alike = max(map(series[0].count, series[0])) > len(runs) / 2
    error = (
        Error.of(1 / sqrt(found.effective - 3), inf) if found.effective > 3 and not alike else None
    )
    z = Estimate.of(float(np.arctanh(np.clip(found.r, -NEARLY_ONE, NEARLY_ONE))), error, len(runs))
    facts = {
        "of": "run",
        "method": "Fisher's z over runs",
        "runs": [*runs, *filter(None, lenders)],
        "error": None,
    }
    yield on_scale(
        measured(study, model, z, part, **facts | given), np.tanh, "algorithm and seed taken out"
    )


def accurate(studies: Studies) -> Iterator[Measurement]:
    """r of RACE-Middle accuracy over runs with GTD, indirect entropy and minus betweenness."""
    for study, model, tuned in studies.cells("finetune"):
        points = []
        for run in studies.of("attention", model=model, **ON_RACE).get(study, []):
            algorithm, seed = (run["parameters"][key] for key in ("algorithm", "seed"))
            scores = task_scores.by_pretraining(
                task_scores.scores(tuned, model, algorithm, GRAPHS_OF)
            )
            points += [(run, one.value) for one in scores if one.key[0] == seed]
        for name, (title, sign) in BESIDE_ACCURACY.items():
            means = [estimates.nested_mean(estimates.matrix(run).get(name)) for run, _ in points]
            each = zip(points, sign * pd.Series(means, dtype=float))
            points_of = [(run, None, mean, score) for (run, score), mean in each]
            yield from _across(study, model, title, points_of, key=name)
