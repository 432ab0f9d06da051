"""Measurements of attention: sparsity, entropy, GTD by layer, and what one step does to a given matrix."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import inf, nan

import numpy as np
from scipy import stats

from saobp.study.setup import labels
from saobp.study.setup.benchmarks import TASKS
from saobp.study.setup.records import select
from saobp.study.statistics import Error, Estimate, estimates, mean_interval, seed_variance
from saobp.study.verdicts.model import NORMAL, Measurement, ends, measured, on_scale, scope_of
from saobp.study.verdicts.studies import BORROWED, Read, Record, Studies, over_seeds, seed_gaps

RIVALS = ("original", "low", "elemmul")  # of High in Fig. 4
MAIN_TASK = "race"
PRINTED = {"mini": ("C41", "C42"), "small": ("C43", "C44"), "medium": ("C45", "C46")}  # App. E's mean sparsities


def _mean(name: str, layers: slice = slice(None), kind: str = "refined") -> Read:
    """Read one attention measure of a run: the mean over some of its layers and all heads."""
    return lambda run: estimates.nested_mean((estimates.matrix(run, kind).get(name) or [])[layers] or None)


def _on_main_task(runs: list[Record]) -> list[Record]:
    return [run for run in runs if run["metrics"].get("task") == MAIN_TASK]


def sparsity(claim: str, name: str, studies: Studies) -> list[Measurement]:
    """High − Original, a mean over the tasks whose attention was measured."""

    def paper(size: str) -> float:
        original, high = map(studies.paper.claim, PRINTED[size])
        return high - original

    return over_seeds(claim, studies, "attention", lambda runs: seed_gaps(runs, _mean(name)), paper=paper)


def deep_entropy(studies: Studies) -> list[Measurement]:
    """Both entropies, High − Original, over the deeper half of the layers."""
    rows = []
    for name, title in (("entropy", "entropy,"), ("indirect_entropy", "indirect entropy,")):

        def gaps(runs: list[Record], name: str = name) -> dict:
            return seed_gaps(_on_main_task(runs), lambda run: _mean(name, _deeper(run))(run))

        rows += over_seeds("deep-entropy", studies, "attention", gaps, part=title)
    return rows


def _deeper(run: Record) -> slice:
    return slice(len(estimates.matrix(run)["entropy"]) // 2, None)


def low(claim: str, name: str, column: str, studies: Studies) -> list[Measurement]:
    """Low − Original on RACE-Middle."""

    def paper(size: str) -> float:
        sides = (
            studies.paper.value(1, model=size.capitalize(), algorithm=side, metric=column)
            for side in ("Low", "Original")
        )
        return float(np.subtract(*sides))

    def gaps(runs: list[Record]) -> dict:
        return seed_gaps(_on_main_task(runs), _mean(name), ("low", "original"))

    return over_seeds(claim, studies, "attention", gaps, paper=paper)


def low_skew(studies: Studies) -> list[Measurement]:
    """Size of the skewness of the heads' entropies on RACE-Middle, Low − Original."""

    def skewness(run: Record) -> float:
        return abs(float(stats.skew(np.ravel(estimates.matrix(run)["entropy"]))))

    def gaps(runs: list[Record]) -> dict:
        return seed_gaps(_on_main_task(runs), skewness, ("low", "original"))

    return over_seeds("low-skew", studies, "attention", gaps, post_hoc=True)


def top_two(studies: Studies) -> list[Measurement]:
    """High's lead over the second highest of its rivals, layer by layer, where all of them have several seeds.

    High is among the first two of four where it beats two of its three rivals: a partial conjunction of the three
    differences. Taking the second highest of each seed instead, or the least of the layers, is biased.
    """
    rows = []
    for study, runs in studies.of("attention").items():
        for model in sorted({run["parameters"]["model"] for run in runs}):
            own = _on_main_task(select(runs, model=model))
            depth = max((len(estimates.matrix(run)["gtd"]) for run in own), default=0)
            for layer in range(depth):
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

    names = tuple(run["name"] for run in runs)
    method = "Student's t per rival, partial conjunction of two in three"
    part = f"layer {layer + 1}, {labels.model_title(model)}"
    value, seeds = second([one.value for one in found]), min(one.seeds for one in found)
    return Measurement(
        "gtd-top-two", part, scope_of(study, [model]), study, value, interval, seeds, "seeds", method, names
    )


def step(claim: str, name: str, studies: Studies) -> list[Measurement]:
    """The same heads after the step and before it, on each task of each model trained with High.

    The claim is about given matrices, so every model and task is a part, and its texts are what is drawn. A model of
    one seed borrows the spread between seeds (`_with_seeds`).
    """
    rows = []
    for study, runs in studies.of("attention").items():
        for run in select(runs, algorithm="high"):
            found = (run["metrics"].get("changes") or {}).get(name) or {}
            if found.get("low") is not None:
                model = run["parameters"]["model"]
                error = Error((((found["high"] - found["low"]) / 2 / NORMAL, inf),))
                value = Estimate(found["change"], found["low"], found["high"], int(found["samples"]), error=error)
                part = _part(run)
                facts = {"of": "texts", "method": "interval over texts", "records": (run["name"],), "post_hoc": True}
                rows.append((run, measured(claim, part, scope_of(study, [model]), study, value, **facts)))
    return _with_seeds(rows)


