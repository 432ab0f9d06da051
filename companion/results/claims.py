"""What the fifteen claims come to: the row that decides each, the paper's number, and one word."""

import re
from collections.abc import Sequence
from functools import cache
from math import inf, isfinite, nan
from pathlib import Path
from string import ascii_lowercase

import pandas as pd

from companion.results import claims_file, table, written
from companion.results.claims_file import Claim
from companion.results.row import OUTCOMES, Row
from companion.setup import paths
from companion.statistics import holm
from companion.statistics.intervals import LEVEL
from companion.tables import FORMATS, captions, render

NOT_RUN = "not run"
# in margins from the reference, above 0 where the number lies as claimed
TOWARD = ("toward", "toward_low", "toward_high", "toward_paper")
COLUMNS = (
    "claim",
    "title",
    "key",
    "contrast",
    "unit",
    "estimate",
    "low",
    "high",
    "n",
    "of_what",
    "margin",
    "paper",
    "word",
    "scope",
    "note",
    "p",
    "p_holm",
    *TOWARD,
)
HEADS = ("Claim", "Ours [95 %]", "n", "The paper", "Outcome", "Scope")
# of the page, a column each
SHARES = (0.25, 0.22, 0.09, 0.08, 0.12, 0.16)


@cache
def decided() -> pd.DataFrame:
    """Return the claims of data/claims.yaml with their rows, one row a claim, in the file's order.

    Holm's correction is over the claims that an interval decides. Raises ValueError that names the
    claim whose row, or whose paper's row, is not in the table of results, or whose margin the
    study's plan has.
    """
    rows = {row.key: row for row in table.rows()}
    claims = claims_file.read(claims_file.file())
    columns = [_of_claim(name, claim, rows) for name, claim in claims.items()]
    frame = pd.DataFrame(columns, columns=COLUMNS)
    return frame.assign(p_holm=holm(frame["p"]), n=frame["n"].astype("Int64"))


def _of_claim(name: str, claim: Claim, rows: dict[str, Row]) -> dict[str, object]:
    """Return a claim's columns."""
    if claim.word == NOT_RUN:
        return {"claim": name, "title": claim.title, "word": NOT_RUN, "note": claim.note}
    row = _row(name, claim.row, rows)
    paper = _row(name, claim.paper, rows).estimate if claim.paper else nan
    if claim.margin is not None and row.margin != claim.margin:
        raise ValueError(
            f"data/claims.yaml: {name}.margin: the plan of {row.study} has it: leave it out"
        )
    # the p-value of "within the margin" is another one
    tested = row.outcome in OUTCOMES and row.expected != 0
    # of a claim that something stays within the margin, what lies above the reference is below 0
    sign = row.expected or -1
    ends = (row.low, row.high) if sign > 0 else (row.high, row.low)
    toward = {}
    for column, number in zip(TOWARD, (row.estimate, *ends, paper), strict=True):
        toward[column] = sign * (number - row.reference) / row.margin
    facts = {column: getattr(row, column) for column in COLUMNS if hasattr(row, column)}
    facts |= {"claim": name, "title": claim.title, "paper": paper, "note": claim.note}
    return facts | toward | {"word": claim.word or row.outcome, "p": row.p if tested else nan}


def _row(name: str, key: str, rows: dict[str, Row]) -> Row:
    if key not in rows:
        raise ValueError(f"data/claims.yaml: {name}: the table of results has no row {key!r}")
    return rows[key]


def read() -> pd.DataFrame:
    """Return the tracked claims.csv, as `decided` has it."""
    frame = pd.read_csv(paths.figures() / "claims.csv")
    return frame.astype({"n": "Int64"})


def shown(frame: pd.DataFrame) -> pd.DataFrame:
    """Return what readers see of the claims, as text."""
    cells = []
    for row in frame.to_dict("records"):
        if row["word"] == NOT_RUN:
            cells.append((row["title"], "–", "–", "–", NOT_RUN, "–"))
            continue
        digits = 2 if row["margin"] >= 0.1 else 3
        number = written.of_row(pd.Series(row), digits, unit=True)
        counted = f"{row['n']:,} {row['of_what']}"
        printed = "–" if not isfinite(row["paper"]) else _printed(row, digits)
        cells.append((row["title"], number, counted, printed, row["word"], row["scope"]))
    return pd.DataFrame(cells, columns=HEADS)


def _printed(row: dict[str, object], digits: int) -> str:
    paper = {"estimate": row["paper"], "low": inf, "high": -inf, "n": 1}
    return written.of_row(pd.Series(row | paper), digits)


def after_holm() -> pd.DataFrame:
    """Return the claims that an interval decides; `stays`: whether 5 % still does after Holm's
    correction.
    """
    frame = read().dropna(subset="p")
    return frame.assign(stays=frame["p_holm"] < LEVEL)


def scopes() -> dict[str, str]:
    """Return the scopes of the claims by letter, in the order in which they come."""
    return dict(zip(ascii_lowercase, read()["scope"].dropna().unique()))


def linked() -> str:
    """Return the same table for a page: each claim with a link to the section of RESULTS.md that
    answers it, its scope's letter in `scopes`, whether Holm's correction leaves its outcome, and
    what to do.
    """
    frame = read()
    claims = claims_file.read(claims_file.file())
    links, advice = [], []
    for row in frame.itertuples():
        claim = claims[row.claim]
        links.append(f"[{row.title}](RESULTS.md#{anchor(claim.question)})")
        advice.append(claim.advice)
    letters = frame["scope"].map({scope: letter for letter, scope in scopes().items()})
    table = shown(frame.assign(title=links, scope=letters))
    stays = after_holm()["stays"].map({True: "yes", False: "no"})
    table["After Holm"] = stays.reindex(frame.index).fillna("–")
    table["What to do"] = advice
    return render.markdown(table)


def anchor(heading: str) -> str:
    """Return the anchor that a page on the hub has for a heading."""
    words = re.sub(r"[^\w\s-]", "", heading.lower())
    return words.replace(" ", "-")


def write(folder: Path, formats: Sequence[str] = tuple(FORMATS)) -> list[Path]:
    """Write claims.csv, claims.md and claims.tex into a folder; returns their paths.

    Raises ValueError for another format. The LaTeX has booktabs floats over both columns.
    """
    render.refuse_unknown(formats, FORMATS)
    caption = captions.of()["claims"]
    spec = "".join(rf">{{\raggedright\arraybackslash}}p{{{share}\linewidth}}" for share in SHARES)
    frame = decided()
    texts = {
        "csv": frame.to_csv(index=False, float_format="%.6g", lineterminator="\n"),
        "md": f"**Claims.** {caption}\n\n{render.markdown(shown(frame))}\n",
        "tex": render.latex(shown(frame), caption, "tab:saobp-claims", spec=spec),
    }
    return [paths.write_text(Path(folder) / f"claims.{name}", texts[name]) for name in formats]
