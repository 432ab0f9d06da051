"""One row of the table of results, and the rule that gives its outcome.

A number is one of four things. It is *supported* where its interval lies on the side of the reference
that the paper claims, *contradicted* where it lies on the other one, *no effect* where it lies within
the margin, and *open* otherwise. A level, and a number of a single seed, has no outcome.
"""

from dataclasses import dataclass, replace
from math import isfinite, nan
from typing import Any

from scipy import stats

from companion.statistics import Estimate
from companion.statistics.intervals import LEVEL, NORMAL

SUPPORTED, CONTRADICTED, NO_EFFECT, OPEN = OUTCOMES = (
    "supported",
    "contradicted",
    "no effect",
    "open",
)
COLUMNS = (
    "key",
    "study",
    "endpoint",
    "unit",
    "contrast",
    "estimate",
    "low",
    "high",
    "n",
    "of_what",
    "margin",
    "planned",
    "rule",
    "outcome",
    "scope",
    "note",
)


# compared in most rows
CONTRAST = "High − Original"


@dataclass(frozen=True)
class Endpoint:
    """What is compared, in which unit, and what n counts.

    `expected` is the sign that the paper claims for High minus Original; 0: that the two differ by no
    more than the margin; None: it claims nothing, and the number has no outcome. `reference` is the
    value of no effect, 1 for a ratio. `planned` finds the endpoint in the study's plan: "primary", or
    the text of a secondary one.
    """

    name: str
    unit: str
    expected: int | None = None
    of_what: str = "seeds"
    planned: str = ""
    reference: float = 0.0

    def of(self, suffix: str, **changes: Any) -> "Endpoint":
        """Return the endpoint with a longer name, of one model or task say, and other changes."""
        return replace(self, name=self.name + suffix, **changes)


@dataclass(frozen=True)
class Rule:
    """How an interval is read: at which level, against which margin, planned or not."""

    endpoint: Endpoint
    margin: float
    planned: bool
    # of the interval that decides; 0.95 unless the study was read more than once
    level: float = 1 - LEVEL
    # number of seeds at each reading, where there are several
    readings: tuple[int, ...] = ()

    def outcome(self, estimate: Estimate) -> str:
        """Return the outcome of an estimate; "" where it has no interval or the paper no claim.

        A plan puts the whole deciding interval within the margin for "no effect"; elsewhere two
        one-sided tests at 5 % do, which read the 90 % interval.
        """
        expected, reference = self.endpoint.expected, self.endpoint.reference
        if expected is None or estimate.seeds < 2 or not isfinite(estimate.low):
            return ""
        if expected == 0 and not isfinite(self.margin):
            return ""
        low, high = (end - reference for end in ends(estimate, self.level))
        narrow = (low, high)
        if not self.planned:
            narrow = tuple(end - reference for end in ends(estimate, 1 - 2 * LEVEL))
        within = -self.margin < narrow[0] and narrow[1] < self.margin
        if expected == 0:
            if within:
                return SUPPORTED
            beyond = low > self.margin or high < -self.margin
            return CONTRADICTED if beyond else OPEN
        if low > 0 or high < 0:
            return SUPPORTED if (low > 0) == (expected > 0) else CONTRADICTED
        return NO_EFFECT if within else OPEN

    def words(self, estimate: Estimate) -> str:
        """Return the rule as the table has it: what decides, and where it has to lie."""
        if not self.outcome(estimate):
            return ""
        level = f"{100 * self.level:.3g} % interval"
        if self.readings:
            low, high = ends(estimate, self.level)
            readings = ", ".join(map(str, self.readings))
            level = f"{level} [{low:.4g}, {high:.4g}] (readings at {readings})"
        side = {1: "above", -1: "below", 0: "within the margin of"}[self.endpoint.expected]
        kind = "plan" if self.planned else "plain"
        return f"{kind}: {level} {side} {self.endpoint.reference:g}"


@dataclass(frozen=True)
class Row:
    """One comparison, or one level that a text states."""

    study: str
    endpoint: str
    unit: str
    contrast: str
    estimate: float
    low: float = nan
    high: float = nan
    n: int = 0
    of_what: str = ""
    margin: float = nan
    planned: str = ""
    rule: str = ""
    outcome: str = ""
    scope: str = ""
    note: str = ""
    # not in the file: p is two-sided, of the distance from the reference
    p: float = nan
    expected: int | None = None
    reference: float = 0.0

    @property
    def key(self) -> str:
        """Study, endpoint and contrast as a path: "branched/held-out-loss/high-original"."""
        return "/".join(map(slug, (self.study, self.endpoint, self.contrast)))


def slug(text: str) -> str:
    """Return a text as a part of a key: "High / Original" -> "high-over-original"."""
    words = text.lower().replace(" / ", " over ").replace("λ", "").replace("'", "")
    kept = "".join(letter if letter.isalnum() or letter == "." else " " for letter in words)
    return "-".join(word.strip(".") for word in kept.split())


def ends(estimate: Estimate, level: float) -> tuple[float, float]:
    """Return the ends of an estimate's interval at a level.

    An interval that was not made from a standard error is stretched by the normal law, each side for
    itself.
    """
    if level == 1 - LEVEL:
        return estimate.low, estimate.high
    if estimate.error is not None:
        reach = estimate.error.reach(level)
        return estimate.value - reach, estimate.value + reach
    stretch = float(stats.norm.isf((1 - level) / 2)) / NORMAL
    low, high = (stretch * (end - estimate.value) for end in (estimate.low, estimate.high))
    return estimate.value + low, estimate.value + high


def p_value(estimate: Estimate, reference: float = 0.0) -> float:
    """Return the two-sided p-value of an estimate's distance from a reference; NaN without an
    interval.
    """
    away = estimate.value - reference
    if estimate.error is not None:
        return estimate.error.p(away)
    if isfinite(estimate.sign_test):
        return estimate.sign_test
    half = (estimate.high - estimate.low) / 2
    return float(2 * stats.norm.sf(abs(away) * NORMAL / half)) if half > 0 else nan
