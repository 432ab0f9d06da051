"""Rows of GTD beside other numbers: graph measures over heads, performance over checkpoints."""

from collections.abc import Iterator, Sequence
from math import sqrt

import numpy as np
import pandas as pd

from companion.records.schema import Record
from companion.results.row import Endpoint, Row
from companion.results.study import Study
from companion.setup import labels
from companion.setup.tasks_and_metrics import GRAPHS_OF
from companion.statistics import Estimate, estimates, mean_interval, trajectories
from companion.statistics.trajectories import FOLLOWED

GRAPHS = {
    "clustering_barrat": Endpoint("GTD and clustering (Barrat)", "r", 1),
    "clustering_onnela": Endpoint("GTD and clustering (Onnela)", "r", 1),
    "betweenness": Endpoint("GTD and betweenness", "r", -1),
}
# the sign that the paper prints for each
PERFORMANCE = {
    "wikitext": Endpoint("GTD and perplexity", "r", -1),
    "sst2": Endpoint("GTD and SST2", "r", 1),
    "hellaswag": Endpoint("GTD and HellaSwag", "r", 1),
    "race": Endpoint("GTD and RACE-Middle", "r", 1),
}
CROSS = Endpoint("cross-layer GTD and perplexity", "r", -1)
NO_STRUCTURE = Endpoint("GTD without structure", "")
HEADS, CHECKPOINTS = "over heads", "over checkpoints"
# the discount of a step (Sec. 5)
BETA = 0.9


def rows(study: Study) -> Iterator[Row]:
    """Yield the rows of a study's GTD, one model after the other."""
    for stage in ("attention", "pretrain", "finetune"):
        models = study.models(stage)
        for model in models:
            runs = study.runs(stage, model=model)
            suffix = f", {labels.model_title(model)}" if len(models) > 1 else ""
            if stage == "attention":
                yield from _graphs(study, runs, suffix)
            else:
                yield from _performance(study, runs, suffix)


def _graphs(study: Study, runs: Sequence[Record], suffix: str) -> Iterator[Row]:
    """Yield r of GTD and each graph measure over the heads of a run, the mean over the paper's
    algorithms of each seed.

    On Fisher's scale; the interval is Student's over seeds, no narrower than the heads of a run
    allow.
    """
    model = runs[0]["parameters"]["model"]
    selected = [run for run in runs if run["parameters"]["task"] == GRAPHS_OF]
    selected = [
        run for run in selected if run["parameters"]["algorithm"] in labels.PAPER_ALGORITHMS
    ]
    for measure, endpoint in GRAPHS.items():
        by_seed: dict[int, list[float]] = {}
        for run in selected:
            z = fisher(run, measure)
            if z is not None:
                by_seed.setdefault(run["parameters"]["seed"], []).append(z)
        if not by_seed:
            continue
        heads = np.median([np.size(estimates.matrix(run)["gtd"]) for run in selected])
        named = endpoint.of(suffix)
        yield study.row(named, HEADS, over_heads(list(by_seed.values()), heads), model)


def over_heads(by_seed: Sequence[Sequence[float]], heads: float) -> Estimate:
    """Return the mean r of several seeds, each with Fisher's z of its runs over so many heads."""
    least = 1 / sqrt((heads - 3) * len(by_seed))
    means = [float(np.mean(values)) for values in by_seed]
    return as_r(mean_interval(means, least=least))


def fisher(run: Record, measure: str) -> float | None:
    """Return Fisher's z of GTD and a graph measure over the heads of a run; None where it is not
    defined.
    """
    matrix = estimates.matrix(run)
    gtd = pd.Series(np.ravel(matrix.get("gtd") or []), dtype=float)
    values = pd.Series(np.ravel(matrix.get(measure) or []), dtype=float)
    r = gtd.corr(values, min_periods=3)
    return None if np.isnan(r) else float(np.arctanh(r))


def as_r(estimate: Estimate) -> Estimate:
    """Return an estimate on Fisher's scale as a correlation, with the p-value that it has there."""
    value, low, high = np.tanh([estimate.value, estimate.low, estimate.high]).tolist()
    return Estimate(value, low, high, estimate.seeds, estimate.items, sign_test=estimate.p)


def _performance(study: Study, runs: Sequence[Record], suffix: str) -> Iterator[Row]:
    """Yield r of GTD and performance over the checkpoints of a run, the mean of each seed's runs."""
    model = runs[0]["parameters"]["model"]
    trained = runs[0]["stage"] == "pretrain"
    for task in FOLLOWED:
        if (task == "wikitext") != trained:
            continue
        points = trajectories.checkpoints(runs, model, task)
        named = PERFORMANCE[task].of(suffix)
        estimate = trajectories.on_fisher_scale(points)
        if estimate is not None:
            yield study.row(named, CHECKPOINTS, as_r(estimate), model)
        if task == "wikitext":
            cross = trajectories.on_fisher_scale(points, "cross_gtd")
            if cross is not None:
                yield study.row(CROSS.of(suffix), CHECKPOINTS, as_r(cross), model)


def without_structure() -> Iterator[Row]:
    """Yield GTD of uniform attention, the identity and a full sink, which all have A² = A.

    Then every power of A is A, the paths of two to four steps sum to (β + β² + β³) A, and GTD is the
    share of their square in that of both (Eq. 13).
    """
    study = Study("algebra", (), data="algebra")
    paths = sum(BETA**hops for hops in range(1, 4))
    share = paths**2 / (1 + paths**2)
    yield study.level(NO_STRUCTURE, "uniform, identity, full sink", share)
