"""Which measurements belong to which claim, and what they decide."""

from collections.abc import Callable, Mapping

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
    return MEASURES[id](studies) if id in MEASURES else []


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


def reruns(studies: Studies, decided: list[Verdict]) -> dict[tuple[str, str, str], float]:
    """Return the estimates that change when repeated runs take the place of the first: by claim, study, measurement."""
    again, found = studies.with_reruns(), {}
    repeated = {
        (study, run["name"]) for study, runs in again.records.items()
        for run, first in zip(runs, studies.records[study]) if run is not first
    }  # fmt: skip
    touched = [
        row for row in decided if any((row.study, name) in repeated for part in row.parts for name in part.records)
    ]
    for claim in {row.claim.id: row.claim for row in touched}.values():
        first = {(row.claim, row.study, row.part): row.estimate for row in measurements(claim.id, studies)}
        later = {(row.claim, row.study, row.part): row.estimate for row in measurements(claim.id, again)}
        found |= {key: value for key, value in later.items() if key in first and value != first[key]}
    return found
