"""Which function measures a claim (data/claims.yaml), and what its measurements decide."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace

from saobp.study.verdicts import attention, cost, graphs, hops, performance, retrofit, scores, training
from saobp.study.verdicts.model import Claim, Measurement, claims
from saobp.study.verdicts.outcomes import NOT_RUN, Verdict, decide
from saobp.study.verdicts.studies import Studies

FAMILIES = {module.__name__.rpartition(".")[2]: module for module in (
    scores, training, attention, graphs, performance, hops, cost, retrofit)}  # fmt: skip


def measurements(claim: Claim, studies: Studies) -> list[Measurement]:
    """Return all measurements of a claim; none where nothing measures it or nothing was run."""
    return [replace(row, claim=claim.id) for row in measure(claim)(studies)]


def measure(claim: Claim) -> Callable[[Studies], list[Measurement]]:
    """Return what measures a claim. ValueError for a function that there is not, or another argument than it takes."""
    given = dict(claim.measure)
    family, _, name = given.pop("by", "").partition(".")
    found = getattr(FAMILIES.get(family), name, None)
    try:
        inspect.signature(found).bind(None, **given)
    except TypeError as error:
        if not claim.measure:
            return lambda studies: []
        why = error if found else f"no function {claim.measure.get('by')!r} in saobp/study/verdicts"
        raise ValueError(f"data/claims.yaml, {claim.id}: measure: {why}") from None
    return lambda studies: found(studies, **given)


def verdicts(studies: Studies, wanted: Mapping[str, Claim] | None = None) -> list[Verdict]:
    """Decide every claim, once per scope and study that measured it; a claim that none did is "not run"."""
    return [verdict for claim in (wanted or claims()).values() for verdict in of_claim(claim, studies)]


def of_claim(claim: Claim, studies: Studies) -> list[Verdict]:
    """Decide one claim from each study apart: studies differ in text, size and steps, so they are not pooled."""
    found = measurements(claim, studies)
    rows = []
    deciding = [*dict.fromkeys((row.scope, row.study) for row in found if not row.aside)]
    for place in deciding:
        own = [row for row in found if (row.scope, row.study) == place]
        parts = tuple(row for row in own if not row.aside)
        others = [row for row in found if place == deciding[0] and (row.scope, row.study) not in deciding]
        aside = (*(row for row in own if row.aside), *others)
        rows.append(Verdict(claim, *place, decide(claim, parts), parts, aside))
    return rows or [Verdict(claim, "", "", NOT_RUN)]


def reruns(studies: Studies, decided: list[Verdict]) -> dict[tuple[str, str, str], Measurement]:
    """Return the measurements that change when repeated runs take the place of the first: by claim, study, part."""
    again, found = studies.with_reruns(), {}
    for claim in {row.claim.id: row.claim for row in decided}.values():
        first = {row.key: _ends(row) for row in measurements(claim, studies)}
        later = {row.key: row for row in measurements(claim, again)}
        found |= {key: row for key, row in later.items() if key in first and _ends(row) != first[key]}
    return found


def _ends(row: Measurement) -> tuple[float, float, float]:
    return row.estimate, row.low, row.high
