"""What the plan says of the study `learning`, and the runs that follow from it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge, MinLen
from pydantic import model_validator

from companion import records
from companion.setup.recipes import MultiHop, Positive, Rate, Seeds, Share
from companion.setup.studies import load_study
from companion.setup.typed_by_hand import Strict
from companion.statistics.time_to_learn import first_step
from companion.studies.plan import Question

NAME = "learning"
ORIGINAL, HIGH = "original", "high"
# numbers of hops whose time to learn is the endpoint
HOPS = (2, 3)


class Arm(Strict):
    """One arm: its own warm-up where it has one, in steps."""

    warmup: Positive | None = None


class Rates(Strict):
    """The learning rates that are tried, for which arms, on which seeds."""

    arms: Annotated[list[str], MinLen(1)]
    values: Annotated[list[Rate], MinLen(1)]
    seeds: Seeds


class Scale(Strict):
    """The wider encoders, and the width at which their rates are tried."""

    rates_at: Positive
    rate_seeds: Seeds
    widths: Annotated[list[Positive], MinLen(1)]
    seeds: Seeds


class Learning(Question):
    """The plan's section `learning`."""

    training: str
    exam: str
    items: Positive
    layers: Positive
    width: Positive
    steps: Positive
    # steps between two checks
    every: Positive
    # share right at which a number of hops is learned
    known: Share
    # steps
    warmup: Annotated[int, Ge(0)]
    arms: Annotated[dict[str, Arm], MinLen(1)]
    rates: Rates
    seeds: Seeds
    scale: Scale
    power: str
    mechanism: dict[str, str]

    @model_validator(mode="after")
    def _possible(self) -> "Learning":
        unknown = [arm for arm in self.rates.arms if arm not in self.arms]
        if unknown:
            raise ValueError(f"rates.arms: {unknown[0]} is none of the arms")
        if self.steps % self.every:
            raise ValueError(f"every: {self.every} does not divide the {self.steps} steps")
        return self

    def rate_runs(self) -> list["Run"]:
        """Return the runs that choose the rates at the usual width."""
        return _rate_runs(self.rates, self.width, self.rates.seeds)

    def wide_rate_runs(self) -> list["Run"]:
        """Return the runs that choose the rates of the wider encoders."""
        return _rate_runs(self.rates, self.scale.rates_at, self.scale.rate_seeds)

    def primary_runs(self, best: dict[str, float], seeds: Iterable[int]) -> list["Run"]:
        """Return the runs of Original and High, each at its best rate."""
        arms = (ORIGINAL, HIGH)
        return [Run(self.width, arm, best[arm], seed) for seed in seeds for arm in arms]

    def secondary_runs(self, best: dict[str, float], seeds: Iterable[int]) -> list["Run"]:
        """Return the runs of High and of every other arm at Original's best rate."""
        arms = [arm for arm in self.arms if arm != ORIGINAL]
        return [Run(self.width, arm, best[ORIGINAL], seed) for seed in seeds for arm in arms]

    def wide_runs(self, best: dict[str, float]) -> list["Run"]:
        """Return the runs of the wider encoders, each arm at its best rate there."""
        cells = product(self.scale.widths, self.scale.seeds, (ORIGINAL, HIGH))
        return [Run(width, arm, best[arm], seed) for width, seed, arm in cells]

    def recipe(self, run: "Run") -> dict[str, Any]:
        """Return all that a run depends on, as its record tells it."""
        cell = {"layers": self.layers, "width": run.width, "arm": run.arm, "rate": run.rate}
        shared = {"exam": self.exam, "items": self.items, "steps": self.steps}
        checks = {"every": self.every, "known": self.known}
        return cell | shared | checks | {"seed": run.seed, "warmup": self.warmup_of(run.arm)}

    def warmup_of(self, arm: str) -> int:
        """Return the steps over which an arm's rate rises."""
        warmup = self.arms[arm].warmup
        return self.warmup if warmup is None else warmup

    def stories(self, width: int) -> MultiHop:
        """Return the stories, their exam and the encoder's shape, at a width."""
        usual = load_study("stories").multihop
        return usual.changed(exam=self.exam, items=self.items, hidden=width)


@dataclass(frozen=True)
class Run:
    """One run: an arm at a learning rate and a width, from one seed."""

    width: int
    arm: str
    rate: float
    seed: int

    @property
    def name(self) -> str:
        """The name of its record."""
        return f"12-{NAME}-{self.width}-{self.arm}-{self.rate:g}-{self.seed}"


