"""Tables as CSV (one row a cell), Markdown and booktabs LaTeX."""

import csv as csv_writer
import io
import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby

from saobp.study.statistics import Estimate
from saobp.study.tables import floats
from saobp.study.tables.cells import Cell, Row, Table, reason_notes

MARK = "*"
MARKED = "* differs from Original after Holm's correction over the table (paired by item and seed, level 0.05)"
FLAGS = {"below chance": r"\dagger", "below majority": r"\S", "constant predictor": r"\ddagger"}
SIGNS = {"below chance": "†", "below majority": "§", "constant predictor": "‡"}
MEANINGS = {
    "below chance": "The whole interval lies below what a guess would score.",
    "below majority": "The whole interval lies below what the most frequent answer alone would score.",
    "constant predictor": "One run of the cell or more gives every item one answer, or answers that spread under a "
    "hundredth of the labels'.",
}
UNPRINTED = "–: the paper prints no number there."
ALONE = "A number without an interval rests on one run, whose record keeps none."
ALIKE = "A number that all its texts, sequences or items give alike has no interval."
FIT = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"  # shrinks what is too wide only
SMALLER = 0.8  # of a line, what stands small under a number
WIDE = 5  # more columns than this and ours stands below the paper's number, not beside it
FIELDS = (
    "table", "row", "column", "published", "ours", "low", "high", "runs", "items", "difference",
    "difference_low", "difference_high", "p_adjusted", "differs", "flags", "reason",
)  # fmt: skip
ESCAPES = {"\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_", "$": r"\$", "{": r"\{",
           "}": r"\}", "~": r"$\sim$", "^": r"\^{}", "×": r"$\times$", "±": r"$\pm$", "λ": r"$\lambda$",
           "–": "--", "−": "$-$", "β": r"$\beta$", "<": r"$<$", "|": "$|$", ">": r"$>$", "→": r"$\to$",
           "†": r"$\dagger$", "‡": r"$\ddagger$", "§": r"\S{}", "÷": r"$\div$"}  # fmt: skip


def csv(table: Table) -> str:
    """Return one line a cell; numbers to six significant digits."""
    stream = io.StringIO()
    writer = csv_writer.writer(stream, lineterminator="\n")
    writer.writerow(FIELDS)
    for row in table.rows:
        for key, cell in row.cells.items():
            writer.writerow([table.number, " ".join(filter(None, row.labels)), key, *_fields(cell)])
    return stream.getvalue()


def _fields(cell: Cell) -> list[object]:
    ours, gap = cell.ours, cell.difference
    estimate = ours if isinstance(ours, Estimate) else None
    numbers = [estimate.value, estimate.low, estimate.high] if estimate else [ours, None, None]
    counts = [estimate.seeds, estimate.items] if estimate and not cell.exact else [None, None]
    gaps = [gap.value, gap.low, gap.high] if gap else [None] * 3
    differs = {True: "yes", False: "no"}[cell.differs] if gap else None
    tail = [cell.adjusted_p, differs, "; ".join(cell.flags), cell.reason]
    return [cell.published, *(_plain(value) for value in (*numbers, *counts, *gaps, *tail))]


def _plain(value: object) -> object:
    if isinstance(value, float):
        return "" if value != value else f"{value:.6g}"
    return "" if value is None else value


def markdown(table: Table) -> str:
    """Return a pipe table, the paper's number and ours in one cell: "53.37 / **54.10 ± 1.20** (3×277)"."""
    heads = [*table.heads, *table.columns.values()]
    lines = [f"**Table {table.number}.** {table.caption}", "", pipe(heads)]
    lines.append("|" + "|".join(["---"] * len(table.heads) + ["---:"] * len(table.columns)) + "|")
    for row in table.rows:
        cells = [_markdown_cell(row.cells.get(key, Cell())) for key in table.columns]
        lines.append(pipe([*row.labels, *cells]))
    brackets = f", {table.spread} ({table.counts})" if table.counts else ""
    notes = [f"Each cell: paper / **ours**{brackets}.", *_flag_notes(table, SIGNS), *_notes(table)]
    return "\n".join([*lines, "", *(f"{note}  " for note in notes)]).rstrip() + "\n"


