"""What the paper states, what our records show, and what follows: decided by code, never typed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from saobp.study import published as published_numbers
from saobp.study.published import Published
from saobp.study.tables import (
    context,
    evidence_attention,
    evidence_cost,
    evidence_hops,
    evidence_scores,
    floats,
    render,
)
from saobp.study.tables.evidence import Evidence

Record = dict[str, Any]
CORRECTED = (
    "Up and down count what differs after Holm's correction over the cells of that statement alone, as many as its "
    "line says; a table's marks are corrected over the table."
)
SHARES = (0.27, 0.1, 0.39, 0.13)  # of the page, a column each
JUDGES = evidence_scores.JUDGES | evidence_attention.JUDGES | evidence_hops.JUDGES | evidence_cost.JUDGES


@dataclass(frozen=True)
class Verdict:
    """One statement of the paper beside our evidence."""

    id: str
    where: str
    statement: str
    evidence: str
    verdict: str


@dataclass(frozen=True)
class Verdicts:
    """The table of verdicts with its caption; written as CSV, Markdown and LaTeX like the others."""

    rows: tuple[Verdict, ...]
    caption: str

    def to_csv(self) -> str:
        """One line a statement."""
        return pd.DataFrame([vars(row) for row in self.rows]).to_csv(index=False, lineterminator="\n")

    def to_markdown(self) -> str:
        """A pipe table."""
        heads = ["| Paper | Verdict | Our evidence | Where |", "|---|---|---|---|"]
        lines = [f"**Verdicts.** {self.caption}", "", *heads]
        for row in self.rows:
            lines.append(f"| {row.statement} | **{row.verdict}** | {row.evidence} | {row.where} |")
        return "\n".join(lines) + "\n"

    def to_latex(self) -> str:
        """A booktabs float over both columns, or several where one is taller than a page."""
        rows = [(row.statement, row.where, row.evidence, row.verdict) for row in self.rows]
        tall = [max(map(_height, row, SHARES)) for row in rows]
        caption = render.escape(self.caption)
        cuts = floats.pages(tall, floats.height(caption, "footnotesize") + 30, 0)
        return floats.floats([_body(rows[cut]) for cut in cuts], caption, "tab:saobp-verdicts", r"\scriptsize")


def _height(text: str, share: float) -> float:
    return floats.height(text, "scriptsize", share * floats.WIDTH)


def _body(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """A booktabs tabular of some rows, columns of a fixed width."""
    head = r"\begin{tabular}{" + "".join(rf"p{{{share}\textwidth}}" for share in SHARES) + "}"
    lines = [head, r"\toprule", r"Paper & Where & Our evidence & Verdict \\", r"\midrule"]
    lines += [" & ".join(map(render.escape, cells)) + r" \\" for cells in rows]
    return [*lines, r"\bottomrule", r"\end{tabular}"]


def verdicts(records: Sequence[Record], published: Published | None = None) -> Verdicts:
    """Judge every statement of statements.csv by the records of one profile.

    A statement holds if the interval of what it says lies above 0, and does not if it lies below; if the
    interval holds 0, no run was made, or only stand-ins of the paper's sizes were, it cannot be decided at
    this scale.
    """
    context.profile(records)
    published = published or published_numbers.load()
    rows = []
    for _, line in published.statements.iterrows():
        found = JUDGES[line["id"]](records) or Evidence(f"these runs do not say; it needs {line['needs']}")
        evidence = found.words + (" (stand-ins of the paper's sizes)" if found.twins else "")
        rows.append(Verdict(line["id"], line["where"], line["statement"], evidence, found.verdict()))
    said = ["What the paper states and what our runs show.", CORRECTED, context.describe(records)]
    return Verdicts(tuple(rows), " ".join(said))
