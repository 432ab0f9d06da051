"""Table 6: correlation of GTD with performance, over checkpoints as in the paper, and over independent runs."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import nan

import pandas as pd

from saobp.study.paper.numbers import Published
from saobp.study.setup import labels
from saobp.study.setup.records import select
from saobp.study.setup.schema import Record
from saobp.study.statistics import Estimate, estimates, trajectories
from saobp.study.tables.cells import Cell
from saobp.study.tables.render import Table, captions

TASK_KEYS = {  # in Table 6
    "wikitext": "WikiText_PPL", "sst2": "SST2_Acc", "hellaswag": "HellaSwag_Acc", "race": "RACE_middle_Acc",
}  # fmt: skip
TITLES = {"gtd": "Single GTD", "cross_gtd": "Cross GTD"}
WHOLE = 1.9  # width of an interval that leaves a correlation open


def table(number: int, records: Sequence[Record], published: Published) -> Table:
    """Correlation of single-layer and cross-layer GTD with performance.

    The paper's is over checkpoints of (it seems) one run; beside it stands the one over independent runs.
    """
    cells = {}
    for model in estimates.models(records) or ["mini"]:
        trained = [run["parameters"]["algorithm"] for run in select(records, "pretrain", model=model)]
        ways = ("checkpoints", "runs") if len(trained) > len(set(trained)) else ("checkpoints",)  # of several seeds
        for (measure, title), way, (task, key) in product(TITLES.items(), ways, TASK_KEYS.items()):
            printed = published.printed(number, gtd_kind=title, task=key) if way == "checkpoints" else ""
            points = getattr(trajectories, way)(records, model, task)
            ours = getattr(trajectories, f"over_{way}")(points, measure)
            if ours and ours.seeds < trajectories.FEW:
                ours = replace(ours, low=nan, high=nan)  # as among the claims
            reason = "" if ours else _why(points.dropna(subset=[measure, "score"]), measure, way)
            cell = Cell(printed, ours, flags=_flags(ours, printed), reason=reason)
            cells[(labels.model_title(model), f"{title}, {way}"), task] = cell
    return Table(number, trajectories.FOLLOWED, cells, "Score")


def _flags(ours: Estimate | None, printed: str) -> tuple[str, ...]:
    """Mark an r that says nothing, or else one whose whole interval has another sign than the paper's."""
    if ours is None:
        return ()
    if ours.seeds < trajectories.FEW or ours.high - ours.low > WHOLE:
        return ("says nothing",)
    sure = not ours.low <= 0 <= ours.high
    return ("opposite sign",) if printed and sure and ours.value * float(printed) < 0 else ()


def _why(known: pd.DataFrame, measure: str, way: str) -> str:
    """Why a cell is empty."""
    if len(known):
        why = captions()["lacking"][trajectories.lacking(known, measure)]
        return f"undefined, {why.format(least=trajectories.LEAST)}"
    what = "GTD" if measure == "gtd" else "cross-layer GTD"
    return f"no {what} with a score" + " at checkpoints" * (way == "checkpoints")