def _markdown_cell(cell: Cell) -> str:
    published = re.sub(r"e\^\{(-?\d+)\}", r"e\1", cell.published) or "–"
    if cell.ours is None:
        return f"{published} /" if cell.reason else published
    flags = "".join(SIGNS.get(flag, f" [{flag}]") for flag in cell.flags)
    count = f" ({cell.count()})" if cell.count() else ""
    return f"{published} / **{cell.number()}**{MARK if cell.differs else ''}{flags}{count}"


def pipe(cells: Iterable[str]) -> str:
    """Return a row of a pipe table."""
    return "| " + " | ".join(text.replace("|", "\\|") for text in cells) + " |"


def _notes(table: Table) -> list[str]:
    marked = any(cell.differs for row in table.rows for cell in row.cells.values())
    alone = [cell.ours.items for row in table.rows for cell in row.cells.values() if cell.alone]
    said = [f"\\{MARKED}."] if marked else []
    said += [UNPRINTED] if any(not cell.published for row in table.rows for cell in row.cells.values()) else []
    if table.counts.startswith("runs"):
        said += [words for words, here in ((ALONE, None in alone), (ALIKE, any(alone))) if here]
    return [*said, *table.notes, *reason_notes(table)]


def latex(table: Table) -> str:
    """Return a booktabs float, or several where one is taller than a page, cut between models.

    With more than five columns ours stands below the paper's number.
    """
    stacked = len(table.columns) > WIDE
    size, body = ("scriptsize", _stacked) if stacked else ("footnotesize", _beside)
    notes = " ".join(
        [
            *_flag_notes(table, {flag: f"${mark}$" for flag, mark in FLAGS.items()}),
            *(escape(note.lstrip("\\")) for note in _notes(table)),
        ]
    )
    brackets = f" Ours: {table.spread} ({table.counts})." if table.counts else ""
    caption = escape(table.caption + brackets)
    bodies = [[FIT, *body(part), "}"] for part in _pages(table, size, caption, notes, stacked)]
    style = rf"\{size}\setlength{{\tabcolsep}}{{3pt}}"
    return floats.floats(bodies, caption, f"tab:saobp-{table.number}", style, notes)


def _pages(table: Table, size: str, caption: str, notes: str, stacked: bool) -> list[Table]:
    """The table in parts that fit a page each, models whole."""
    line, groups = floats.LINES[size], [list(rows) for _, rows in groupby(table.rows, key=_group)]
    tall = [sum(_row_lines(row, stacked) * line for row in rows) for rows in groups]
    above = floats.height(caption, "footnotesize") + 4 * line
    cuts = floats.pages(tall, above, floats.height(notes, "scriptsize"))
    return [replace(table, rows=tuple(row for rows in groups[cut] for row in rows)) for cut in cuts]


def _row_lines(row: Row, stacked: bool) -> float:
    """How many lines of text a row takes: the paper's, and ours with interval and count in smaller ones."""
    counted = any(cell.count() for cell in row.cells.values())
    interval = stacked and any(cell.error() for cell in row.cells.values())
    return 1 + stacked + SMALLER * (counted + interval)


def _flag_notes(table: Table, signs: dict[str, str]) -> list[str]:
    """Explain the daggers that occur."""
    used = {flag for row in table.rows for cell in row.cells.values() for flag in cell.flags}
    return [f"{sign} {flag}. {MEANINGS[flag]}" for flag, sign in signs.items() if flag in used]


