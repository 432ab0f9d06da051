"""The claims as CSV with numeric columns, as Markdown and LaTeX, and one claim for a terminal."""

from collections.abc import Iterator, Sequence
from math import inf, isnan
from pathlib import Path

import pandas as pd

from saobp.study.setup import paths
from saobp.study.tables import render
from saobp.study.verdicts.model import Claim, Measurement
from saobp.study.verdicts.outcomes import (
    CONTRADICTED,
    SUPPORTED,
    Verdict,
    change_to_open,
    of_part,
    seeds_to_decide,
    small,
)

COLUMNS = (
    "claim", "study", "scope", "measurement", "role", "estimate", "low", "high", "n", "of", "unit", "direction",
    "reference", "margin", "paper", "covers_paper", "outcome_of_measurement", "outcome", "rerun", "rerun_low",
    "rerun_high", "rerun_outcome", "post_hoc", "seeds_to_decide", "method",
)  # fmt: skip
HEADS = ("Claim", "Outcome", "Ours [95 %]", "Paper", "Margin", "n", "Scope")
SHARES = (0.27, 0.13, 0.2, 0.07, 0.09, 0.08, 0.1)  # of the page, a column each
CAPTION = (
    "The paper's claims, each decided once per study by one endpoint. Ours is the part that decides; parts of a claim "
    "about all are tested one-sided at 5 %, so their 95 % interval may reach the reference. †: endpoint named after "
    "its numbers were seen. ‡: the whole interval lies within the margin. All measurements: claims.csv."
)
AGAIN = (
    "Runs that were made twice, where a number that a claim reads was measured both times, or lends its spread. What "
    "else rests on these runs has one number. Each outcome is that of the number by itself."
)
LEFT_OUT = "What one algorithm or one size brings: the number that decides, and the same number without it."
FORMATS = ("csv", "md", "tex")
POST_HOC, SMALL = "†", "‡"
PAGE = 22  # claims that a page holds, of up to two lines each
Reruns = dict[tuple[str, str, str], Measurement]


def frame(verdicts: Sequence[Verdict], reruns: Reruns | None = None) -> pd.DataFrame:
    """Return one row per measurement; a claim that was not run has one without numbers.

    `reruns`: the measurement with the repeated runs in place of the first, by claim, study and measurement.
    """
    rows = []
    for verdict in verdicts:
        fixed = (verdict.claim, verdict.outcome)
        rows += [_row(*fixed, part, reruns or {}) for part in (*verdict.parts, *verdict.aside)] or [_empty(*fixed)]
    return pd.DataFrame(rows, columns=COLUMNS)


def _empty(claim: Claim, outcome: str) -> dict[str, object]:
    fixed = {"direction": claim.direction, "reference": claim.reference, "margin": claim.margin, "unit": claim.unit}
    return {"claim": claim.id, "outcome": outcome} | fixed


def _row(claim: Claim, outcome: str, part: Measurement, reruns: Reruns) -> dict[str, object]:
    decides = not part.aside
    bounds = {"low": part.low, "high": part.high} if part.bounded else {}
    return _empty(claim, outcome) | bounds | {
        "study": part.study, "scope": part.scope, "measurement": part.part, "role": "primary" if decides else "aside",
        "estimate": part.estimate, "n": part.n, "of": part.of, "paper": part.paper, "covers_paper": part.covers_paper,
        "outcome_of_measurement": of_part(claim, part) if decides else None,
        **_again(claim, reruns.get(part.key)), "post_hoc": part.post_hoc,
        "seeds_to_decide": seeds_to_decide(claim, part) if decides else None, "method": part.method,
    }  # fmt: skip


def _again(claim: Claim, part: Measurement | None) -> dict[str, object]:
    if part is None:
        return {}
    bounds = {"rerun_low": part.low, "rerun_high": part.high} if part.bounded else {}
    return {"rerun": part.estimate, "rerun_outcome": of_part(claim, part)} | bounds


