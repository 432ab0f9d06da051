"""Intervals of one number: over the items or samples it was measured on and the seeds it was
trained with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, hypot, inf, isfinite, log, nan, pi, sqrt
from typing import Any

import numpy as np
from scipy import stats
from scipy.optimize import brentq

# of a finding by chance; family-wise where many comparisons stand together
LEVEL = 0.05
# quantiles that a 95 % interval ends at
TAILS = (LEVEL / 2, 1 - LEVEL / 2)
# half a 95 % interval in standard errors, by the normal law
NORMAL = float(stats.norm.ppf(TAILS[1]))
LEAST_P = 1e-300
# of the largest number: samples that differ by less are alike
ROUNDING = 1e-12


@dataclass(frozen=True)
class Error:
    """Independent parts of a standard error, each with the degrees of freedom it was estimated with
    (inf: known).

    Half an interval is the root of the sum of squares of the parts' own, each by Student's law with
    its own degrees of freedom (the method of variance estimates recovery). Satterthwaite's single
    law takes two seeds that agree by chance for many.
    """

    parts: tuple[tuple[float, float], ...]

    @classmethod
    def of(cls, seeds: float, freedom: float, items: float = 0.0, *, least: float = 0.0) -> Error:
        """Return the error of `seeds`, with so many degrees of freedom, and of `items`, together
        not below `least`.
        """
        items = max(items, float(np.sqrt(max(least**2 - seeds**2, 0.0))))
        parts = ((seeds, freedom), (items, inf))
        return cls(tuple(part for part in parts if part[0] > 0))

    @cached_property
    def size(self) -> float:
        """The standard error itself."""
        return hypot(*(size for size, _ in self.parts))

    def reach(self, level: float = 0.95) -> float:
        """Return half the width of the interval at a level."""
        return self._reach(0.5 - level / 2)

    def p(self, value: float) -> float:
        """Return the two-sided p-value of a number: one minus the level at which its interval ends
        at 0.
        """
        if value == 0:
            return 1.0
        if self._reach(LEAST_P) < abs(value):
            return 2 * LEAST_P

        def beyond(q: float) -> float:
            return self._reach(float(np.exp(q))) - abs(value)

        return float(2 * np.exp(brentq(beyond, log(LEAST_P), log(0.5), xtol=1e-12)))

    def _reach(self, tail: float) -> float:
        return hypot(*(size * float(stats.t.isf(tail, law)) for size, law in self.parts))


@dataclass(frozen=True)
class Estimate:
    """A mean, or a difference of two, with its 95 % interval, and how many seeds and items stand
    behind it.
    """

    value: float
    low: float
    high: float
    seeds: int
    items: int | None = None
    # behind the interval, where it was made from one
    error: Error | None = None
    # of a difference: the errors of `item_errors`
    over_items: tuple[float, float] = (nan, nan)
    # its p-value where no error of the interval has it
    sign_test: float = nan

    @classmethod
    def of(
        cls, value: float, error: Error | None, seeds: int, items: int | None = None
    ) -> Estimate:
        """Return a value with the interval of its error; without one (NaN ends) where the error is
        0 or not known.
        """
        if error is None or not (isfinite(error.size) and error.size > 0):
            return cls(value, nan, nan, seeds, items)
        reach = error.reach()
        return cls(value, value - reach, value + reach, seeds, items, error)

    @property
    def half_width(self) -> float:
        """Half the width of the interval: the number after the ± sign (NaN if there is no
        interval).
        """
        return (self.high - self.low) / 2

    @property
    def p(self) -> float:
        """Two-sided p-value of its distance from 0, by the law of its interval; without one that of
        the sign test.
        """
        return self.error.p(self.value) if self.error else self.sign_test


def on_scale(estimate: Estimate, top: float = inf) -> Estimate:
    """Return an estimate whose interval stays between 0 and `top`: half-widths on the scale of
    logarithms or logits.

    To first order. An estimate at 0 or `top`, and an interval that was not made from an error, stay
    as they are.
    """
    value, half = estimate.value, estimate.half_width
    if estimate.error is None or not (0 < value < top and half > 0):
        return estimate
    if top == inf:
        return replace(estimate, low=value * exp(-half / value), high=value * exp(half / value))
    odds, reach = value / (top - value), half * top / (value * (top - value))
    low, high = (top * odds * step / (1 + odds * step) for step in (exp(-reach), exp(reach)))
    return replace(estimate, low=low, high=high)


def perplexity_interval(loss: Estimate) -> dict[str, Any]:
    """Return what a record holds of a loss over sequences (nats per token): the exponential's
    interval, the number.
    """
    ends = [exp(min(end, 700)) for end in (loss.low, loss.high)]
    return {"perplexity_interval": ends, "sequences": loss.items}


def perplexity(metrics: Mapping[str, Any]) -> Estimate | None:
    """Return the perplexity that a record's metrics hold, with its interval over sequences; None
    without one.
    """
    if metrics.get("perplexity") is None:
        return None
    low, high = (nan if end is None else end for end in metrics["perplexity_interval"])
    return Estimate(metrics["perplexity"], low, high, 1, metrics["sequences"])


def mean_interval(
    values: Sequence[float],
    *,
    item_error: float = 0.0,
    least: float = 0.0,
    items: int | None = None,
) -> Estimate:
    """Mean over seeds with an interval that covers the choice of seeds and of items.

    The `Error` has two parts, together not below `least`: s/sqrt(S) over S seeds, with S - 1
    degrees of freedom, and `item_error` over the items, which seeds share. One seed: the items
    only. No error: no interval (NaN ends).
    Raises ValueError if `values` is empty or not finite.
    """
    values = np.asarray(values, dtype=float)
    if values.size == 0 or not np.isfinite(values).all():
        raise ValueError(f"values: need at least one finite score, got {values.tolist()}")
    seeds = len(values)
    seed_error = float(values.std(ddof=1) / sqrt(seeds)) if seeds > 1 else 0.0
    error = Error.of(seed_error, seeds - 1, item_error, least=least)
    return Estimate.of(float(values.mean()), error, seeds, items)


def geometric_interval(ratios: Sequence[float]) -> Estimate:
    """Geometric mean of positive ratios, one a seed, with the ends and the p-value of
    `mean_interval` of their logarithms.
    """
    logs = mean_interval(np.log(ratios))
    ends = (exp(end) for end in (logs.value, logs.low, logs.high))
    return Estimate(*ends, logs.seeds, sign_test=logs.p)


def median_interval(first: float, median: float, third: float, rounds: int) -> Estimate:
    """Return a median of `rounds` numbers with its 95 % interval, from the median and the quartiles
    alone.

    Near-normal rounds: sqrt(pi / 2) deviations, 1.349 of which lie between the quartiles; Student's
    law, rounds - 1.
    Source: McGill, Tukey and Larsen 1978.
    """
    size = sqrt(pi / 2) * (third - first) / 1.349 / sqrt(rounds)
    return Estimate.of(median, Error.of(size, rounds - 1), rounds)


def over_samples(totals: Sequence[float], counts: Sequence[float] | None = None) -> Estimate:
    """Mean over independent samples, of one run, with the 95 % interval over which samples were
    drawn.

    With `counts` it is the ratio R of two sums, as nats over tokens: a sequence counts as a whole.
    Student's law with n - 1 degrees of freedom, of the residuals total - R count. No interval (NaN
    ends) for fewer than two samples, or samples alike. Raises ValueError if a total is not finite
    or nothing was counted.
    """
    totals = np.asarray(totals, dtype=float)
    counts = np.ones_like(totals) if counts is None else np.asarray(counts, dtype=float)
    if not np.isfinite(totals).all() or not counts.sum() > 0:
        raise ValueError("totals: need finite numbers, and counts that are not all 0")
    value, samples = float(totals.sum() / counts.sum()), len(totals)
    left = totals - value * counts
    if samples < 2 or np.abs(left).max() <= ROUNDING * max(1.0, np.abs(totals).max()):
        return Estimate(value, nan, nan, 1, samples)
    student = stats.t.ppf(TAILS[1], samples - 1)
    reach = float(student * left.std(ddof=1) / sqrt(samples) / counts.mean())
    return Estimate(value, value - reach, value + reach, 1, samples)
