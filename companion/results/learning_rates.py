"""Rows of the study `learning`, which its own reader decides as its plan says."""

from collections.abc import Iterator
from dataclasses import replace
from math import nan

from companion.results.row import CONTRADICTED, NO_EFFECT, OPEN, SUPPORTED, Endpoint, Row
from companion.results.study import Study
from companion.setup import paths
from companion.statistics import Estimate
from companion.studies import plan
from companion.studies.learning import design
from companion.studies.learning import read as learning
from companion.studies.learning.design import Learning

# what its reader says, in the words of the table
WORDS = {
    "supported": SUPPORTED,
    "sooner": SUPPORTED,
    "contradicted": CONTRADICTED,
    "later": CONTRADICTED,
    "no effect": NO_EFFECT,
    "within the margin": NO_EFFECT,
    "imprecise": OPEN,
    "open": OPEN,
}


def rows() -> Iterator[Row]:
    """Yield the rows of the study `learning`, once its records are tracked."""
    folder = paths.results(design.NAME)
    if not folder.is_dir():
        return
    planned = plan.section(plan.file(), design.NAME, Learning)
    made = learning.load(planned, folder)
    study = Study(design.NAME, (), plan.studies()[design.NAME])
    first_analysis = planned.primary.analyses[0]
    for planned_as, readings in (
        ("primary", learning.decided(made)),
        ("secondary", learning.secondaries(made)),
    ):
        for reading in readings:
            if reading.row.n >= first_analysis:
                yield _read(study, reading, planned_as)
    beside = [row for row in learning.by_hops(made) if row.n >= first_analysis]
    beside += [row for row in learning.scale(made) if row.n == len(planned.scale.seeds)]
    beside += learning.at_rates(made)
    for compared in beside:
        if compared.endpoint != learning.PLANNED_ENDPOINT:
            endpoint = Endpoint(compared.endpoint, "ratio of steps", -1, reference=1.0)
            estimate = Estimate(compared.estimate, compared.low, compared.high, compared.n)
            row = study.row(endpoint, _sides(compared.contrast), estimate)
            yield replace(row, scope=_scope(row, [planned.width, *planned.scale.widths]))


def _read(study: Study, reading: learning.Reading, planned: str) -> Row:
    """Return a reading of the plan's rule as a row, with its plain interval."""
    compared = reading.row
    endpoint = Endpoint(compared.endpoint, "ratio of steps", -1, reference=1.0)
    estimate = Estimate(
        compared.estimate, compared.low, compared.high, compared.n, sign_test=reading.p
    )
    row = study.row(endpoint, _sides(compared.contrast), estimate)
    low, high = reading.interval
    rule = f"plan: {100 * reading.level:.3g} % interval [{low:.4g}, {high:.4g}] below 1"
    if planned == "secondary":
        rule = f"plan: Holm over the secondary contrasts, p = {reading.adjusted:.2g}"
    never = f"never there: {len(compared.unreached)}" if compared.unreached else ""
    return replace(
        row,
        margin=study.plan.primary.margin if study.plan else nan,
        planned=planned,
        rule=rule,
        outcome=WORDS.get(reading.outcome, ""),
        note=never,
    )


def _scope(row: Row, widths: list[int]) -> str:
    """Return the scope of a row: the plan's, with the width, or the widths, that the row is of."""
    usual = f"width {widths[0]}"
    _, named, width = row.endpoint.rpartition(", width ")
    if named:
        return row.scope.replace(usual, f"width {width}")
    if "width" in row.endpoint:
        listed = ", ".join(map(str, widths[:-1]))
        return row.scope.replace(usual, f"widths {listed} and {widths[-1]}")
    return row.scope


def _sides(contrast: str) -> str:
    """Return a contrast for readers: "high / original" -> "High / Original"."""
    first, second = contrast.split(" / ")
    return f"{first[0].upper()}{first[1:]} / {second[0].upper()}{second[1:]}"
