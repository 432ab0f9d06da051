"""One number of the paper beside ours, with its interval and its marks, and why it is empty."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil, floor, isfinite, isnan, log10

from saobp.study.statistics import Estimate, holm

LOPSIDED = 0.2  # an interval whose sides differ by more of the longer one is printed with both ends
SIGNIFICANT = 4  # digits of a number that a reader needs; the CSV has more
LEVEL = 0.05  # family-wise, over all comparisons of a table
DIFFERS, UNPRINTED, EMPTY = "*", "–", "·"
SIGNS = {
    "below chance": "†", "below majority": "§", "constant predictor": "‡", "below bag of words": "¶",
    "opposite sign": "‖", "says nothing": "°",
}  # fmt: skip


def digits(least: int, *ends: float) -> int:
    """So many digits behind the point, or up to two more where an end that is not 0 would be shown as 0."""
    return next((n for n in (least, least + 1) if not any(end and round(end, n) == 0 for end in ends)), least + 2)


@dataclass(frozen=True)
class Cell:
    """One number of the paper beside ours."""

    published: str = ""  # the characters in the paper; empty where it prints none
    ours: Estimate | str | None = None  # a text where the quantity is a word
    difference: Estimate | None = None  # ours against Original, same items and seeds
    adjusted_p: float | None = None  # Holm over the table
    flags: tuple[str, ...] = ()  # of `SIGNS`
    reason: str = ""  # why `ours` is empty, or lacks runs
    failed: bool = False  # whether runs of it ended without a score
    digits: int = 2  # behind the point, and more where the error would be 0.00 and four are not yet there
    exact: bool = False  # counted, not measured: nothing was repeated
    ratio: Estimate | None = None  # ours over Original's, measured in the same rounds
    published_ratio: float | None = None  # the same of the paper's numbers

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
        """Digits behind the point: `digits`, or as many as show the error's first digit or `SIGNIFICANT` in all."""
        half = self.ours.half_width if isinstance(self.ours, Estimate) else 0
        if not (isfinite(half) and half > 0):
            return self.digits
        before = floor(log10(abs(self.ours.value))) + 1 if self.ours.value else 1
        return max(self.digits, min(ceil(-log10(half)), SIGNIFICANT - before))

    def texts(self) -> dict[str, str]:
        """Return what a reader sees, by the head of its column; "" where there is nothing."""
        ratio, theirs = self.ratio, self.published_ratio
        ours = self.number() or "failed" * self.ran
        return {
            "Paper": self.published or UNPRINTED,
            "Ours": ours + "".join(SIGNS[flag] for flag in self.flags),
            "Ours − Original": self.apart() + DIFFERS * self.differs,
            "Paper ÷ Original": "" if theirs is None else f"×{theirs:.2f}",
            "Ours ÷ Original": "" if ratio is None else f"×{ratio.value:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]",
            "n": self.count(),
        }

    def number(self) -> str:
        """Ours with its interval, as text: "54.66 ± 1.20", "3.12 [0.55, 15.75]" if it is lopsided, or empty."""
        if not isinstance(self.ours, Estimate):
            return self.ours or ""
        return f"{self.ours.value:.{self.places}f} {self.error()}".rstrip()

    def apart(self) -> str:
        """Ours minus Original's with its 95 % interval: "+2.53 [1.20, 3.86]"; empty where there is none."""
        gap = self.difference
        if gap is None or isnan(gap.value):
            return ""
        places = digits(self.places, gap.low, gap.high)
        value, low, high = (round(x, places) + 0.0 for x in (gap.value, gap.low, gap.high))  # no minus before a 0
        ends = "" if isnan(low) else f" [{low:.{places}f}, {high:.{places}f}]"
        return f"{value:+.{places}f}{ends}"

    def error(self) -> str:
        """The interval of ours: "± 1.20", "± <0.01" if that is 0 in these digits, "[0.55, 15.75]" if its sides differ
        by a fifth and more, or empty.
        """
        if not isinstance(self.ours, Estimate) or isnan(self.ours.half_width):
            return ""
        places = self.places
        value, low, high = (round(x, places) for x in (self.ours.value, self.ours.low, self.ours.high))
        sides = sorted((value - low, high - value))
        if sides[1] - sides[0] > LOPSIDED * sides[1] + 10**-places:
            return f"[{low:.{places}f}, {high:.{places}f}]"
        shown = f"{self.ours.half_width:.{places}f}"
        return f"± <{10**-places:.{places}f}" if float(shown) == 0 < self.ours.half_width else f"± {shown}"

    def count(self) -> str:
        """How much stands behind ours: "3×277" for 3 runs on 277 items each, "3" where items do not apply.

        Empty for a word, and for a number that was counted and not measured.
        """
        if not isinstance(self.ours, Estimate) or self.exact:
            return ""
        return f"{self.ours.seeds}×{self.ours.items}" if self.ours.items else f"{self.ours.seeds}"


@dataclass(frozen=True)
class Row:
    """What was measured of one model and algorithm (its labels), by column; without a model, what stands beside all."""

    labels: tuple[str, ...]
    cells: Mapping[str, Cell]


def corrected(rows: list[Row]) -> tuple[Row, ...]:
    """Adjust the p-values of all comparisons in a table together (Holm)."""
    compared = [(row, key) for row in rows for key, cell in row.cells.items() if cell.difference is not None]
    adjusted = holm([row.cells[key].difference.p for row, key in compared])
    new = {(row.labels, key): p for (row, key), p in zip(compared, adjusted, strict=True)}
    return tuple(
        Row(row.labels, {key: replace(cell, adjusted_p=new.get((row.labels, key))) for key, cell in row.cells.items()})
        for row in rows
    )
