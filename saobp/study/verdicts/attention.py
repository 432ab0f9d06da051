"""Measurements of attention: sparsity, entropy, GTD by layer, and what one step does to a given matrix."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf, nan
from typing import Any

import numpy as np
from scipy import stats

from saobp.study.paper.numbers import Published
from saobp.study.setup import labels
from saobp.study.setup.benchmarks import TASKS
from saobp.study.setup.records import select
from saobp.study.statistics import Error, Estimate, estimates, mean_interval, seed_variance
from saobp.study.verdicts.model import NORMAL, Measurement, ends, measured, on_scale
from saobp.study.verdicts.studies import (
    BORROWED,
    SIDES,
    Read,
    Record,
    Studies,
    difference,
    over_seeds,
    seed_gaps,
    seed_means,
)

RIVALS = ("original", "low", "elemmul")  # of High in Fig. 4


def _mean(name: str, layers: slice = slice(None), kind: str = "refined") -> Read:
    """Read one attention measure of a run: the mean over some of its layers and all heads."""
    return lambda run: estimates.nested_mean((estimates.matrix(run, kind).get(name) or [])[layers] or None)


def _number(run: Record, name: str) -> float | None:
    """A number of a run by its name: a measure, "deep" in front for the deeper half of the layers alone; or "skewness"
    for the size of the skewness of the heads' entropies.
    """
    if name == "skewness":
        return abs(float(stats.skew(np.ravel(estimates.matrix(run)["entropy"]))))
    deep, _, rest = name.rpartition(" ")
    return _mean(rest, _deeper(run) if deep else slice(None))(run)


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
        for layer in range(max((len(estimates.matrix(run)["gtd"]) for run in own), default=0)):
            gaps = [seed_gaps(own, _mean("gtd", slice(layer, layer + 1)), ("high", rival)) for rival in RIVALS]
            if all(len(gap) > 1 for gap in gaps):
                rows.append(_second_lead(study, model, layer, gaps, own))
    return rows


def _second_lead(study: str, model: str, layer: int, gaps: list[dict], runs: list[Record]) -> Measurement:
    found = [mean_interval([*gap.values()]) for gap in gaps]

    def second(numbers: list[float]) -> float:
        return sorted(numbers)[-2]

    def interval(level: float) -> tuple[float, float]:
        halved = 1 - (1 - level) / 2  # two of three: each at half the level (Benjamini and Heller 2008)
        reach = [one.error.reach(halved) for one in found]
        return tuple(second([one.value + sign * half for one, half in zip(found, reach)]) for sign in (-1, 1))

    value = Estimate(second([one.value for one in found]), nan, nan, min(one.seeds for one in found))
    method, names = "Student's t per rival, partial conjunction of two in three", tuple(run["name"] for run in runs)
    return measured(study, model, value, f"layer {layer + 1}", interval=interval, method=method, records=names)


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
            model, task, seed = (run["parameters"][key] for key in ("model", "task", "seed"))
            facts = {"of": "texts", "method": "interval over texts", "records": (run["name"],), "post_hoc": True}
            row = measured(study, model, found, TASKS[task].title, also=f"seed {seed}", **facts)
            rows.append((run["parameters"], row))
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
    models: dict = {}
    for given, row in rows:
        place = models.setdefault((row.study, given["model"]), {})
        place.setdefault(given["task"], {})[given["seed"]] = row.estimate
    seeds = {place: max(map(len, tasks.values())) for place, tasks in models.items()}
    if not any(count > 1 for count in seeds.values()):
        return [replace(row, aside=True, method=f"{row.method}; one seed, descriptive") for _, row in rows]
    variance, _ = seed_variance([[*found.values()] for tasks in models.values() for found in tasks.values()])
    lent = Error(((float(np.sqrt(variance)), sum(count - 1 for count in seeds.values())),))
    lenders = labels.joined(sorted({study for (study, _), count in seeds.items() if count > 1}))
    shown = []
    for given, row in rows:
        if seeds[row.study, given["model"]] == 1:
            error, method = row.error + lent, f"{row.method}; {BORROWED.format(lenders)}"
            row = replace(row, error=error, interval=ends(row.estimate, error), method=method, n=1, of="seeds")
        shown.append(row)
    return shown


def step_by_depth(studies: Studies) -> list[Measurement]:
    """What the step adds to entropy in the deeper half of the layers, minus what it adds in the other half."""

    def contrast(run: Record) -> float:
        half, parts = _deeper(run), {}
        for kind in ("refined", "raw"):
            parts[kind] = _mean("entropy", half, kind)(run) - _mean("entropy", slice(half.start), kind)(run)
        return parts["refined"] - parts["raw"]

    def gaps(runs: list[Record]) -> dict:
        return seed_means(select(runs, algorithm="high"), contrast)

    return over_seeds(studies, "attention", gaps, post_hoc=True)
