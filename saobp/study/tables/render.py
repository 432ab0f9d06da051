"""Tables as CSV (one row a cell), Markdown and booktabs LaTeX."""

import csv as csv_writer
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from saobp.study.statistics import Estimate
from saobp.study.tables import floats
from saobp.study.tables.cells import Cell, Row, Table, reason_notes

MARK = "*"
MARKED = "* differs from Original after Holm's correction over the table (paired by item and seed, level 0.05)"
FLAGS = {
    "below chance": r"\dagger", "below majority": r"\S", "constant predictor": r"\ddagger", "below bag of words": r"\P",
}  # fmt: skip
SIGNS = {"below chance": "†", "below majority": "§", "constant predictor": "‡", "below bag of words": "¶"}
MEANINGS = {
    "below chance": "The whole interval lies below what a guess would score.",
    "below majority": "The whole interval lies below what the most frequent answer alone would score.",
    "constant predictor": "One run of the cell or more gives every item one answer, or answers that spread under a "
    "hundredth of the labels'.",
    "below bag of words": "The score lies below that of a bag of words on the same items.",
}
UNPRINTED = "–: the paper prints no number there."
ALONE = "A number without an interval rests on one run, whose record keeps none."
ALIKE = "A number that all its texts, sequences or items give alike has no interval."
FIT = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"  # shrinks what is too wide only
SIZE = "footnotesize"
NAMES = 2  # columns of words: whose number it is, and of what
FIELDS = (
    "table", "row", "column", "published", "ours", "low", "high", "runs", "items", "difference",
    "difference_low", "difference_high", "p_adjusted", "differs", "flags", "reason", "published_ratio", "ratio",
    "ratio_low", "ratio_high",
)  # fmt: skip
ESCAPES = {"\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_", "$": r"\$", "{": r"\{",
           "}": r"\}", "~": r"$\sim$", "^": r"\^{}", "×": r"$\times$", "±": r"$\pm$", "λ": r"$\lambda$",
           "–": "--", "−": "$-$", "β": r"$\beta$", "<": r"$<$", "|": "$|$", ">": r"$>$", "→": r"$\to$",
           "†": r"$\dagger$", "‡": r"$\ddagger$", "§": r"\S{}", "¶": r"\P{}", "÷": r"$\div$"}  # fmt: skip


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
    ratio = [cell.ratio.value, cell.ratio.low, cell.ratio.high] if cell.ratio else [None] * 3
    tail = [cell.adjusted_p, differs, "; ".join(cell.flags), cell.reason, cell.published_ratio, *ratio]
    return [cell.published, *(_plain(value) for value in (*numbers, *counts, *gaps, *tail))]


def _plain(value: object) -> object:
    if isinstance(value, float):
        return "" if value != value else f"{value:.6g}"
    return "" if value is None else value


@dataclass(frozen=True)
class Line:
    """One line for readers: a cell with its labels, its column's title, and what stands beside it (a guess)."""

    labels: tuple[str, ...]
    title: str
    cell: Cell
    beside: tuple[str, ...]


def lines(table: Table) -> list[Line]:
    """Return a line per cell, models and algorithms in order; rows without a model become columns."""
    levels = [row for row in table.rows if not row.labels[0]]
    return [
        Line(row.labels, title, row.cells[key], tuple(_level(level, key) for level in levels))
        for row in table.rows if row.labels[0]
        for key, title in table.columns.items() if key in row.cells
    ]  # fmt: skip


def _level(row: Row, key: str) -> str:
    cell = row.cells.get(key, Cell())
    return str(cell.ours or cell.published or "–")


def _heads(table: Table, shown: Sequence[Line]) -> list[str]:
    """The heads of the columns: difference, ratios and n only where a line has one."""
    cells = [line.cell for line in shown]
    heads = [table.heads[0], table.what, "Paper", "Ours"]
    heads += ["Ours − Original"] if any(cell.apart() for cell in cells) else []
    heads += ["Paper ÷ Original", "Ours ÷ Original"] if any(cell.ratio for cell in cells) else []
    heads += ["n"] if any(cell.count() for cell in cells) else []
    return heads + [row.labels[1] for row in table.rows if not row.labels[0]]


def _texts(line: Line, heads: Sequence[str], mark: str = MARK) -> dict[str, str]:
    """A line's cells after its labels, by head, but for ours, which each format writes in its own way."""
    cell, ratio = line.cell, line.cell.ratio
    texts = {
        "Paper": cell.published or "–", "Ours": "",
        "Ours − Original": cell.apart() + mark * cell.differs,
        "Paper ÷ Original": "" if cell.published_ratio is None else f"×{cell.published_ratio:.2f}",
        "Ours ÷ Original": "" if ratio is None else f"×{ratio.value:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]",
        "n": cell.count(),
    }  # fmt: skip
    beside = dict(zip(heads[len(heads) - len(line.beside) :], line.beside))
    return {head: text for head, text in (texts | beside).items() if head in heads}


