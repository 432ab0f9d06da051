"""Measurements of time: what the refinement costs beside eager and beside fused attention."""

from saobp.study.setup import labels
from saobp.study.statistics import median_interval
from saobp.study.verdicts.model import Measurement, measured
from saobp.study.verdicts.studies import Studies


def ratio(studies: Studies, phase: str, to: str) -> list[Measurement]:
    """Median ratio of a training step's times, round by round, with the interval of the median.

    Where the ratio is that to Original's kernel, that kernel must be a fused one.
    """
    rows = []
    for study, runs in studies.of("cost").items():
        for run in runs:
            ways, model = run["metrics"]["ways"], run["parameters"]["model"]
            found = ways["high"][phase].get(to)
            if found and (to != "ratio" or ways["original"][phase].get("kernel")):
                keys = {"model": labels.published_model(model), "phase": "train", "metric": "step_per_s (ms)"}
                high, original = (studies.paper.value(9, algorithm=side, **keys) for side in ("High", "Original"))
                estimate = median_interval(found["low"], found["median"], found["high"], run["metrics"]["repeats"])
                facts = {"of": "rounds", "method": "median, error from quartiles", "records": (run["name"],)}
                rows.append(measured(study, model, estimate, paper=high / original, **facts))
    return rows
