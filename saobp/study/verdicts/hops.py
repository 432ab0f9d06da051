"""Measurements on questions of known hops: the gain, when it comes, and its cause."""

from typing import Any

import numpy as np

from saobp.study.beyond import accuracy_by_hops, gain_on_hops
from saobp.study.setup import labels, plan
from saobp.study.statistics import bca_interval, mean_interval, sign_flip_interval
from saobp.study.verdicts.model import STORIES, Measurement, fixed, measured
from saobp.study.verdicts.studies import SEEDS, Record, Studies

READ = (5, 13, 21)  # seeds of notebook 12 at each reading: all algorithms, once on the way, the end
WIDTH = 64  # of the planned study's primary endpoint
PLANNED = "hops"  # its stage
PAIRED = "Student's t over seeds, with the error over questions"
ENOUGH = 10  # seeds from which on BCa is shown


def exams(studies: Studies) -> list[tuple[str, tuple[str, ...], list[dict[str, Any]]]]:
    """Return the runs of each study of known hops: (study, names of its records, runs)."""
    found = []
    for study, records in studies.of("beyond").items():
        for record in records:
            if runs := record["metrics"].get("multihop"):
                found.append((study, (record["name"],), runs))
    for study, records in studies.of(PLANNED).items():
        usual = [record for record in records if record["parameters"]["width"] == WIDTH]
        runs = [run for record in usual for run in record["metrics"]["multihop"]]
        found += [(study, tuple(record["name"] for record in usual), runs)] * bool(runs)
    return found


def gain(studies: Studies) -> list[Measurement]:
    """High − Original at two hops and more; beside it the controls, how soon, and intervals without normality.

    The planned study decides by the mean over the checks of training, as its plan says; notebook 12, which was read
    three times, by the end.
    """
    rows = []
    for study, names, runs in exams(studies):
        planned = _is_planned(studies.records[study])
        end, course = gain_on_hops.difference(runs), along(runs)
        if end is None or course is None:
            continue
        primary = course[0] if planned else end[0]
        by_seed = [*(course[1] if planned else end[2]).values()]
        common = {"records": names, "method": PAIRED}
        analyses = plan.read(plan.file()).studies["hops"].primary.analyses if planned else READ
        first = measured("multihop-gain", _title(planned), STORIES, study, primary,
                         **common | {"method": SEEDS if planned else PAIRED})  # fmt: skip
        rows.append(first.at_last_reading(analyses))
        beside = common | {"aside": True}
        other = end[0] if planned else course[0]
        rows.append(measured(
            "multihop-gain", _title(not planned), STORIES, study, other, post_hoc=not planned,
            **beside | {"method": SEEDS if other is course[0] else PAIRED},
        ))  # fmt: skip
        for name, against in (("high", "uniform"), ("uniform", "original"), ("high", "sinkhorn")):
            if found := gain_on_hops.difference(runs, name, against):
                part = f"{labels.algorithm_title(name)} − {labels.algorithm_title(against)} after training"
                rows.append(measured("multihop-gain", part, STORIES, study, found[0], **beside))
        rows += _without_normality(first, by_seed, study) if len(by_seed) >= ENOUGH else []
    return rows


def cause(studies: Studies) -> list[Measurement]:
    """High − Sinkhorn, which balances the keys' load and passes no messages.

    High − Shuffled stands aside: by the algebra the two are equal, so it checks the code and is no evidence.
    """
    rows = []
    for study, names, runs in exams(studies):
        common = {"records": names, "method": PAIRED, "post_hoc": not _is_planned(studies.records[study])}
        if found := gain_on_hops.difference(runs, "high", "sinkhorn"):
            rows.append(measured("multihop-cause", "High − Sinkhorn", STORIES, study, found[0], **common))
        if found := gain_on_hops.difference(runs, "high", "shuffled"):
            part = "High − Shuffled, equal by the algebra"
            rows.append(measured("multihop-cause", part, STORIES, study, found[0], aside=True, **common))
    return rows


def along(runs: list[dict[str, Any]], name: str = "high", against: str = "original"):
    """Return the difference of the mean over all checks of training, hops and depths, and that of each seed."""
    frame = accuracy_by_hops.curves(runs).query("hops > 1")
    means = frame.groupby(["algorithm", "seed"])["accuracy"].mean().unstack("algorithm")
    if not {name, against} <= set(means):
        return None
    gaps = (means[name] - means[against]).dropna()
    return (mean_interval(gaps.tolist()), gaps.to_dict()) if len(gaps) else None


def _title(course: bool) -> str:
    return "mean over the checks of training" if course else "after training"


def _is_planned(records: list[Record]) -> bool:
    return any(record["stage"] == PLANNED for record in records)


def _without_normality(first: Measurement, values: list[float], study: str) -> list[Measurement]:
    mean = float(np.mean(values))
    found = {"sign-flip interval": sign_flip_interval(values), "BCa interval": bca_interval(values)}
    return [
        Measurement(
            "multihop-gain",
            name,
            STORIES,
            study,
            mean,
            fixed(*ends),
            len(values),
            "seeds",
            name,
            first.records,
            aside=True,
        )
        for name, ends in found.items()
    ]


MEASURES = {"multihop-gain": gain, "multihop-cause": cause}
