"""Scores against luck: chance, the majority class, one answer to everything."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

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
