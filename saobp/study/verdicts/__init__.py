"""The paper's claims: what was measured on each, and which of five outcomes it has."""

from saobp.study.verdicts.claims_and_measurements import claims
from saobp.study.verdicts.outcomes import OUTCOMES, Verdict, decided, of_claim, verdicts
from saobp.study.verdicts.studies import Studies, tracked
from saobp.study.verdicts.table import caption, one_claim, sensitivity, shown, to_markdown, write

__all__ = ["OUTCOMES", "Studies", "Verdict", "caption", "claims", "decided", "of_claim", "one_claim", "sensitivity",
           "shown", "to_markdown", "tracked", "verdicts", "write"]  # fmt: skip
