"""Measurements on questions of known hops: the gain, when it comes, and its cause."""

from collections.abc import Iterator
from math import nan
from typing import Any

import numpy as np

from saobp.study.beyond import gain_on_hops
from saobp.study.setup import labels, plan
from saobp.study.statistics import Estimate, bca_interval, sign_flip_interval
from saobp.study.verdicts.model import STORIES, Measurement, fixed, measured
from saobp.study.verdicts.studies import Studies

READ = (5, 13, 21)  # seeds of notebook 12 at each reading: all algorithms, once on the way, the end
FIXED = {"model": "", "scope": STORIES}
PAIRED = "Student's t over seeds, with the error over questions"
AFTER, DURING = "after training", "mean over the checks of training"
NOT_NORMAL = {"sign-flip interval": sign_flip_interval, "BCa interval": bca_interval}
ENOUGH = 10  # seeds from which on BCa is shown


def exams(studies: Studies) -> Iterator[tuple[bool, dict[str, Any], list[dict[str, Any]]]]:
    """Yield the exams of known hops: whether it was planned, its study and its records' names, its runs."""
    for study, records in studies.of("beyond").items():
        for record in records:
            if runs := record["metrics"].get("multihop"):
                yield False, {"study": study, "records": (record["name"],)} | FIXED, runs
    for study, records in studies.of("hops").items():
        read = gain_on_hops.read(records)
        runs = [run for record in read for run in record["metrics"]["multihop"]]
        yield True, {"study": study, "records": tuple(record["name"] for record in read)} | FIXED, runs


def gain(studies: Studies) -> list[Measurement]:
    """High − Original at two hops and more; beside it the controls, how soon, and intervals without normality.

    The planned study decides by the mean over the checks of training, as its plan says; notebook 12, which was read
    three times, by the end.
    """
    rows = []
    for planned, common, runs in exams(studies):
        end, course = gain_on_hops.difference(runs), gain_on_hops.along(runs)
        if end is None or course is None:
            continue
        first = measured(found=end[0], part=AFTER, method=PAIRED, aside=planned, **common)
        soon = measured(found=course[0], part=DURING, aside=not planned, post_hoc=not planned, **common)
        if planned:
            rows += [soon.at_reading(analyses()), first]
        else:
            rows += [first.at_reading(READ, planned=False), soon]
        for name, against in (("high", "uniform"), ("uniform", "original"), ("high", "sinkhorn")):
            if found := gain_on_hops.difference(runs, name, against):
                part = f"{labels.algorithm_title(name)} − {labels.algorithm_title(against)} {AFTER}"
                rows.append(measured(found=found[0], part=part, method=PAIRED, aside=True, **common))
        by_seed = [*(course if planned else end)[1].values()]
        for name, interval in NOT_NORMAL.items() if len(by_seed) >= ENOUGH else ():
            mean = Estimate(float(np.mean(by_seed)), nan, nan, len(by_seed))
            ends = fixed(*interval(by_seed))
            rows.append(measured(found=mean, part=name, interval=ends, method=name, aside=True, **common))
    return rows


def cause(studies: Studies) -> list[Measurement]:
    """High − Sinkhorn, which balances the keys' load and passes no messages.

    High − Shuffled stands aside: by the algebra the two are equal, so it checks the code and is no evidence.
    """
    rows = []
    parts = {"sinkhorn": "High − Sinkhorn", "shuffled": "High − Shuffled, equal by the algebra"}
    for planned, common, runs in exams(studies):
        for control, part in parts.items():
            if found := gain_on_hops.difference(runs, "high", control):
                facts = {"method": PAIRED, "post_hoc": not planned, "aside": control == "shuffled"}
                row = measured(found=found[0], part=part, **facts, **common)
                rows.append(row.at_reading(analyses()) if planned else row)
    return rows


def analyses() -> list[int]:
    """Return the seeds at each analysis of the planned study."""
    return plan.read(plan.file()).studies["hops"].primary.analyses
