"""The paper's claims: what was measured on each, and which of five outcomes it has."""

from saobp.study.verdicts.claims_and_measurements import Claim, Measurement, claims
from saobp.study.verdicts.outcomes import OUTCOMES, Verdict, decide, of_claim, verdicts
from saobp.study.verdicts.studies import Studies, tracked
from saobp.study.verdicts.table import frame, one_claim, shown, to_latex, to_markdown, write

__all__ = [
    "OUTCOMES", "Claim", "Measurement", "Studies", "Verdict", "claims", "decide", "frame", "of_claim", "one_claim",
    "shown", "to_latex", "to_markdown", "tracked", "verdicts", "write",
]  # fmt: skip
