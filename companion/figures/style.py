"""How every figure looks: the style sheet, the widths of a page, one colour an algorithm."""

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import cycle
from math import isnan
from pathlib import Path
from string import ascii_lowercase
from textwrap import fill
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.optimize import isotonic_regression

from companion.statistics import Estimate
from companion.tables import captions
from companion.tables.cells import effect
from companion.tables.render import minus
from saobp.measure.inspection.colours import ALGORITHMS

SHEET, CAPTIONS = (Path(__file__).with_name(name) for name in ("paper.mplstyle", "captions.yaml"))
# inches: one column and the whole width of an ACL page
COLUMN, PAGE = 3.03, 6.3
# of a heading, per inch of panel
LETTERS = 16
# dots of a picture that stay empty beside a heading
EDGE = 4
# numbers of a logarithmic axis as they are read, "1,000", and not as powers of ten
PLAIN = "{x:,g}"
# between two names beside an axis, of its height
GAP = 0.075
# inches: the names of a figure's rows and its headings fill a narrower one
LEAST = 3.0
# inches: below this width a grid of four columns folds into two
NARROW = 6.25


# of text with the page (WCAG 2.2, level AA)
READABLE = 4.5
# the paper's own number, among ours
PAPER = "#B22222"


def contrast(colour: Any) -> float:
    """Return the contrast of a colour with white, from 1 to 21 (WCAG 2.2)."""
    parts = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in mpl.colors.to_rgb(colour)
    ]
    luminance = 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]
    return 1.05 / (luminance + 0.05)


def ink(colour: Any) -> str:
    """Return a colour as text: darkened until its contrast with white reaches `READABLE`."""
    red, green, blue = mpl.colors.to_rgb(colour)
    while contrast((red, green, blue)) < READABLE:
        red, green, blue = (0.97 * part for part in (red, green, blue))
    return mpl.colors.to_hex((red, green, blue))


def tint(colour: str, share: float = 0.25) -> str:
    """Return a colour mixed with white, of which `share` is the colour."""
    return mpl.colors.to_hex([1 - share * (1 - part) for part in mpl.colors.to_rgb(colour)])


class Look(NamedTuple):
    """How one algorithm is drawn in every figure."""

    colour: str
    marker: str
    # as matplotlib has it
    dash: Any = "solid"

    @property
    def text(self) -> str:
        """The colour as text."""
        return ink(self.colour)


LOOKS = {
    "original": Look(ALGORITHMS["original"], "o"),
    "high": Look(ALGORITHMS["high"], "s"),
    "low": Look(ALGORITHMS["low"], "v", (0, (4, 1.5))),
    "elemmul": Look(ALGORITHMS["elemmul"], "^", (0, (6, 1.5, 1.5, 1.5))),
    "entropy_reg": Look(ALGORITHMS["entropy_reg"], "D", (0, (3, 1))),
    "eigen_reg": Look(ALGORITHMS["eigen_reg"], "P", (0, (1.5, 1))),
    "high_all_rows": Look(ALGORITHMS["high_all_rows"], "*", (0, (1, 1))),
    "sinkhorn": Look(ALGORITHMS["sinkhorn"], "X", (0, (5, 1, 1, 1))),
    "uniform": Look(ALGORITHMS["uniform"], "<", (0, (2, 2))),
    "shuffled": Look(ALGORITHMS["shuffled"], ">", (0, (7, 2))),
}


def paper() -> AbstractContextManager[None]:
    """The paper's style, for as long as the block lasts; independent of a reader's own settings."""
    return mpl.rc_context(
        {**mpl.rcParamsDefault, **mpl.rc_params_from_file(SHEET, use_default_template=False)}
    )


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of the given size in inches. Raises ValueError for a width that no page or
    column has.
    """
    if not LEAST <= width <= 20:
        raise ValueError(
            f"width: {width} inches; give {LEAST} to 20 (an ACL column is {COLUMN}, a page {PAGE})"
        )
    return Figure(figsize=(width, height), layout="constrained")


def panels(width: float, count: int, height: float, columns: int = 0) -> tuple[Figure, list[Axes]]:
    """A figure of `count` panels, each `height` inches: `columns` a row on a page, half as many in
    a column.
    """
    columns = columns or count
    if width < NARROW:
        columns = columns // 2 if columns > 3 else 1
    rows = -(-count // columns)
    figure = new_figure(width, rows * height)
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for ax in axes[count:]:
        ax.remove()
    return figure, axes[:count]


def headed(
    width: float, height: float, draws: Sequence[tuple[Any, ...]], columns: int = 0
) -> Figure:
    """A figure of `panels` under their headings, with letters where there are several.

    Each is given as its heading, the function that draws it, and what that function takes after the
    axes.
    """
    figure, axes = panels(width, len(draws), height, columns)
    for letter, ax, (text, draw, *inputs) in zip(cycle(ascii_lowercase), axes, draws):
        draw(ax, *inputs)
        head(ax, letter * (len(draws) > 1), text)
    return figure


def heading(figure: int | str, which: int | str, **numbers: Any) -> str:
    """A heading of a figure's panel, by its place or name in `captions.yaml`, with its numbers."""
    return captions.filled(captions.of(CAPTIONS)[figure]["heads"][which], **numbers)


