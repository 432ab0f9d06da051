"""Evidence for a statement: a number for each of its parts, and what they say together, in words."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import ceil, isfinite, isnan, log10, nan
from typing import Any

import pandas as pd

from saobp.study.setup import labels
from saobp.study.setup.labels import counted
from saobp.study.setup.records import select
from saobp.study.statistics import Estimate, mean_interval, task_scores
from saobp.study.tables import quantifiers, wanted

Record = dict[str, Any]
MOST = 6  # digits behind the point
YES, NO, OPEN = "reproduced", "not reproduced", "cannot be decided at this scale"


@dataclass(frozen=True)
class Evidence:
    """A quantity that is positive if the statement holds, with its interval, in words.

    `wanted` would decide it where it is open, `overturned` would change it where it is decided.
    """

    words: str
    low: float = nan
    high: float = nan
    twins: bool = False
    wanted: str = ""
    overturned: str = ""

    def verdict(self) -> str:
        """Decided where the interval lies on one side of 0 and the models are the paper's own sizes."""
        if self.twins:
            return OPEN
        return YES if self.low > 0 else NO if self.high < 0 else OPEN


@dataclass(frozen=True)
class Part:
    """One size, task or measure that a statement speaks of; without an estimate, one that was not run."""

    name: str
    estimate: Estimate | None = None
    sign: int = 1  # the direction that the paper states
    least: float = 0.0  # what `sign` times the value has to exceed
    twin: bool = False  # of a stand-in for the paper's size
    correlation: bool = False
    times: int = 1  # it was looked at, each time with more seeds

    def bounds(self, looks: int) -> tuple[float, float]:
        """The corrected interval of what is positive if the statement holds here.

        One seed says nothing of another training, nor a stand-in of the paper's size: all is possible then.
        """
        if self.estimate is None or self.twin or self.estimate.seeds < 2:
            return quantifiers.UNKNOWN
        ends = self._ends(looks)
        low, high = sorted(self.sign * end - self.least for end in ends)
        return quantifiers.UNKNOWN if isnan(low) or isnan(high) else (low, high)

    def shown(self, looks: int, digits: int) -> str:
        """Name, value and corrected interval; "alike" where equal answers leave none."""
        low, high = self._ends(looks)
        value = self.estimate.value
        places = _places(max(abs(end) for end in (value, low, high) if isfinite(end)), digits)
        value, low, high = (round(end, places) + 0.0 for end in (value, low, high))  # no minus before a zero
        text = f"{self.name} {value:+.{places}f}".strip()
        if isfinite(low):
            return f"{text} [{low:.{places}f}, {high:.{places}f}]"
        return text + (" (alike)" if self.alike else "")

    def open(self, looks: int) -> bool:
        """Whether it was run with several seeds and its interval holds what it would have to exceed."""
        if self.estimate is None or self.estimate.seeds < 2:
            return False
        ends = self._ends(looks)
        return min(self.sign * end for end in ends) <= self.least <= max(self.sign * end for end in ends)

    def seeds_needed(self, looks: int) -> int | None:
        """From how many seeds on it would not, if gap and spread stay; None where no number does."""
        least = self.sign * self.least
        return quantifiers.seeds_needed(self.estimate, looks * self.times, least=least, correlation=self.correlation)

    def _ends(self, looks: int) -> tuple[float, float]:
        return quantifiers.simultaneous(self.estimate, looks * self.times, correlation=self.correlation)

    @property
    def alike(self) -> bool:
        """Whether there is no interval though several seeds or items stand behind the value."""
        return isnan(self.estimate.low) and bool(self.estimate.seeds > 1 or self.estimate.items)


def _places(size: float, digits: int) -> int:
    """Digits behind the point: `digits`, or as many as show a number of this size, up to `MOST`."""
    return min(MOST, max(digits, ceil(-log10(size)))) if size else digits


