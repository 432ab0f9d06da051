"""Measurements of attention: sparsity, entropy, GTD by layer, and what one step does to a given
matrix.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import partial
from math import nan

import numpy as np
from scipy import stats

from companion.records import kinds
from companion.records.schema import Record
from companion.setup import labels
from companion.setup.tasks_and_metrics import TASKS
from companion.statistics import Estimate, estimates, mean_interval
from companion.statistics.estimates import mean_of
from companion.statistics.seeds import SIDES, seed_gaps
from companion.verdicts.claims_and_measurements import TWO_MACHINES, Measurement, measured, on_scale
from companion.verdicts.studies import Studies, over_seeds


def _deeper(run: Record) -> slice:
    return slice(len(estimates.matrix(run)["entropy"]) // 2, None)


def gap(
    studies: Studies,
    numbers: dict[str, str],
    sides: Sequence[str] = SIDES,
    task: str = "",
    printed: dict[str, tuple[str, str]] | None = None,
    metric: str = "",
    post_hoc: bool = False,
    deeper: bool = False,
) -> Iterator[Measurement]:
    """One algorithm minus another by size, for some numbers by part; on one task or a mean over
    all.

    A number is a measure by its name, of all layers or of the `deeper` half of them alone; or
    "skewness" for the size of the skewness of the heads' entropies. The paper's are those of
    `printed` (size -> the sides' ids), or of a metric of Table 1. Where some pairs were measured on
    two machines, the seeds without such a pair stand aside.
    """
    split = _on_two_machines(studies, sides)

    def paper(model: str) -> float | None:
        if printed:
            return float(np.subtract(*map(studies.paper.claim, printed[labels.size(model)])))
        names, given = (
            [labels.algorithm_title(side) for side in sides],
            {"model": labels.published_model(model)},
        )
        return studies.printed(1, metric, names, **given) if metric else None

    def number(run: Record, name: str, left_out: dict[int, str]) -> float | None:
        if id(run) in left_out:
            return None
        if name == "skewness":
            return abs(float(stats.skew(np.ravel(estimates.matrix(run)["entropy"]))))
        return mean_of(run, name, _deeper(run) if deeper else slice(None))

    facts = {
        "where": {"task": task} if task else {},
        "sides": sides,
        "paper": paper,
        "post_hoc": post_hoc,
    }
    own = partial(over_seeds, studies, "attention", **facts)
    for part, name in numbers.items():
        yield from own(partial(number, name=name, left_out={}), part=part, key=name)
        title = ", ".join(filter(None, (part, "seeds of one machine")))
        facts = {"part": title, "key": name, "aside": True, "without": TWO_MACHINES}
        alike = own(partial(number, name=name, left_out=split), **facts)
        yield from (row for row in alike if row.study in split.values())


def _on_two_machines(studies: Studies, sides: Sequence[str]) -> dict[int, str]:
    """Return the study of each run, by identity, whose partner on the other side was measured on
    another machine.
    """
    pairs, machines = defaultdict(list), defaultdict(set)
    for study, runs in studies.of("attention").items():
        kind = kinds(run["device"]["name"] for run in runs)
        for run in runs:
            if (given := run["parameters"])["algorithm"] in sides:
                pair = study, given["model"], given["task"], given["seed"]
                pairs[pair].append(run)
                machines[pair].add(kind[run["device"]["name"]])
    return {
        id(run): pair[0] for pair, own in pairs.items() if len(machines[pair]) > 1 for run in own
    }


def top_two(studies: Studies) -> Iterator[Measurement]:
    """High's lead over the second highest of its rivals, layer by layer, where all of them have
    several seeds.

    High is among the first two of four (Fig. 4) where it beats two of its three rivals: a partial
    conjunction of the three differences. Taking the second highest of each seed instead, or the
    least of the layers, is biased.
    """
    for study, model, runs in studies.cells("attention", task="race"):
        for layer in range(max((len(estimates.matrix(run)["gtd"]) for run in runs), default=0)):
            read = partial(mean_of, name="gtd", layers=slice(layer, layer + 1))
            gaps = [
                seed_gaps(runs, read, ("high", rival)) for rival in ("original", "low", "elemmul")
            ]
            if all(len(gap) > 1 for gap in gaps):
                yield _second_lead(study, model, layer + 1, gaps, runs)


def _second_lead(
    study: str, model: str, layer: int, gaps: list[dict], runs: Sequence[Record]
) -> Measurement:
    found = [mean_interval([*gap.values()]) for gap in gaps]

    def interval(level: float) -> tuple[float, float]:
        # two of three: each at half the level (Benjamini and Heller 2008)
        halved = (1 + level) / 2
        return tuple(
            sorted(one.value + sign * one.error.reach(halved) for one in found)[-2]
            for sign in (-1, 1)
        )

    value = Estimate(
        sorted(one.value for one in found)[-2], nan, nan, min(one.seeds for one in found)
    )
    facts = {
        "key": f"layer_{layer}",
        "method": "Student's t per rival, partial conjunction of two in three",
    }
    return measured(study, model, value, f"layer {layer}", runs=runs, interval=interval, **facts)


def step(studies: Studies, number: str, *, ratio: bool = False) -> Iterator[Measurement]:
    """The same heads after the step and before it, in High's models: each task is a part; `ratio`:
    on the log scale.
    """

    def change(run: Record) -> float | None:
        found = run["metrics"]["changes"].get(number, {})
        if found.get("change") is None:
            return None
        return float(np.log(found["refined"] / found["softmax"])) if ratio else found["change"]

    tasks = {
        run["parameters"]["task"]
        for runs in studies.of("attention", algorithm="high").values()
        for run in runs
    }
    for task in sorted(tasks):
        facts = {"part": TASKS[task].title, "key": task, "post_hoc": True}
        for row in over_seeds(
            studies, "attention", change, where={"algorithm": "high", "task": task}, **facts
        ):
            yield on_scale(row, np.exp, "log scale") if ratio else row


def step_by_depth(studies: Studies) -> Iterator[Measurement]:
    """What the step adds to entropy in the deeper half of the layers, minus what it adds in the
    other half.
    """

    def contrast(run: Record) -> float:
        halves = _deeper(run), slice(_deeper(run).start)
        after, before = (
            float(np.subtract(*(mean_of(run, "entropy", half, kind) for half in halves)))
            for kind in ("refined", "raw")
        )
        return after - before

    return over_seeds(studies, "attention", contrast, where={"algorithm": "high"}, post_hoc=True)
