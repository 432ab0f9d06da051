"""The standard error of a number in its parts: what seeds bring, of whom there are few, and what items bring."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import hypot, inf, log

import numpy as np
from scipy import stats
from scipy.optimize import brentq

LEAST_P = 1e-300


@dataclass(frozen=True)
class Error:
    """Independent parts of a standard error, each with the degrees of freedom it was estimated with (inf: known).

    The half width of an interval is the root of the sum of squares of the parts' own, each by Student's law with its
    own degrees of freedom (the method of variance estimates recovery). So it is never narrower than any part alone
    allows. Satterthwaite's single law for the sum is: where two seeds agree by chance it takes them for many, and of
    intervals that should hold at 99.6 %, one of twelve, 93 to 99 % do, by how much of the error is the seeds'.
    """

    parts: tuple[tuple[float, float], ...]

    @classmethod
    def of(cls, seeds: float, freedom: float, items: float = 0.0, *, least: float = 0.0) -> Error:
        """Return the error of `seeds`, with so many degrees of freedom, and of `items`, together not below `least`."""
        items = max(items, float(np.sqrt(max(least**2 - seeds**2, 0.0))))
        return cls(tuple((size, law) for size, law in ((seeds, freedom), (items, inf)) if size > 0))

    def __add__(self, other: Error) -> Error:
        """Return the error of a sum of two numbers that share nothing."""
        return Error(self.parts + other.parts)

    @cached_property
    def size(self) -> float:
        """The standard error itself."""
        return hypot(*(size for size, _ in self.parts))

    def reach(self, level: float = 0.95) -> float:
        """Return half the width of the interval at a level."""
        return self._reach(0.5 - level / 2)

    def p(self, value: float) -> float:
        """Return the two-sided p-value of a number: one minus the level at which its interval ends at 0."""
        if value == 0:
            return 1.0
        beyond: Callable[[float], float] = lambda q: self._reach(float(np.exp(q))) - abs(value)  # noqa: E731
        ends = log(LEAST_P), log(0.5)
        return 2 * LEAST_P if beyond(ends[0]) < 0 else float(2 * np.exp(brentq(beyond, *ends, xtol=1e-12)))

    def with_seeds(self, before: int, after: int) -> Error:
        """Return what the error would be with another number of seeds; the items' part stays."""
        return Error(
            tuple(
                (size, law) if law == inf else (size * (before / after) ** 0.5, law * (after - 1) / (before - 1))
                for size, law in self.parts
            )
        )

    def _reach(self, tail: float) -> float:
        return hypot(*(size * float(stats.t.isf(tail, law)) for size, law in self.parts))
