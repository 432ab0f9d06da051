"""Scores against luck: chance, the majority class, one answer to everything."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

Results = Mapping[str, Mapping[str, Any]]  # task -> what `metrics.score` says of it, or {"failed": reason}


def finished(results: Results) -> dict[str, Mapping[str, Any]]:
    """Leave out the tasks that failed: they have no score, and are never averaged."""
    return {name: entry for name, entry in results.items() if "failed" not in entry}


def table(results: Results) -> pd.DataFrame:
    """Return one row a finished task: its score and 95 % interval over items in percent, beside what luck would get."""
    rows = pd.DataFrame.from_dict(finished(results), orient="index")
    score = rows[["headline", "items", "chance", "majority", "constant"]].round(1)
    score.insert(1, "95 % interval", ["{:.1f} to {:.1f}".format(*ends) for ends in rows["interval"]])
    return score.rename(columns={"headline": "score"})
