"""What a claim of the paper is, and what a measurement of it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import inf, isfinite
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field, ValidationError
from scipy import stats

from companion.beyond import plan
from companion.records.schema import Record
from companion.setup import labels, paths, typed_by_hand
from companion.setup.typed_by_hand import Strict
from companion.statistics import Error, Estimate, level_at
from companion.statistics.intervals import NORMAL

# an interval's ends at a level
Ends = Callable[[float], tuple[float, float]]
AT_PAPER_SIZE, SCALED, STORIES, PUBLIC, PRINTED = (
    "paper's depth and width",
    "scaled-down model",
    "story world",
    "public encoder",
    "printed numbers",
)
SEEDS = "Student's t over seeds"
# pairs of runs that were measured on two
TWO_MACHINES = "two_machines"


class Claim(Strict):
    """One claim as data/claims.yaml has it, with its margin as a number."""

    id: str
    title: str
    sentence: str
    place: str
    endpoint: str
    # "by": a function of this room, and what it is given; empty: nothing measures it
    measure: dict[str, Any] = {}
    unit: str
    direction: Literal[-1, 0, 1]
    reference: float = 0.0
    margin: float = Field(gt=0)
    # the study of the plan, and its secondary endpoint, that sets the margin
    planned: dict[str, str] = {}
    rule: Literal["one", "all", "most"]
    # that the sentence names; 0: as many as are measured
    parts: int = 0

    def needed(self, measured: int) -> int:
        """Return how many parts have to hold of those measured; for "most", of those named."""
        return (self.parts or measured) // 2 + 1 if self.rule == "most" else measured

    def signed(self, value: float) -> float:
        """Return a value in margins from the reference, above 0 where the claim holds.

        Of a claim that something stays within the margin (direction 0), what lies above the
        reference is below 0.
        """
        return (self.direction or -1) * (value - self.reference) / self.margin


@dataclass(frozen=True)
class Measurement:
    """One number of ours on one claim: in one study, of one part that the claim names.

    Readers see `part` and `title`; code finds it by `place`. `interval(level)` gives its ends.
    `aside`: shown, and decides nothing. `post_hoc`: named after it was seen.
    """

    part: str
    scope: str
    study: str
    estimate: float
    interval: Ends
    n: int
    # what n counts
    of: str = "seed"
    method: str = SEEDS
    records: tuple[str, ...] = ()
    # the part without the model
    title: str = ""
    model: str = ""
    # of the part: a task, a measure, a layer, another algorithm
    key: str = ""
    paper: float | None = None
    aside: bool = False
    # what it leaves out of the part that decides: an algorithm, a model or `TWO_MACHINES`
    without: str = ""
    post_hoc: bool = False
    error: Error | None = field(default=None, compare=False)
    # with the runs that were made twice as their other run had it, if that differs
    again: Measurement | None = None

    @property
    def place(self) -> tuple[str, ...]:
        """Study, model, key and what is left out: no two measurements of a claim have them all
        alike.
        """
        return self.study, self.model, self.key, self.without

    @property
    def low(self) -> float:
        """Lower end of the 95 % interval."""
        return self.interval(0.95)[0]

    @property
    def high(self) -> float:
        """Upper end of the 95 % interval."""
        return self.interval(0.95)[1]

    @property
    def bounded(self) -> bool:
        """Whether the 95 % interval says anything: finite ends, and for a correlation not all of -1
        to 1.
        """
        return bool(np.isfinite([self.low, self.high]).all()) and (self.low, self.high) != (-1, 1)

    def at_reading(self, analyses: Sequence[int], *, planned: bool = True) -> Measurement:
        """Widen the interval for the other readings of the same question (O'Brien and Fleming).

        With another number of seeds than an analysis has, what was `planned` decides nothing: it
        stands aside.
        """
        if self.n not in analyses:
            return replace(self, aside=self.aside or planned)
        method = (
            f"{self.method}; {len(analyses)} analyses, O'Brien-Fleming"
            if len(analyses) > 1
            else self.method
        )
        return replace(
            self,
            interval=lambda level: self.interval(level_at(analyses, self.n, level)),
            method=method,
        )


def on_scale(row: Measurement, back: Callable[[float], float], note: str) -> Measurement:
    """Return a measurement of logarithms or of Fisher's z in the unit of its claim, by the function
    `back`.
    """

    def interval(level: float) -> tuple[float, float]:
        return tuple(float(back(end)) for end in row.interval(level))

    return replace(
        row, estimate=float(back(row.estimate)), interval=interval, method=f"{row.method}, {note}"
    )


def measured(
    study: str,
    model: str,
    found: Estimate,
    part: str = "",
    also: str = "",
    runs: Iterable[Record] = (),
    **given: Any,
) -> Measurement:
    """Return the measurement that an estimate from `runs` is, of `part`, model and `also`; `given`:
    other fields.

    An estimate that has ends and no error gets its interval at any level by the normal law, each
    side for itself; one that has neither gets an infinite interval.
    """

    def interval(level: float) -> tuple[float, float]:
        if found.error is None and isfinite(found.low):
            by = float(stats.norm.isf(0.5 - level / 2)) / NORMAL
            return found.value + by * (found.low - found.value), found.value + by * (
                found.high - found.value
            )
        reach = found.error.reach(level) if found.error is not None and found.error.size else inf
        return found.value - reach, found.value + reach

    name = ", ".join(filter(None, (part, labels.model_title(model) if model else "", also)))
    scope = (
        STORIES if study == "stories" else SCALED if labels.is_scaled_down(model) else AT_PAPER_SIZE
    )
    facts = {"scope": scope, "interval": interval, "title": ", ".join(filter(None, (part, also)))}
    facts |= {"n": found.seeds, "error": found.error, "records": tuple(run["name"] for run in runs)}
    return Measurement(part=name, study=study, model=model, estimate=found.value, **facts | given)


def claims(path: Path | None = None) -> dict[str, Claim]:
    """Read all claims, by id. Raises ValueError that names a wrong key, or a margin that is not in
    the plan.
    """
    found, planned, path = {}, plan.studies(), path or paths.root() / "data" / "claims.yaml"
    for id, entry in typed_by_hand.read(path).items():
        if isinstance(named := entry.get("margin"), dict):
            study = planned.get(named["study"])
            ends = [] if study is None else [study.primary] if len(named) == 1 else study.secondary
            margins = [
                one.margin
                for one in ends
                if one.margin and named.get("endpoint") in (None, one.endpoint)
            ]
            if not margins:
                raise ValueError(
                    f"{path}: {id}.margin: the plan has none of {' '.join(named.values())!r}"
                )
            entry |= {"margin": margins[0], "planned": named}
        try:
            found[id] = Claim(id=id, **entry)
        except ValidationError as error:
            place, first = typed_by_hand.first_flaw(error)
            raise ValueError(f"{path}: {id}.{place}: {first['msg']}") from None
    return found
