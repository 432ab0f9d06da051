"""What the records of the study `learning` say: ratios of times to learn, read as the plan says."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import exp, isfinite, log, nan
from pathlib import Path
from typing import Any

import numpy as np

from companion import records
from companion.statistics import holm, level_at, mean_interval
from companion.statistics.intervals import LEVEL
from companion.statistics.time_to_learn import Ratio, Row, Times, log_differences, ratio, row
from companion.studies import plan
from companion.studies.learning import design
from companion.studies.learning.design import HIGH, ORIGINAL, Learning, Run

# name for readers -> hops; the first is the plan's
ENDPOINTS = {
    "steps to 90 % of two and three hops": (2, 3),
    "steps to 90 % of two hops": (2,),
    "steps to 90 % of three hops": (3,),
}
PLANNED_ENDPOINT = next(iter(ENDPOINTS))
AT_BEST_RATES = (f"{HIGH} at its best rate", f"{ORIGINAL} at its best rate")


@dataclass(frozen=True)
class Cell:
    """The runs of one arm at one rate and width."""

    width: int
    arm: str
    rate: float


@dataclass(frozen=True)
class Reading:
    """One comparison, and what the plan's rule makes of it.

    `interval` is the one that decides, at its `level`. `outcome`: of the primary contrast a key of
    the plan's `outcomes`, "" before its last reading if nothing is decided; of a secondary one
    "sooner", "later", "within the margin" or "open", by `adjusted`, its p-value after Holm.
    """

    row: Row
    level: float = 1 - LEVEL
    interval: tuple[float, float] = (nan, nan)
    outcome: str = ""
    p: float = nan
    adjusted: float = nan


@dataclass
class Study:
    """The plan and the records that there are."""

    planned: Learning
    made: dict[Run, dict[str, Any]] = field(default_factory=dict)

    def seeds(self, cell: Cell) -> set[int]:
        """Return the seeds that a cell has records of."""
        return {run.seed for run in self.made if _cell(run) == cell}

    def times(self, cell: Cell, hops: int, seeds: Iterable[int]) -> Times:
        """Return a cell's steps to learn some number of hops, by seed."""
        times = {}
        for seed in seeds:
            run = Run(cell.width, cell.arm, cell.rate, seed)
            if run in self.made:
                times[str(seed)] = design.time_to_learn(self.planned, self.made[run], hops)
        return times

    def compare(
        self, first: Cell, second: Cell, seeds: Iterable[int], hops: Sequence[int]
    ) -> Ratio | None:
        """Compare two cells over those of the seeds that both have."""
        shared = sorted(self.seeds(first) & self.seeds(second) & {*seeds})
        sides = [[self.times(cell, number, shared) for number in hops] for cell in (first, second)]
        return ratio(*sides, self.planned.steps)

    def best(self, runs: Sequence[Run]) -> dict[str, float]:
        """Return each arm's best rate; none while one of the runs that choose it is missing."""
        if not all(run in self.made for run in runs):
            return {}
        return design.chosen_rates(self.planned, {run: self.made[run] for run in runs})

    def best_here(self) -> dict[str, float]:
        """Return the best rates at the usual width."""
        return self.best(self.planned.rate_runs())

    def best_at(self, width: int) -> dict[str, float]:
        """Return the best rates that a width takes."""
        if width == self.planned.width:
            return self.best_here()
        return self.best(self.planned.wide_rate_runs())


def _cell(run: Run) -> Cell:
    return Cell(run.width, run.arm, run.rate)


def load(planned: Learning, folder: Path) -> Study:
    """Read the records of a folder.

    Raises ValueError, one line that names the file, for one that cannot be read, is of another
    exam, or has an arm, rate, width or seed that the plan has not.
    """
    study = Study(planned)
    for path in sorted(folder.glob("*.json")):
        record = records.read(path)
        parameters = {key: record["parameters"].get(key) for key in Run.__dataclass_fields__}
        run = Run(**parameters)
        _refuse_unplanned(planned, run, path)
        design.refuse_another_recipe(planned, run, record, path)
        study.made[run] = record
    return study


def _refuse_unplanned(planned: Learning, run: Run, path: Path) -> None:
    """Raise ValueError for a run that the plan has not."""
    scale = planned.scale
    seeds = {*planned.seeds, *planned.rates.seeds, *scale.seeds, *scale.rate_seeds}
    known = {
        "arm": [*planned.arms],
        "rate": planned.rates.values,
        "width": [planned.width, *scale.widths],
        "seed": sorted(seeds),
    }
    for key, values in known.items():
        value = getattr(run, key)
        if value not in values:
            raise ValueError(f"{path}: {key} {value} is none of the plan's: remove it")


