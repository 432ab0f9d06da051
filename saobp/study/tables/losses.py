"""How well encoders read held-out text: on the way and at the end, seed by seed, and beside plain attention."""

from collections.abc import Sequence
from math import exp, log
from typing import Any

import pandas as pd

from saobp.study import records
from saobp.study.records.schema import Record
from saobp.study.setup.labels import ALGORITHMS, algorithm_title, model_title
from saobp.study.statistics import Estimate, estimates, holm
from saobp.study.statistics.intervals import LEVEL
from saobp.study.statistics.seeds import metric, seed_gap
from saobp.study.tables.cells import DIFFERS, effect

COLUMNS = ("Model", "Algorithm", "Seeds", "Step", "Perplexity then", "At the end", "Beside Original, nats")


def early(run: Record) -> dict[str, Any]:
    """Return a run's last check on held-out text in the first half of its steps: step, loss (nats), perplexity."""
    return [point for point in run["metrics"]["curve"] if 2 * point["step"] <= run["metrics"]["steps"]][-1]


def ends(found: Sequence[Record]) -> pd.DataFrame:
    """Return one row a pretraining run: model, algorithm, seed, step, and the losses (nats) there and at the end."""
    rows = []
    for run in records.select(found, "pretrain"):
        given, check = run["parameters"], early(run)
        end = log(run["metrics"]["perplexity"])
        rows.append((given["model"], given["algorithm"], given["seed"], check["step"], check["loss"], end))
    frame = pd.DataFrame(rows, columns=["model", "algorithm", "seed", "step", "early", "end"])
    order = {name: place for place, name in enumerate([*estimates.models(found), *ALGORITHMS])}
    by = ["model", "algorithm"]
    return frame.sort_values(by, key=lambda names: names.map(order), kind="stable", ignore_index=True)


def gaps(found: Sequence[Record]) -> dict[tuple[str, str], Estimate]:
    """Compare each algorithm's loss at the end (nats) with Original's of the same model and seeds (`seed_gap`)."""
    compared = {}
    for model, name in dict.fromkeys(zip(*(ends(found)[by] for by in ("model", "algorithm")))):
        own = records.select(found, "pretrain", model=model)
        gap = None if name == "original" else seed_gap(own, metric("perplexity"), (name, "original"), log=True)
        compared |= {(model, name): gap} if gap else {}
    return compared


def table(found: Sequence[Record]) -> pd.DataFrame:
    """Return one row a model and algorithm, for reading; the columns are `COLUMNS`, and seeds stand in one order."""
    compared, rows = gaps(found), []
    adjusted = dict(zip(compared, holm([gap.p for gap in compared.values()])))
    for key, runs in ends(found).sort_values("seed").groupby(["model", "algorithm"], sort=False):
        gap, steps = compared.get(key), " or ".join(f"{step:,}" for step in sorted(set(runs["step"])))
        shown = ([exp(min(loss, 700)) for loss in runs[column]] for column in ("early", "end"))
        said = (", ".join(f"{one:.0f}" if one >= 100 else f"{one:.1f}" for one in values) for values in shown)
        note = "" if gap is None else " (one seed)" if gap.seeds == 1 else DIFFERS * (adjusted[key] < LEVEL)
        beside = effect(gap, 2) + note if gap else ""
        titles = (model_title(key[0]), algorithm_title(key[1]), ", ".join(map(str, runs["seed"])))
        rows.append((*titles, steps, *said, beside))
    return pd.DataFrame(rows, columns=COLUMNS)
