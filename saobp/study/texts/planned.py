"""The plan beside the results: a study's endpoint and margin, and which of the five outcomes its measurement gives."""

from math import isnan

from saobp.study.setup import plan
from saobp.study.setup.plan import Primary, Study
from saobp.study.statistics import Estimate


def study(name: str) -> Study:
    """Return a planned study by its name in the plan."""
    return plan.read(plan.file()).studies[name]


def outcome(found: Estimate | None, primary: Primary) -> str:
    """Return which outcome a measurement gives: a key of the study's `outcomes`, "not run" or "not complete".

    The interval decides: on the claimed side of 0 "supported", on the other "contradicted", around 0 and within the
    margin "no effect", else "imprecise". A study that lacks seeds is "not complete".
    """
    if found is None or found.seeds < primary.seeds:
        return "not run" if found is None else "not complete"
    if isnan(found.low):
        return "imprecise"
    low, high = sorted((found.low * primary.direction, found.high * primary.direction))
    if low > 0:
        return "supported"
    if high < 0:
        return "contradicted"
    return "no effect" if max(-low, high) <= primary.margin else "imprecise"