def primary(study: Study) -> list[Reading]:
    """Return the primary contrast at each analysis of the plan whose seeds have all run.

    An O'Brien-Fleming bound decides at each. After a decision the later ones are beside it.
    """
    best, planned = study.best_here(), study.planned
    readings: list[Reading] = []
    if not best:
        return readings
    high, original = (Cell(planned.width, arm, best[arm]) for arm in (HIGH, ORIGINAL))
    shared = study.seeds(high) & study.seeds(original)
    for n in planned.primary.analyses:
        seeds = planned.seeds[:n]
        if shared.issuperset(seeds):
            compared = study.compare(high, original, seeds, ENDPOINTS[PLANNED_ENDPOINT])
            readings.append(_at_analysis(planned, compared, n))
    return readings


def decided(study: Study) -> list[Reading]:
    """Return the reading of the primary contrast that decides: the first one with an outcome, or the
    last that there is; none before the first analysis.
    """
    readings = primary(study)
    outcomes = [reading for reading in readings if reading.outcome]
    return outcomes[:1] or readings[-1:]


def _at_analysis(planned: Learning, compared: Ratio | None, n: int) -> Reading:
    """Read the primary contrast at an analysis of so many seeds."""
    analyses, margin = planned.primary.analyses, planned.primary.margin
    made = row(design.NAME, PLANNED_ENDPOINT, AT_BEST_RATES, compared)
    level = level_at(analyses, n)
    low, high = _ends(compared, level)
    outcome = ""
    if high < 0 or low > 0:
        sooner = (high < 0) == (planned.primary.direction < 0)
        outcome = "supported" if sooner else "contradicted"
    elif n == analyses[-1]:
        within = -log(1 + margin) < low and high < log(1 + margin)
        outcome = "no effect" if within else "imprecise"
    p = nan if compared is None else compared.logs.p
    return Reading(made, level, (exp(low), exp(high)), outcome, p)


def _ends(compared: Ratio | None, level: float) -> tuple[float, float]:
    """Return the ends of an interval of logarithms at a level; NaN where there is none."""
    if compared is None or compared.logs.error is None:
        return nan, nan
    reach = compared.logs.error.reach(level)
    return compared.logs.value - reach, compared.logs.value + reach


def secondaries(study: Study) -> list[Reading]:
    """Return the plan's secondary contrasts, each at Original's best rate, Holm over all of them.

    Each is read over the plan's seeds that its two arms have. A contrast without runs has no
    number, and counts for Holm as one whose p-value is 1.
    """
    best, planned = study.best_here(), study.planned
    family = [entry for entry in planned.secondary if entry.margin is not None]
    compared: list[Ratio | None] = []
    ps = []
    for entry in family:
        comparison, p = None, 1.0
        if best:
            cells = [Cell(planned.width, arm, best[ORIGINAL]) for arm in _sides(entry.contrast)]
            comparison = study.compare(*cells, planned.seeds, ENDPOINTS[PLANNED_ENDPOINT])
        if comparison is not None and isfinite(comparison.logs.p):
            p = comparison.logs.p
        compared.append(comparison)
        ps.append(p)
    return list(map(_secondary, family, compared, ps, holm(ps)))


def _sides(contrast: str) -> tuple[str, str]:
    """Return the two arms of "detached / original"."""
    first, _, second = contrast.partition(" / ")
    return first, second


def _secondary(entry: plan.Endpoint, compared: Ratio | None, p: float, adjusted: float) -> Reading:
    made = row(design.NAME, PLANNED_ENDPOINT, _sides(entry.contrast), compared)
    low, high = _ends(compared, 1 - LEVEL)
    room = log(1 + entry.margin)
    if compared is None:
        outcome = ""
    elif adjusted < LEVEL:
        outcome = "sooner" if compared.logs.value < 0 else "later"
    else:
        outcome = "within the margin" if -room < low and high < room else "open"
    return Reading(made, 1 - LEVEL, (exp(low), exp(high)), outcome, p, adjusted)


def by_hops(study: Study) -> list[Row]:
    """Return the primary and the secondary contrasts for two and for three hops, which are beside.

    The primary contrast is over all seeds that have run, decided or not.
    """
    best, planned = study.best_here(), study.planned
    if not best:
        return []
    width, rate = planned.width, best[ORIGINAL]
    contrasts = {AT_BEST_RATES: (Cell(width, HIGH, best[HIGH]), Cell(width, ORIGINAL, rate))}
    for entry in planned.secondary:
        if entry.margin is not None:
            sides = _sides(entry.contrast)
            contrasts[sides] = tuple(Cell(width, arm, rate) for arm in sides)
    table = []
    for sides, cells in contrasts.items():
        for endpoint, hops in ENDPOINTS.items():
            if endpoint != PLANNED_ENDPOINT or sides == AT_BEST_RATES:
                compared = study.compare(*cells, planned.seeds, hops)
                table.append(row(design.NAME, endpoint, sides, compared))
    return table