def cells(verdict: Verdict) -> tuple[str, ...]:
    """Return a verdict's cells for readers, in the order of `HEADS`."""
    claim, part = verdict.claim, verdict.weakest
    if part is None:
        return claim.title, verdict.outcome, "–", "–", _margin(claim), "–", "–"
    holding = sum(of_part(claim, other) == "supported" for other in verdict.parts)
    named = f", {claim.parts} named" if claim.parts > len(verdict.parts) else ""
    hold = "parts hold" if len(verdict.parts) > 1 else "part holds"
    many = named or len(verdict.parts) > 1
    of = f" ({holding} of {len(verdict.parts)} {hold}{named})" if many else ""
    of += f" {_marks(verdict, part)}".rstrip()
    printed = "–" if part.paper is None else _number(part.paper, claim)
    return claim.title, verdict.outcome + of, _interval(claim, part), printed, _margin(claim), _count(part), part.scope


def _marks(verdict: Verdict, part: Measurement) -> str:
    decided = verdict.outcome in (SUPPORTED, CONTRADICTED) and verdict.claim.direction != 0
    return POST_HOC * any(row.post_hoc for row in verdict.parts) + SMALL * (decided and small(verdict.claim, part))


def _count(part: Measurement) -> str:
    return f"{part.n:,} {part.of if part.n != 1 else part.of.removesuffix('s')}"


def _margin(claim: Claim) -> str:
    return f"±{claim.margin:g} {_unit(claim)}".strip()


def _unit(claim: Claim) -> str:
    return "" if claim.unit in ("1", "r", "ratio", "z") else claim.unit


def _interval(claim: Claim, part: Measurement) -> str:
    text = _number(part.estimate, claim)
    if not part.bounded or part.low == part.high:
        return text
    return f"{text} [{_number(part.low, claim, '')}, {_number(part.high, claim, '')}]"


def _number(value: float, claim: Claim, sign: str = "+") -> str:
    """A number with digits to a tenth of the margin; a ratio without a sign."""
    digits = 2 if claim.margin >= 0.1 else 3 if claim.margin >= 0.01 else 4
    rounded = round(value, digits) + 0.0  # no minus before a zero
    return f"×{rounded:.{digits}f}" if claim.unit == "ratio" and sign else f"{rounded:{sign}.{digits}f}"


def to_csv(verdicts: Sequence[Verdict], reruns: Reruns | None = None) -> str:
    """Write `frame` with numbers to six significant digits."""
    return frame(verdicts, reruns).to_csv(index=False, float_format="%.6g", lineterminator="\n")


def to_markdown(verdicts: Sequence[Verdict], reruns: Reruns | None = None) -> str:
    """Return a pipe table under its caption, and one of the runs that were made twice, if any."""
    said = [f"**Claims.** {CAPTION}", "", *lines(verdicts)]
    for title, found in ((AGAIN, rerun_lines(verdicts, reruns or {})), (LEFT_OUT, left_out_lines(verdicts))):
        said += ["", f"**Sensitivity.** {title}", "", *found] if found else []
    return "\n".join(said) + "\n"


def rerun_lines(verdicts: Sequence[Verdict], reruns: Reruns) -> list[str]:
    """Return the lines of a pipe table: each number with its outcome, and with the repetition in the run's place."""
    rows = [
        (
            row.claim.title,
            f"{part.part}, {part.study}",
            _decided(row.claim, part),
            _decided(row.claim, reruns[part.key]),
        )
        for row in verdicts
        for part in (*row.parts, *row.aside)
        if part.key in reruns
    ]
    return _pipe(rows, ("Claim", "Measurement", "Ours [95 %], outcome", "With the repetition"))


def left_out_lines(verdicts: Sequence[Verdict]) -> list[str]:
    """Return the lines of a pipe table: the number that decides a claim, and without an algorithm or a size."""
    rows = [
        (row.claim.title, part.without, *(_decided(row.claim, one) for one in (row.weakest, part)))
        for row in verdicts
        for part in row.aside
        if part.without and part.study == row.study
    ]
    return _pipe(rows, ("Claim", "Left out", "Ours [95 %], outcome", "Without it"))


