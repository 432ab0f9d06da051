"""How well encoders read held-out text: on the way and at the end, seed by seed, and beside plain attention."""

from collections.abc import Sequence
from math import exp, log
from typing import Any

import pandas as pd

from saobp.study.setup import records
from saobp.study.setup.labels import ALGORITHMS, algorithm_title, model_title
from saobp.study.setup.schema import Record
from saobp.study.statistics import estimates, holm, mean_interval

LEVEL = 0.05  # of a difference that is marked
COLUMNS = ("Model", "Algorithm", "Seeds", "Step", "Perplexity then", "At the end", "Beside Original, nats")


def early(run: Record) -> dict[str, Any]:
    """Return a run's last check on held-out text in the first half of its steps: step, loss (nats), perplexity."""
    return [point for point in run["metrics"]["curve"] if 2 * point["step"] <= run["metrics"]["steps"]][-1]


def ends(found: Sequence[Record]) -> pd.DataFrame:
    """Return one row a pretraining run: model, algorithm, seed, step, and the losses (nats) there and at the end."""
    rows = []
    for run in records.select(list(found), "pretrain"):
        given, check = run["parameters"], early(run)
        end = log(run["metrics"]["perplexity"])
        rows.append((given["model"], given["algorithm"], given["seed"], check["step"], check["loss"], end))
    frame = pd.DataFrame(rows, columns=["model", "algorithm", "seed", "step", "early", "end"])
    order = {name: place for place, name in enumerate([*estimates.models(found), *ALGORITHMS])}
    by = ["model", "algorithm"]
    return frame.sort_values(by, key=lambda names: names.map(order), kind="stable", ignore_index=True)


def gaps(found: Sequence[Record]) -> pd.DataFrame:
    """Compare each algorithm's loss at the end with Original's of the same model and seeds.

    Columns: model, algorithm, difference, low, high (nats; 95 %, Student's t over seeds; NaN for one seed), seeds,
    p, p_holm (over all rows).
    """
    rows = []
    for model, runs in ends(found).groupby("model", sort=False):
        losses = runs.pivot(index="seed", columns="algorithm", values="end")
        for name in losses.columns.drop("original") if "original" in losses else ():
            apart = (losses[name] - losses["original"]).dropna()
            if len(apart):
                gap = mean_interval(apart.tolist())
                rows.append((model, name, gap.value, gap.low, gap.high, gap.seeds, gap.p))
    frame = pd.DataFrame(rows, columns=["model", "algorithm", "difference", "low", "high", "seeds", "p"])
    return frame.assign(p_holm=holm(frame["p"].tolist()))


def table(found: Sequence[Record]) -> pd.DataFrame:
    """Return one row a model and algorithm, for reading; the columns are `COLUMNS`, and seeds stand in one order."""
    compared, rows = {}, []
    for row in gaps(found).itertuples():
        value, low, high = (round(end, 2) + 0.0 for end in (row.difference, row.low, row.high))  # no minus before a 0
        span = "(one seed)" if row.seeds == 1 else f"[{low:.2f}, {high:.2f}]" + "*" * (row.p_holm < LEVEL)
        compared[row.model, row.algorithm] = f"{value:+.2f} {span}"
    for (model, name), runs in ends(found).groupby(["model", "algorithm"], sort=False):
        runs = runs.sort_values("seed")
        steps = " or ".join(f"{step:,}" for step in sorted(set(runs["step"])))
        shown = ([exp(min(loss, 700)) for loss in runs[column]] for column in ("early", "end"))
        said = (", ".join(f"{one:.0f}" if one >= 100 else f"{one:.1f}" for one in values) for values in shown)
        seeds, gap = ", ".join(map(str, runs["seed"])), compared.get((model, name), "")
        rows.append((model_title(model), algorithm_title(name), seeds, steps, *said, gap))
    return pd.DataFrame(rows, columns=COLUMNS)
