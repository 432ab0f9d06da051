"""The numbers that the paper prints, one row a cell (described in data/README.md)."""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from saobp.study.setup import paths

KEYS = {
    1: ("model", "algorithm", "metric", "arrow_in_header"),
    **dict.fromkeys((2, 3, 7, 8), ("model", "algorithm", "metric")),
    **dict.fromkeys((4, 5), ("model", "metric")),
    6: ("model", "gtd_kind", "task", "metric"),
    9: ("model", "algorithm", "phase", "metric"),
}


@dataclass(frozen=True)
class Published:
    """The paper's Tables 1-9, numbers in its text, and public reference scores."""

    tables: Mapping[int, pd.DataFrame]
    claims: pd.DataFrame
    references: pd.DataFrame

    def cell(self, number: int, **keys: str) -> pd.Series | None:
        """The one row of Table `number` with these keys, or None if the paper prints no such cell.

        Raises ValueError for a table or a key that does not exist, or keys that fit several cells.
        """
        if number not in self.tables:
            raise ValueError(f"number: the paper has no Table {number}; choose 1 to 9")
        if wrong := [key for key in keys if key not in KEYS[number]]:
            raise ValueError(f"{wrong[0]}: Table {number} is keyed by {', '.join(KEYS[number])}")
        frame = self.tables[number]
        found = frame[(frame[[*keys]] == [*keys.values()]).all(axis=1)]
        if len(found) > 1:
            raise ValueError(f"keys: {keys} fit {len(found)} cells of Table {number}; name more keys")
        return None if found.empty else found.iloc[0]

    def value(self, number: int, **keys: str) -> float | None:
        """The number in one cell; None where the paper prints none (or prints a word)."""
        row = self.cell(number, **keys)
        return None if row is None or pd.isna(row["value"]) else float(row["value"])

    def printed(self, number: int, **keys: str) -> str:
        """The characters in one cell as the page shows them; empty where the paper prints none."""
        row = self.cell(number, **keys)
        return "" if row is None else str(row["printed"])

    def claim(self, id: str) -> float:
        """A number stated in the text or a caption, by its id in claims.csv (C01 ...)."""
        rows = self.claims[self.claims["id"] == id]
        if rows.empty:
            raise ValueError(f"id: claims.csv has no {id}")
        return float(rows["value"].iloc[0])


def load() -> Published:
    """Read the published numbers (data/published)."""
    names = [*(f"table{number}" for number in sorted(KEYS)), "claims", "references"]
    files = (paths.root() / "data" / "published" / f"{name}.csv" for name in names)
    *tables, claims, references = (pd.read_csv(file, dtype=str, keep_default_na=False) for file in files)
    for frame in tables:
        frame["value"] = pd.to_numeric(frame["value"], errors="coerce")  # "cosine" has no number
    return Published(dict(zip(sorted(KEYS), tables)), claims, references)