def _with_seeds(rows: list[tuple[Record, Measurement]]) -> list[Measurement]:
    """Return the measurements; those of a model with one seed have the spread between seeds of the others as well.

    The spread is that within task and model. The tasks of a model share its seeds, so the degrees of freedom are of
    models. Where no model has two seeds, all are aside: texts alone decide nothing about another seed.
    """
    models: dict = {}
    for run, row in rows:
        given = run["parameters"]
        models.setdefault((row.study, given["model"]), {}).setdefault(given["task"], {})[given["seed"]] = row.estimate
    several = {place for place, tasks in models.items() if any(len(found) > 1 for found in tasks.values())}
    if not several:
        return [replace(row, aside=True, method=f"{row.method}; one seed, descriptive") for _, row in rows]
    variance, _ = seed_variance([[*found.values()] for tasks in models.values() for found in tasks.values()])
    freedom = sum(max(map(len, models[place].values())) - 1 for place in several)
    lenders = labels.joined(sorted({study for study, _ in several}))
    shown = []
    for run, row in rows:
        if (row.study, run["parameters"]["model"]) not in several:
            error = row.error + Error(((float(np.sqrt(variance)), freedom),))
            method = f"{row.method}; {BORROWED.format(lenders)}"
            row = replace(row, error=error, interval=ends(row.estimate, error), method=method, n=1, of="seeds")
        shown.append(row)
    return shown


def step_ratio(claim: str, name: str, studies: Studies) -> list[Measurement]:
    """The same heads after the step over before it, on the log scale, on each task of each model trained with High.

    With a after and b before, log(a/b) has an error of at most SE(a - b)/a + |a - b|/(ab) (SE(a) + SE(a - b)): a record
    has the first and the second of these errors, and that of b is not above their sum.
    """
    rows = []
    for study, runs in studies.of("attention").items():
        for run in select(runs, algorithm="high"):
            change, after = ((run["metrics"].get(kind) or {}).get(name) or {} for kind in ("changes", "means"))
            if change.get("low") is None or after.get("low") is None:
                continue
            a, b, gap = change["refined"], change["softmax"], change["change"]
            of_gap, of_a = ((found["high"] - found["low"]) / 2 / NORMAL for found in (change, after))
            error = Error(((of_gap / a + abs(gap) / (a * b) * (of_a + of_gap), inf),))
            value = Estimate(float(np.log(a / b)), nan, nan, int(change["samples"]), error=error)
            facts = {"of": "texts", "method": "interval over texts", "records": (run["name"],), "post_hoc": True}
            row = measured(claim, _part(run), scope_of(study, [run["parameters"]["model"]]), study, value, **facts)
            rows.append((run, row))
    return [on_scale(row, np.exp, "log scale") for row in _with_seeds(rows)]


def _part(run: Record) -> str:
    model, task, seed = (run["parameters"][key] for key in ("model", "task", "seed"))
    return f"{TASKS[task].title}, {labels.model_title(model)}, seed {seed}"


def step_by_depth(studies: Studies) -> list[Measurement]:
    """What the step adds to entropy in the deeper half of the layers, minus what it adds in the other half."""

    def contrast(run: Record, kind: str) -> float:
        half = _deeper(run)
        return _mean("entropy", half, kind)(run) - _mean("entropy", slice(half.start), kind)(run)

    return over_seeds("step-deep-entropy", studies, "attention", partial(_step_gaps, read=contrast), post_hoc=True)


def _step_gaps(runs: list[Record], read: Callable[[Record, str], float]) -> dict:
    """Refined minus raw per seed, a mean over tasks, of the runs with High."""
    change: dict = {}
    for run in select(runs, algorithm="high"):
        change.setdefault(run["parameters"]["seed"], []).append(read(run, "refined") - read(run, "raw"))
    return {seed: float(np.mean(values)) for seed, values in change.items()}


MEASURES = {
    "sparsity-share": partial(sparsity, "sparsity-share", "sparsity"),
    "sparsity-fixed": partial(sparsity, "sparsity-fixed", "sparsity_fixed"),
    "sparsity-hoyer": partial(sparsity, "sparsity-hoyer", "hoyer"),
    "deep-entropy": deep_entropy,
    "gtd-top-two": top_two,
    "low-gtd": partial(low, "low-gtd", "gtd", "GTD"),
    "low-entropy": partial(low, "low-entropy", "indirect_entropy", "IE"),
    "low-skew": low_skew,
    "step-entropy": partial(step, "step-entropy", "entropy"),
    "step-deep-entropy": step_by_depth,
    "step-gtd": partial(step, "step-gtd", "gtd"),
    "step-sparsity": partial(step, "step-sparsity", "sparsity"),
    "step-column-sum": partial(step_ratio, "step-column-sum", "column_mass_maximum"),
}
