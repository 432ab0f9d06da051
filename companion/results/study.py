"""A tracked study: its records, what its own file or its plan says of it, and rows made of both."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import nan
from typing import Any

from companion import records
from companion.records import tracked
from companion.records.schema import Record
from companion.results import claims_file
from companion.results.row import Endpoint, Row, Rule, p_value, slug
from companion.setup import labels, paths, studies
from companion.setup.sizes_and_strengths import SIZES
from companion.statistics import Estimate, level_at
from companion.statistics.intervals import LEVEL
from companion.studies.plan import Endpoint as PlannedEndpoint
from companion.studies.plan import Planned
from companion.studies.plan import studies as planned_studies

# the text that a study's models read, by what its file says of its data
STORY_TEXT, REAL_TEXT = "story world", "real text"
# the stage whose records are a planned study of their own
UNTRAINED = "retrofit-untrained"
# names of an endpoint in a plan that mean the primary one
SAME = ("the same", "the same mean")


@dataclass(frozen=True)
class Study:
    """One study: a folder of data/results. `plan` is its section of the plan, where it has one."""

    name: str
    records: Sequence[Record]
    plan: Planned | None = None
    # of the study that its records name, which is its own unless its runs are a copy's
    data: str = REAL_TEXT

    def runs(self, stage: str, **parameters: Any) -> list[Record]:
        """Return the records of a stage whose parameters have the given values."""
        return records.select(self.records, stage, **parameters)

    def models(self, stage: str) -> list[str]:
        """Return the models that a stage was run with, in the order of their names."""
        return sorted({run["parameters"]["model"] for run in self.runs(stage)})

    def scope(self, model: str = "") -> str:
        """Return what was run: the plan's words, else the text and the model's shape."""
        if self.plan is not None:
            return self.plan.scope
        size = SIZES.get(model.removeprefix(labels.DECODER))
        shape = f"{size.layers} layers, width {size.hidden}" if size else ""
        return ", ".join(filter(None, (self.data, shape)))

    def row(
        self, endpoint: Endpoint, contrast: str, estimate: Estimate, model: str = "", note: str = ""
    ) -> Row:
        """Return the row of a comparison: its plain interval, and the outcome by the rule that holds
        for it.
        """
        planned, entry = self.planned(endpoint, contrast)
        margin = claims_file.margins().get(slug(endpoint.name), nan)
        if entry is not None and entry.margin is not None:
            margin = entry.margin
        rule = self._rule(endpoint, margin, estimate.seeds if planned else 0)
        row = Row(
            self.name,
            endpoint.name,
            endpoint.unit,
            contrast,
            estimate.value,
            n=estimate.seeds,
            of_what=endpoint.of_what,
            margin=margin,
            planned=planned,
            rule=rule.words(estimate),
            outcome=rule.outcome(estimate),
            scope=self.scope(model),
            note=note,
            expected=endpoint.expected,
            reference=endpoint.reference,
        )
        if estimate.seeds < 2:
            return row
        p = p_value(estimate, endpoint.reference)
        return replace(row, low=estimate.low, high=estimate.high, p=p)

    def level(
        self, endpoint: Endpoint, what: str, value: float, n: int = 0, model: str = ""
    ) -> Row:
        """Return the row of a level, such as one algorithm's mean; it has no interval."""
        scope = self.scope(model)
        counted = endpoint.of_what if n else ""
        row = Row(self.name, endpoint.name, endpoint.unit, what, float(value), scope=scope)
        return replace(row, n=n, of_what=counted)

    def planned(self, endpoint: Endpoint, contrast: str) -> tuple[str, PlannedEndpoint | None]:
        """Return "primary" or "secondary" and the plan's entry of a comparison, or "" and None."""
        if self.plan is None or not endpoint.planned:
            return "", None
        sides = contrast.lower().replace("−", "-")
        names = (endpoint.planned,)
        if endpoint.planned == "primary":
            if self.plan.primary.contrast == sides:
                return "primary", self.plan.primary
            names = SAME
        for entry in self.plan.secondary:
            if entry.endpoint in names and entry.contrast in (sides, "arm - original"):
                return "secondary", entry
        return "", None

    def _rule(self, endpoint: Endpoint, margin: float, seeds: int) -> Rule:
        """Return the plan's rule for a planned endpoint of so many seeds, else the plain one."""
        if not seeds or self.plan is None:
            return Rule(endpoint, margin, planned=False)
        readings = self.plan.primary.readings
        if len(readings) > 1 and seeds in readings:
            level = level_at(readings, seeds)
            return Rule(endpoint, margin, True, level, tuple(readings))
        return Rule(endpoint, margin, True, 1 - LEVEL)


@cache
def tracked_studies() -> tuple[Study, ...]:
    """Return every study in data/results, in the order of their names."""
    folders = (paths.root() / "data" / "results").iterdir()
    # a hidden folder is that of a cut publication
    names = sorted(path.name for path in folders if path.is_dir() and path.name[0] != ".")
    return tuple(study for name in names for study in load(name))


def load(name: str) -> list[Study]:
    """Return a study as its folder, its file and its plan have it.

    What a study did to public models without training them is a study of its own, as in the plan:
    "retrofit-untrained" beside "retrofit".
    """
    every = tracked.study(name)
    home = every[0]["study"] if every else name
    data = REAL_TEXT
    if home in studies.available() and studies.load_study(home).data == "synthetic":
        data = STORY_TEXT
    untrained = [run for run in every if run["stage"] == UNTRAINED]
    trained = [run for run in every if run["stage"] != UNTRAINED]
    parts = {name: trained, name + UNTRAINED.removeprefix("retrofit"): untrained}
    plans = planned_studies()
    return [Study(part, runs, plans.get(part), data) for part, runs in parts.items() if runs]
