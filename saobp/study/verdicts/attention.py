"""Measurements of attention: sparsity, entropy, GTD by layer, and what one step does to a given matrix."""

from collections.abc import Sequence
from math import inf, nan

import numpy as np
import pandas as pd
from scipy import stats

from saobp.study.setup import labels
from saobp.study.setup.records import select
from saobp.study.setup.schema import Record
from saobp.study.setup.tasks_and_metrics import TASKS
from saobp.study.statistics import Error, Estimate, estimates, mean_interval, seed_variance
from saobp.study.statistics.intervals import NORMAL
from saobp.study.statistics.seeds import SIDES, Read, seed_gaps
from saobp.study.verdicts.claims_and_measurements import Measurement, measured, on_scale
from saobp.study.verdicts.studies import BORROWED, Studies, over_seeds

RIVALS = ("original", "low", "elemmul")  # of High in Fig. 4


def _mean(run: Record, name: str, layers: slice = slice(None), kind: str = "refined") -> float | None:
    """One attention measure of a run: the mean over some of its layers and all heads."""
    return estimates.nested_mean((estimates.matrix(run, kind).get(name) or [])[layers] or None)


def _deeper(run: Record) -> slice:
    return slice(len(estimates.matrix(run)["entropy"]) // 2, None)


def gap(
    studies: Studies, numbers: dict[str, str], sides: Sequence[str] = SIDES, task: str = "",
    printed: dict[str, tuple[str, str]] | None = None, metric: str = "", post_hoc: bool = False,
) -> list[Measurement]:  # fmt: skip
    """One algorithm minus another by size, for some numbers by part; on one task or a mean over all.

    A number is a measure by its name, "deep" in front for the deeper half of the layers alone; or "skewness" for the
    size of the skewness of the heads' entropies. The paper's are those of `printed` (size -> the sides' ids), or of a
    metric of Table 1.
    """

    def paper(model: str) -> float | None:
        if printed:
            return float(np.subtract(*map(studies.paper.claim, printed[labels.size(model)])))
        titles, given = [labels.algorithm_title(side) for side in sides], {"model": labels.published_model(model)}
        return studies.printed(1, metric, titles, **given) if metric else None

    def number(run: Record, name: str) -> float | None:
        if task not in ("", run["parameters"]["task"]):
            return None
        if name == "skewness":
            return abs(float(stats.skew(np.ravel(estimates.matrix(run)["entropy"]))))
        return _mean(run, name.removeprefix("deep "), _deeper(run) if name.startswith("deep ") else slice(None))

    rows = []
    for part, name in numbers.items():
        read: Read = lambda run, name=name: number(run, name)  # noqa: E731
        rows += over_seeds(studies, "attention", read, sides, part=part, paper=paper, post_hoc=post_hoc)
    return rows


def top_two(studies: Studies) -> list[Measurement]:
    """High's lead over the second highest of its rivals, layer by layer, where all of them have several seeds.

    High is among the first two of four where it beats two of its three rivals: a partial conjunction of the three
    differences. Taking the second highest of each seed instead, or the least of the layers, is biased.
    """
    rows = []
    for study, model, every in studies.cells("attention"):
        runs = select(every, task="race")
        for layer in range(max((len(estimates.matrix(run)["gtd"]) for run in runs), default=0)):
            read: Read = lambda run, at=slice(layer, layer + 1): _mean(run, "gtd", at)  # noqa: E731
            gaps = [seed_gaps(runs, read, ("high", rival)) for rival in RIVALS]
            if all(len(gap) > 1 for gap in gaps):
                rows.append(_second_lead(study, model, f"layer {layer + 1}", gaps, runs))
    return rows


def _second_lead(study: str, model: str, part: str, gaps: list[dict], runs: Sequence[Record]) -> Measurement:
    found = [mean_interval([*gap.values()]) for gap in gaps]

    def interval(level: float) -> tuple[float, float]:
        halved = (1 + level) / 2  # two of three: each at half the level (Benjamini and Heller 2008)
        return tuple(sorted(one.value + sign * one.error.reach(halved) for one in found)[-2] for sign in (-1, 1))

    value = Estimate(sorted(one.value for one in found)[-2], nan, nan, min(one.seeds for one in found))
    method = "Student's t per rival, partial conjunction of two in three"
    return measured(study, model, value, part, runs=runs, interval=interval, method=method)


def step(studies: Studies, number: str, *, ratio: bool = False) -> list[Measurement]:
    """The same heads after the step and before it, on each task of each model trained with High.

    The claim is about given matrices, so every model and task is a part, and its texts are what is drawn. A model of
    one seed borrows the spread between seeds of the others, within task and model; the tasks of a model share its
    seeds, so the degrees of freedom are of models. Where no model has two seeds, all are aside: texts alone decide
    nothing about another seed. `ratio`: after over before, on the log scale.
    """
    found = []
    for study, runs in studies.of("attention", algorithm="high").items():
        for run in runs:
            change, after = ((run["metrics"].get(kind) or {}).get(number) or {} for kind in ("changes", "means"))
            if change.get("low") is not None and not (ratio and after.get("low") is None):
                value, error = _log_ratio(change, after) if ratio else (change["change"], _error(change))
                found.append((study, run, value, Error(((error, inf),)), int(change["samples"])))
    given = [{"study": study, "value": value, **run["parameters"]} for study, run, value, *_ in found]
    frame = pd.DataFrame(given, columns=["study", "model", "task", "seed", "value"])
    seeds = frame.groupby(["study", "model"])["seed"].nunique()
    if several := sorted({study for study, _ in seeds[seeds > 1].index}):
        variance, _ = seed_variance(frame.groupby(["study", "model", "task"])["value"].agg(list).tolist())
        lent = Error(((float(np.sqrt(variance)), int((seeds - 1).sum())),))
    rows = []
    for study, run, value, error, texts in found:
        model, task, seed = (run["parameters"][key] for key in ("model", "task", "seed"))
        facts = {"of": "texts", "method": "interval over texts", "runs": [run], "post_hoc": True, "aside": not several}
        if not several:
            facts["method"] += "; one seed, descriptive"
        elif seeds[study, model] == 1:
            facts |= {"of": "seeds", "method": f"{facts['method']}; {BORROWED.format(labels.joined(several))}"}
            error, texts = error + lent, 1
        row = measured(study, model, Estimate.of(value, error, texts), TASKS[task].title, f"seed {seed}", **facts)
        rows.append(on_scale(row, np.exp, "log scale") if ratio else row)
    return rows


def _error(found: dict[str, float]) -> float:
    return (found["high"] - found["low"]) / 2 / NORMAL


def _log_ratio(change: dict[str, float], after: dict[str, float]) -> tuple[float, float]:
    """log(a/b) of a after and b before the step, and a bound of its error.

    It is at most SE(a - b)/a + |a - b|/(ab) (SE(a) + SE(a - b)): a record has the first and the second of these errors,
    and that of b is not above their sum.
    """
    a, b, of_gap, of_a = change["refined"], change["softmax"], _error(change), _error(after)
    return float(np.log(a / b)), of_gap / a + abs(change["change"]) / (a * b) * (of_a + of_gap)


def step_by_depth(studies: Studies) -> list[Measurement]:
    """What the step adds to entropy in the deeper half of the layers, minus what it adds in the other half."""

    def contrast(run: Record) -> float | None:
        if run["parameters"]["algorithm"] != "high":
            return None
        deep, shallow = _deeper(run), slice(_deeper(run).start)
        after, before = (
            _mean(run, "entropy", deep, kind) - _mean(run, "entropy", shallow, kind) for kind in ("refined", "raw")
        )
        return after - before

    return over_seeds(studies, "attention", contrast, post_hoc=True)
