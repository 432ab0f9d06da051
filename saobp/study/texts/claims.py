"""The tables of claims: figures/claims.md, with a sign for outcomes that one algorithm or size decides, and studies."""

import pandas as pd

from saobp.study.setup import paths
from saobp.study.tables import render

DECIDED = "§"  # beside an outcome that is another without one algorithm or size
LEFT_OUT = "Left out"  # the column of the table of sensitivity that says what was left out


def page() -> str:
    """Return figures/claims.md with `marked` in place of its first table, and what the sign means below it."""
    text = (paths.figures() / "claims.md").read_text(encoding="utf-8").strip()
    tables = [part for part in text.split("\n\n") if part.startswith("|")]
    left_out = [table for table in map(_read, tables) if LEFT_OUT in table]
    first = marked(_read(tables[0]), pd.read_csv(paths.figures() / "claims.csv"), left_out[0] if left_out else None)
    note = f"\n\n{DECIDED}: another outcome without one algorithm or one size; the last table has both."
    changes = first["Outcome"].str.contains(DECIDED).any()
    return text.replace(tables[0], render.markdown(first) + (note if changes else ""), 1)


def marked(table: pd.DataFrame, measurements: pd.DataFrame, left_out: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return the table of claims with `DECIDED`, and with the study where a claim has two rows of one scope.

    `measurements`: claims.csv, in the order of the table. `left_out`: number and outcome with
    all algorithms and sizes, and without one. Raises ValueError where the table has other rows than the measurements.
    """
    decide = measurements[measurements["role"] != "aside"]
    studies = decide.drop_duplicates(["claim", "study"])["study"].tolist()
    if len(studies) != len(table):
        raise ValueError(f"claims.md has {len(table)} rows and claims.csv {len(studies)}")
    changing = set()
    for title, _, whole, without in left_out.itertuples(index=False) if left_out is not None else ():
        (number, outcome), (_, other) = whole.rsplit(", ", 1), without.rsplit(", ", 1)
        changing |= {(title, number)} if outcome != other else set()
    twice = table.duplicated(["Claim", "Scope"], keep=False) & (table["Scope"] != "–")
    found = table.copy()
    for row, study in enumerate(studies):
        if (found.at[row, "Claim"], found.at[row, "Ours [95 %]"]) in changing:
            outcome = found.at[row, "Outcome"]
            found.at[row, "Outcome"] = outcome + (DECIDED if outcome[-1] in "†‡" else f" {DECIDED}")
        if twice[row]:
            found.at[row, "Scope"] += f" ({study})"
    return found


def _read(table: str) -> pd.DataFrame:
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines())
    return pd.DataFrame(rows, columns=head)
