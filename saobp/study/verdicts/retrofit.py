"""Measurements of the refinement inserted into a public encoder that has learned."""

from functools import partial

import numpy as np
from scipy import stats

from saobp.study.setup import plan
from saobp.study.setup.records import select
from saobp.study.statistics import mean_interval
from saobp.study.verdicts.model import NORMAL, PUBLIC, Measurement, measured
from saobp.study.verdicts.studies import Studies


def fine_tuned(studies: Studies) -> list[Measurement]:
    """Mean over the plan's tasks after fine-tuning, High − Original, of the seeds that have all tasks in both arms."""
    section = plan.read(plan.file()).studies["retrofit"]
    rows = []
    for study, runs in studies.of("retrofit").items():
        means = [_means(select(runs, arm=arm), section.model_extra["tasks"]) for arm in ("high", "original")]
        gaps = [means[0][seed] - means[1][seed] for seed in sorted(means[0].keys() & means[1].keys())]
        if len(gaps) > 1:
            names = tuple(run["name"] for run in runs)
            part, estimate = "six GLUE tasks, MiniLM", mean_interval(gaps)
            found = measured("pretrain-from-scratch", part, PUBLIC, study, estimate, records=names)
            rows.append(found.at_last_reading(section.primary.analyses))
    return rows


def _means(runs: list, tasks: list[str]) -> dict[int, float]:
    """The mean score of each seed that has every task."""
    scores: dict[int, dict[str, float]] = {}
    for run in runs:
        if run["metrics"].get("headline") is not None:
            scores.setdefault(run["parameters"]["seed"], {})[run["parameters"]["task"]] = run["metrics"]["headline"]
    return {seed: float(np.mean([*of.values()])) for seed, of in scores.items() if set(of) >= set(tasks)}


def untrained(studies: Studies) -> list[Measurement]:
    """Similarity of sentences with High inserted at the plan's strength and nothing trained; interval over pairs."""
    rows = []
    for study, runs in studies.of("retrofit-untrained").items():
        for run in runs:
            strength = plan.read(plan.file()).studies["retrofit"].model_extra["arms"]["high"]["strength"]
            arms = [
                arm for arm in run["metrics"]["similarity"] if (arm["factor"], arm["strength"]) == ("high", strength)
            ]
            for arm in arms:
                low, high = arm["interval"]
                rows.append(Measurement(
                    "pretrain-from-scratch-untrained", "STS-B, MiniLM", PUBLIC, study, arm["difference"],
                    partial(_stretched, arm["difference"], low, high), run["metrics"]["pairs"], "pairs",
                    "interval over pairs", (run["name"],),
                ))  # fmt: skip
    return rows


def _stretched(value: float, low: float, high: float, level: float) -> tuple[float, float]:
    """The ends at a level of a 95 % interval that need not be symmetric: each side by the normal law."""
    by = float(stats.norm.isf(0.5 - level / 2)) / NORMAL
    return value + by * (low - value), value + by * (high - value)


MEASURES = {"pretrain-from-scratch": fine_tuned, "pretrain-from-scratch-untrained": untrained}
