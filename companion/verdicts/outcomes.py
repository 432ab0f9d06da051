"""The five outcomes, the tests behind them, and what the claims of data/claims.yaml have.

A part holds where its interval lies beyond the reference on the claim's side. "One": a 95 %
interval. "All" is an intersection-union test (Berger 1982): each part one-sided at 5 %, without a
correction. That at least u of n parts hold is a partial conjunction (Benjamini and Heller 2008):
each part at 5 % / (n - u + 1), of which "all" is u = n. That too many fail is one as well. Where
one part alone was measured nothing is joined: it is tested as "one". No effect: two one-sided tests
at 5 % put every part within the margin.
"""

import inspect
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import isfinite, nan
from operator import attrgetter

from companion.results.row import CONTRADICTED, SUPPORTED
from companion.statistics.intervals import LEVEL
from companion.verdicts import attention, gtd, planned, scores, training
from companion.verdicts.claims_and_measurements import Claim, Measurement, claims
from companion.verdicts.studies import Studies, tracked

NO_EFFECT, IMPRECISE, NOT_RUN = (
    "no effect beyond the margin",
    "imprecise",
    "not run",
)
OUTCOMES = SUPPORTED, CONTRADICTED, NO_EFFECT, IMPRECISE, NOT_RUN
FAMILIES = {
    "attention": attention,
    "gtd": gtd,
    "planned": planned,
    "scores": scores,
    "training": training,
}
# that anybody trains
MOST_SEEDS = 10_000


@dataclass(frozen=True)
class Verdict:
    """One claim as one study of one scope decides it: from its parts; `aside` beside them."""

    claim: Claim
    scope: str
    study: str
    outcome: str
    parts: tuple[Measurement, ...] = ()
    aside: tuple[Measurement, ...] = ()

    @property
    def weakest(self) -> Measurement | None:
        """The part that holds a claim back most, in standard errors; the middle one of "most".

        Without an interval it is the one whose number does; of a claim that something stays within
        the margin the one that lies nearest to the margin, or farthest beyond it.
        """
        claim = self.claim

        def holds(part: Measurement) -> tuple[float, ...]:
            ends = _ends(claim, part, LEVEL) if part.bounded else (claim.signed(part.estimate),)
            return ends if claim.direction else (min(1 + ends[0], 1 - ends[-1]),)

        ordered = sorted(self.parts, key=holds)
        return ordered[max(0, len(ordered) - claim.needed(len(ordered)))] if ordered else None

    @property
    def left_out(self) -> int:
        """How many parts of its study were measured and say nothing, such as constant
        predictors.
        """
        return sum(row.n == 0 and row.study == self.study for row in self.aside)

    @property
    def not_run(self) -> int:
        """How many parts that the claim names were not run."""
        return max(0, self.claim.parts - len(self.parts) - self.left_out)

    @property
    def without_one(self) -> list[Measurement]:
        """The measurements of its study that leave out an algorithm or a size."""
        return [part for part in self.aside if part.without and part.study == self.study]


def decide(
    claim: Claim, parts: Sequence[Measurement], needed: int | None = None, tail: float = LEVEL
) -> str:
    """Return the outcome of a claim from the parts of one study, of which `needed` have to hold;
    only runs speak.

    `tail`: the chance beyond each end of the interval that has to lie within the margin.
    """
    if not parts:
        return NOT_RUN
    # an equivalence test of each part
    within = all(inside(claim, part, tail) > 0 for part in parts)
    if claim.direction == 0:
        beyond = [low > 1 or high < -1 for low, high in (_ends(claim, part) for part in parts)]
        return SUPPORTED if within else CONTRADICTED if any(beyond) else IMPRECISE
    needed = claim.needed(len(parts)) if needed is None else needed
    # parts that have to fail for the claim to fail
    spare = len(parts) - needed + 1
    if spare < 1:
        return IMPRECISE
    tail_for, tail_against = (
        (LEVEL / 2, LEVEL / 2) if claim.rule == "one" else (LEVEL / spare, LEVEL / needed)
    )
    if sum(_ends(claim, part, tail_for)[0] > 0 for part in parts) >= needed:
        return SUPPORTED
    if sum(_ends(claim, part, tail_against)[1] < 0 for part in parts) >= spare:
        return CONTRADICTED
    return NO_EFFECT if within else IMPRECISE


def of_part(claim: Claim, part: Measurement) -> str:
    """Return the outcome of one part by itself, at the level that its claim's rule gives a single
    part.
    """
    return decide(claim, [part], needed=1)


