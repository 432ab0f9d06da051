"""Where one step takes attention from and where it brings it: the column sum of each token, before and after."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from saobp.study.figures import style

SHOWN = 6  # tokens that lose most, and as many that gain most


def data(records: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """One row a token of the first record that followed tokens: token, before, after, change (column sums), count."""
    return next((pd.DataFrame(run["metrics"]["tokens"]) for run in records if run["metrics"].get("tokens")),
                pd.DataFrame())  # fmt: skip


def shown(frame: pd.DataFrame) -> pd.DataFrame:
    """The tokens that the figure shows, the largest loss first."""
    ordered = frame.sort_values("change", kind="stable")
    return ordered if len(ordered) <= 2 * SHOWN else pd.concat([ordered[:SHOWN], ordered[-SHOWN:]])


def numbers(frame: pd.DataFrame) -> dict[str, Any]:
    """For the caption: the two tokens that lose most, how many there are, lose, and are shown at each end."""
    first, second = (frame.sort_values("change", kind="stable").iloc[place].to_dict() for place in (0, 1))
    return {"first": first, "second": second, "tokens": len(frame), "end": (len(shown(frame)) + 1) // 2,
            "lose": int((frame["change"] < 0).sum())}  # fmt: skip


def plot(frame: pd.DataFrame, width: float) -> Figure:
    """Draw a row a token: its column sum before the step and after it."""
    rows = shown(frame)
    figure, (ax,) = style.panels(width, 1, 0.8 + 0.17 * len(rows))
    places, sides = range(len(rows)), {"before": ("original", "before"), "after": ("high", "after one step")}
    ax.hlines(places, rows["before"], rows["after"], color="0.75", lw=1.2, zorder=1)
    for column, (name, title) in sides.items():
        look = style.LOOKS[name]
        ax.plot(rows[column], places, look.marker, color=look.colour, ms=4, mew=0)
        align = "left" if rows[column].iloc[0] == rows[["before", "after"]].iloc[0].max() else "right"
        ax.text(rows[column].iloc[0], -0.55, title, color=look.colour, ha=align, fontsize=7)
    ax.axvline(1, color="0.5", lw=0.8, ls=":", zorder=0)
    ax.set_yticks(
        places, [f"{row.token} ({row.count_})" for row in rows.rename(columns={"count": "count_"}).itertuples()]
    )
    ax.set(ylim=(len(rows) - 0.4, -1.4), xlabel="Column sum of the token (uniform: 1)")
    ax.grid(axis="y", visible=False)
    lost = "'{token}' ({before:.1f} → {after:.1f})"
    said = " and ".join(lost.format(**numbers(frame)[which]) for which in ("first", "second"))
    style.head(ax, "", f"One step takes most from {said}")
    return figure
