"""Measurements of the refinement inserted into a public encoder that has learned."""

from functools import partial

from scipy import stats

from saobp.study.setup import plan
from saobp.study.statistics import Estimate, mean_interval
from saobp.study.verdicts.model import NORMAL, PUBLIC, Measurement, measured
from saobp.study.verdicts.studies import Studies, seed_gaps


def fine_tuned(studies: Studies) -> list[Measurement]:
    """Mean over the plan's tasks after fine-tuning, High − Original, of the seeds that have all tasks in both arms."""
    section = plan.read(plan.file()).studies["retrofit"]
    tasks, rows = section.model_extra["tasks"], []
    for study, runs in studies.of("retrofit").items():
        own = [run for run in runs if run["parameters"]["task"] in tasks]
        gaps = seed_gaps(own, lambda run: run["metrics"].get("headline"), by="arm", tasks=len(tasks))
        if len(gaps) > 1:
            facts = {"scope": PUBLIC, "records": tuple(run["name"] for run in runs)}
            found = measured(study, "", mean_interval([*gaps.values()]), "six GLUE tasks, MiniLM", **facts)
            rows.append(found.at_reading(section.primary.analyses))
    return rows


def untrained(studies: Studies) -> list[Measurement]:
    """Similarity of sentences with High inserted at the plan's strength and nothing trained; interval over pairs."""
    strength = plan.read(plan.file()).studies["retrofit"].model_extra["arms"]["high"]["strength"]
    rows = []
    for study, runs in studies.of("retrofit-untrained").items():
        for run in runs:
            for arm in run["metrics"]["similarity"]:
                if (arm["factor"], arm["strength"]) == ("high", strength):
                    found = Estimate(arm["difference"], *arm["interval"], run["metrics"]["pairs"])
                    interval = partial(_stretched, found.value, found.low, found.high)
                    facts = {"of": "pairs", "method": "interval over pairs", "records": (run["name"],)}
                    rows.append(measured(study, "", found, "STS-B, MiniLM", scope=PUBLIC, interval=interval, **facts))
    return rows


def _stretched(value: float, low: float, high: float, level: float) -> tuple[float, float]:
    """The ends at a level of a 95 % interval that need not be symmetric: each side by the normal law."""
    by = float(stats.norm.isf(0.5 - level / 2)) / NORMAL
    return value + by * (low - value), value + by * (high - value)
