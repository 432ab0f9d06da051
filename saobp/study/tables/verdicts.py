"""What the paper states, what our records show, and what follows: decided by code, never typed."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from saobp.study.paper import numbers as published_numbers
from saobp.study.paper.numbers import Published
from saobp.study.setup.labels import counted, joined
from saobp.study.tables import (
    context,
    evidence_attention,
    evidence_cost,
    evidence_hops,
    evidence_scores,
    evidence_training,
    floats,
    render,
)
from saobp.study.tables.evidence import NO, OPEN, YES, Evidence, Looks

Record = dict[str, Any]
CORRECTED = (
    "In brackets what has to hold: all its parts, both, most (more than half of them), their mean, or one number. A "
    "part with one seed, of a stand-in or without a run says nothing. A part counts for or "
    "against where its interval lies wholly on one side. The intervals of a statement hold together at 95 %: they are "
    "widened for as many cells and looks as its line says (Bonferroni), each statement by itself. An open one ends "
    "with what would decide it: of seeds, from how many on each interval would leave 0 if nothing else changed. That "
    "on hops is about no size: small encoders of a controlled study judge it."
)
SHARES = (0.27, 0.1, 0.39, 0.13)  # of the page, a column each
APART = 3  # points between two statements
JUDGES = (
    evidence_scores.JUDGES | evidence_training.JUDGES | evidence_attention.JUDGES | evidence_hops.JUDGES
    | evidence_cost.JUDGES
)  # fmt: skip


@dataclass(frozen=True)
class Verdict:
    """One statement of the paper beside our evidence."""

    id: str
    where: str
    statement: str
    quantifier: str
    parts: str
    evidence: str
    verdict: str

    @property
    def asked(self) -> str:
        """The statement, and which of its parts have to hold."""
        return f"{self.statement} ({self.quantifier}: {self.parts})"


@dataclass(frozen=True)
class Verdicts:
    """The table of verdicts with its caption; written as CSV, Markdown and LaTeX like the others."""

    rows: tuple[Verdict, ...]
    caption: str

    @property
    def counts(self) -> str:
        """How many statements have each verdict."""
        found = Counter(row.verdict for row in self.rows)
        each = joined([f"{found[verdict]} {verdict}" for verdict in (YES, NO, OPEN)])
        return f"{counted(len(self.rows), 'statement')}: {each}."

    def to_csv(self) -> str:
        """One line a statement."""
        return pd.DataFrame([vars(row) for row in self.rows]).to_csv(index=False, lineterminator="\n")

    def to_markdown(self) -> str:
        """A pipe table below its caption."""
        return "\n".join([f"**Verdicts.** {self.counts} {self.caption}", "", *self.lines()]) + "\n"

    def lines(self) -> list[str]:
        """The lines of the pipe table alone."""
        heads = ["| Paper | Verdict | Our evidence | Where |", "|---|---|---|---|"]
        return heads + [f"| {row.asked} | **{row.verdict}** | {row.evidence} | {row.where} |" for row in self.rows]

    def to_latex(self) -> str:
        """A booktabs float over both columns, or several where one is taller than a page."""
        rows = [(row.asked, row.where, row.evidence, row.verdict) for row in self.rows]
        tall = [max(map(_height, row, SHARES)) + APART for row in rows]
        caption = render.escape(f"{self.counts} {self.caption}")
        cuts = floats.pages(tall, floats.height(caption, "footnotesize") + 30, 0)
        return floats.floats([_body(rows[cut]) for cut in cuts], caption, "tab:saobp-verdicts", r"\scriptsize")


def _height(text: str, share: float) -> float:
    return floats.height(text, "scriptsize", share * floats.WIDTH)


def _body(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """A booktabs tabular of some rows, columns of a fixed width."""
    head = r"\begin{tabular}{" + "".join(rf"p{{{share}\linewidth}}" for share in SHARES) + "}"
    lines = [head, r"\toprule", r"Paper & Where & Our evidence & Verdict \\", r"\midrule"]
    ends = [rf"\\ \addlinespace[{APART}pt]"] * (len(rows) - 1) + [r"\\"]
    lines += [" & ".join(map(render.escape, cells)) + f" {end}" for cells, end in zip(rows, ends, strict=True)]
    return [*lines, r"\bottomrule", r"\end{tabular}"]


def verdicts(records: Sequence[Record], published: Published | None = None) -> Verdicts:
    """Judge every statement of statements.csv by the records of one profile.

    A statement names what has to hold of its parts. It is reproduced if the intervals of enough parts lie above 0,
    not reproduced if those of too many lie below, and cannot be decided at this scale otherwise: where an interval
    holds 0, a part was not run or with one seed, or only stand-ins of the paper's sizes were.
    """
    context.profile(records)
    published = published or published_numbers.load()
    rows = []
    for _, line in published.statements.iterrows():
        found = evidence(records, line["id"], line["quantifier"])
        found = found or Evidence(f"these runs do not say; it needs {line['needs']}")
        words = found.words + (" (stand-ins of the paper's sizes)" if found.twins else "")
        decided = found.verdict() != OPEN
        words += f"; to decide it: {found.wanted}" if found.wanted and not decided else ""
        words += f"; to change it: {found.overturned}" if found.overturned and decided else ""
        given = (line[key] for key in ("id", "where", "statement", "quantifier", "parts"))
        rows.append(Verdict(*given, words, found.verdict()))
    said = ["What the paper states and what our runs show.", CORRECTED, context.describe(records)]
    return Verdicts(tuple(rows), " ".join(said))


def evidence(records: Sequence[Record], id: str, quantifier: str) -> Evidence | None:
    """Weigh what the records say of a statement; None if they say nothing."""
    found = JUDGES[id](records)
    return found.evidence(quantifier) if isinstance(found, Looks) else found