@dataclass(frozen=True)
class Looks:
    """All parts of a statement: those that were run and those that were not."""

    what: str
    parts: Sequence[Part]
    digits: int = 2
    unit: str = "seed"  # what the estimates count as draws
    aside: Sequence[str] = ()  # what has to be read with them, and decides nothing

    def evidence(self, quantifier: str) -> Evidence | None:
        """Weigh the parts as the statement's quantifier asks; None if nothing was run."""
        seen = [part for part in self.parts if part.estimate is not None]
        if not seen:
            return None
        bounds = [part.bounds(len(seen)) for part in self.parts]
        values = ", ".join(part.shown(len(seen), self.digits) for part in seen)
        said = [f"{self.what} {values}", *self._counts(quantifier, bounds, len(seen)), *self._draws(seen)]
        said += self.aside
        ends = quantifiers.reach(quantifier, bounds)
        twins = all(part.twin for part in seen)
        return Evidence("; ".join(said), *ends, twins, wanted.words(self.parts), wanted.overturning(*ends, self.digits))

    def _counts(self, quantifier: str, bounds: list[tuple[float, float]], looks: int) -> list[str]:
        if quantifiers.WHOLE.get(quantifier) == 1:
            return []
        missing = [f"{len(self.parts) - looks} without a run"] * (looks < len(self.parts))
        sure = sum(low > 0 for low, _ in bounds), sum(high < 0 for _, high in bounds)
        neither = any(part.twin or part.estimate.seeds < 2 for part in self.parts if part.estimate is not None)
        counts = "{} for and {} against after correction".format(*sure)
        counts += ", stand-ins and single seeds counted as neither" * neither
        return [f"over {counted(looks, 'cell')}", *missing, counts]

    def _draws(self, seen: list[Part]) -> list[str]:
        few, many = (of(part.estimate.seeds for part in seen) for of in (min, max))
        alike = ["alike: equal answers, and so no interval"] * any(part.alike for part in seen)
        if many > 1:
            return [*alike, counted(many, self.unit) if few == many else f"{few} to {many} {self.unit}s"]
        items = any(part.alike or isfinite(part.estimate.low) for part in seen)
        return [*alike, f"one {self.unit}" + (", so of these models alone" if items else " and so no interval")]


def by_seed(
    records: Sequence[Record],
    measure: Callable[[Record], float | None],
    stage: str,
    model: str,
    task: str | None = None,
) -> pd.Series:
    """High minus Original of one number a run: a mean over tasks for each pretraining seed that has all of them.

    Seeds are what is drawn again; another task or fine-tuning of the same seed is no other draw.
    """
    sides: list[dict[Any, float]] = []
    for name in ("high", "original"):
        runs = select(list(records), stage, model=model, algorithm=name)
        runs = [run for run in runs if task is None or run["metrics"].get("task") == task]
        found = ((task_scores.seed_key(run), str(run["metrics"].get("task")), measure(run)) for run in runs)
        sides.append({(seed, which): value for seed, which, value in found if value is not None})
    rows = [(key[0][0], key[1], sides[0][key] - sides[1][key]) for key in sides[0].keys() & sides[1].keys()]
    return seed_means(rows)


def seed_means(rows: Iterable[tuple[Any, Any, float]]) -> pd.Series:
    """The mean over cells for each seed that has all of them, from (seed, cell, value) rows; empty without any."""
    frame = pd.DataFrame(sorted(rows, key=str), columns=["seed", "cell", "value"])
    return frame.pivot_table(index="seed", columns="cell", values="value", sort=False).dropna().mean(axis=1)


def change(found: dict[str, pd.Series], weights: dict[str, float] | None = None) -> Estimate | None:
    """Combine the changes of some models within each seed that they share (the mean unless weighted).

    Another size of the same seed is no other draw. None without such a seed.
    """
    shared = pd.concat(found, axis=1).dropna() if found else pd.DataFrame()
    if shared.empty:
        return None
    weights = weights or dict.fromkeys(found, 1 / len(found))
    return mean_interval(sum(weight * shared[model] for model, weight in weights.items()).tolist())


def each_size(models: dict[str, str], gaps: Callable[[str], pd.Series], what: str = "", sign: int = -1) -> list[Part]:
    """One part a size of the paper, from each seed's gap of the model of that size (or its stand-in)."""
    parts = []
    for size in labels.SIZES:
        model = models.get(size)
        found = gaps(model) if model else pd.Series(dtype=float)
        name = f"{labels.model_title(model)} {what}".strip() if model else size
        estimate = change({model: found}) if len(found) else None
        parts.append(Part(name, estimate, sign, twin=bool(model) and labels.is_twin(model)))
    return parts
