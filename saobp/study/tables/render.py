"""A table as data, and as CSV (one row a cell), Markdown and booktabs LaTeX."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Self

import pandas as pd
import yaml

from saobp.study.setup.labels import counted
from saobp.study.tables.cells import DIFFERS, EMPTY, SIGNS, UNPRINTED, Cell, Row

CAPTIONS = Path(__file__).with_name("captions.yaml")
SMALL = r"\footnotesize\setlength{\tabcolsep}{3pt}"
FIT = SMALL + r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
PAGE = 45  # lines of a table that a page holds
IN_COLUMN = 5  # columns of numbers that one column of a page holds, readably; more take both
ESCAPES = {"\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_", "$": r"\$", "{": r"\{",
           "}": r"\}", "~": r"$\sim$", "^": r"\^{}", "×": r"$\times$", "±": r"$\pm$", "λ": r"$\lambda$",
           "–": "--", "−": "$-$", "β": r"$\beta$", "<": r"$<$", "|": "$|$", ">": r"$>$", "→": r"$\to$",
           "†": r"$\dagger$", "‡": r"$\ddagger$", "§": r"\S{}", "¶": r"\P{}", "÷": r"$\div$",
           "‖": r"$\parallel$", "°": r"$^\circ$", "·": r"$\cdot$"}  # fmt: skip


@cache
def captions(file: Path = CAPTIONS) -> dict[int | str, Any]:
    """The captions of all tables (or figures), with a place for each number; under "marks" what each symbol means."""
    return yaml.safe_load(file.read_text(encoding="utf-8"))


def refuse_unknown(formats: Iterable[str], known: Collection[str]) -> None:
    """Raise ValueError for a format that is none of those known."""
    if unknown := [name for name in formats if name not in known]:
        raise ValueError(f"formats: {unknown[0]!r} is none of {', '.join(known)}")


@dataclass(frozen=True)
class Table:
    """Numbers of the paper beside ours, a row a model and algorithm, a column a task or measure."""

    number: int
    heads: tuple[str, ...]  # of the label columns
    columns: Mapping[str, str]  # key -> title
    rows: tuple[Row, ...]
    what: str = "Task"  # the head of the columns' titles
    given: Mapping[str, str] | None = None  # what the caption has a place for
    study: str = ""
    left_out: int = 0  # cells of the paper without a run

    @property
    def caption(self) -> str:
        """What the table holds and how it is read, in two sentences of `captions.yaml`."""
        return captions()[self.number].format(**self.given or {})

    def with_runs(self) -> Self:
        """The table without the cells that have no run of ours, which it counts; all of it if none has.

        A cell whose runs all failed stays.
        """
        kept = tuple(Row(row.labels, {key: cell for key, cell in row.cells.items() if cell.ran}) for row in self.rows)
        kept = tuple(row for row in kept if row.cells)
        if not any(row.labels[0] for row in kept):
            return self
        gone = sum(not c.ran and bool(c.published) for row in self.rows if row.labels[0] for c in row.cells.values())
        return replace(self, rows=kept, left_out=gone)

    def below(self, other: Self) -> Self:
        """The table under the rows of another study that have a run; each row stands there once."""
        ran = [row for row in other.rows if row.labels[0] and any(cell.ran for cell in row.cells.values())]
        above = {row.labels for row in ran}
        rows = (*ran, *(row for row in self.rows if row.labels not in above))
        return replace(self, rows=rows, study=" and ".join(filter(None, [other.study * bool(ran), self.study])))

    def cell(self, *labels: str, column: str) -> Cell:
        """The cell of the row with these labels. Raises ValueError that lists the rows if there is none."""
        for row in self.rows:
            if row.labels == labels and column in row.cells:
                return row.cells[column]
        known = "; ".join(", ".join(row.labels) for row in self.rows)
        raise ValueError(f"labels: no cell {labels} {column!r} in Table {self.number}; rows are {known}")

    def frame(self) -> pd.DataFrame:
        """What readers see, as text: a line per cell of a model, rows without a model as columns.

        No column is empty, and `EMPTY` stands for a number that there is not.
        """
        models = [row for row in self.rows if row.labels[0]]
        levels = [row for row in self.rows if not row.labels[0]]
        lines = []
        for row in models:
            for place, key in enumerate(key for key in self.columns if key in row.cells):
                head = ", ".join(row.labels) if place == 0 else ""
                below = {level.labels[1]: level.cells.get(key, Cell()) for level in levels}
                beside = {name: str(cell.ours or cell.published or UNPRINTED) for name, cell in below.items()}
                lines.append({self.heads[0]: head, self.what: self.columns[key], **row.cells[key].texts(), **beside})
        frame = pd.DataFrame(lines).map(minus)
        shown = frame.loc[:, (frame != "").any()]
        return shown.replace({name: {"": EMPTY} for name in shown.columns[1:]})

    def notes(self) -> list[str]:
        """What the symbols in use mean, which runs failed, how many rows have no run, and the study."""
        cells = [cell for row in self.rows if row.labels[0] for cell in row.cells.values()]
        used = {SIGNS[flag] for cell in cells for flag in cell.flags}
        used |= {DIFFERS} if any(cell.differs for cell in cells) else set()
        used |= {UNPRINTED} if any(not cell.published for cell in cells) else set()
        used |= {EMPTY} if (self.frame() == EMPTY).any(axis=None) else set()
        said = [f"{sign}: {meaning}" for sign, meaning in captions()["marks"].items() if sign in used]
        said += [
            f"{' '.join(row.labels)}, {self.columns[key]}: {cell.reason}"
            for row in self.rows for key, cell in row.cells.items() if row.labels[0] and cell.ran and cell.reason
        ]  # fmt: skip
        said += [f"{counted(self.left_out, 'row')} not run (saobp table {self.number} --all)"] if self.left_out else []
        return said + ([f"study {self.study}"] if self.study else [])

    def to_csv(self) -> str:
        """One line a cell, for reuse in another analysis; numbers to six significant digits."""
        lines = [
            {"table": self.number, "row": " ".join(filter(None, row.labels)), "column": key, **_fields(cell)}
            for row in self.rows
            for key, cell in row.cells.items()
        ]
        text = pd.DataFrame(lines, dtype=object).map(_plain)
        return text.to_csv(index=False, lineterminator="\n")

    def to_markdown(self) -> str:
        """A pipe table with the caption above and the notes below."""
        shown = self.frame()
        shown["Paper"] = shown["Paper"].str.replace(r"e\^\{(-|−)?(\d+)\}", r"e\1\2", regex=True)
        said = f"{'; '.join(self.notes())}.".replace("*", r"\*")
        return f"**Table {self.number}.** {self.caption}\n\n{markdown(shown, left=2)}\n\n{said}\n"

    def to_latex(self) -> str:
        """A booktabs float to \\input into an ACL paper (needs booktabs, graphicx and, if it is long, caption)."""
        return latex(self.frame(), self.caption, f"tab:saobp-{self.number}", notes="; ".join(self.notes()) + ".")


def _fields(cell: Cell) -> dict[str, object]:
    ours, gap, ratio = cell.ours, cell.difference, cell.ratio
    counted = None if cell.exact else ours
    names = ("value", "low", "high")
    value, low, high = getattr(ours, "value", ours), getattr(ours, "low", None), getattr(ours, "high", None)
    gaps, ratios = ([getattr(one, name, None) for name in names] for one in (gap, ratio))
    return {
        "published": cell.published, "ours": value, "low": low, "high": high,
        "runs": getattr(counted, "seeds", None), "items": getattr(counted, "items", None),
        **dict(zip(("difference", "difference_low", "difference_high"), gaps)),
        "p_adjusted": cell.adjusted_p, "differs": ("yes" if cell.differs else "no") if gap else None,
        "flags": "; ".join(cell.flags), "reason": cell.reason, "published_ratio": cell.published_ratio,
        **dict(zip(("ratio", "ratio_low", "ratio_high"), ratios)),
    }  # fmt: skip


def _plain(value: object) -> str:
    if isinstance(value, float):
        return "" if value != value else f"{value:.6g}"
    return "" if value is None else str(value)


def markdown(frame: pd.DataFrame, left: int | None = None) -> str:
    """Return a pipe table of texts, the first `left` columns (all if None) on the left and the others on the right."""
    shown = frame.replace({r"\|": r"\|", r"\*": r"\*"}, regex=True)
    left = len(frame.columns) if left is None else left
    align = ["left"] * left + ["right"] * (len(frame.columns) - left)
    return shown.to_markdown(index=False, disable_numparse=True, colalign=align)


def latex(frame: pd.DataFrame, caption: str, label: str, *, notes: str = "", spec: str = "", rows: int = PAGE) -> str:
    """Return booktabs floats of `rows` lines each; what continues has the number of the first.

    `spec`: the columns' specification, over both columns of a page; without one each name of the first column is a line
    of its own above its numbers, and few columns (`IN_COLUMN`) take one column of a page.
    """
    text, kind = frame.map(escape).rename(columns=escape), "table*"
    places = pd.Series(range(len(text)))
    if not spec:
        text, named = _under_names(text)
        places = (1 + named).cumsum() - 1
        spec = "l" + "r" * (len(text.columns) - 1)
        kind = "table" if len(text.columns) <= IN_COLUMN else "table*"
    parts = [part for _, part in text.groupby(places.to_numpy() // rows)]
    floats = [
        _float(part, kind, spec, ("(continued)", "") if place else escape(caption)) for place, part in enumerate(parts)
    ]
    floats[0] = floats[0].replace("\n\\footnotesize", f"\n\\label{{{label}}}\n\\footnotesize", 1)
    if notes:
        below = rf"\par\smallskip\begin{{minipage}}{{\linewidth}}\scriptsize {escape(notes)}\end{{minipage}}" + "\n"
        floats[-1] = floats[-1].replace(rf"\end{{{kind}}}", rf"{below}\end{{{kind}}}")
    packages = "array," * bool(">{" in spec) + "booktabs," + "caption," * (len(parts) > 1) + "graphicx"
    return rf"% needs \usepackage{{{packages}}}" + "\n" + "".join(floats)


def _float(part: pd.DataFrame, kind: str, spec: str, caption: str | tuple[str, str]) -> str:
    """One float, fitted to its page; a caption in two forms is that of a table which continues."""
    body = part.style.hide(axis="index").to_latex(
        hrules=True, column_format=spec, environment=kind, position="t", position_float="centering", caption=caption
    )
    if isinstance(caption, tuple):
        body = body.replace(r"\centering", r"\ContinuedFloat\centering")
    body = body.replace(r"\begin{tabular}", FIT + "\n" + r"\begin{tabular}")
    return body.replace(r"\end{tabular}", r"\end{tabular}}").replace("\\midrule\n\\midrule", r"\midrule")


def _under_names(text: pd.DataFrame) -> tuple[pd.DataFrame, pd.Series]:
    """Move each name of the first column to a ruled line above its numbers; also which lines have one."""
    names, rest = text.iloc[:, 0], text.iloc[:, 1:].copy()
    above = rf"\midrule\multicolumn{{{len(rest.columns)}}}{{l}}{{" + names + "} \\\\\n"
    rest.iloc[:, 0] = above.where(names != "", "") + rest.iloc[:, 0]
    return rest, names != ""


def minus(text: str) -> str:
    """The text with a true minus sign before each negative number; a hyphen stays one."""
    return re.sub(r"(?<![\w.-])-(?=\.?\d)", "−", text)


def escape(text: str) -> str:
    """Make a text safe for LaTeX; the few signs of these tables become their commands."""
    if re.fullmatch(r"[\d.]+e\^\{[-−]?\d+\}", text):
        return f"${text.replace('−', '-')}$"  # a power of ten as the paper prints it
    safe = ["".join(ESCAPES.get(letter, letter) for letter in part) for part in minus(text).split("--")]
    return "-{}-".join(safe)  # two hyphens would be set as a dash
