"""The plan beside the results: a study's endpoint and margin, and which of the five outcomes its measurement gives."""

from dataclasses import replace
from math import isnan

from saobp.study.beyond import plan
from saobp.study.beyond.plan import Planned, Primary
from saobp.study.statistics import Estimate, level_at


def study(name: str) -> Planned:
    """Return a planned study by its name in the plan."""
    return plan.studies()[name]


def outcome(found: Estimate | None, primary: Primary) -> str:
    """Return which outcome a measurement gives: a key of the study's `outcomes`, "not run" or "not complete".

    The interval decides, at the level of its analysis: on the claimed side of 0 "supported", on the other
    "contradicted"; at the last analysis around 0 and within the margin "no effect", else "imprecise". Before, and
    between two analyses, a study is "not complete". A ratio without a direction is "supported" within the margin of 1.
    """
    if found is None:
        return "not run"
    if min(found.seeds, primary.seeds) not in primary.analyses:
        return "not complete"
    if isnan(found.low):
        return "imprecise"
    ends = widened(found, primary)
    if primary.direction == 0:  # a ratio that is to stay within the margin of one
        low, high = ends.low - 1, ends.high - 1
        within, beyond = max(-low, high) <= primary.margin, max(low, -high) > primary.margin
        return "supported" if within else "contradicted" if beyond else "imprecise"
    low, high = sorted((ends.low * primary.direction, ends.high * primary.direction))
    if low > 0:
        return "supported"
    if high < 0:
        return "contradicted"
    if found.seeds < primary.seeds:
        return "not complete"
    return "no effect" if max(-low, high) <= primary.margin else "imprecise"


def widened(found: Estimate, primary: Primary) -> Estimate:
    """Return a measurement, its interval at the level of its analysis; between two, or without an error, as it is."""
    level = level_at(primary.analyses, min(found.seeds, primary.seeds))
    if found.error is None or level is None:
        return found
    reach = found.error.reach(level)
    return replace(found, low=found.value - reach, high=found.value + reach)
