"""When a model has learned: the first step at which a share of the questions is right.

Two arms are compared by the ratio of their steps over paired seeds. A run that never gets there
counts with its last step, which is the least that it would have taken, and is named.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, nan

import numpy as np

from companion.statistics.intervals import Estimate, mean_interval

# of paired runs, a seed say -> step, None where it was never reached
Times = Mapping[str, float | None]


def first_step(steps: Sequence[float], shares: Sequence[float], known: float) -> float | None:
    """Return the step at which `shares` reach `known` for the first time, linear between checks.

    `steps` rise; None if no check reaches it. A run that knows it at its first check has learned
    there.
    """
    earlier_step, earlier_share = None, None
    for step, share in zip(steps, shares, strict=True):
        if share >= known:
            if earlier_step is None:
                return float(step)
            part = (known - earlier_share) / (share - earlier_share)
            return earlier_step + part * (step - earlier_step)
        earlier_step, earlier_share = step, share
    return None


@dataclass(frozen=True)
class Ratio:
    """A geometric mean of ratios over paired seeds, with its 95 % interval.

    `logs` is the mean of their logarithms, with its interval and its error, for further rules.
    """

    logs: Estimate
    # in how many pairs the first side was sooner
    sooner: int = 0
    # runs that never reached it, of each side
    unreached: tuple[tuple[str, ...], tuple[str, ...]] = field(default=((), ()))

    @property
    def value(self) -> float:
        """The ratio; below 1 the first side is sooner."""
        return exp(self.logs.value)

    @property
    def interval(self) -> tuple[float, float]:
        """Its 95 % interval by Student's law on the logarithms; NaN for a single pair."""
        return exp(self.logs.low), exp(self.logs.high)

    @property
    def n(self) -> int:
        """How many pairs stand behind it."""
        return self.logs.seeds


def log_differences(
    treated: Sequence[Times], baseline: Sequence[Times], last: float
) -> dict[str, float]:
    """Return the mean log ratio of each seed that all have; several endpoints count alike.

    Each side is a list of endpoints (two hops, three hops), each a time a seed. A time that was not
    reached is `last`.
    """
    every = [*treated, *baseline]
    shared = sorted(set(every[0]).intersection(*every[1:]))
    differences = {}
    for seed in shared:
        first, second = (
            np.mean([np.log(last if times[seed] is None else times[seed]) for times in side])
            for side in (treated, baseline)
        )
        differences[seed] = float(first - second)
    return differences


def ratio(
    treated: Sequence[Times], baseline: Sequence[Times], last: float, *, reached: bool = False
) -> Ratio | None:
    """Compare two sides over the seeds that both have: the ratio of their times to learn.

    `reached` keeps only the pairs in which both sides got there, which leaves out the slowest runs.
    None without a pair, or where no run of either side got there.
    """
    if reached:
        treated, baseline = _got_there(treated), _got_there(baseline)
    differences = log_differences(treated, baseline, last)
    unreached = (_unreached(treated, differences), _unreached(baseline, differences))
    nowhere = all(len(side) == len(differences) for side in unreached)
    if not differences or nowhere:
        return None
    sooner = sum(difference < 0 for difference in differences.values())
    return Ratio(mean_interval([*differences.values()]), sooner, unreached)


def _got_there(endpoints: Sequence[Times]) -> list[Times]:
    """Return the endpoints without the seeds that miss one of them."""
    missed = {seed for times in endpoints for seed, time in times.items() if time is None}
    return [{seed: times[seed] for seed in times.keys() - missed} for times in endpoints]


def _unreached(endpoints: Sequence[Times], seeds: Mapping[str, float]) -> tuple[str, ...]:
    """Name the seeds that miss at least one endpoint."""
    return tuple(seed for seed in seeds if any(times[seed] is None for times in endpoints))


@dataclass(frozen=True)
class Row:
    """One comparison of times to learn, for the table of results."""

    study: str
    endpoint: str
    contrast: str
    # a ratio; below 1 the first side is sooner
    estimate: float
    low: float
    high: float
    n: int
    # runs that never got there, "original 7"
    unreached: tuple[str, ...] = ()
    sooner: int = 0


def row(study: str, endpoint: str, sides: tuple[str, str], compared: Ratio | None) -> Row:
    """Return a comparison as a row; without a number where no run got there."""
    contrast = " / ".join(sides)
    if compared is None:
        return Row(study, endpoint, contrast, nan, nan, nan, 0)
    unreached = []
    for side, seeds in zip(sides, compared.unreached, strict=True):
        unreached += [f"{side} {seed}" for seed in seeds]
    numbers = (compared.value, *compared.interval, compared.n)
    return Row(study, endpoint, contrast, *numbers, tuple(unreached), compared.sooner)
