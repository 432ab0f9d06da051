"""A forest of all claims: each estimate in margins from its reference, towards the claim."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from companion.figures import style
from companion.verdicts.claims_and_measurements import AT_PAPER_SIZE, PRINTED
from companion.verdicts.outcomes import NOT_RUN, OUTCOMES, Verdict, of_part

COLOURS = dict(zip(OUTCOMES, ("#009E73", "#D55E00", "#0072B2", "0.5", "0.75")))
# margins at which the axis ends, and up to which it is linear
FAR, LINEAR = 100.0, 2.0
# inches per claim, and per measurement of it
ROW, PART = 0.09, 0.026
# measurements of a claim that have a line of their own; more stand closer
MOST = 12
# inches of a claim's words above its marks
WORDS = 0.083
TICKS = (-100, -10, -2, -1, 0, 1, 2, 10, 100)
COLUMNS = [
    "claim",
    "title",
    "study",
    "scope",
    "measurement",
    "outcome",
    "value",
    "low",
    "high",
    "paper",
    "decides",
    "alone",
]


def data(verdicts: list[Verdict]) -> pd.DataFrame:
    """One row a primary measurement, in margins towards the claim; a claim without a run has one
    without numbers.
    """
    rows = []
    for verdict in verdicts:
        signed = verdict.claim.signed
        fixed = {
            "claim": verdict.claim.id,
            "title": verdict.claim.title,
            "outcome": verdict.outcome,
        }
        fixed |= {"study": verdict.study, "scope": verdict.scope}
        for part in verdict.parts:
            ends = (
                dict(zip(("low", "high"), sorted(map(signed, (part.low, part.high)))))
                if part.bounded
                else {}
            )
            ends |= {} if part.paper is None else {"paper": signed(part.paper)}
            own = {
                "measurement": part.part,
                "value": signed(part.estimate),
                "decides": part is verdict.weakest,
            }
            rows.append(fixed | own | ends | {"alone": of_part(verdict.claim, part)})
        if not verdict.parts:
            rows.append(fixed | {"measurement": "", "decides": True, "alone": verdict.outcome})
    return pd.DataFrame(rows, columns=COLUMNS)


def plot(frame: pd.DataFrame, width: float) -> Figure:
    """Draw the forest; in a column of a page only the part that decides of each claim that was run,
    below its name.
    """
    outcomes, side = (
        frame.drop_duplicates(["claim", "study"])["outcome"].value_counts(),
        width >= style.NARROW,
    )
    shown = (frame if side else frame[frame["decides"] & (frame["outcome"] != NOT_RUN)]).groupby(
        "claim", sort=False
    )
    words, row = (0, ROW) if side else (WORDS, ROW - 0.036)
    heights = row + PART * shown.size().clip(upper=MOST)
    ends = (words + heights).cumsum()
    figure, (ax,) = style.panels(width, 1, 1.0 + ends.iloc[-1])
    ax.axvspan(-1, 1, color="0.93", lw=0)
    ax.axvline(0, color="0.4", lw=0.6)
    ax.set_xscale("symlog", linthresh=LINEAR, linscale=1.4)
    axis = style.heading("claims", "axis", linear=LINEAR)
    ax.set(xlim=(-FAR, FAR), ylim=(ends.iloc[-1], 0), yticks=[], xlabel=axis)
    ax.set_xticks(TICKS, [style.minus(f"{tick}") for tick in TICKS])
    ax.grid(visible=False)
    for (_, parts), bottom, height in zip(shown, ends, heights):
        top = bottom - height
        ax.axhline(bottom, color="0.9", lw=0.4)
        _row(ax, top, bottom, parts)
        where, align = (
            ((-0.01, (top + bottom) / 2), "right") if side else ((0.01, top - words / 2), "left")
        )
        look = {"ha": align, "va": "center", "fontsize": 5.5}
        ax.text(*where, parts["title"].iloc[0], transform=ax.get_yaxis_transform(), **look)
    _legend(figure, side)
    counts = outcomes.reindex(OUTCOMES, fill_value=0).tolist()
    style.head(ax, "", style.heading("claims", 0, outcomes=counts, left_out=not side))
    return figure


def _row(ax: Axes, top: float, bottom: float, parts: pd.DataFrame) -> None:
    """Draw the measurements of one claim below each other, or a hatched band where nothing was
    run.
    """
    if (parts["outcome"] == NOT_RUN).all():
        ax.axhspan(top, bottom, facecolor="none", edgecolor="0.75", hatch="/////", lw=0)
        return
    places = np.linspace(top, bottom, len(parts) + 2)[1:-1]
    for place, part in zip(places, parts.itertuples()):
        colour = COLOURS[part.alone]
        ax.plot(
            np.clip([part.low, part.high], -FAR, FAR),
            [place, place],
            color=colour,
            lw=0.7,
            solid_capstyle="butt",
        )
        ax.plot(
            np.clip(part.value, -FAR, FAR),
            place,
            "D" if part.scope == PRINTED else "o",
            ms=2.4,
            mew=0.6,
            color=colour,
            mfc=colour if part.scope == AT_PAPER_SIZE else "white",
        )
        if np.isfinite(part.paper):
            ax.plot(np.clip(part.paper, -FAR, FAR), place, "|", ms=4, mew=0.9, color="black")


def _legend(figure: Figure, side: bool) -> None:
    handles = [
        Line2D([], [], color=colour, lw=1.5, label=name)
        for name, colour in COLOURS.items()
        if name != NOT_RUN
    ]
    handles += (
        [Patch(facecolor="none", edgecolor="0.6", hatch="/////", lw=0, label=NOT_RUN)]
        if side
        else []
    )
    mark = {"ls": "", "marker": "o", "ms": 3, "color": "black"}
    handles += [
        Line2D([], [], label=AT_PAPER_SIZE, **mark),
        Line2D([], [], mfc="white", label="other models", **mark),
        Line2D([], [], mfc="white", label="printed numbers alone", **mark | {"marker": "D"}),
        Line2D([], [], ls="", marker="|", ms=5, color="black", label="the paper's number"),
        Patch(color="0.93", label="within the margin"),
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=3 if side else 2, fontsize=6)
