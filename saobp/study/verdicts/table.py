"""The claims as CSV with numeric columns, as Markdown and LaTeX, and one claim for a terminal."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from jinja2 import Template

from saobp.study.setup import paths
from saobp.study.tables import render
from saobp.study.tables.cells import digits
from saobp.study.verdicts import outcomes
from saobp.study.verdicts.claims_and_measurements import Claim, Measurement
from saobp.study.verdicts.outcomes import CONTRADICTED, SUPPORTED, Verdict, of_part, seeds_to_decide, small

CSV_COLUMNS = (
    "claim", "study", "scope", "measurement", "role", "estimate", "low", "high", "n", "of", "unit", "direction",
    "reference", "margin", "paper", "covers_paper", "outcome_of_measurement", "outcome", "rerun", "rerun_low",
    "rerun_high", "rerun_outcome", "post_hoc", "seeds_to_decide", "method",
)  # fmt: skip
HEADS = ("Claim", "Measured (margin)", "Outcome", "Ours [95 %]", "Paper", "n", "Scope")
SHARES = (0.19, 0.23, 0.13, 0.16, 0.06, 0.08, 0.09)  # of the page, a column each
CAPTION = (
    "Each claim is decided once per study by one endpoint, and Ours is the part that decides; parts are tested "
    "one-sided at 5 %, so a 95 % interval may reach the reference. †: endpoint named after its numbers were seen; "
    "‡: the whole interval lies within the margin; §: another outcome without one algorithm or size; endpoints: "
    "data/claims.yaml."
)
AGAIN = (
    "Some runs were made twice. The last column has the number with the repetition in place of the first run; each "
    "outcome is that of its number alone. Where only a run that lends its spread was repeated, the estimate stays and "
    "the interval changes."
)
LEFT_OUT = "Some numbers are means over algorithms or sizes. The last column has the number without one of them."
POST_HOC, SMALL, SENSITIVE = "†", "‡", "§"
PAGE = 15  # claims that a page holds, of up to four lines each
Reruns = dict[tuple[str, str, str], Measurement]


def frame(verdicts: Sequence[Verdict], reruns: Reruns | None = None) -> pd.DataFrame:
    """Return one row per measurement; a claim that was not run has one without numbers.

    `reruns`: the measurement with the repeated runs in place of the first, by claim, study and measurement.
    """
    rows = []
    for verdict in verdicts:
        fixed = {"outcome": verdict.outcome, "claim": verdict.claim.id}
        fixed |= verdict.claim.model_dump(include={"direction", "reference", "margin", "unit"})
        found = [fixed | _row(verdict.claim, part, reruns or {}) for part in (*verdict.parts, *verdict.aside)]
        rows += found or [fixed]
    return pd.DataFrame(rows, columns=CSV_COLUMNS)


def _row(claim: Claim, part: Measurement, reruns: Reruns) -> dict[str, object]:
    row = {name: getattr(part, name) for name in CSV_COLUMNS if hasattr(part, name) and name != "claim"}
    row |= {"measurement": part.part, "role": "aside" if part.aside else "primary"}
    if not part.aside:
        row |= {"outcome_of_measurement": of_part(claim, part), "seeds_to_decide": seeds_to_decide(claim, part)}
    if again := reruns.get(part.key):
        row |= {"rerun": again.estimate, "rerun_outcome": of_part(claim, again)}
        row |= {"rerun_low": again.low, "rerun_high": again.high} if again.bounded else {}
    return row if part.bounded else row | {"low": None, "high": None}


def cells(verdict: Verdict) -> tuple[str, ...]:
    """Return a verdict's cells for readers, in the order of `HEADS`."""
    claim, part, parts = verdict.claim, verdict.weakest, verdict.parts
    if part is None:
        return claim.title, f"{claim.endpoint} ({_margin(claim)})", verdict.outcome, *["–"] * 4
    title = part.title or part.part * (len(parts) > 1)
    measured = f"{claim.endpoint}{f': {title}' if title and (claim.parts or len(parts) > 1) else ''} ({_margin(claim)})"
    of = ""
    if len(parts) > 1 or claim.parts > len(parts):
        holding = sum(of_part(claim, other) == SUPPORTED for other in parts)
        constant = sum(row.n == 0 and row.study == verdict.study for row in verdict.aside)
        missing = {"left out": constant, "not run": claim.parts - len(parts) - constant}
        named = "".join(f", {count} {why}" for why, count in missing.items() if count > 0)
        of = f" ({holding} of {len(parts)} {'parts hold' if len(parts) > 1 else 'part holds'}{named})"
    decided = verdict.outcome in (SUPPORTED, CONTRADICTED) and claim.direction != 0
    marks = POST_HOC * any(row.post_hoc for row in parts) + SMALL * (decided and small(claim, part))
    marks += SENSITIVE * any(of_part(claim, other) != of_part(claim, part) for other in without_one(verdict))
    outcome = f"{verdict.outcome}{of} {marks}".rstrip()
    printed = "–" if part.paper is None else _number(part.paper, claim)
    return claim.title, measured, outcome, _interval(claim, part), printed, _count(part), part.scope


def _count(part: Measurement) -> str:
    return f"{part.n:,} {part.of if part.n != 1 else part.of.removesuffix('s')}"


