"""The numbers that the paper prints, one row a cell (described in data/README.md)."""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from companion.setup import paths

# of the tables
NUMBERS = range(1, 10)


@dataclass(frozen=True)
class Published:
    """The paper's Tables 1-9, numbers in its text, and public reference scores."""

    tables: Mapping[int, pd.DataFrame]
    claims: pd.DataFrame
    references: pd.DataFrame

    def cell(self, number: int, **keys: str) -> pd.Series | None:
        """The one row of Table `number` with these keys, or None if the paper prints no such cell.

        Raises KeyError for a table or a key that does not exist, ValueError for keys that fit
        several cells.
        """
        frame = self.tables[number]
        cells = frame[(frame[[*keys]] == [*keys.values()]).all(axis=1)]
        if len(cells) > 1:
            raise ValueError(
                f"keys: {keys} fit {len(cells)} cells of Table {number}; name more keys"
            )
        return None if cells.empty else cells.iloc[0]

    def value(self, number: int, **keys: str) -> float | None:
        """The number in one cell; None where the paper prints none (or prints a word)."""
        row = self.cell(number, **keys)
        return None if row is None or pd.isna(row["value"]) else float(row["value"])

    def printed(self, number: int, **keys: str) -> str:
        """The characters in one cell as the page shows them; empty where the paper prints none."""
        row = self.cell(number, **keys)
        return "" if row is None else str(row["printed"])

    def claim(self, id: str) -> float:
        """A number stated in the text or a caption, by its id in claims.csv (C01 ...); KeyError for
        another.
        """
        return float(self.claims.set_index("id").at[id, "value"])


def load() -> Published:
    """Read the published numbers (data/published)."""
    names = [*(f"table{number}" for number in NUMBERS), "claims", "references"]
    files = (paths.root() / "data" / "published" / f"{name}.csv" for name in names)
    *tables, claims, references = (
        pd.read_csv(file, dtype=str, keep_default_na=False) for file in files
    )
    for frame in tables:
        # "cosine" has no number
        frame["value"] = pd.to_numeric(frame["value"], errors="coerce")
    return Published(dict(zip(NUMBERS, tables)), claims, references)