def _beside(table: Table) -> list[str]:
    """Two columns a quantity: paper, ours."""
    labels = len(table.heads)
    groups = [rf"\multicolumn{{2}}{{c}}{{{escape(title)}}}" for title in table.columns.values()]
    rules = [rf"\cmidrule(lr){{{labels + 1 + 2 * i}-{labels + 2 + 2 * i}}}" for i in range(len(groups))]
    heads = [*map(escape, table.heads), *(["paper", "ours"] * len(groups))]
    lines = [
        rf"\begin{{tabular}}{{{'l' * labels}{'rl' * len(groups)}}}", r"\toprule",
        " & ".join([""] * labels + groups).strip() + r" \\", "".join(rules), " & ".join(heads) + r" \\",
    ]  # fmt: skip
    for _, rows in groupby(table.rows, key=_group):
        lines.append(r"\midrule")
        lines += [_line(_labels(row, first), _pairs(table, row)) for first, row in _first(rows)]
    return [*lines, r"\bottomrule", r"\end{tabular}"]


def _pairs(table: Table, row: Row) -> list[str]:
    cells = [row.cells.get(key, Cell()) for key in table.columns]
    return [text for cell in cells for text in (_latex_published(cell), _latex_cell(cell))]


def _latex_published(cell: Cell) -> str:
    return escape(cell.published or "–")  # a dash is what the paper does not print; empty has its reason below


def _stacked(table: Table) -> list[str]:
    """Two lines a row: the paper's numbers, ours below."""
    labels = len(table.heads)
    heads = [*map(escape, table.heads), "", *(escape(title) for title in table.columns.values())]
    lines = [rf"\begin{{tabular}}{{{'l' * (labels + 1)}{'r' * len(table.columns)}}}", r"\toprule"]
    lines.append(" & ".join(heads) + r" \\")
    for _, rows in groupby(table.rows, key=_group):
        lines.append(r"\midrule")
        for first, row in _first(rows):
            cells = [row.cells.get(key, Cell()) for key in table.columns]
            lines.append(_line([*_labels(row, first), "paper"], [_latex_published(cell) for cell in cells]))
            lines.append(_line([*[""] * labels, "ours"], [_latex_cell(cell, stacked=True) for cell in cells]))
    return [*lines, r"\bottomrule", r"\end{tabular}"]


def _group(row: Row) -> str:
    """Rows of one model stand together; a table with one label column is one group."""
    return row.labels[0] if len(row.labels) > 1 else ""


def _first(rows):
    return ((index == 0, row) for index, row in enumerate(rows))


def _labels(row: Row, first: bool) -> list[str]:
    """A group's name on its first line only."""
    return [escape(row.labels[0] if first or len(row.labels) == 1 else ""), *map(escape, row.labels[1:])]


def _line(labels: list[str], cells: list[str]) -> str:
    return " & ".join([*labels, *cells]) + r" \\"


def _latex_cell(cell: Cell, stacked: bool = False) -> str:
    if cell.ours is None:
        return ""
    if isinstance(cell.ours, str):
        return escape(cell.ours)  # a word or a setting
    value, error = f"{cell.ours.value:.{cell.places}f}", cell.error().replace("±", r"\pm").replace("<", "{<}")
    marks = (MARK if cell.differs else "") + "".join(FLAGS.get(flag, "") for flag in cell.flags)
    star = "^{" + marks + "}" if marks else ""
    count = [rf"{{\tiny({escape(cell.count())})}}"] if cell.count() else []
    if stacked:
        lines = [f"${value}{star}$", *([rf"{{\tiny${error}$}}"] if error else []), *count]
        return _stack("r", lines)
    below = f"_{{{error}}}" if error else ""
    return _stack("l", [f"${value}{star}{below}$", *count])


def _stack(side: str, lines: list[str]) -> str:
    """Lines on top of each other, the first level with the row."""
    return rf"\begin{{tabular}}[t]{{@{{}}{side}@{{}}}}" + r"\\[-2pt]".join(lines) + r"\end{tabular}"


def escape(text: str) -> str:
    """Make a text safe for LaTeX; the few signs of these tables become their commands."""
    if re.fullmatch(r"[\d.]+e\^\{-?\d+\}", text):
        return f"${text}$"  # a power of ten as the paper prints it
    text = re.sub(r"(?<![\w.-])-(?=\.?\d)", "−", text)  # the sign of a number, not a hyphen
    return "".join(ESCAPES.get(letter, letter) for letter in text)