def head(ax: Axes, letter: str, text: str) -> Axes:
    """Head a panel with its bold letter (none if empty) and what it shows, broken to about the
    width it has; `fit` breaks it to what the layout leaves.
    """
    place = ax.get_subplotspec()
    share = len(place.colspan) / place.get_gridspec().ncols
    inches = ax.figure.get_figwidth() * share
    text = (
        minus(text)
        .replace(" %", "\N{NO-BREAK SPACE}%")
        .replace(" = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}")
    )
    text = re.sub(r"\[[^]]*\]", lambda ends: ends[0].replace(" ", "\N{NO-BREAK SPACE}"), text)
    words = fill(f"{letter}  {text}" if letter else text, max(14, int(LETTERS * inches)))
    if letter:
        words = rf"$\bf{{{letter}}}$" + words[1:]
    ax.set_title(words, loc="left", pad=4)
    return ax


def fit(figure: Figure) -> Figure:
    """Lay a figure out and break each heading anew where its line would reach the next panel's
    heading or leave the page.
    """
    figure.draw_without_rendering()
    headed_axes = [ax for ax in figure.axes if ax.get_title("left")]
    for ax in headed_axes:
        box = ax.get_window_extent()
        right = figure.bbox.x1 - EDGE
        for headed in headed_axes:
            beside = headed.get_window_extent()
            if beside.x0 > box.x0 and beside.y0 < box.y1 and beside.y1 > box.y0:
                right = min(right, beside.x0 - 3 * EDGE)
        text = ax.get_title("left").replace("\n", " ")
        title = ax.set_title("", loc="left", pad=4)
        lines = [""]
        for word in text.split(" "):
            title.set_text(f"{lines[-1]} {word}".lstrip())
            if lines[-1] and box.x0 + title.get_window_extent().width > right:
                lines.append(word)
            else:
                lines[-1] = title.get_text()
        title.set_text("\n".join(lines))
    figure.draw_without_rendering()
    return figure


def change(value: float, low: float, high: float, digits: int = 2) -> str:
    """A difference for a heading: "higher, +0.04 [0.01, 0.06]", "no clear change, +0.03 [0.00,
    0.07]", "+0.03".
    """
    sure = (
        ""
        if isnan(low)
        else "no clear change, "
        if low <= 0 <= high
        else "higher, "
        if low > 0
        else "lower, "
    )
    return sure + effect(Estimate(value, low, high, 1), digits)


def label_ends(ax: Axes, ends: Mapping[str, float], names: Mapping[str, str]) -> Axes:
    """Name algorithms to the right of their lines' `ends`, no two nearer than `GAP`; set the axis's
    limits first.
    """
    low, high = ax.get_ylim()
    order = sorted(ends, key=ends.__getitem__)
    places = np.array([(ends[name] - low) / (high - low) for name in order])
    steps = GAP * np.arange(len(order))
    # as near to the ends as the gaps allow
    places = isotonic_regression(places - steps).x + steps
    places -= max(0.0, places[-1] - 1.0)
    for name, place in zip(order, places):
        colour = LOOKS[name].text
        ax.text(
            1.02, place, names[name], color=colour, va="center", fontsize=7, transform=ax.transAxes
        )
    return ax


def line_style(algorithm: str) -> dict[str, object]:
    """Colour, dash and marker of an algorithm, for `Axes.plot`."""
    colour, marker, dash = LOOKS[algorithm]
    return {"color": colour, "marker": marker, "linestyle": dash, "markerfacecolor": "none"}


def shades(count: int) -> list[str]:
    """Colours for things in an order, such as layers: light to dark, all clear on white, none an
    algorithm's.
    """
    return [
        mpl.colors.to_hex(mpl.colormaps["Purples"](0.45 + 0.55 * k / max(1, count - 1)))
        for k in range(count)
    ]


def rows(ax: Axes, names: Sequence[str], above: float = 0.6, below: float = 0.6) -> None:
    """Name the rows of an axis, the first on top, with room above and below them."""
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 1 + below, -above)
    ax.grid(axis="y", visible=False)


def at_least(ax: Axes, direction: str, span: float) -> Axes:
    """Let an axis ("x" or "y") show no less than `span`, lest rounding look like a difference; no
    offset beside it.
    """
    low, high = getattr(ax, f"get_{direction}lim")()
    if high - low < span:
        getattr(ax, f"set_{direction}lim")((low + high - span) / 2, (low + high + span) / 2)
    ax.ticklabel_format(axis=direction, useOffset=False)
    return ax
