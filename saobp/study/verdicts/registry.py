"""Which function measures a claim (data/claims.yaml), and what its measurements decide."""

import inspect
from collections.abc import Callable
from dataclasses import replace

from saobp.study.verdicts import attention, gtd, planned, scores, training
from saobp.study.verdicts.claims_and_measurements import Claim, Measurement, claims
from saobp.study.verdicts.outcomes import NOT_RUN, Verdict, decide
from saobp.study.verdicts.studies import Studies

FAMILIES = {"attention": attention, "gtd": gtd, "planned": planned, "scores": scores, "training": training}


def measurements(claim: Claim, studies: Studies) -> list[Measurement]:
    """Return all measurements of a claim; none where nothing measures it or nothing was run."""
    return [replace(row, claim=claim.id) for row in measure(claim)(studies)] if claim.measure else []


def measure(claim: Claim) -> Callable[[Studies], list[Measurement]]:
    """Return what measures a claim. ValueError for a function that there is not, or another argument than it takes."""
    given = dict(claim.measure)
    family, _, name = given.pop("by").partition(".")
    found = getattr(FAMILIES.get(family), name, None)
    try:
        inspect.signature(found).bind(None, **given)
    except TypeError as error:
        why = error if found else f"no function {claim.measure['by']!r} in saobp/study/verdicts"
        raise ValueError(f"data/claims.yaml, {claim.id}: measure: {why}") from None
    return lambda studies: found(studies, **given)


def verdicts(studies: Studies) -> list[Verdict]:
    """Decide every claim, once per scope and study that measured it; a claim that none did is "not run"."""
    return [verdict for claim in claims().values() for verdict in of_claim(claim, studies)]


def of_claim(claim: Claim, studies: Studies) -> list[Verdict]:
    """Decide one claim from each study apart: studies differ in text, size and steps, so they are not pooled."""
    found = measurements(claim, studies)
    places = [*dict.fromkeys((row.scope, row.study) for row in found if not row.aside)]
    rows = []
    for place in places:
        own = [row for row in found if (row.scope, row.study) == place]
        parts, aside = (tuple(row for row in own if row.aside == aside) for aside in (False, True))
        if place == places[0]:
            aside += tuple(row for row in found if (row.scope, row.study) not in places)
        rows.append(Verdict(claim, *place, decide(claim, parts), parts, aside))
    return rows or [Verdict(claim, "", "", NOT_RUN)]


def reruns(studies: Studies, decided: list[Verdict]) -> dict[tuple[str, str, str], Measurement]:
    """Return the measurements that change when repeated runs take the place of the first: by claim, study, part."""
    again, found = studies.with_reruns(), {}
    rows = (row for verdict in decided for row in (*verdict.parts, *verdict.aside))
    first = {row.key: (row.estimate, row.low, row.high) for row in rows}
    for claim in {row.claim.id: row.claim for row in decided}.values():
        for row in measurements(claim, again):
            if first.get(row.key, now := (row.estimate, row.low, row.high)) != now:
                found[row.key] = row
    return found
