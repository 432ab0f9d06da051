"""Which measurements belong to which claim, and what they decide."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from saobp.study.verdicts import attention, cost, graphs, hops, performance, retrofit, scores, training
from saobp.study.verdicts.model import Claim, Measurement, claims
from saobp.study.verdicts.outcomes import NOT_RUN, Verdict, decide
from saobp.study.verdicts.studies import Studies

FAMILIES = (scores, training, attention, graphs, performance, hops, cost, retrofit)
MEASURES: Mapping[str, Callable[[Studies], list[Measurement]]] = {
    id: measure for family in FAMILIES for id, measure in family.MEASURES.items()
}


def measurements(id: str, studies: Studies) -> list[Measurement]:
    """Return all measurements of a claim; none where nothing measures it or nothing was run."""
    return [replace(row, claim=id) for row in MEASURES[id](studies)] if id in MEASURES else []


def verdicts(studies: Studies, wanted: Mapping[str, Claim] | None = None) -> list[Verdict]:
    """Decide every claim, once per scope and study that measured it; a claim that none did is "not run"."""
    return [verdict for claim in (wanted or claims()).values() for verdict in of_claim(claim, studies)]


def of_claim(claim: Claim, studies: Studies) -> list[Verdict]:
    """Decide one claim from each study apart: studies differ in text, size and steps, so they are not pooled."""
    found = measurements(claim.id, studies)
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
    for id in dict.fromkeys(row.claim.id for row in decided):
        first = {row.key: _ends(row) for row in measurements(id, studies)}
        later = {row.key: row for row in measurements(id, again)}
        found |= {key: row for key, row in later.items() if key in first and _ends(row) != first[key]}
    return found


def _ends(row: Measurement) -> tuple[float, float, float]:
    return row.estimate, row.low, row.high
