"""Scores against luck: chance, the majority class, one answer to everything; as a table, a picture and a sentence."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from saobp.study.setup.labels import counted

Results = Mapping[str, Mapping[str, Any]]  # task -> what `evaluation.score` says of it, or {"failed": reason}


def finished(results: Results) -> dict[str, Mapping[str, Any]]:
    """Leave out the tasks that failed: they have no score, and are never averaged."""
    return {name: entry for name, entry in results.items() if "failed" not in entry}


def table(results: Results) -> pd.DataFrame:
    """Return one row a finished task: its score and 95 % interval over items in percent, beside what luck would get."""
    rows = {}
    for name, entry in finished(results).items():
        low, high = entry["interval"]
        rows[name] = {
            "metric": entry["metric"],
            "score": round(entry["headline"], 1),
            "95 % interval": f"{low:.1f} to {high:.1f}",
            "items": entry["items"],
            "chance": round(entry["chance"], 1),
            "majority": round(entry["majority"], 1),
            **_floor(entry.get("floor")),
            "interval below chance": entry["below_chance"],
            "constant": entry["constant"],
        } | ({"epoch": entry["epoch"]} if "epoch" in entry else {})
    return pd.DataFrame.from_dict(rows, orient="index")


def _floor(found: Mapping[str, Any] | None) -> dict[str, Any]:
    """The column of what a bag of words gets on the same items, or why it gets none; absent without training."""
    if not found:
        return {}
    return {"bag of words": found["reason"] if "reason" in found else round(found["headline"], 1)}


def sentence(results: Results) -> str:
    """Say how many tasks are above luck with their whole interval, how many below, how many get a single answer."""
    entries = finished(results).values()
    above = [entry for entry in entries if entry["interval"][0] > entry["chance"]]
    learned = [entry for entry in above if entry["interval"][0] > entry["majority"]]
    below, constant = (sum(bool(entry[flag]) for entry in entries) for flag in ("below_chance", "constant"))
    said = (
        f"Of {counted(len(entries), 'task')}, {_lie(len(above))} above chance with the whole interval, {len(learned)} "
        f"also above the majority class. {_lie(below).capitalize()} below chance with the whole interval; one answer "
        f"to all items is given in {constant}."
    )
    failed = len(results) - len(entries)
    return said + (f" {failed} failed and {'is' if failed == 1 else 'are'} not counted." if failed else "")


def _lie(count: int) -> str:
    return f"{count or 'none'} {'lies' if count < 2 else 'lie'}"


def draw(ax: Axes, results: Results, colour: str) -> Axes:
    """Draw each task's score with its interval; a line at chance, a cross at the majority class."""
    entries = finished(results)
    for place, entry in enumerate(entries.values()):
        ax.plot(entry["interval"], [place, place], color=colour, linewidth=3, alpha=0.45, solid_capstyle="butt")
        ax.plot(entry["headline"], place, "o", color=colour, markersize=5)
        ax.plot(entry["chance"], place, "|", color="black", markersize=12)
        ax.plot(entry["majority"], place, "x", color="black", markersize=5)
    ax.set(yticks=range(len(entries)), yticklabels=list(entries), xlabel="score (percent)")
    ax.set_ylim(len(entries) - 0.4, -0.6)  # the first task on top
    return ax
