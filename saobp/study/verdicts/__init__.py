"""The paper's claims: what was measured on each, and which of five outcomes it has."""

from saobp.study.verdicts.claims_and_measurements import Claim, Measurement, claims
from saobp.study.verdicts.outcomes import OUTCOMES, Verdict, decide, of_claim, reruns, verdicts
from saobp.study.verdicts.studies import Studies, tracked
from saobp.study.verdicts.table import Reruns, frame, one_claim, shown, to_latex, to_markdown, write

__all__ = [
    "OUTCOMES", "Claim", "Measurement", "Reruns", "Studies", "Verdict", "claims", "decide", "frame", "of_claim",
    "one_claim", "reruns", "shown", "to_latex", "to_markdown", "tracked", "verdicts", "write",
]  # fmt: skip