def lines(verdicts: Sequence[Verdict]) -> list[str]:
    """Return the lines of the pipe table alone."""
    return _pipe([cells(row) for row in verdicts], HEADS)


def _decided(claim: Claim, part: Measurement) -> str:
    return f"{_interval(claim, part)}, {of_part(claim, part)}"


def _pipe(rows: Sequence[tuple[str, ...]], heads: Sequence[str]) -> list[str]:
    return render.markdown(pd.DataFrame(rows, columns=heads)).splitlines() if rows else []


def to_latex(verdicts: Sequence[Verdict]) -> str:
    """Return booktabs floats over both columns."""
    frame = pd.DataFrame([cells(row) for row in verdicts], columns=HEADS)
    spec = "".join(rf">{{\raggedright\arraybackslash}}p{{{share}\linewidth}}" for share in SHARES)
    return render.latex(frame, CAPTION, "tab:saobp-claims", spec=spec, rows=PAGE)


def write(
    verdicts: Sequence[Verdict],
    folder: Path,
    formats: Sequence[str] = ("csv", "md", "tex"),
    reruns: Reruns | None = None,
) -> list[Path]:
    """Write claims.csv, claims.md and claims.tex into a folder; returns their paths. ValueError for another format."""
    makers = {"csv": to_csv, "md": to_markdown, "tex": lambda verdicts, reruns: to_latex(verdicts)}
    render.refuse_unknown(formats, makers)
    return [paths.write_text(Path(folder) / f"claims.{name}", makers[name](verdicts, reruns)) for name in formats]


def one_claim(verdicts: Sequence[Verdict], reruns: Reruns) -> str:
    """Return everything on one claim: sentence, endpoint, measurements, records, and what would change its outcome."""
    claim = verdicts[0].claim
    plan = f" (plan, {claim.planned})" if claim.planned else ""
    said = [f"{claim.id}: {claim.title}", f"{claim.place}: {claim.sentence}"]
    said.append(f"endpoint: {claim.endpoint}; margin {_margin(claim)}{plan}")
    for verdict in verdicts:
        said += ["", f"{verdict.study or 'no study'} ({verdict.scope or 'nothing'}): {verdict.outcome}"]
        said += [] if verdict.parts else [f"  another outcome once {claim.endpoint} is measured"]
        for part in (*verdict.parts, *verdict.aside):
            said += _said(claim, part, reruns.get(part.key))
            said += [] if part.aside else [f"    {text}" for text in _to_change(claim, part)]
    return "\n".join(said)


def _said(claim: Claim, part: Measurement, again: Measurement | None) -> list[str]:
    paper = "" if part.paper is None else f"; paper {_number(part.paper, claim)}"
    role = ("aside" if part.aside else of_part(claim, part)) + "; post hoc" * part.post_hoc
    number = f"{_interval(claim, part)} {_unit(claim)}".rstrip()
    said = [f"  {part.part}: {number}, {_count(part)}{paper}; {role}"]
    said.append(f"    {part.method}; {', '.join(part.records) or 'no record'}")
    return said + (
        [f"    with the runs that were repeated: {_interval(claim, again)}; {of_part(claim, again)}"] if again else []
    )


def _to_change(claim: Claim, part: Measurement) -> Iterator[str]:
    """What would give a part another outcome: seeds, a spread, or a move of its estimate."""
    seeds, change = seeds_to_decide(claim, part), change_to_open(claim, part)
    if not isnan(seeds):
        yield f"decided from about {seeds:.0f} {part.of} on, if estimate and spread stay"
    if part.n == 1 and part.of == "seeds":
        yield "another outcome once a spread over seeds is known: from two seeds on"
    if change == 0:  # the interval begins at the reference itself
        yield f"another outcome with more {part.of}, if the estimate stays"
    elif 0 < change < inf:
        yield f"another outcome if the estimate moved by {change:.3g}"
