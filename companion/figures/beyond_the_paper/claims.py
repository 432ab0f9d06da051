"""A forest of the fifteen claims: one number each, in margins from its reference, towards the claim."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from companion.figures import style
from companion.figures.style import Look
from companion.results.claims import NOT_RUN
from companion.results.row import CONTRADICTED, NO_EFFECT, OPEN, SUPPORTED

# dark to light, so that print without colours tells them apart; an open one is white inside
OUTCOME_LOOKS = {
    SUPPORTED: Look("#00553D", "o"),
    CONTRADICTED: Look("#D55E00", "D"),
    NO_EFFECT: Look("#56B4E9", "s"),
    OPEN: Look("#8A8A8A", "o"),
}
# margins at which the axis ends, and up to which it is linear
FAR, LINEAR = 100.0, 2.0
# inches per claim
ROW = 0.2
TICKS = (-100, -10, -2, -1, 0, 1, 2, 10, 100)
COLUMNS = ["claim", "title", "key", "word", "toward", "toward_low", "toward_high", "toward_paper"]


def data(decided: pd.DataFrame) -> pd.DataFrame:
    """One row a claim that was run, as `results.claims.decided` has it, in margins towards the
    claim.
    """
    return decided.loc[decided["word"] != NOT_RUN, COLUMNS].reset_index(drop=True)


def numbers(frame: pd.DataFrame) -> dict[str, int]:
    """For the title: how many claims are drawn, and how many have each outcome."""
    counts = frame["word"].value_counts()
    words = {word.replace(" ", "_"): int(counts.get(word, 0)) for word in OUTCOME_LOOKS}
    return {"drawn": len(frame), **words}


def plot(frame: pd.DataFrame, width: float) -> Figure:
    """Draw the forest, a row a claim; in a column of a page each name stands above its number."""
    beside = width >= style.NARROW
    height = 0.9 + len(frame) * (ROW if beside else 1.6 * ROW)
    figure, (ax,) = style.panels(width, 1, height)
    ax.axvspan(-1, 1, color="0.93", lw=0)
    ax.axvline(0, color="0.4", lw=0.6)
    for place, claim in enumerate(frame.itertuples()):
        look = OUTCOME_LOOKS[claim.word]
        ends = np.clip([claim.toward_low, claim.toward_high], -FAR, FAR)
        ax.hlines(place, *ends, color=look.colour, lw=1.4)
        face = "white" if claim.word == OPEN else look.colour
        at = np.clip(claim.toward, -FAR, FAR)
        ax.plot(at, place, look.marker, ms=4, mew=0.9, color=look.colour, mfc=face)
        if np.isfinite(claim.toward_paper):
            at = np.clip(claim.toward_paper, -FAR, FAR)
            ax.plot(at, place, "|", ms=8, mew=1.4, color="black")
        if not beside:
            name = {"va": "bottom", "fontsize": 6, "transform": ax.get_yaxis_transform()}
            ax.text(0.01, place - 0.2, claim.title, **name)
    style.rows(ax, frame["title"] if beside else [""] * len(frame))
    ax.set_xscale("symlog", linthresh=LINEAR, linscale=1.4)
    ax.set(xlim=(-FAR, FAR), xlabel=style.heading("claims", "axis"))
    ax.set_xticks(TICKS, [style.minus(f"{tick}") for tick in TICKS])
    ax.grid(visible=False)
    *outcomes, margin = outcome_handles(frame, 1.4)
    paper = Line2D([], [], ls="", marker="|", ms=8, color="black", label="the paper")
    legend = {"loc": "outside upper center", "ncols": 4 if beside else 2, "fontsize": 6}
    figure.legend(handles=[*outcomes, paper, margin], **legend)
    style.head(ax, "", style.heading("claims", 0, **numbers(frame)))
    return figure


def outcome_handles(frame: pd.DataFrame, lw: float) -> list[Line2D | Patch]:
    """For a legend: the outcomes that a frame's "word" has, then the margin's band."""
    handles = []
    for word, look in OUTCOME_LOOKS.items():
        if word in set(frame["word"]):
            face = "white" if word == OPEN else look.colour
            mark = {"color": look.colour, "marker": look.marker, "mfc": face, "ms": 4}
            handles.append(Line2D([], [], lw=lw, label=word, **mark))
    handles.append(Patch(color="0.93", label="within the margin"))
    return handles