def by_width(study: Study) -> dict[int, dict[str, float]]:
    """Return High / Original at the best rates of each width: width -> seed -> log ratio."""
    planned, ratios = study.planned, {}
    for width in (planned.width, *planned.scale.widths):
        best = study.best_at(width)
        if not best:
            continue
        sides = []
        for arm in (HIGH, ORIGINAL):
            cell = Cell(width, arm, best[arm])
            sides.append([study.times(cell, hops, planned.scale.seeds) for hops in design.HOPS])
        logs = log_differences(*sides, planned.steps)
        if logs:
            ratios[width] = logs
    return ratios


def scale(study: Study) -> list[Row]:
    """Return High / Original at each width, its change per doubling, and how the middle one fits.

    The change is the least-squares slope of each seed's log ratio over log2 of the width, over the
    seeds that every width has; the middle width beside the line between the two others.
    """
    best = {width: study.best_at(width) for width in by_width(study)}
    seeds, table = study.planned.scale.seeds, []
    for width, rates in best.items():
        cells = [Cell(width, arm, rates[arm]) for arm in (HIGH, ORIGINAL)]
        for endpoint, hops in ENDPOINTS.items():
            compared = study.compare(*cells, seeds, hops)
            named = f"{endpoint}, width {width}"
            table.append(row(design.NAME, named, AT_BEST_RATES, compared))
    logs = by_width(study)
    if len(logs) == 1 + len(study.planned.scale.widths):
        table += [_over_widths("change per doubling of the width", slopes(logs))]
        table += [_over_widths("middle width over the line between the others", bends(logs))]
    return table


def _over_widths(endpoint: str, values: Sequence[float]) -> Row:
    """Return a row of logarithms, one a seed, as a ratio."""
    compared = Ratio(mean_interval(values)) if values else None
    return row(design.NAME, endpoint, AT_BEST_RATES, compared)


def _grid(logs: dict[int, dict[str, float]]) -> tuple[np.ndarray, np.ndarray]:
    """Return log2 of the widths, and the log ratios (width, seed) of the seeds that all have."""
    widths = sorted(logs)
    shared = sorted(set.intersection(*(set(logs[width]) for width in widths)))
    values = np.array([[logs[width][seed] for seed in shared] for width in widths])
    return np.log2(widths), values.reshape(len(widths), len(shared))


def slopes(logs: dict[int, dict[str, float]]) -> list[float]:
    """Return each seed's least-squares slope of the log ratio over log2 of the width."""
    doublings, values = _grid(logs)
    centred = doublings - doublings.mean()
    return (centred @ values / (centred @ centred)).tolist()


def bends(logs: dict[int, dict[str, float]]) -> list[float]:
    """Return how far each seed's middle width lies above the line between the narrowest and the
    widest.
    """
    doublings, values = _grid(logs)
    middle = len(doublings) // 2
    part = (doublings[middle] - doublings[0]) / (doublings[-1] - doublings[0])
    line = (1 - part) * values[0] + part * values[-1]
    return (values[middle] - line).tolist()


def at_rates(study: Study) -> list[Row]:
    """Return what the rate does, on the seeds that choose it and once all of them have run.

    High / Original at each rate, and Original at its best rate / at each other one.
    """
    planned, best = study.planned, study.best_here()
    if not best:
        return []
    width, seeds = planned.width, planned.rates.seeds
    compared = []
    for rate in planned.rates.values:
        high, original = (Cell(width, arm, rate) for arm in (HIGH, ORIGINAL))
        pairs = [((HIGH, ORIGINAL), high, original)]
        if rate != best[ORIGINAL]:
            sides = (f"{ORIGINAL} at its best rate", f"{ORIGINAL} at this rate")
            pairs.append((sides, Cell(width, ORIGINAL, best[ORIGINAL]), original))
        for sides, first, second in pairs:
            result = study.compare(first, second, seeds, ENDPOINTS[PLANNED_ENDPOINT])
            endpoint = f"{PLANNED_ENDPOINT} at a learning rate of {rate:g}"
            compared.append(row(design.NAME, endpoint, sides, result))
    return compared
