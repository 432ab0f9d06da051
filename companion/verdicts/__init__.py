"""The paper's claims: what was measured on each, and which of five outcomes it has."""

from companion.verdicts.claims_and_measurements import claims
from companion.verdicts.outcomes import OUTCOMES, Verdict, decided, of_claim, verdicts
from companion.verdicts.studies import Studies, tracked
from companion.verdicts.table import caption, one_claim, sensitivity, shown, to_markdown, write

__all__ = [
    "OUTCOMES",
    "Studies",
    "Verdict",
    "caption",
    "claims",
    "decided",
    "of_claim",
    "one_claim",
    "sensitivity",
    "shown",
    "to_markdown",
    "tracked",
    "verdicts",
    "write",
]
