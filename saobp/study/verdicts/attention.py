"""Measurements of attention: sparsity, entropy, GTD by layer, and what one step does to a given matrix."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf, nan
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from saobp.study.paper.numbers import Published
from saobp.study.setup import labels
from saobp.study.setup.records import select
from saobp.study.setup.schema import Record
from saobp.study.setup.tasks_and_metrics import TASKS
from saobp.study.statistics import Error, Estimate, estimates, mean_interval, seed_variance
from saobp.study.statistics.seeds import SIDES, Read, seed_gaps
from saobp.study.verdicts.claims_and_measurements import NORMAL, Measurement, ends, measured, on_scale
from saobp.study.verdicts.studies import BORROWED, Studies, difference, over_seeds, seed_means

RIVALS = ("original", "low", "elemmul")  # of High in Fig. 4


def _mean(run: Record, name: str, layers: slice = slice(None), kind: str = "refined") -> float | None:
    """One attention measure of a run: the mean over some of its layers and all heads."""
    return estimates.nested_mean((estimates.matrix(run, kind).get(name) or [])[layers] or None)


def _number(run: Record, name: str) -> float | None:
    """A number of a run by its name: a measure, "deep" in front for the deeper half of the layers alone; or "skewness"
    for the size of the skewness of the heads' entropies.
    """
    if name == "skewness":
        return abs(float(stats.skew(np.ravel(estimates.matrix(run)["entropy"]))))
    return _mean(run, name.removeprefix("deep "), _deeper(run) if name.startswith("deep ") else slice(None))


def _deeper(run: Record) -> slice:
    return slice(len(estimates.matrix(run)["entropy"]) // 2, None)


def gap(
    studies: Studies, numbers: dict[str, str], sides: Sequence[str] = SIDES, task: str = "",
    printed: dict[str, tuple[str, str]] | None = None, metric: str = "", **given: Any,
) -> list[Measurement]:  # fmt: skip
    """One algorithm minus another by size, for some numbers (`_number`) by part; on one task or a mean over all.

    The paper's are those of `printed` (size -> the sides' ids), or of a metric of Table 1.
    """

    def paper(paper: Published, size: str) -> float | None:
        if printed:
            return float(np.subtract(*map(paper.claim, printed[size])))
        values = [paper.value(1, model=size.capitalize(), algorithm=side.capitalize(), metric=metric) for side in sides]
        return float(np.subtract(*values))

    def read(name: str) -> Read:
        return lambda run: _number(run, name) if task in ("", run["metrics"].get("task")) else None

    given |= {"paper": paper} if printed or metric else {}
    each = (difference(studies, "attention", read(name), sides, part=part, **given) for part, name in numbers.items())
    return [row for rows in each for row in rows]


def top_two(studies: Studies) -> list[Measurement]:
    """High's lead over the second highest of its rivals, layer by layer, where all of them have several seeds.

    High is among the first two of four where it beats two of its three rivals: a partial conjunction of the three
    differences. Taking the second highest of each seed instead, or the least of the layers, is biased.
    """
    rows = []
    for study, model, runs in studies.cells("attention"):
        own = [run for run in runs if run["metrics"].get("task") == "race"]
        names = tuple(run["name"] for run in own)
        for layer in range(max((len(estimates.matrix(run)["gtd"]) for run in own), default=0)):
            read: Read = lambda run, at=slice(layer, layer + 1): _mean(run, "gtd", at)  # noqa: E731
            gaps = [seed_gaps(own, read, ("high", rival)) for rival in RIVALS]
            if all(len(gap) > 1 for gap in gaps):
                rows.append(_second_lead(study, model, f"layer {layer + 1}", gaps, names))
    return rows


def _second_lead(study: str, model: str, part: str, gaps: list[dict], records: tuple[str, ...]) -> Measurement:
    found = [mean_interval([*gap.values()]) for gap in gaps]

    def interval(level: float) -> tuple[float, float]:
        halved = (1 + level) / 2  # two of three: each at half the level (Benjamini and Heller 2008)
        return tuple(sorted(one.value + sign * one.error.reach(halved) for one in found)[-2] for sign in (-1, 1))

    value = Estimate(sorted(one.value for one in found)[-2], nan, nan, min(one.seeds for one in found))
    method = "Student's t per rival, partial conjunction of two in three"
    return measured(study, model, value, part, interval=interval, method=method, records=records)


def step(studies: Studies, number: str, *, ratio: bool = False) -> list[Measurement]:
    """The same heads after the step and before it, on each task of each model trained with High.

    The claim is about given matrices, so every model and task is a part, and its texts are what is drawn. A model of
    one seed borrows the spread between seeds (`_with_seeds`). `ratio`: after over before, on the log scale.
    """
    rows = []
    for study, runs in studies.of("attention", algorithm="high").items():
        for run in runs:
            change, after = ((run["metrics"].get(kind) or {}).get(number) or {} for kind in ("changes", "means"))
            if change.get("low") is None or (ratio and after.get("low") is None):
                continue
            value, error = _log_ratio(change, after) if ratio else (change["change"], _error(change))
            found = Estimate(value, nan, nan, int(change["samples"]), error=Error(((error, inf),)))
            given = run["parameters"]
            facts = {"of": "texts", "method": "interval over texts", "records": (run["name"],), "post_hoc": True}
            row = measured(study, given["model"], found, TASKS[given["task"]].title, f"seed {given['seed']}", **facts)
            rows.append((given, row))
    rows = _with_seeds(rows)
    return [on_scale(row, np.exp, "log scale") for row in rows] if ratio else rows


def _error(found: dict[str, float]) -> float:
    return (found["high"] - found["low"]) / 2 / NORMAL


def _log_ratio(change: dict[str, float], after: dict[str, float]) -> tuple[float, float]:
    """log(a/b) of a after and b before the step, and a bound of its error.

    It is at most SE(a - b)/a + |a - b|/(ab) (SE(a) + SE(a - b)): a record has the first and the second of these errors,
    and that of b is not above their sum.
    """
    a, b, of_gap, of_a = change["refined"], change["softmax"], _error(change), _error(after)
    return float(np.log(a / b)), of_gap / a + abs(change["change"]) / (a * b) * (of_a + of_gap)


def _with_seeds(rows: list[tuple[dict, Measurement]]) -> list[Measurement]:
    """Return the measurements; those of a model with one seed have the spread between seeds of the others as well.

    The spread is that within task and model. The tasks of a model share its seeds, so the degrees of freedom are of
    models. Where no model has two seeds, all are aside: texts alone decide nothing about another seed.
    """
    if not rows:
        return []
    found = pd.DataFrame([{"study": row.study, "value": row.estimate, **given} for given, row in rows])
    seeds = found.groupby(["study", "model"])["seed"].nunique()
    if seeds.max() == 1:
        return [replace(row, aside=True, method=f"{row.method}; one seed, descriptive") for _, row in rows]
    cells = found.groupby(["study", "model", "task"])["value"].agg(list)
    variance, _ = seed_variance(cells.tolist())
    lent = Error(((float(np.sqrt(variance)), int((seeds - 1).sum())),))
    method = BORROWED.format(labels.joined(sorted({study for study, _ in seeds[seeds > 1].index})))
    shown = []
    for given, row in rows:
        if seeds[row.study, given["model"]] == 1:
            error, text = row.error + lent, f"{row.method}; {method}"
            row = replace(row, error=error, interval=ends(row.estimate, error), method=text, n=1, of="seeds")
        shown.append(row)
    return shown


def step_by_depth(studies: Studies) -> list[Measurement]:
    """What the step adds to entropy in the deeper half of the layers, minus what it adds in the other half."""

    def contrast(run: Record) -> float:
        half = _deeper(run)
        after, before = (
            _mean(run, "entropy", half, kind) - _mean(run, "entropy", slice(half.start), kind)
            for kind in ("refined", "raw")
        )
        return after - before

    def gaps(runs: list[Record]) -> dict:
        return seed_means(select(runs, algorithm="high"), contrast)

    return over_seeds(studies, "attention", gaps, post_hoc=True)
