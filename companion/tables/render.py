"""A table as data, and as CSV (one row a cell), Markdown and booktabs LaTeX."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import nan
from typing import Self

import pandas as pd

from companion.setup import labels
from companion.setup.labels import size
from companion.statistics import Estimate
from companion.tables import captions
from companion.tables.cells import EMPTY, UNPRINTED, Cells

FIT = (
    r"\footnotesize\setlength{\tabcolsep}{3pt}"
    r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
)
# before a group of columns
GAP = r"@{\hspace{9pt}}"
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
    # key -> title; a number of another key stands in the CSV alone
    columns: Mapping[str, str]
    # key, as in `cells` -> titles of model and algorithm, or "", name
    rows: Mapping[tuple[str, ...], tuple[str, ...]]
    cells: Cells
    # the head of the columns' titles
    what: str = "Task"
    # titles of the algorithms that readers see beside each other; empty: a line per number
    side_by_side: Sequence[str] = ()
    # what the caption has a place for
    caption_values: Mapping[str, str] | None = None
    studies: tuple[str, ...] = ()

    @property
    def caption(self) -> str:
        """What the table holds and how it is read, in two sentences of `captions.yaml`."""
        return captions.filled(captions.of()[self.number], **self.caption_values or {})

    @property
    def of_models(self) -> Cells:
        """The cells of a model, without those of a guess, a bag of words or a quoted model."""
        return {(row, key): cell for (row, key), cell in self.cells.items() if row[0]}

    def below(self, first: Self) -> Self:
        """The table with the models of another study that have a run there, each before its
        scaled-down model; every model stands there once.
        """
        ran = {row[0] for (row, _), cell in first.of_models.items() if cell.ran}
        above = {place: cell for place, cell in first.cells.items() if place[0][0] in ran}
        rest = {place: cell for place, cell in self.cells.items() if place[0][0] not in ran}
        order = [*labels.PAPER_SIZES, ""]
        cells = sorted((above | rest).items(), key=lambda item: order.index(size(item[0][0][0])))
        studies = first.studies * bool(ran) + self.studies
        return replace(self, rows={**self.rows, **first.rows}, cells=dict(cells), studies=studies)

    def lines(self) -> pd.DataFrame:
        """What readers see, as text, one line per number: model, algorithm, task, the paper's, ours,
        n, and what a guess, a bag of words and the public model of that size score.
        """
        timed = {key for (_, key), cell in self.of_models.items() if cell.ratio}
        lines = []
        for (row, key), cell in self.of_models.items():
            if key not in self.columns:
                continue
            model, *line = self.rows[row]
            scaled = ", scaled down" * labels.is_scaled_down(row[0])
            place = {"Model": model + scaled, "line": "".join(line), self.what: self.columns[key]}
            lines.append(place | cell.texts() | self._levels(row, key))
            if key in timed:
                place[self.what] += " ÷ Original"
                lines.append(place | cell.ratios())
        return pd.DataFrame(lines).fillna("").map(minus)

    def _levels(self, row: tuple[str, ...], key: str) -> dict[str, str]:
        """What stands beside all algorithms of a row's model, by its title."""
        levels = {}
        for (name, column), cell in self.cells.items():
            if column == key and not name[0] and name[2:] in ((), (size(row[0]),)):
                levels[captions.of()["beside"][name[1]][0]] = str(cell.ours or cell.published)
        return levels

    def frame(self) -> pd.DataFrame:
        """What readers see, as text: a line per task of a model, under each algorithm the paper's
        number and ours; or a line per number. A model's name stands in its first line alone.
        """
        frame = self.lines()
        if self.side_by_side:
            frame = _beside(frame[frame["line"].isin(self.side_by_side)])
        else:
            frame["Model"] = frame["Model"].str.cat(frame.pop("line"), ", ").str.removesuffix(", ")
        names = frame.iloc[:, 0].copy()
        frame.isetitem(0, names.where(names != names.shift(), ""))
        shown = frame.loc[:, (frame != "").any()]
        return pd.concat([shown.iloc[:, :1], shown.iloc[:, 1:].replace("", EMPTY)], axis="columns")

    def notes(self) -> list[str]:
        """What symbols and columns mean, which runs failed, what was not run and why, what stands
        in the CSV alone, and the studies.
        """
        shown = self.frame()
        used = {*"".join(shown.iloc[:, 2:].to_numpy().ravel())}
        notes = [f"{sign}: {text}" for sign, text in captions.of()["marks"].items() if sign in used]
        missing = defaultdict(dict)
        for (row, key), cell in self.of_models.items():
            if cell.ran and cell.reason:
                notes.append(f"{' '.join(self.rows[row])}, {self.columns[key]}: {cell.reason}")
            elif cell.published and not cell.ran:
                lines = missing[cell.reason].setdefault(row[0], {})
                lines["".join(self.rows[row][1:])] = None
        quoted = {row[1:2]: cell.reason for (row, _), cell in self.cells.items() if cell.published}
        for name, (head, text) in captions.of()["beside"].items():
            if ("", head) in shown.columns:
                notes.append(f"{head}: {', '.join(filter(None, [text, quoted.get((name,))]))}")
        if missing:
            reasons = [
                f"{reason} ({'; '.join(self._whose(*model) for model in models.items())})"
                for reason, models in missing.items()
            ]
            notes.append(f"not run: {'; '.join(reasons)}; SCALE.md has the commands")
        if self.side_by_side:
            every = dict.fromkeys(self.rows[row][1] for row, _ in self.of_models)
            left_out = [title for title in every if title not in self.side_by_side]
            notes.append(
                f"in the CSV alone: {labels.joined(['differences from Original', *left_out])}"
            )
        return notes + ([f"study {labels.joined(self.studies)}"] if self.studies else [])

    def _whose(self, model: str, lines: Collection[str]) -> str:
        """A model, or some algorithms of it: "BERT-Mini", "Low and ElemMul of BERT-Mini"."""
        every = {
            "".join(self.rows[row][1:])
            for (row, _), cell in self.of_models.items()
            if row[0] == model and cell.published
        }
        title = labels.model_title(model)
        return title if every == {*lines} else f"{labels.joined([*lines])} of {title}"

    def data(self) -> pd.DataFrame:
        """One row per cell, for reuse in another analysis.

        Code finds a cell by `model_key`, `line_key` and `column`; `row`, `model` and `line` are for
        readers.
        """
        rows = []
        for (row, key), cell in self.cells.items():
            titles = self.rows[row]
            ours = cell.ours if isinstance(cell.ours, Estimate) else NOTHING
            gap, ratio = cell.difference or NOTHING, cell.ratio or NOTHING
            differs = "yes" if cell.differs else "no"
            rows.append(
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
        return pd.DataFrame(rows)

    def to_csv(self) -> str:
        """One line a cell; numbers to six significant digits."""
        return self.data().to_csv(index=False, float_format="%.6g", lineterminator="\n")

    def to_markdown(self) -> str:
        """A pipe table with the caption above and the notes below."""
        frame = self.frame().replace(r"e\^\{(-|−)?(\d+)\}", r"e\1\2", regex=True)
        if self.side_by_side:
            frame.columns = [": ".join(filter(None, heads)) for heads in frame.columns]
        notes = f"{'; '.join(self.notes())}.".replace("*", r"\*").replace("#", r"\#")
        return f"**Table {self.number}.** {self.caption}\n\n{markdown(frame, left=2)}\n\n{notes}\n"

    def to_latex(self) -> str:
        """A booktabs float to \\input into an ACL paper (needs booktabs, graphicx and, if it is
        long, caption).
        """
        notes = "; ".join(self.notes()) + "."
        return latex(self.frame(), self.caption, f"tab:saobp-{self.number}", notes=notes)


def _beside(lines: pd.DataFrame) -> pd.DataFrame:
    """Set the lines of a model's algorithms beside each other, under a head of two levels.

    What is the same for all algorithms follows them: n, and the scores of a guess and the like.
    """
    model, _, what, paper, ours, n, *levels = lines.columns
    place = [model, what]
    wide = lines.pivot_table(
        index=place, columns="line", values=[paper, ours], aggfunc="first", sort=False
    ).fillna(UNPRINTED)
    titles = lines["line"].drop_duplicates()
    pairs = [(kind, title) for title in titles for kind in (paper, ours)]
    wide = wide[[pair for pair in pairs if pair[0] == ours or (wide[pair] != UNPRINTED).any()]]
    wide.columns = [(title, kind.lower()) for kind, title in wide.columns]
    groups = lines.groupby(place, sort=False)
    rest = groups[levels].first().assign(**{n: groups[n].agg(_count)})[[n, *levels]]
    rest.columns = [("", name) for name in rest.columns]
    whole = wide.join(rest).reset_index(names=[("", model), ("", what)])
    return whole.set_axis(pd.MultiIndex.from_tuples(whole.columns), axis="columns")


def _count(counts: pd.Series) -> str:
    """What stands behind a line: "3×1436", or "7/7/3/–×1024" where runs of algorithms differ."""
    runs, items = zip(*(count.partition("×")[::2] for count in counts))
    of_each = "/".join(number or UNPRINTED for number in runs)
    of_all = {*runs} - {""}
    behind = of_all.pop() if len(of_all) == 1 else of_each if of_all else ""
    return "×".join(filter(None, [behind, *dict.fromkeys(items)]))


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
) -> str:
    """Return booktabs floats of `PAGE` lines each, of the columns of `spec` over both columns of a
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
        groups = pairwise(text.columns.get_level_values(0))
        spec = "l" + "".join(GAP * (left != right) + "r" for left, right in groups)
        kind = "table" if len(text.columns) <= IN_COLUMN else kind
    floats = []
    for _, part in text.groupby((lines.cumsum() - 1) // PAGE):
        heading = {"caption": escape(caption), "label": label}
        if floats:
            heading = {"caption": ("(continued)", "")}
        body = part.style.hide(axis="index").to_latex(
            hrules=True,
            column_format=spec,
            environment=kind,
            position="t",
            position_float="centering",
            multicol_align="c",
            **heading,
        )
        body = body.replace(r"\centering", r"\ContinuedFloat\centering") if floats else body
        body = body.replace(r"\begin{tabular}", FIT + "\n" + r"\begin{tabular}")
        body = body.replace("\\midrule\n\\midrule", r"\midrule")
        floats.append(body.replace(r"\end{tabular}", r"\end{tabular}}"))
    if notes:
        below = rf"\begin{{minipage}}{{\linewidth}}\scriptsize {escape(notes)}\end{{minipage}}"
        end = rf"\end{{{kind}}}"
        floats[-1] = floats[-1].replace(end, rf"\par\smallskip{below}" + f"\n{end}")
    packages = "array," * (">{" in spec) + "booktabs," + "caption," * (len(floats) > 1) + "graphicx"
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
