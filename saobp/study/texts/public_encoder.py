"""The refinement inserted into a public encoder: fine-tuned scores by arm, and what the step does without training."""

from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from saobp.study.beyond import plan
from saobp.study.setup import tracked
from saobp.study.setup.schema import Record
from saobp.study.setup.tasks_and_metrics import TASKS
from saobp.study.statistics import Estimate, mean_interval
from saobp.study.statistics.seeds import Read, by_side, metric, seed_gap, seed_gaps

STUDY = "retrofit"


@cache
def runs() -> pd.DataFrame:
    """Return one row a fine-tuned run: arm, task, seed, score (percent) after the last epoch.

    floor: a bag of words' score; majority: that of the most frequent answer; constant: whether it gives one answer to
    all items. A run that failed has no row. Empty where nothing was run.
    """
    rows = []
    for run in tracked.select(STUDY, "retrofit"):
        given, metrics = run["parameters"], run["metrics"]
        if "failed" not in metrics:
            floor, constant = (metrics.get("floor") or {}).get("headline"), bool(metrics.get("constant"))
            own = (given["arm"], given["task"], given["seed"], metrics["headline"])
            rows.append((*own, floor, metrics.get("majority"), constant))
    columns = ["arm", "task", "seed", "score", "floor", "majority", "constant"]
    return pd.DataFrame(rows, columns=columns).astype({"constant": bool})


def planned_tasks() -> list[str]:
    """Return the tasks that the plan's primary endpoint is a mean over."""
    return plan.studies()["retrofit"].model_extra["tasks"]


def difference(
    name: str = "high", against: str = "original", epoch: int = 0, *, alike: bool = False
) -> Estimate | None:
    """Return the mean of `gaps` over seeds with Student's interval; None without one."""
    found = gaps(name, against, epoch, alike=alike)
    return mean_interval([*found.values()]) if found else None


def gaps(name: str = "high", against: str = "original", epoch: int = 0, *, alike: bool = False) -> dict[int, float]:
    """Return an arm's mean over the planned tasks minus another's, in points, by the seeds that have all.

    `epoch`: after which the scores are read, from 1; 0 is the last, which the plan reports. `alike`: of seeds whose
    pairs all come from one kind of machine and one precision.
    """
    tasks, sides = planned_tasks(), (name, against)
    own = [run for run in _of(sides, alike=alike) if run["parameters"]["task"] in tasks]
    return seed_gaps(own, _after(epoch), sides, by="arm", tasks=len(tasks))


def constant() -> dict[tuple[str, str], list[int]]:
    """Return the seeds whose model gives one answer to all items, by arm and planned task; none where there is none."""
    found = runs().query("constant and task in @planned_tasks()")
    return found.groupby(["arm", "task"], sort=False)["seed"].agg(list).to_dict()


def difference_without(name: str, seeds: Sequence[int]) -> float:
    """Return the mean of `gaps` over the other seeds than these."""
    return float(np.mean([gap for seed, gap in gaps(name).items() if seed not in seeds]))


def _of(sides: tuple[str, str], *, alike: bool) -> list[Record]:
    """Return the runs of two arms; with `alike` no pair of a GPU with a processor, or of two precisions."""
    own = [run for run in tracked.select(STUDY, "retrofit") if run["parameters"]["arm"] in sides]
    kinds = defaultdict(set)
    for run in own:
        kinds[_pair(run)].add((run["device"]["name"], run["device"]["precision"]))
    return [run for run in own if not alike or len(kinds[_pair(run)]) == 1]


def _pair(run: Record) -> tuple[int, str]:
    return run["parameters"]["seed"], run["parameters"]["task"]


def on_one_machine() -> tuple[Estimate, int]:
    """Return `difference` with second scores in pairs of unlike machines, and how many of these there are."""
    again, sides, tasks = tracked.repeated_scores().set_index("run")["second"], ("high", "original"), planned_tasks()
    own = [run for run in _of(sides, alike=False) if run["parameters"]["task"] in tasks]
    unlike = {run["name"] for run in own} - {run["name"] for run in _of(sides, alike=True)}
    again = again[again.index.isin(unlike)]
    read = lambda run: again.get(run["name"], _after(0)(run))  # noqa: E731
    return seed_gap(own, read, sides, by="arm", tasks=len(tasks)), len(again)


def equal_again() -> tuple[int, int]:
    """Count the runs that gave the same score again on the same kind of processor, and all repeated on it."""
    again = tracked.repeated_scores().query("first_processor == second_processor")
    return int((again["first"] == again["second"]).sum()), len(again)


def by_task(*, alike: bool = False) -> dict[str, Estimate]:
    """Return High − Original for each task, over the seeds that have it (`alike`: see `difference`)."""
    scores = by_side(_of(("high", "original"), alike=alike), metric("headline"), by="arm")
    gaps = (scores["high"] - scores["original"]).dropna()
    return {task: mean_interval(values.tolist()) for task, values in gaps.groupby("task")}


def levels() -> tuple[float, float]:
    """Return Original's mean score over the planned tasks and seeds, and a bag of words' there, in percent."""
    own = runs().query("arm == 'original' and task in @planned_tasks()")
    return tuple(own.groupby("task")[["score", "floor"]].mean().mean())


@cache
def untrained() -> dict[str, Any] | None:
    """Return what the step does to the encoder as it is: similarity by arm, and attention by layer; None if not run."""
    found = tracked.metrics(STUDY, "retrofit-untrained", model="minilm")
    return found[0] if found else None


def similarity(factor: str = "high", strength: float = 0.1) -> Estimate:
    """Return the correlation with the gold similarity minus plain attention's, in points, without training."""
    return _apart(_arm(factor, strength))


def one_layer() -> tuple[int, Estimate]:
    """Return the layer, counted from 1, in which the step alone costs most, and that difference in points."""
    row = min(untrained()["one_layer"], key=lambda row: row["difference"])
    return row["layer"], _apart(row)


def plain_similarity() -> float:
    """Return Spearman's correlation of plain attention, in percent."""
    return _arm("none", 0.0)["spearman"]


def layers(measure: str, factor: str = "high", strength: float = 0.1) -> pd.DataFrame:
    """Return a measure of each layer's attention before ("raw") and after ("refined") the step."""
    return pd.DataFrame([layer[measure] for layer in _arm(factor, strength)["layers"]])


def _after(epoch: int) -> Read:
    def score(run: Record) -> float | None:
        epochs = run["metrics"].get("epochs")
        return epochs and epochs[epoch - 1]["scores"][TASKS[run["parameters"]["task"]].headline]

    return score


def _apart(row: dict[str, Any]) -> Estimate:
    return Estimate(row["difference"], *row["interval"], 1, untrained()["pairs"])


def _arm(factor: str, strength: float) -> dict[str, Any]:
    return next(row for row in untrained()["similarity"] if (row["factor"], row["strength"]) == (factor, strength))
