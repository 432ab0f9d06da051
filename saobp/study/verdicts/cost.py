"""Measurements of time: what the refinement costs beside eager and beside fused attention."""

from functools import partial

from saobp.study.setup import labels
from saobp.study.statistics import median_interval
from saobp.study.verdicts.model import PAPER, SCALED, Measurement, measured
from saobp.study.verdicts.studies import Record, Studies

TRAINING = {True: "train_no_dropout", False: "train"}  # by whether Original's kernel is fused (CPU)


def ratio(claim: str, fused: bool, studies: Studies) -> list[Measurement]:
    """Median ratio of a training step's times, round by round, with the interval of the median."""
    rows = []
    for study, runs in studies.of("cost").items():
        for run in runs:
            ways, phase = run["metrics"]["ways"], TRAINING[fused]
            found = ways["high"][phase].get("ratio" if fused else "ratio_to_eager")
            if found and (bool(ways["original"][phase].get("kernel")) or not fused):
                rows.append(_row(claim, study, run, found, studies))
    return rows


def _row(claim: str, study: str, run: Record, found: dict[str, float], studies: Studies) -> Measurement:
    model, rounds = run["parameters"]["model"], run["metrics"]["repeats"]
    estimate = median_interval(found["low"], found["median"], found["high"], rounds)
    high, original = (
        studies.paper.value(
            9, model=labels.published_model(model), algorithm=name, phase="train", metric="step_per_s (ms)"
        )
        for name in ("High", "Original")
    )
    facts = {"of": "rounds", "method": "median, error from quartiles", "records": (run["name"],)}
    scope = SCALED if labels.is_twin(model) else PAPER
    return measured(claim, labels.model_title(model), scope, study, estimate, paper=high / original, **facts)


MEASURES = {"cost-eager": partial(ratio, "cost-eager", False), "cost-fused": partial(ratio, "cost-fused", True)}
