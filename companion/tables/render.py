"""A table as data, and as CSV (one row a cell), Markdown and booktabs LaTeX."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from math import nan
from typing import Self

import pandas as pd

from companion.setup.labels import counted, size
from companion.statistics import Estimate
from companion.tables import captions
from companion.tables.cells import EMPTY, Cell, Cells

FIT = (
    r"\footnotesize\setlength{\tabcolsep}{3pt}"
    r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
)
# lines of a table that a page holds
PAGE = 45
# columns of numbers that one column of a page holds, readably; more take both
IN_COLUMN = 5
ESCAPES = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "&": r"\&",
        "%": r"\%",
        "#": r"\#",
        "_": r"\_",
        "$": r"\$",
        "{": r"\{",
        "}": r"\}",
        "~": r"$\sim$",
        "^": r"\^{}",
        "×": r"$\times$",
        "±": r"$\pm$",
        "λ": r"$\lambda$",
        "–": "--",
        "−": "$-$",
        "β": r"$\beta$",
        "<": r"$<$",
        "|": "$|$",
        ">": r"$>$",
        "→": r"$\to$",
        "†": r"$\dagger$",
        "‡": r"$\ddagger$",
        "§": r"\S{}",
        "¶": r"\P{}",
        "÷": r"$\div$",
        "‖": r"$\parallel$",
        "°": r"$^\circ$",
        "·": r"$\cdot$",
    }
)
NOTHING = Estimate(nan, nan, nan, None)


def refuse_unknown(formats: Iterable[str], known: Collection[str]) -> None:
    """Raise ValueError for a format that is none of those known."""
    if unknown := [name for name in formats if name not in known]:
        raise ValueError(f"formats: {unknown[0]!r} is none of {', '.join(known)}")


@dataclass(frozen=True)
class Table:
    """Numbers of the paper beside ours, a row a model and algorithm, a column a task or measure."""

    number: int
    # key -> title
    columns: Mapping[str, str]
    # key, as in `cells` -> titles of model and algorithm, or "", name
    rows: Mapping[tuple[str, ...], tuple[str, ...]]
    cells: Cells
    # the head of the columns' titles
    what: str = "Task"
    # what the caption has a place for
    given: Mapping[str, str] | None = None
    studies: tuple[str, ...] = ()
    # cells of the paper without a run
    left_out: int = 0

    @property
    def caption(self) -> str:
        """What the table holds and how it is read, in two sentences of `captions.yaml`."""
        return captions.filled(captions.of()[self.number], **self.given or {})

    @property
    def of_models(self) -> Cells:
        """The cells of a model, without those of a guess, a bag of words or a quoted model."""
        return {(row, key): cell for (row, key), cell in self.cells.items() if row[0]}

    def with_runs(self) -> Self:
        """The table without the cells that have no run of ours, or are quoted beside none; all of
        it if none has.
        """
        shown = {key for (_, key), cell in self.of_models.items() if cell.ran}
        if not shown:
            return self
        gone = sum(not cell.ran and bool(cell.published) for cell in self.of_models.values())
        kept = {
            (row, key): cell
            for (row, key), cell in self.cells.items()
            if cell.ran or (not row[0] and key in shown and cell.published)
        }
        return replace(self, cells=kept, left_out=gone)

    def below(self, other: Self) -> Self:
        """The table under the rows of another study that have a run; each row stands there once."""
        ran = {row for (row, _), cell in other.of_models.items() if cell.ran}
        above = {place: cell for place, cell in other.cells.items() if place[0] in ran}
        own = {place: cell for place, cell in self.cells.items() if place[0] not in ran}
        studies = other.studies * bool(ran) + self.studies
        return replace(self, rows={**self.rows, **other.rows}, cells=above | own, studies=studies)

    def frame(self) -> pd.DataFrame:
        """What readers see, as text: a line per cell of a model, rows without a model as columns,
        none empty.
        """
        beside = dict.fromkeys(row for row, _ in self.cells if not row[0])
        lines, before = [], None
        for (row, key), cell in self.of_models.items():
            head = ", ".join(self.rows[row]) if row != before else ""
            own = [name for name in beside if len(name) == 2 or size(row[0]) == name[2]]
            levels = {self.rows[name][1]: self.cells.get((name, key), Cell()) for name in own}
            said = {
                title: str(level.ours or level.published or EMPTY)
                for title, level in levels.items()
            }
            lines.append({"Model": head, self.what: self.columns[key], **cell.texts(), **said})
            before = row
        frame = pd.DataFrame(lines).map(minus)
        shown = frame.loc[:, (frame != "").any()]
        return shown.replace({name: {"": EMPTY} for name in shown.columns[1:]})

    def notes(self) -> list[str]:
        """What the symbols in use mean, which runs failed, what is quoted, how many rows have no
        run, and the study.
        """
        used = {*"".join(self.frame().iloc[:, 2:].stack())}
        said = [
            f"{sign}: {meaning}" for sign, meaning in captions.of()["marks"].items() if sign in used
        ]
        said += [
            f"{' '.join(self.rows[row])}, {self.columns[key]}: {cell.reason}"
            for (row, key), cell in self.of_models.items()
            if cell.ran and cell.reason
        ]
        beside = [
            (self.rows[row][1], cell)
            for (row, _), cell in self.cells.items()
            if not row[0] and cell.published
        ]
        said += dict.fromkeys(
            f"{title}: of the row's name at full size, {cell.reason}" for title, cell in beside
        )
        if self.left_out:
            study = f"--study {self.studies[0]} " if len(self.studies) == 1 else ""
            said.append(
                f"{counted(self.left_out, 'row')} not run (saobp table {self.number} {study}--all)"
            )
        return said + ([f"study {' and '.join(self.studies)}"] if self.studies else [])

    def to_csv(self) -> str:
        """One line a cell, for reuse in another analysis; numbers to six significant digits.

        Code finds a cell by `model_key`, `line_key` and `column`; `row`, `model` and `line` are for
        readers.
        """
        lines = []
        for (row, key), cell in self.cells.items():
            titles = self.rows[row]
            ours = cell.ours if isinstance(cell.ours, Estimate) else NOTHING
            gap, ratio, differs = (
                cell.difference or NOTHING,
                cell.ratio or NOTHING,
                "yes" if cell.differs else "no",
            )
            lines.append(
                {
                    "table": self.number,
                    "row": " ".join(filter(None, titles)),
                    "column": key,
                    "model": titles[0],
                    "line": " ".join(titles[1:]),
                    "published": cell.published,
                    "ours": cell.ours if ours is NOTHING else f"{ours.value:.6g}",
                    "low": ours.low,
                    "high": ours.high,
                    "runs": ours.seeds,
                    "items": ours.items,
                    "difference": gap.value,
                    "difference_low": gap.low,
                    "difference_high": gap.high,
                    "p_adjusted": cell.adjusted_p,
                    "differs": differs if cell.difference else None,
                    "flags": "; ".join(cell.flags),
                    "reason": cell.reason,
                    "published_ratio": cell.published_ratio,
                    "ratio": ratio.value,
                    "ratio_low": ratio.low,
                    "ratio_high": ratio.high,
                    "model_key": row[0],
                    "line_key": "-".join(row[1:]),
                }
            )
        return pd.DataFrame(lines).to_csv(index=False, float_format="%.6g", lineterminator="\n")

    def to_markdown(self) -> str:
        """A pipe table with the caption above and the notes below."""
        shown = self.frame()
        shown["Paper"] = shown["Paper"].str.replace(r"e\^\{(-|−)?(\d+)\}", r"e\1\2", regex=True)
        said = f"{'; '.join(self.notes())}.".replace("*", r"\*")
        return f"**Table {self.number}.** {self.caption}\n\n{markdown(shown, left=2)}\n\n{said}\n"

    def to_latex(self) -> str:
        """A booktabs float to \\input into an ACL paper (needs booktabs, graphicx and, if it is
        long, caption).
        """
        return latex(
            self.frame(),
            self.caption,
            f"tab:saobp-{self.number}",
            notes="; ".join(self.notes()) + ".",
        )


def markdown(frame: pd.DataFrame, left: int | None = None) -> str:
    """Return a pipe table of texts, the first `left` columns (all if None) on the left and the
    others on the right.
    """
    shown = frame.replace({r"\|": r"\|", r"\*": r"\*"}, regex=True)
    left = len(frame.columns) if left is None else left
    align = ["left"] * left + ["right"] * (len(frame.columns) - left)
    return shown.to_markdown(index=False, disable_numparse=True, colalign=align)


def latex(
    frame: pd.DataFrame,
    caption: str,
    label: str,
    *,
    notes: str = "",
    spec: str = "",
    rows: int = PAGE,
) -> str:
    """Return booktabs floats of `rows` lines each, of the columns of `spec` over both columns of a
    page.

    Without it the first column's names are lines of their own, and few columns (`IN_COLUMN`) take
    one column of a page.
    """
    text, kind = frame.map(escape).rename(columns=escape), "table*"
    lines = pd.Series(1, text.index)
    if not spec:
        names, text = text.iloc[:, 0], text.iloc[:, 1:].copy()
        above = rf"\midrule\multicolumn{{{len(text.columns)}}}{{l}}{{" + names + "} \\\\\n"
        text.iloc[:, 0] = above.where(names != "", "") + text.iloc[:, 0]
        lines += names != ""
        spec, kind = (
            "l" + "r" * (len(text.columns) - 1),
            "table" if len(text.columns) <= IN_COLUMN else kind,
        )
    floats = []
    for _, part in text.groupby((lines.cumsum() - 1) // rows):
        told = (
            {"caption": ("(continued)", "")}
            if floats
            else {"caption": escape(caption), "label": label}
        )
        body = part.style.hide(axis="index").to_latex(
            hrules=True,
            column_format=spec,
            environment=kind,
            position="t",
            position_float="centering",
            **told,
        )
        body = body.replace(r"\centering", r"\ContinuedFloat\centering") if floats else body
        body = body.replace(r"\begin{tabular}", FIT + "\n" + r"\begin{tabular}")
        floats.append(
            body.replace(r"\end{tabular}", r"\end{tabular}}").replace(
                "\\midrule\n\\midrule", r"\midrule"
            )
        )
    if notes:
        below = (
            rf"\par\smallskip\begin{{minipage}}{{\linewidth}}\scriptsize {escape(notes)}\end{{minipage}}"
            + "\n"
        )
        floats[-1] = floats[-1].replace(rf"\end{{{kind}}}", rf"{below}\end{{{kind}}}")
    packages = (
        "array," * bool(">{" in spec) + "booktabs," + "caption," * (len(floats) > 1) + "graphicx"
    )
    return rf"% needs \usepackage{{{packages}}}" + "\n" + "".join(floats)


def minus(text: str) -> str:
    """The text with a true minus sign before each negative number; a hyphen stays one."""
    return re.sub(r"(?<![\w.-])-(?=\.?\d)", "−", text)


def escape(text: str) -> str:
    """Make a text safe for LaTeX; the few signs of these tables become their commands."""
    if re.fullmatch(r"[\d.]+e\^\{[-−]?\d+\}", text):
        # a power of ten as the paper prints it
        return f"${text.replace('−', '-')}$"
    # two hyphens would be a dash
    return "-{}-".join(part.translate(ESCAPES) for part in minus(text).split("--"))
