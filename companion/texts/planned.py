"""The plan beside the results: a study's endpoint and margin, and which of the five outcomes its
measurement gives.
"""

from dataclasses import replace

from companion.beyond import plan
from companion.beyond.plan import Planned, Primary
from companion.statistics import Estimate, level_at
from companion.statistics.intervals import LEVEL
from companion.verdicts import outcomes
from companion.verdicts.claims_and_measurements import Claim, measured


def study(name: str) -> Planned:
    """Return a planned study by its name in the plan."""
    return plan.studies()[name]


def outcome(found: Estimate | None, primary: Primary, *, tests: bool = False) -> str:
    """Return which outcome a measurement gives: a key of the study's `outcomes`, "not run" or "not
    complete".

    By the plan's rule the 95 % interval, at the level of its reading, lies beyond zero or within
    the margin; by two one-sided `tests` at 5 %, as of a claim, the 90 % interval does. Before the
    last reading a study that is neither supported nor contradicted is "not complete". A ratio
    without a direction is to stay within the margin of 1.
    """
    if found is None:
        return "not run"
    seeds = min(found.seeds, primary.seeds)
    if seeds not in primary.readings:
        return "not complete"
    asked = {
        "direction": primary.direction,
        "reference": float(primary.direction == 0),
        "margin": primary.margin,
    }
    part = measured("", "", found, n=seeds).at_reading(primary.readings)
    claim = Claim.model_construct(**asked, rule="one")
    outcome = outcomes.decide(claim, [part], tail=LEVEL if tests else LEVEL / 2)
    if found.seeds < primary.seeds and outcome not in (outcomes.SUPPORTED, outcomes.CONTRADICTED):
        return "not complete"
    return "no effect" if outcome == outcomes.NO_EFFECT else outcome


def seeds_to_decide(found: Estimate, primary: Primary) -> int | None:
    """Return from how many seeds on the plan's rule would decide, if estimate and spread stay and
    it is read once.

    Those that there are, where only the widening keeps them from it; None where no number below
    10,000 would do.
    """
    away = abs(found.value - (primary.direction == 0))
    room = max(away, primary.margin - away) if primary.direction else abs(primary.margin - away)
    more = range(found.seeds, outcomes.MOST_SEEDS) if found.error else ()
    return next((n for n in more if found.error.with_seeds(found.seeds, n).reach() < room), None)


def widened(found: Estimate, primary: Primary, level: float = 0.95) -> Estimate:
    """Return a measurement, its interval at the level of its reading; between two, or without an
    error, as it is.
    """
    level = level_at(primary.readings, min(found.seeds, primary.seeds), level)
    if found.error is None or level is None:
        return found
    reach = found.error.reach(level)
    return replace(found, low=found.value - reach, high=found.value + reach)
