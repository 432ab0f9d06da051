"""Measurements of the planned questions: the gain by hops and its cause, and High in a public
encoder.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

from companion.beyond import accuracy_by_hops, plan
from companion.setup import labels
from companion.statistics import Estimate, mean_interval, sign_flip_interval
from companion.statistics.seeds import SIDES, branch_gaps, metric, seed_gaps
from companion.verdicts.claims_and_measurements import PUBLIC, STORIES, Measurement, measured
from companion.verdicts.studies import Studies

# seeds of notebook 12 at each reading: all algorithms, once on the way, the end
READ = (5, 13, 21)
PAIRED = "Student's t over seeds, with the error over questions"
AFTER, DURING = "after training", "mean over the checks of training"
NOT_NORMAL = "sign-flip interval"


def exams(studies: Studies) -> Iterator[tuple[bool, dict[str, Any], list[dict[str, Any]]]]:
    """Yield the exams of known hops: whether it was planned, its study and its records, its
    runs.
    """
    known = [
        (False, name, [record]) for name, found in studies.of("beyond").items() for record in found
    ]
    known += [
        (True, name, accuracy_by_hops.planned(found)) for name, found in studies.of("hops").items()
    ]
    for planned, study, read in known:
        if runs := [run for record in read for run in record["metrics"].get("multihop") or ()]:
            yield planned, {"study": study, "model": "", "scope": STORIES, "runs": read}, runs


def gain(studies: Studies) -> Iterator[Measurement]:
    """High − Original at two hops and more; beside it the controls, how soon, and an interval
    without normality.

    The planned study decides by the mean over the checks of training, as its plan says; notebook
    12, which was read three times, by the end.
    """
    for planned, common, runs in exams(studies):
        end, course = accuracy_by_hops.gain(runs), accuracy_by_hops.gain_along(runs)
        if end is None or course is None:
            continue
        read = partial(_read, planned, common)
        first = read(end[0], AFTER, key="after", method=PAIRED, aside=planned, post_hoc=not planned)
        soon = read(course[0], DURING, key="during", aside=not planned, post_hoc=not planned)
        yield from (soon, first) if planned else (first.at_reading(READ, planned=False), soon)
        for name, against in (("high", "uniform"), ("uniform", "original"), ("high", "sinkhorn")):
            if found := accuracy_by_hops.gain(runs, name, against):
                part = f"{labels.algorithm_title(name)} − {labels.algorithm_title(against)} {AFTER}"
                yield read(found[0], part, key=f"{name}-{against}", method=PAIRED, aside=True)
        by_seed = [*(course if planned else end)[1].values()]
        facts = {
            "interval": partial(sign_flip_interval, by_seed),
            "method": NOT_NORMAL,
            "key": "signs",
            "aside": True,
        }
        row = measured(found=mean_interval(by_seed), part=NOT_NORMAL, **facts, **common)
        yield row.at_reading(analyses("hops") if planned else READ, planned=planned)


def cause(studies: Studies) -> Iterator[Measurement]:
    """High − Sinkhorn, which balances the keys' load and passes no messages; over training where
    the plan says so.

    High − Shuffled stands aside: by the algebra the two are equal, so it checks the code and is no
    evidence.
    """
    for planned, common, runs in exams(studies):
        if planned and (course := accuracy_by_hops.gain_along(runs, "high", "sinkhorn")):
            yield _read(planned, common, course[0], DURING, key="during")
        for against, part in (
            ("sinkhorn", AFTER),
            ("shuffled", "High − Shuffled, equal by the algebra"),
        ):
            if found := accuracy_by_hops.gain(runs, "high", against):
                facts = {"key": f"high-{against}", "method": PAIRED, "post_hoc": not planned}
                facts |= {"aside": planned or against == "shuffled"}
                yield _read(planned, common, found[0], part, **facts)


def _read(
    planned: bool, common: dict[str, Any], found: Estimate, part: str, **facts: Any
) -> Measurement:
    """A measurement of an exam that `exams` yields; of the planned one its interval is at the level
    of its analysis.
    """
    row = measured(found=found, part=part, **facts, **common)
    return row.at_reading(analyses("hops")) if planned else row


def analyses(study: str) -> list[int]:
    """Return the seeds at each reading of a planned study."""
    return plan.studies()[study].primary.readings


def fine_tuned(studies: Studies) -> Iterator[Measurement]:
    """Mean over the plan's tasks after fine-tuning, High − Original, of the seeds that have all
    tasks in both arms.
    """
    tasks = plan.studies()["retrofit"].model_extra["tasks"]
    for study, runs in studies.of("retrofit").items():
        own = [
            run
            for run in runs
            if run["parameters"]["task"] in tasks and run["parameters"]["arm"] in SIDES
        ]
        gaps = seed_gaps(own, metric("headline"), by="arm", tasks=len(tasks))
        if len(gaps) > 1:
            found = mean_interval([*gaps.values()])
            row = measured(study, "minilm", found, "six GLUE tasks", scope=PUBLIC, runs=own)
            yield row.at_reading(analyses("retrofit"))


def branches(studies: Studies) -> Iterator[Measurement]:
    """Held-out loss after the branch, High − Original of the same trunk; aside the control that
    passes no messages.
    """
    for study, runs in studies.of("branched").items():
        facts = {"runs": runs, "method": "Student's t over trunks", "of": "trunk"}
        model, gaps = runs[0]["parameters"]["model"], [*branch_gaps(runs).values()]
        yield measured(study, model, mean_interval(gaps), **facts).at_reading(analyses("branched"))
        if control := [*branch_gaps(runs, ("uniform", "original")).values()]:
            facts |= {"key": "uniform", "aside": True}
            yield measured(study, model, mean_interval(control), "Uniform − Original", **facts)


def untrained(studies: Studies) -> Iterator[Measurement]:
    """Similarity of sentences with High inserted at the plan's strength and nothing trained;
    interval over pairs.
    """
    strength = plan.studies()["retrofit"].model_extra["arms"]["high"]["strength"]
    found = studies.of("retrofit-untrained", model="minilm")
    for study, run in ((study, run) for study, runs in found.items() for run in runs):
        arms = {(arm["factor"], arm["strength"]): arm for arm in run["metrics"]["similarity"]}
        high = arms["high", strength]
        found = Estimate(high["difference"], *high["interval"], run["metrics"]["pairs"])
        facts = {"of": "pair", "method": "interval over pairs", "scope": PUBLIC}
        # post hoc: the plan's departures say that a first look came before it
        yield measured(study, "minilm", found, "STS-B", runs=[run], post_hoc=True, **facts)
