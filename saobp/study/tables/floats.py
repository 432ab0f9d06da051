"""Floats that a page can hold: a table that is too tall is cut, and stays one number and one \\input."""

from collections.abc import Sequence
from math import ceil

ROOM = 660  # points in height that a float over both columns of an ACL page may take, with some to spare
WIDTH = 455  # points of both columns together
LINES = {"scriptsize": 9.5, "footnotesize": 11.0}  # points from line to line in a document of 11 points
LETTERS = {"scriptsize": 3.8, "footnotesize": 4.3}  # points that a letter of a text takes, on average


def height(text: str, size: str, width: float = WIDTH) -> float:
    """Estimate the height in points of a text set in `size` within so many points."""
    return LINES[size] * ceil(len(text) * LETTERS[size] / width)


def pages(heights: Sequence[float], above: float, below: float) -> list[slice]:
    """Cut blocks of these heights (points) into runs that fit a page each.

    `above` stands over every run (caption, head of the table), `below` under the last one (notes).
    """
    if not heights:
        return [slice(0, 0)]
    cut, start, filled = [], 0, above
    for index, tall in enumerate([*heights[:-1], heights[-1] + below]):
        if index > start and filled + tall > ROOM:
            cut.append(slice(start, index))
            start, filled = index, above
        filled += tall
    return [*cut, slice(start, len(heights))]


def floats(bodies: Sequence[Sequence[str]], caption: str, label: str, style: str, notes: str = "") -> str:
    """Set each body as a float over both columns: the first with the caption, the last with the notes.

    What continues has the number of the first; `style` are commands at a float's head, all texts are LaTeX.
    """
    packages = "booktabs,caption,graphicx" if len(bodies) > 1 else "booktabs,graphicx"
    lines = [rf"% needs \usepackage{{{packages}}}"]
    for index, body in enumerate(bodies):
        more = index > 0
        lines += [r"\begin{table*}[t]", *([r"\ContinuedFloat"] if more else []), rf"\centering{style}", *body]
        if notes and index == len(bodies) - 1:
            lines.append(rf"\par\smallskip\begin{{minipage}}{{\linewidth}}\scriptsize {notes}\end{{minipage}}")
        said = [r"\caption[]{(continued)}"] if more else [rf"\caption{{{caption}}}", rf"\label{{{label}}}"]
        lines += [*said, r"\end{table*}"]
    return "\n".join(lines) + "\n"
