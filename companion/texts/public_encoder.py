"""The refinement inserted into a public encoder: fine-tuned scores by arm, and what the step does
without training.
"""

from functools import cache
from typing import Any

import pandas as pd

from companion.beyond import plan
from companion.records import kinds, tracked
from companion.setup import labels
from companion.setup.sizes_and_strengths import SIZES
from companion.setup.studies import PUBLIC_ENCODER
from companion.setup.tasks_and_metrics import TASKS
from companion.statistics import Estimate, mean_interval
from companion.statistics.seeds import SIDES

STRENGTH = SIZES["minilm"].strength
PAIR = ["seed", "task"]


@cache
def runs() -> pd.DataFrame:
    """Return one row a fine-tuned run that did not fail: run, arm, task, seed, machine (with its
    precision).

    score (percent) after the last epoch, "epoch 1" after the first; floor: a bag of words' score;
    majority: that of the most frequent answer; constant: whether it gives one answer to all items.
    """
    rows, tuned = [], tracked.select(PUBLIC_ENCODER, "retrofit")
    kind = kinds(run["device"]["name"] for run in tuned)
    for run in tuned:
        given, metrics, device = run["parameters"], run["metrics"], run["device"]
        if "failed" not in metrics:
            named = {key: given[key] for key in ("arm", "task", "seed")}
            named |= {"run": run["name"], "machine": (kind[device["name"]], device["precision"])}
            scores = [epoch["scores"][TASKS[given["task"]].headline] for epoch in metrics["epochs"]]
            named |= {f"epoch {n}": score for n, score in enumerate(scores, 1)} | {
                "score": metrics["headline"]
            }
            beside = {key: metrics[key] for key in ("majority", "constant")}
            rows.append(named | beside | {"floor": metrics["floor"].get("headline")})
    return pd.DataFrame(rows)


def title(name: str) -> str:
    """Return what an arm of the plan is called: its algorithm, and its λ where another arm has the
    paper's.
    """
    if name in labels.ALGORITHMS:
        return labels.algorithm_title(name)
    given = plan.studies()[PUBLIC_ENCODER].model_extra["secondary_arms"][name]
    return f"{labels.algorithm_title(given['factor'])}, λ = {given['strength']:g}"


def planned_tasks() -> list[str]:
    """Return the tasks that the plan's primary endpoint is a mean over."""
    return plan.studies()[PUBLIC_ENCODER].model_extra["tasks"]


def difference(name: str = "high", against: str = "original", **which: Any) -> Estimate | None:
    """Return the mean of `gaps` over seeds with Student's interval; None without one."""
    found = gaps(name, against, **which)
    return mean_interval([*found.values()]) if found else None


def gaps(
    name: str = "high", against: str = "original", epoch: int = 0, *, alike: bool = False
) -> dict[int, float]:
    """Return an arm's mean over the planned tasks minus another's, in points, by the seeds that
    have all.

    `epoch`: after which the scores are read, from 1; 0 is the last, which the plan reports.
        `alike`: of seeds whose pairs all come from one kind of machine and one precision.
    """
    own = _runs(name, against, alike=alike)
    return _by_seed(_gaps(own, name, against, f"epoch {epoch}" if epoch else "score")).to_dict()


def _runs(*sides: str, alike: bool = False) -> pd.DataFrame:
    own = runs()[runs()["arm"].isin(sides)]
    return own[own.groupby(PAIR)["machine"].transform("nunique") == 1] if alike else own


def _gaps(own: pd.DataFrame, name: str, against: str, column: str = "score") -> pd.Series:
    wide = own.pivot(index=PAIR, columns="arm", values=column).reindex(columns=[name, against])
    return (wide[name] - wide[against]).dropna()


def _by_seed(found: pd.Series) -> pd.Series:
    return found.unstack("task").reindex(columns=planned_tasks()).dropna().mean(axis=1)


def constant() -> dict[tuple[str, str], list[int]]:
    """Return the seeds whose model gives one answer to all items, by arm and planned task; none
    where there is none.
    """
    found = runs().query("constant and task in @planned_tasks()")
    return found.groupby(["arm", "task"], sort=False)["seed"].agg(list).to_dict()


def on_one_machine() -> tuple[Estimate, int]:
    """Return `difference` with second scores in pairs of unlike machines, and how many of these
    there are.
    """
    own, again = _runs(*SIDES), tracked.repeated_scores().set_index("run")["second"]
    unlike = ~own["run"].isin(_runs(*SIDES, alike=True)["run"]) & own["task"].isin(planned_tasks())
    second = own["run"].map(again).where(unlike)
    found = _gaps(own.assign(score=second.fillna(own["score"])), *SIDES)
    return mean_interval(_by_seed(found).tolist()), int(second.count())


def by_task(*, alike: bool = False) -> dict[str, Estimate]:
    """Return High − Original for each task, over the seeds that have it (`alike`: see `gaps`)."""
    found = _gaps(_runs(*SIDES, alike=alike), *SIDES)
    return {task: mean_interval(values.tolist()) for task, values in found.groupby("task")}


@cache
def untrained() -> dict[str, Any]:
    """Return what the step does to the encoder as it is: similarity by arm, and attention by
    layer.
    """
    return tracked.metrics(PUBLIC_ENCODER, "retrofit-untrained", model="minilm")[0]


def arm(factor: str = "high", strength: float = STRENGTH) -> dict[str, Any]:
    """Return what was measured of a factor at a strength without training; "none" at 0 is plain
    attention.
    """
    return next(
        row
        for row in untrained()["similarity"]
        if (row["factor"], row["strength"]) == (factor, strength)
    )


def similarity(factor: str = "high", strength: float = STRENGTH) -> Estimate:
    """Return the correlation with the gold similarity minus plain attention's, in points, without
    training.
    """
    return _apart(arm(factor, strength))


def one_layer() -> tuple[int, Estimate]:
    """Return the layer, counted from 1, in which the step alone costs most, and that difference in
    points.
    """
    row = min(untrained()["one_layer"], key=lambda row: row["difference"])
    return row["layer"], _apart(row)


def _apart(row: dict[str, Any]) -> Estimate:
    return Estimate(row["difference"], *row["interval"], 1, untrained()["pairs"])


def layers(measure: str, factor: str = "high", strength: float = STRENGTH) -> pd.DataFrame:
    """Return a measure of each layer's attention before ("raw") and after ("refined") the step."""
    return pd.DataFrame([layer[measure] for layer in arm(factor, strength)["layers"]])
