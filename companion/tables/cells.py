"""How numbers are written with their intervals; and one number of the paper beside ours, and why it
is empty.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, isnan, log10

from companion.statistics import Estimate
from companion.statistics.intervals import LEVEL

# an interval whose sides differ by more of the longer one is printed with both ends
LOPSIDED = 0.2
# digits of a number that a reader needs; the CSV has more
SIGNIFICANT = 4
DIFFERS, UNPRINTED, EMPTY = "*", "–", "·"
SIGNS = {
    "below chance": "†",
    "below majority": "§",
    "constant predictor": "‡",
    "below bag of words": "¶",
    "opposite sign": "‖",
    "says nothing": "°",
    "not run": "#",
}


def digits(least: int, *ends: float) -> int:
    """So many digits behind the point, or up to two more where an end that is not 0 would be shown
    as 0.
    """
    return next(
        (n for n in (least, least + 1) if not any(end and round(end, n) == 0 for end in ends)),
        least + 2,
    )


def decimal(value: float, digits: int = 0, form: str = "") -> str:
    """A number with so many digits behind the point and a true minus; `form`: "+" (a zero has no
    sign) or ",".
    """
    rounded = round(value, digits) + 0.0
    return f"{rounded:{form if rounded else form.strip('+')}.{digits}f}".replace("-", "−")


def effect(estimate: Estimate, least: int = 1, unit: str = "") -> str:
    """A difference with its unit and 95 % interval: "+3.3 points [1.1, 5.5]"."""
    places = digits(least, estimate.low, estimate.high)
    return " ".join(
        filter(None, [decimal(estimate.value, places, "+"), unit, interval(estimate, places)])
    )


def measured(estimate: Estimate, least: int = 1) -> str:
    """A number without a sign, and its 95 % interval: "0.71 [0.60, 0.80]"."""
    places = digits(least, estimate.low, estimate.high)
    return f"{decimal(estimate.value, places)} {interval(estimate, places)}".rstrip()


def interval(estimate: Estimate, digits: int = 1) -> str:
    """A 95 % interval: "[1.1, 5.5]"; empty where there is none."""
    return (
        f"[{decimal(estimate.low, digits)}, {decimal(estimate.high, digits)}]"
        if estimate.low <= estimate.high
        else ""
    )


def span(values: Sequence[float], digits: int = 1) -> str:
    """The ends of some numbers: "6.9 to 11.7"; one number where they are alike."""
    ends = dict.fromkeys(decimal(end, digits, ",") for end in (min(values), max(values)))
    return " to ".join(ends)


@dataclass(frozen=True)
class Cell:
    """One number of the paper beside ours."""

    # the characters in the paper; empty where it prints none
    published: str = ""
    # a text where the quantity is a word
    ours: Estimate | str | None = None
    # ours against Original, same items and seeds
    difference: Estimate | None = None
    # Holm over the table
    adjusted_p: float | None = None
    # of `SIGNS`
    flags: tuple[str, ...] = ()
    # why `ours` is empty, or lacks runs
    reason: str = ""
    # whether runs of it ended without a score
    failed: bool = False
    # ours over Original's, measured in the same rounds
    ratio: Estimate | None = None
    # the same of the paper's numbers
    published_ratio: float | None = None

    @property
    def ran(self) -> bool:
        """Whether there is a number of ours, or a run that failed."""
        return self.ours is not None or self.failed

    @property
    def differs(self) -> bool:
        """Whether the difference from Original survives the correction for the whole table."""
        return self.adjusted_p is not None and self.adjusted_p < LEVEL

    @property
    def places(self) -> int:
        """Digits behind the point: two, or as many as show the error's first digit or `SIGNIFICANT`
        in all; none of a number of three digits and more whose error is one or more.
        """
        half = self.ours.half_width if isinstance(self.ours, Estimate) else 0
        if not (isfinite(half) and half > 0):
            return 2
        before = floor(log10(abs(self.ours.value))) + 1 if self.ours.value else 1
        if before >= 3 and half >= 1:
            return 0
        return max(2, min(ceil(-log10(half)), SIGNIFICANT - before))

    def number(self) -> str:
        """Ours with its interval: "54.66 ± 1.20", or "3.12 [0.55, 15.75]" if its sides are not
        alike; or empty.
        """
        ours, places = self.ours, self.places
        if not isinstance(ours, Estimate):
            return ours or ""
        value, low, high, half = (
            f"{x:.{places}f}" for x in (ours.value, ours.low, ours.high, ours.half_width)
        )
        if isnan(ours.half_width):
            return value
        less, more = sorted((float(value) - float(low), float(high) - float(value)))
        if more - less > LOPSIDED * more + 10**-places:
            return f"{value} [{low}, {high}]"
        return (
            f"{value} ± <{10**-places:.{places}f}"
            if float(half) == 0 < ours.half_width
            else f"{value} ± {half}"
        )

    def count(self) -> str:
        """How much stands behind ours: "3×277" for 3 runs on 277 items each, "3" where items do not
        apply; or empty.
        """
        behind = (self.ours.seeds, self.ours.items) if isinstance(self.ours, Estimate) else ()
        return "×".join(str(number) for number in behind if number)

    def texts(self) -> dict[str, str]:
        """Return what a reader sees of it, by the head of its column."""
        marks = "".join(SIGNS[flag] for flag in self.flags) + DIFFERS * self.differs
        ours = (self.number() or "failed") + marks if self.ran else UNPRINTED
        return {"Paper": self.published or UNPRINTED, "Ours": ours, "n": self.count()}

    def ratios(self) -> dict[str, str]:
        """Return a time over Original's, the paper's and ours; of Original itself there is none."""
        theirs, ratio = self.published_ratio, self.ratio
        none = EMPTY if theirs is None else UNPRINTED
        ours = f"×{ratio.value:.2f} {interval(ratio, 2)}" if ratio else none
        return {"Paper": none if theirs is None else f"×{theirs:.2f}", "Ours": ours}


# A table's, in their order, by row and column; a row is a model and algorithm, or "", a name and
# the size it is beside
Cells = Mapping[tuple[tuple[str, ...], str], Cell]
