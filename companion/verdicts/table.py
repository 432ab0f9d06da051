"""The claims as CSV with numeric columns, as Markdown and LaTeX, and one claim for a terminal."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
from jinja2 import FileSystemLoader

from companion.setup import paths
from companion.setup.labels import ALGORITHMS, counted, model_title
from companion.statistics.intervals import LEVEL
from companion.tables import FORMATS, captions, render
from companion.tables.cells import decimal, digits
from companion.verdicts import outcomes
from companion.verdicts.claims_and_measurements import TWO_MACHINES, Claim, Measurement
from companion.verdicts.outcomes import (
    CONTRADICTED,
    NO_EFFECT,
    SUPPORTED,
    Verdict,
    of_part,
    seeds_to_decide,
)

CSV_COLUMNS = (
    "claim",
    "study",
    "scope",
    "measurement",
    "part",
    "role",
    "estimate",
    "low",
    "high",
    "n",
    "of",
    "unit",
    "direction",
    "reference",
    "margin",
    "paper",
    "covers_paper",
    "outcome_of_measurement",
    "outcome",
    "rerun",
    "rerun_low",
    "rerun_high",
    "rerun_outcome",
    "post_hoc",
    "seeds_to_decide",
    "method",
    "model_key",
    "key",
    "without",
)
HEADS = ("Claim", "Measured (margin)", "Outcome", "Ours [95 %]", "Paper", "n", "Scope")
# of the page, a column each
SHARES = (0.19, 0.23, 0.13, 0.16, 0.06, 0.08, 0.09)
POST_HOC, SMALL, SENSITIVE = "†", "‡", "§"
# claims that a page holds, of up to four lines each
PAGE = 15


def frame(verdicts: Sequence[Verdict]) -> pd.DataFrame:
    """Return one row per measurement; a claim that was not run has one without numbers."""
    rows = []
    for verdict in verdicts:
        claim = verdict.claim
        fixed = {"outcome": verdict.outcome, "claim": claim.id}
        fixed |= claim.model_dump(include={"direction", "reference", "margin", "unit"})
        for part in (*verdict.parts, *verdict.aside):
            row = fixed | {name: getattr(part, name) for name in CSV_COLUMNS if hasattr(part, name)}
            row |= {
                "measurement": part.part,
                "part": part.title,
                "role": "aside" if part.aside else "primary",
            }
            row |= {"of": f"{part.of}s", "model_key": part.model}
            # it decided nothing there
            row |= {"outcome": None} if part.study != verdict.study else {}
            row |= {} if part.bounded else {"low": None, "high": None}
            if part.bounded and part.paper is not None:
                row["covers_paper"] = bool(part.low <= part.paper <= part.high)
            if not part.aside:
                row |= {
                    "outcome_of_measurement": of_part(claim, part),
                    "seeds_to_decide": seeds_to_decide(claim, part),
                }
            if again := part.again:
                row |= {"rerun": again.estimate, "rerun_outcome": of_part(claim, again)}
                row |= {"rerun_low": again.low, "rerun_high": again.high} if again.bounded else {}
            rows.append(row)
        rows += [] if verdict.parts or verdict.aside else [fixed]
    return pd.DataFrame(rows, columns=CSV_COLUMNS)


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
        missing = {"left out": verdict.left_out, "not run": verdict.not_run}
        named = "".join(f", {count} {why}" for why, count in missing.items() if count)
        of = f" ({holding} of {len(parts)} {'parts hold' if len(parts) > 1 else 'part holds'}{named})"
    decided = verdict.outcome in (SUPPORTED, CONTRADICTED) and claim.direction != 0
    # all of its 95 % interval lies within the margin
    small = outcomes.inside(claim, part, LEVEL / 2) > 0
    marks = POST_HOC * any(row.post_hoc for row in parts) + SMALL * (decided and small)
    marks += SENSITIVE * any(
        of_part(claim, other) != of_part(claim, part) for other in verdict.without_one
    )
    outcome, ours = (
        f"{verdict.outcome}{of} {marks}".rstrip(),
        _interval(claim, part) + _tests(claim, part),
    )
    printed = "–" if part.paper is None else _number(part.paper, claim)
    return claim.title, measured, outcome, ours, printed, counted(part.n, part.of), part.scope


def _margin(claim: Claim) -> str:
    return f"±{claim.margin:g} {_unit(claim)}".strip()


def _unit(claim: Claim) -> str:
    return "" if claim.unit in ("1", "r", "ratio", "z") else claim.unit


def _interval(claim: Claim, part: Measurement) -> str:
    if not part.bounded or part.low == part.high:
        return _number(part.estimate, claim)
    told_apart = part.low, part.high, *[part.estimate] * (claim.unit == "ratio")
    estimate, low, high = (
        _number(one, claim, *told_apart) for one in (part.estimate, part.low, part.high)
    )
    return f"{estimate} [{low.lstrip('+×')}, {high.lstrip('+×')}]"


def _tests(claim: Claim, part: Measurement) -> str:
    """The 90 % interval of a part that two one-sided tests put within the margin, where its 95 %
    interval is wider.
    """
    if of_part(claim, part) != NO_EFFECT or outcomes.inside(claim, part, LEVEL / 2) > 0:
        return ""
    tests = replace(part, interval=lambda _: part.interval(1 - 2 * LEVEL))
    _, _, ends = _interval(claim, tests).partition(" ")
    return f"; tests, 90 %: {ends}"


def _number(value: float, claim: Claim, *ends: float) -> str:
    """A number with digits to a tenth of the margin, and more where an end would be shown as 0; a
    ratio has no sign.
    """
    places = digits(2 if claim.margin >= 0.1 else 3 if claim.margin >= 0.01 else 4, *ends)
    return "×" + decimal(value, places) if claim.unit == "ratio" else decimal(value, places, "+")


def caption(of: str) -> str:
    """Return what stands above the claims ("all"), or above a table of `sensitivity`."""
    return captions.filled(captions.of()["claims"][of])


def to_markdown(verdicts: Sequence[Verdict]) -> str:
    """Return a pipe table under its caption, and those of `sensitivity` that have a row."""
    said = f"**Claims.** {caption('all')}\n\n{render.markdown(shown(verdicts))}\n"
    for name, found in sensitivity(verdicts).items():
        said += (
            f"\n**Sensitivity.** {caption(name)}\n\n{render.markdown(found)}\n"
            if len(found)
            else ""
        )
    return said


def shown(verdicts: Sequence[Verdict]) -> pd.DataFrame:
    """Return what readers see of all claims, as text, one row a verdict; two rows of one scope name
    their study.
    """
    found = pd.DataFrame([cells(row) for row in verdicts], columns=HEADS)
    twice = found.duplicated(["Claim", "Scope"], keep=False) & (found["Scope"] != "–")
    studies = [f" ({row.study})" * two for row, two in zip(verdicts, twice)]
    return found.assign(Scope=found["Scope"] + studies)


def sensitivity(verdicts: Sequence[Verdict]) -> dict[str, pd.DataFrame]:
    """Return, by their caption's key, the numbers that a second run changes, and those that decide
    a claim as they are and without an algorithm, a size or the seeds with a pair of two machines;
    each with its outcome.
    """
    parts = [
        (row.claim, part) for row in verdicts for part in (*row.parts, *row.aside) if part.again
    ]
    twice = [(claim, f"{part.part}, {part.study}", part, part.again) for claim, part in parts]
    without = [
        (row.claim, _left_out(part), row.weakest, part)
        for row in verdicts
        for part in row.without_one
    ]
    heads = {
        "repeated": ("Measurement", "With the other run"),
        "left out": ("Left out", "Without it"),
    }
    found = {}
    for (key, (what, otherwise)), rows in zip(heads.items(), (twice, without)):
        said = [
            (
                claim.title,
                name,
                *(f"{_interval(claim, part)}, {of_part(claim, part)}" for part in pair),
            )
            for claim, name, *pair in rows
        ]
        found[key] = pd.DataFrame(said, columns=["Claim", what, "Ours [95 %], outcome", otherwise])
    return found


def _left_out(part: Measurement) -> str:
    """What a measurement leaves out, for readers."""
    titles = {TWO_MACHINES: "seeds with a pair of two machines", **ALGORITHMS}
    return titles[part.without] if part.without in titles else model_title(part.without)


def write(
    verdicts: Sequence[Verdict], folder: Path, formats: Sequence[str] = tuple(FORMATS)
) -> list[Path]:
    """Write claims.csv, claims.md and claims.tex into a folder; returns their paths. ValueError for
    another format.

    The LaTeX has booktabs floats over both columns, of the claims alone.
    """
    render.refuse_unknown(formats, FORMATS)
    spec = "".join(rf">{{\raggedright\arraybackslash}}p{{{share}\linewidth}}" for share in SHARES)
    texts = {
        "csv": lambda: frame(verdicts).to_csv(
            index=False, float_format="%.6g", lineterminator="\n"
        ),
        "md": lambda: to_markdown(verdicts),
        "tex": lambda: render.latex(
            shown(verdicts), caption("all"), "tab:saobp-claims", spec=spec, rows=PAGE
        ),
    }
    return [paths.write_text(Path(folder) / f"claims.{name}", texts[name]()) for name in formats]


def one_claim(verdicts: Sequence[Verdict]) -> str:
    """Return everything on one claim (texts/claim.txt.j2): measurements, records, and what would
    change its outcome.
    """
    page = captions.environment(FileSystemLoader(paths.root() / "texts")).get_template(
        "claim.txt.j2"
    )
    functions = (
        _interval,
        _margin,
        _number,
        _tests,
        _unit,
        of_part,
        outcomes.change_to_open,
        seeds_to_decide,
    )
    given = {function.__name__.lstrip("_"): function for function in functions}
    return page.render(claim=verdicts[0].claim, verdicts=verdicts, **given).strip()
