"""Evidence for a statement: a quantity that is positive if it holds, with its interval, in words."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from saobp.study import estimates, labels
from saobp.study.labels import counted
from saobp.study.records import select
from saobp.study.statistics import Difference, Estimate, holm, mean_interval

Record = dict[str, Any]
Gaps = list[tuple[str, Difference, dict[tuple[Any, ...], float]]]  # model, difference, difference by seed
YES, NO, OPEN = "reproduced", "not reproduced", "cannot be decided at this scale"


@dataclass(frozen=True)
class Evidence:
    """A quantity that is positive if the statement holds, with its interval, in words."""

    words: str
    low: float = float("nan")
    high: float = float("nan")
    twins: bool = False

    def verdict(self) -> str:
        """Decided where the interval lies on one side of 0 and the models are the paper's own sizes."""
        if self.twins or not isfinite(self.low) or not isfinite(self.high):
            return OPEN
        return YES if self.low > 0 else NO if self.high < 0 else OPEN


def pooled(gaps: Gaps, what: str) -> Evidence | None:
    """The mean difference over models and tasks, and how many cells stand alone after Holm's correction.

    One seed decides nothing: the words say so and the interval stays open.
    """
    if not gaps:
        return None
    by_model: dict[str, list] = {}
    for model, gap, by_seed in gaps:
        by_model.setdefault(model, []).append((gap, by_seed))
    parts = [estimates.pool(cells) for cells in by_model.values()]
    mean = float(np.mean([part.value for part in parts]))
    half = float(np.linalg.norm([part.half_width for part in parts])) / len(parts)
    seeds = min(part.seeds for part in parts)
    alike = [labels.model_title(model) for model, part in zip(by_model, parts) if not isfinite(part.half_width)]
    words = f"{what} {mean:+.2f} points{between(mean, half, alike)} over {counted(len(gaps), 'cell')}; "
    words += _alone([gap for _, gap, _ in gaps]) + ("; one seed" if seeds == 1 else f"; {seeds} seeds")
    reach = half if seeds > 1 else float("nan")
    return Evidence(words, mean - reach, mean + reach, all(map(labels.is_twin, by_model)))


def between(mean: float, half: float, alike: Sequence[str] = ()) -> str:
    """The interval around a mean, in brackets; it is undefined where the runs of a model answer alike."""
    if isfinite(half):
        return f" [{mean - half:.2f}, {mean + half:.2f}]"
    return f" (no interval: the runs{' of ' if alike else ''}{' and '.join(alike)} answer alike)"


def _alone(gaps: list[Difference]) -> str:
    sure = [gap for gap, p in zip(gaps, holm([gap.p for gap in gaps])) if p < 0.05]
    up = sum(gap.value > 0 for gap in sure)
    return f"{up} up and {len(sure) - up} down after correction"


def change(
    records: Sequence[Record], measure: Callable[[Record], float | None], stage: str, task: str | None = None
) -> tuple[Estimate, bool] | None:
    """High minus Original of one number a run, a mean over models and tasks for each seed: (estimate, twins).

    Seeds are what is drawn again; another size or task of the same seed is no other draw.
    """
    gaps: dict[Any, list[float]] = {}
    models = []
    for model in estimates.models(records):
        sides: list[dict[Any, float]] = []
        for name in ("high", "original"):
            runs = select(list(records), stage, model=model, algorithm=name)
            runs = [run for run in runs if task is None or run["metrics"].get("task") == task]
            found = ((estimates.seed_key(run), run["metrics"].get("task"), measure(run)) for run in runs)
            sides.append({(seed, which): value for seed, which, value in found if value is not None})
        for seed, which in sides[0].keys() & sides[1].keys():
            gaps.setdefault(seed, []).append(sides[0][seed, which] - sides[1][seed, which])
            models.append(model)
    means = [float(np.mean(gaps[seed])) for seed in sorted(gaps, key=str)]
    return (mean_interval(means), all(map(labels.is_twin, models))) if means else None


def judged(found: tuple[Estimate, bool] | None, what: str, sign: int = 1, digits: int = 3) -> Evidence | None:
    """A change in words; `sign` is the direction that the paper states."""
    if found is None:
        return None
    estimate, twins = found
    interval = f"[{estimate.low:.{digits}f}, {estimate.high:.{digits}f}]"
    words = f"{what} {estimate.value:+.{digits}f} {interval}, {counted(estimate.seeds, 'seed')}"
    if not isfinite(estimate.low):
        words = f"{what} {estimate.value:+.{digits}f}, one seed and so no interval"
    low, high = sorted((sign * estimate.low, sign * estimate.high))
    return Evidence(words, low, high, twins)


def words_of(estimate: Estimate) -> str:
    """A value with its interval, where it has one."""
    if not isfinite(estimate.low):
        return f"{estimate.value:.2f}"
    return f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"