def _margin(claim: Claim) -> str:
    return f"±{claim.margin:g} {_unit(claim)}".strip()


def _unit(claim: Claim) -> str:
    return "" if claim.unit in ("1", "r", "ratio", "z") else claim.unit


def _interval(claim: Claim, part: Measurement) -> str:
    if not part.bounded or part.low == part.high:
        return _number(part.estimate, claim)
    shown = (part.low, part.high, *[part.estimate] * (claim.unit == "ratio"))
    value, low, high = (_number(one, claim, *shown) for one in (part.estimate, part.low, part.high))
    return f"{value} [{low.lstrip('+×')}, {high.lstrip('+×')}]"


def _number(value: float, claim: Claim, *ends: float) -> str:
    """A number with digits to a tenth of the margin, and more where an end would be shown as 0; a ratio has no sign."""
    places = digits(2 if claim.margin >= 0.1 else 3 if claim.margin >= 0.01 else 4, *ends)
    rounded = round(value, places) + 0.0  # no minus before a zero
    return render.minus(f"×{rounded:.{places}f}" if claim.unit == "ratio" else f"{rounded:+.{places}f}")


def to_csv(verdicts: Sequence[Verdict], reruns: Reruns | None = None) -> str:
    """Write `frame` with numbers to six significant digits."""
    return frame(verdicts, reruns).to_csv(index=False, float_format="%.6g", lineterminator="\n")


def to_markdown(verdicts: Sequence[Verdict], reruns: Reruns | None = None) -> str:
    """Return a pipe table under its caption, and one of the runs that were made twice, if any."""
    said = f"**Claims.** {CAPTION}\n\n{render.markdown(shown(verdicts))}\n"
    for title, found in ((AGAIN, repeated(verdicts, reruns or {})), (LEFT_OUT, left_out(verdicts))):
        said += f"\n**Sensitivity.** {title}\n\n{render.markdown(found)}\n" if len(found) else ""
    return said


def shown(verdicts: Sequence[Verdict]) -> pd.DataFrame:
    """Return what readers see of all claims, as text, one row a verdict; two rows of one scope name their study."""
    found = pd.DataFrame([cells(row) for row in verdicts], columns=HEADS)
    twice = found.duplicated(["Claim", "Scope"], keep=False) & (found["Scope"] != "–")
    studies = [f" ({row.study})" * two for row, two in zip(verdicts, twice)]
    return found.assign(Scope=found["Scope"] + studies)


def repeated(verdicts: Sequence[Verdict], reruns: Reruns) -> pd.DataFrame:
    """Return each number that a repetition changes, with its outcome, and with the repetition in the run's place."""
    rows = [
        (row.claim.title, f"{part.part}, {part.study}", *_decided(row.claim, part, reruns[part.key]))
        for row in verdicts
        for part in (*row.parts, *row.aside)
        if part.key in reruns
    ]
    return pd.DataFrame(rows, columns=["Claim", "Measurement", "Ours [95 %], outcome", "With the repetition"])


def without_one(verdict: Verdict) -> list[Measurement]:
    """Return the measurements of a verdict's study that leave out an algorithm or a size."""
    return [part for part in verdict.aside if part.without and part.study == verdict.study]


def left_out(verdicts: Sequence[Verdict]) -> pd.DataFrame:
    """Return the number that decides a claim, and without an algorithm or a size."""
    rows = [
        (row.claim.title, part.without, *_decided(row.claim, row.weakest, part))
        for row in verdicts
        for part in without_one(row)
    ]
    return pd.DataFrame(rows, columns=["Claim", "Left out", "Ours [95 %], outcome", "Without it"])


def _decided(claim: Claim, *parts: Measurement) -> list[str]:
    return [f"{_interval(claim, part)}, {of_part(claim, part)}" for part in parts]


def to_latex(verdicts: Sequence[Verdict], reruns: Reruns | None = None) -> str:
    """Return booktabs floats over both columns, of the claims alone."""
    spec = "".join(rf">{{\raggedright\arraybackslash}}p{{{share}\linewidth}}" for share in SHARES)
    return render.latex(shown(verdicts), CAPTION, "tab:saobp-claims", spec=spec, rows=PAGE)


FORMATS = {"csv": to_csv, "md": to_markdown, "tex": to_latex}


def write(
    verdicts: Sequence[Verdict], folder: Path, formats: Sequence[str] = tuple(FORMATS), reruns: Reruns | None = None
) -> list[Path]:
    """Write claims.csv, claims.md and claims.tex into a folder; returns their paths. ValueError for another format."""
    render.refuse_unknown(formats, FORMATS)
    return [paths.write_text(Path(folder) / f"claims.{name}", FORMATS[name](verdicts, reruns)) for name in formats]


def one_claim(verdicts: Sequence[Verdict], reruns: Reruns) -> str:
    """Return everything on one claim (texts/claim.txt.j2): measurements, records, and what would change its outcome."""
    page = Template((paths.root() / "texts" / "claim.txt.j2").read_text("utf-8"), trim_blocks=True, lstrip_blocks=True)
    functions = (_count, _interval, _margin, _number, _unit, of_part, outcomes.change_to_open, seeds_to_decide)
    given = {function.__name__.lstrip("_"): function for function in functions}
    return page.render(claim=verdicts[0].claim, verdicts=verdicts, reruns=reruns, **given).strip()