@dataclass(frozen=True)
class Stage:
    """Runs that may be made in any order; `awaited`: what comes after needs all of them."""

    runs: list[Run]
    awaited: bool = False


def _rate_runs(rates: Rates, width: int, seeds: Iterable[int]) -> list[Run]:
    cells = product(seeds, rates.values, rates.arms)
    return [Run(width, arm, rate, seed) for seed, rate, arm in cells]


def stages(planned: Learning, out: Path) -> Iterator[Stage]:
    """Yield the runs of the plan in its order, those already yielded left out.

    The rates of a stage are read from the records in `out` when it is reached: ValueError if the
    records of the rates before it are not complete.
    """
    first = planned.primary.analyses[0]
    early, late = planned.seeds[:first], planned.seeds[first:]
    yield Stage(planned.rate_runs(), awaited=True)
    best = best_rates(planned, planned.rate_runs(), out)
    yield Stage(planned.primary_runs(best, early))
    yield Stage(planned.secondary_runs(best, early))
    yield Stage(planned.wide_rate_runs(), awaited=True)
    wide = best_rates(planned, planned.wide_rate_runs(), out)
    yield Stage(planned.wide_runs(wide))
    yield Stage(planned.primary_runs(best, late))
    yield Stage(planned.secondary_runs(best, late))


class MissingRuns(ValueError):
    """Records from which the rates would be chosen are not there."""


def best_rates(planned: Learning, runs: Sequence[Run], out: Path) -> dict[str, float]:
    """Return each arm's best rate, by the plan's rule, from the records of these runs in `out`.

    Raises MissingRuns, a ValueError, if one is missing, and ValueError for one that cannot be read
    or is of another recipe.
    """
    missing = [run.name for run in runs if not (out / f"{run.name}.json").exists()]
    if missing:
        raise MissingRuns(
            f"{out}: {len(missing)} of the {len(runs)} runs that choose the rates are missing, "
            f"{missing[0]} first: run them before those that take the rates"
        )
    return chosen_rates(planned, {run: record_of(planned, run, out) for run in runs})


def chosen_rates(planned: Learning, made: Mapping[Run, dict[str, Any]]) -> dict[str, float]:
    """Return of each arm the rate with the lowest mean endpoint, of two alike the lower one."""
    by_rate: dict[tuple[str, float], list[float]] = {}
    for run, record in made.items():
        by_rate.setdefault((run.arm, run.rate), []).append(endpoint(planned, record))
    means = {key: float(np.mean(values)) for key, values in by_rate.items()}
    best = {}
    for arm in planned.rates.arms:
        rates = sorted(rate for name, rate in means if name == arm)
        best[arm] = min(rates, key=lambda rate: means[arm, rate])
    return best


def record_of(planned: Learning, run: Run, out: Path) -> dict[str, Any]:
    """Read the record of a run.

    Raises ValueError, one line, if it cannot be read or tells another recipe than the plan's.
    """
    path = out / f"{run.name}.json"
    record = records.read(path)
    refuse_another_recipe(planned, run, record, path)
    return record


def refuse_another_recipe(planned: Learning, run: Run, record: dict[str, Any], path: Path) -> None:
    """Raise ValueError if the record of a run tells another recipe, another exam say."""
    wanted = planned.recipe(run)
    recipe = record["metrics"].get("recipe", {})
    unlike = [key for key, value in wanted.items() if recipe.get(key) != value]
    if unlike:
        key = unlike[0]
        raise ValueError(
            f"{path}: was made by another recipe than the plan's "
            f"({key}: {recipe.get(key)}, not {wanted[key]}): remove it"
        )


def endpoint(planned: Learning, record: dict[str, Any]) -> float:
    """Return the primary endpoint of a run: the mean over hops of log min(T90, last step)."""
    times = [time_to_learn(planned, record, hops) for hops in HOPS]
    limited = [planned.steps if time is None else time for time in times]
    return float(np.mean(np.log(limited)))


def time_to_learn(planned: Learning, record: dict[str, Any], hops: int) -> float | None:
    """Return the step at which a run has learned a number of hops; None if it has not."""
    curve = record["metrics"]["curve"]
    steps = [check["step"] for check in curve]
    shares = [check["accuracy"][str(hops)] for check in curve]
    return first_step(steps, shares, planned.known)