def _named(shown: Sequence[Line]) -> Iterable[tuple[Line, str]]:
    """Each line with its model and algorithm as one name, empty below a line of the same."""
    before: tuple[str, ...] = ()
    for line in shown:
        yield line, "" if line.labels == before else ", ".join(line.labels)
        before = line.labels


def markdown(table: Table) -> str:
    """Return a pipe table, a line per number of ours: the paper's, ours, the difference from Original, and n."""
    shown = lines(table)
    heads = _heads(table, shown)
    rule = "|" + "|".join(["---"] * NAMES + ["---:"] * (len(heads) - NAMES)) + "|"
    said = [f"**Table {table.number}.** {table.caption}", "", pipe(heads), rule]
    for line, name in _named(shown):
        texts = _texts(line, heads, "\\*") | {"Ours": _markdown_ours(line.cell)}
        texts["Paper"] = re.sub(r"e\^\{(-?\d+)\}", r"e\1", texts["Paper"])
        said.append(pipe([name, line.title, *texts.values()]))
    notes = [*_legend(table), *_flag_notes(table, SIGNS), *_notes(table)]
    return "\n".join([*said, "", *(f"{note}  " for note in notes)]).rstrip() + "\n"


def _markdown_ours(cell: Cell) -> str:
    if cell.ours is None:
        return "failed" if cell.ran else ""
    return f"**{cell.number()}**" + "".join(SIGNS.get(flag, f" [{flag}]") for flag in cell.flags)


def _legend(table: Table) -> list[str]:
    return [f"Ours: {table.spread}. n: {table.counts}."] if table.counts else []


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
    """Return a booktabs float of the lines of `markdown`, or several where one is taller than a page."""
    shown = lines(table)
    notes = " ".join([
        *map(escape, _legend(table)),
        *_flag_notes(table, {flag: f"${mark}$" for flag, mark in FLAGS.items()}),
        *(escape(note.lstrip("\\")) for note in _notes(table)),
    ])  # fmt: skip
    caption, style = escape(table.caption), rf"\{SIZE}\setlength{{\tabcolsep}}{{3pt}}"
    bodies = [[FIT, *_body(table, part), "}"] for part in _pages(shown, caption, notes)]
    return floats.floats(bodies, caption, f"tab:saobp-{table.number}", style, notes)


def _pages(shown: Sequence[Line], caption: str, notes: str) -> list[list[Line]]:
    """The lines in parts that fit a page each, models and algorithms whole."""
    height = floats.LINES[SIZE]
    groups = [list(part) for _, part in groupby(shown, key=lambda line: line.labels)]
    above = floats.height(caption, SIZE) + 4 * height
    tall = [(len(part) + 0.5) * height for part in groups]
    cuts = floats.pages(tall, above, floats.height(notes, "scriptsize"))
    return [[line for part in groups[cut] for line in part] for cut in cuts]


def _flag_notes(table: Table, signs: dict[str, str]) -> list[str]:
    """Explain the symbols that occur."""
    used = {flag for row in table.rows for cell in row.cells.values() for flag in cell.flags}
    return [f"{sign} {flag}. {MEANINGS[flag]}" for flag, sign in signs.items() if flag in used]


def _body(table: Table, shown: Sequence[Line]) -> list[str]:
    """A tabular of some lines, with a rule before each model and algorithm."""
    heads = _heads(table, lines(table))
    said = []
    for line, name in _named(shown):
        said += [r"\midrule"] if name else []
        texts = {head: escape(text) for head, text in _texts(line, heads).items()} | {"Ours": _latex_ours(line.cell)}
        said.append(" & ".join([escape(name), escape(line.title), *texts.values()]) + r" \\")
    spec = "l" * NAMES + "r" * (len(heads) - NAMES)
    return [rf"\begin{{tabular}}{{{spec}}}", r"\toprule", " & ".join(map(escape, heads)) + r" \\", *said,
            r"\bottomrule", r"\end{tabular}"]  # fmt: skip


def _latex_ours(cell: Cell) -> str:
    if not isinstance(cell.ours, Estimate):
        return escape(cell.ours or ("failed" if cell.ran else ""))  # a word or a setting
    value, error = f"{cell.ours.value:.{cell.places}f}", cell.error().replace("±", r"\pm").replace("<", "{<}")
    marks = "".join(FLAGS.get(flag, "") for flag in cell.flags)
    return f"${value}{'^{' + marks + '}' if marks else ''} {error}$".replace(" $", "$")


def escape(text: str) -> str:
    """Make a text safe for LaTeX; the few signs of these tables become their commands."""
    if re.fullmatch(r"[\d.]+e\^\{-?\d+\}", text):
        return f"${text}$"  # a power of ten as the paper prints it
    text = re.sub(r"(?<![\w.-])-(?=\.?\d)", "−", text)  # the sign of a number, not a hyphen
    return "".join(ESCAPES.get(letter, letter) for letter in text)
