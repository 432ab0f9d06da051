"""How every figure looks: the style sheet, the widths of a page, one colour an algorithm."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter
from scipy.optimize import isotonic_regression

from saobp.study.setup import labels
from saobp.study.tables import cells
from saobp.study.tables.render import minus

SHEET = Path(__file__).parent / "paper.mplstyle"
COLUMN, PAGE = 3.03, 6.3  # inches: one column and the whole width of an ACL page
LETTERS = 16  # of a heading, per inch of panel
LEAST_INCHES = 2.0  # of a panel whose heading has the usual size
CHANGES = {1: "higher", -1: "lower", 0: "no clear change"}
GAP = 0.075  # between two names beside an axis, of its height
NARROW = 5.0  # below this width a grid of four columns folds into two


@dataclass(frozen=True)
class Look:
    """How one algorithm is drawn everywhere (colours: Okabe and Ito's, told apart by colour-blind readers)."""

    colour: str
    marker: str
    dash: tuple[float, ...] | str


LOOKS = {
    "original": Look("#0072B2", "o", "solid"),
    "high": Look("#009E73", "s", "solid"),
    "low": Look("#D55E00", "v", (4, 1.5)),
    "elemmul": Look("#E69F00", "^", (6, 1.5, 1.5, 1.5)),
    "entropy_reg": Look("#CC79A7", "D", (3, 1)),
    "eigen_reg": Look("#56B4E9", "P", (1.5, 1)),
    "high_all_rows": Look("#7A0403", "*", (1, 1)),
    "sinkhorn": Look("#000000", "X", (5, 1, 1, 1)),
    "uniform": Look("#7F7F7F", "<", (2, 2)),
    "shuffled": Look("#8C6D1F", ">", (7, 2)),
}


def paper() -> AbstractContextManager[None]:
    """The paper's style, for as long as the block lasts; independent of a reader's own settings."""
    return mpl.rc_context({**mpl.rcParamsDefault, **mpl.rc_params_from_file(SHEET, use_default_template=False)})


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of the given size in inches. Raises ValueError for a width no page has."""
    if not 1.5 <= width <= 20:
        raise ValueError(f"width: {width} inches; give 1.5 to 20 (an ACL column is {COLUMN}, a page {PAGE})")
    return Figure(figsize=(width, height), layout="constrained")


def panels(width: float, count: int, height: float, *, columns: int = 0, **shared: object) -> tuple[Figure, list[Axes]]:
    """A figure of `count` panels, each `height` inches: `columns` a row on a page, half as many in a column."""
    columns = columns or count
    columns = columns if width >= NARROW else max(1, columns // 2 if columns > 3 else 1)
    rows = -(-count // columns)
    figure = new_figure(width, rows * height)
    axes = list(figure.subplots(rows, columns, squeeze=False, **shared).flat)
    for ax in axes[count:]:
        ax.remove()
    return figure, axes[:count]


def head(ax: Axes, letter: str, text: str) -> Axes:
    """Head a panel with its bold letter (none if empty) and what it shows, broken to the width it has."""
    inches = ax.figure.get_figwidth() / ax.get_subplotspec().get_gridspec().ncols
    text = minus(text).replace(" %", "\N{NO-BREAK SPACE}%").replace(" = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}")
    text = re.sub(r"\[[^]]*\]", lambda ends: ends[0].replace(" ", "\N{NO-BREAK SPACE}"), text)
    words = fill(f"{letter}  {text}" if letter else text, max(14, int(LETTERS * inches)))
    if letter:
        words = rf"$\bf{{{letter}}}$" + words[1:]
    title = ax.set_title(words, loc="left", pad=4)
    if inches < LEAST_INCHES:
        title.set_fontsize(0.92 * title.get_fontsize())  # two panels in a column: a unit would leave the page
    return ax


def beside(
    frame: pd.DataFrame, width: float, draws: Sequence[Callable[[Axes, pd.DataFrame], Axes]], heads: Sequence[str]
) -> Figure:
    """Draw a frame in panels side by side, a letter and a heading over each."""
    figure, axes = panels(width, len(draws), 2.2)
    for letter, ax, draw, text in zip("abc", axes, draws, heads, strict=True):
        head(draw(ax, frame), letter, text)
    return figure


def change(value: float, low: float, high: float, digits: int = 2) -> str:
    """A difference for a heading: "higher, +0.04 [0.01, 0.06]", "no clear change, +0.03 [0.00, 0.07]", "+0.03"."""
    digits = cells.digits(digits, low, high)
    shown, *ends = (round(number, digits) + 0.0 for number in (value, low, high))  # no minus before a zero
    if not np.isfinite([low, high]).all():
        return f"{shown:+.{digits}f}"
    sure = CHANGES[0 if low <= 0 <= high else 1 if low > 0 else -1]
    return f"{sure}, {shown:+.{digits}f} [{ends[0]:.{digits}f}, {ends[1]:.{digits}f}]"


def label_ends(ax: Axes, ends: Mapping[str, float], names: Mapping[str, str]) -> Axes:
    """Name algorithms to the right of their lines' ends, in their colours, no two names nearer than `GAP` of the axis.

    `ends`: where each line ends, in the axis's units; set the axis's limits first.
    """
    low, high = ax.get_ylim()
    order = sorted(ends, key=ends.__getitem__)
    places = np.array([(ends[name] - low) / (high - low) for name in order])
    steps = GAP * np.arange(len(order))
    places = isotonic_regression(places - steps).x + steps  # as near to the ends as the gaps allow
    places -= max(0.0, places[-1] - 1.0)
    for name, place in zip(order, places):
        colour = LOOKS[name].colour
        ax.text(1.02, place, names[name], color=colour, va="center", fontsize=7, transform=ax.transAxes)
    return ax


def interval_of_mean(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The 95 % percentile interval of the mean over rows (seeds), column by column: it stays where values can be."""
    drawn = np.random.default_rng(0).integers(len(rows), size=(2000, len(rows)))
    low, high = np.quantile(rows[drawn].mean(1), [0.025, 0.975], axis=0)
    return low, high


def line_style(algorithm: str) -> dict[str, object]:
    """Colour, dash and marker of an algorithm, for `Axes.plot`."""
    look = LOOKS[algorithm]
    dash = look.dash if isinstance(look.dash, str) else (0, look.dash)
    return {"color": look.colour, "marker": look.marker, "linestyle": dash, "markerfacecolor": "none"}


def shades(count: int) -> list[str]:
    """Colours for things in an order, such as layers: light to dark, all clear on white, none an algorithm's."""
    return [mpl.colors.to_hex(mpl.colormaps["Purples"](0.45 + 0.55 * k / max(1, count - 1))) for k in range(count)]


def algorithm_legend(figure: Figure, algorithms: Iterable[str]) -> None:
    """One legend above all axes, where it covers no data."""
    shown = sorted(set(algorithms), key=list(LOOKS).index)
    handles = [Line2D([], [], **line_style(name), label=labels.algorithm_title(name)) for name in shown]
    lines = -(-len(handles) // max(1, int(figure.get_figwidth() / 0.85)))
    columns = -(-len(handles) // lines) if handles else 1
    figure.legend(handles=handles, loc="outside upper center", ncols=columns)


def plain_numbers(axis: Axis) -> None:
    """Write the numbers of a logarithmic axis as they are read, "1,000", and not as powers of ten."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))


def at_least(ax: Axes, direction: str, span: float) -> Axes:
    """Let an axis ("x" or "y") show no less than `span`, lest rounding look like a difference; no offset beside it."""
    low, high = ax.get_xlim() if direction == "x" else ax.get_ylim()
    if high - low < span:
        middle = (low + high) / 2
        ends = {f"{direction}min": middle - span / 2, f"{direction}max": middle + span / 2}
        ax.set_xlim(**ends) if direction == "x" else ax.set_ylim(**ends)
    ax.ticklabel_format(axis=direction, useOffset=False)
    return ax