def _ends(claim: Claim, part: Measurement, tail: float = LEVEL / 2) -> list[float]:
    """An interval's ends in margins from the reference, towards the claim; `tail`: the chance
    beyond each.
    """
    return sorted(map(claim.signed, part.interval(1 - 2 * tail)))


def inside(claim: Claim, part: Measurement, tail: float = LEVEL) -> float:
    """How far inside the margin an interval lies; above 0 two one-sided tests at 5 % say that it
    does.
    """
    low, high = _ends(claim, part, tail)
    return min(1 + low, 1 - high)


def seeds_to_decide(claim: Claim, part: Measurement) -> float:
    """Return from how many seeds on a part would be decided, if estimate, spread over seeds and
    error over items stay.

    NaN where it is decided, has no spread to go by, or where no number of seeds below 10,000 would
    do.
    """
    if (
        part.error is None
        or part.n < 2
        or of_part(claim, part) != IMPRECISE
        or not isfinite(part.estimate)
    ):
        return nan
    half = max(abs(part.estimate - end) for end in part.interval(0.95)) / part.error.reach()
    away = abs(part.estimate - claim.reference)
    to_leave = away if claim.direction else away - claim.margin
    # as in `of_part`
    level = 0.95 if claim.rule == "one" or not claim.direction else 0.90

    def done(seeds: int) -> bool:
        error = part.error.with_seeds(part.n, seeds)
        return (
            half * error.reach(level) < to_leave or half * error.reach(0.90) < claim.margin - away
        )

    first = bisect_left(range(MOST_SEEDS), True, lo=part.n + 1, key=done)
    return float(first) if first < MOST_SEEDS else nan


def change_to_open(claim: Claim, part: Measurement) -> float:
    """Return by how much a part's estimate would have to move, in its unit, to have another
    outcome.

    Of an imprecise part it is the way to the reference, or to the margin of a claim that something
    stays within it.
    """
    low, high = _ends(
        claim, part, LEVEL / 2 if claim.rule == "one" or not claim.direction else LEVEL
    )
    within = inside(claim, part)
    if claim.direction:
        ways = {SUPPORTED: low, CONTRADICTED: -high, NO_EFFECT: within, IMPRECISE: min(-low, high)}
    else:
        ways = {SUPPORTED: within, CONTRADICTED: max(low - 1, -1 - high), IMPRECISE: -within}
    return ways[of_part(claim, part)] * claim.margin


def measurements(claim: Claim, studies: Studies) -> list[Measurement]:
    """Return all measurements of a claim; ValueError for a function that there is not, or an
    argument that it lacks.
    """
    if not claim.measure:
        return []
    given = dict(claim.measure)
    family, _, name = str(given.pop("by", "")).partition(".")
    function = getattr(FAMILIES.get(family), name, None)
    try:
        inspect.signature(function).bind(studies, **given)
    except TypeError as error:
        why = (
            error if function else f"no function {claim.measure.get('by')!r} in companion/verdicts"
        )
        raise ValueError(f"data/claims.yaml, {claim.id}: measure: {why}") from None
    return [*function(studies, **given)]


def of_claim(claim: Claim, studies: Studies) -> list[Verdict]:
    """Decide one claim from each study apart: studies differ in text, size and steps, so they are
    not pooled.
    """
    found, rows = measurements(claim, studies), []
    if studies.again:
        second = {row.place: row for row in measurements(claim, studies.again)}
        pairs = [(row, second.get(row.place, row)) for row in found]
        numbers = attrgetter("estimate", "low", "high")
        found = [
            replace(row, again=other) if numbers(other) != numbers(row) else row
            for row, other in pairs
        ]
    places = [*dict.fromkeys((row.scope, row.study) for row in found if not row.aside)]
    for place in places:
        own = [row for row in found if (row.scope, row.study) == place]
        parts, aside = (tuple(row for row in own if row.aside == aside) for aside in (False, True))
        if place == places[0]:
            aside += tuple(row for row in found if (row.scope, row.study) not in places)
        own = (
            claim.model_copy(update={"rule": "one"})
            if claim.rule == "all" and len(parts) == 1
            else claim
        )
        rows.append(Verdict(own, *place, decide(own, parts), parts, aside))
    return rows or [Verdict(claim, "", "", NOT_RUN)]


def verdicts(studies: Studies) -> list[Verdict]:
    """Decide every claim, once per scope and study that measured it; a claim that none did is "not
    run".
    """
    return [verdict for claim in claims().values() for verdict in of_claim(claim, studies)]


@cache
def decided() -> list[Verdict]:
    """Decide every claim from the tracked studies, once per process."""
    return verdicts(tracked())
