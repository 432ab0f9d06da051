"""What the runs of `multihop` show: accuracy by the number of hops, when it was learned, who differs from Original."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from saobp.study.labels import counted
from saobp.study.statistics import holm, paired_bootstrap

LEARNED = 90.0  # percent right: what an algorithm has learned
STILL = 2.0  # points by which a settled run moves at most
RUN = ["layers", "algorithm", "seed"]


def curves(runs: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return accuracy along training, on part of the exam: layers, algorithm, seed, step, hops, accuracy (percent).

    A run that failed has no row; where all did, the frame is empty and keeps its columns.
    """
    rows = [
        (*(run[key] for key in RUN), point["step"], int(hops), 100 * share)
        for run in runs
        for point in run["curve"]
        for hops, share in point["accuracy"].items()
    ]
    return pd.DataFrame(rows, columns=[*RUN, "step", "hops", "accuracy"])


def scores(runs: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return the exam's result: layers, algorithm, seed, hops, accuracy (percent), right, asked.

    A run that failed has no row; where all did, the frame is empty and keeps its columns.
    """
    rows = [
        (*(run[key] for key in RUN), int(hops), 100 * float(np.mean(answers)), sum(answers), len(answers))
        for run in runs
        for hops, answers in run["outcomes"].items()
    ]
    return pd.DataFrame(rows, columns=[*RUN, "hops", "accuracy", "right", "asked"])


def learned_at(runs: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return when each run first had `LEARNED` percent right: layers, algorithm, seed, hops, step (NaN: never)."""
    frame = curves(runs)
    keys = [*RUN, "hops"]
    first = frame[frame["accuracy"] >= LEARNED].groupby(keys)["step"].min()
    asked = pd.MultiIndex.from_frame(frame[keys].drop_duplicates())
    return first.reindex(asked).reset_index()


def movement(runs: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return how far each run was from settled while its rate was whole, for its first "full_rate" steps.

    Columns: layers, algorithm, seed, hops, moved (points): mean accuracy on the last quarter of those steps, minus that
    on the quarter before. What a falling rate does to the curve is left out: at its end every curve is flat.
    """
    rows = []
    for run in (run for run in runs if run.get("full_rate")):
        whole = run["full_rate"]
        for hops, curve in curves([run]).groupby("hops"):
            step, right = curve["step"], curve["accuracy"]
            before, last = right[step.between(whole / 2, 0.75 * whole)], right[step.between(0.75 * whole, whole)]
            rows.append((*(run[key] for key in RUN), hops, last.mean() - before.mean()))
    return pd.DataFrame(rows, columns=[*RUN, "hops", "moved"])


def settled_words(runs: Sequence[dict[str, Any]]) -> list[str]:
    """Say for each depth and number of hops how many runs had settled before their rate fell, and which had not."""
    said = []
    for (layers, hops), found in movement(runs).groupby(["layers", "hops"]):
        moving = found[~(found["moved"].abs() < STILL)]
        line = f"{_depth(layers, hops)}: {len(found) - len(moving)} of {counted(len(found), 'run')} had settled, "
        line += f"moving by less than {STILL:.0f} points before the rate fell"
        named = [f"{run.algorithm} seed {run.seed} ({run.moved:+.0f})" for run in moving.itertuples()]
        said.append(line + (f"; the others: {', '.join(named)}" if named else ""))
    return said


def differences(runs: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Compare every algorithm with Original on the same stories and seeds: one row a depth, algorithm and hops.

    Columns: layers, algorithm, hops, difference, low, high (points, 95 %), p, p_holm (over all rows), seeds. The
    paired bootstrap draws seeds and stories again; with one seed the stories alone.
    """
    rows, chains = [], runs[0]["chains"]
    for layers in dict.fromkeys(run["layers"] for run in runs):
        whole = [run for run in runs if run["layers"] == layers and not run.get("failed")]
        same = {(run["algorithm"], run["seed"]): run["outcomes"] for run in whole}
        for algorithm in dict.fromkeys(name for name, _ in same if name != "original"):
            seeds = [seed for name, seed in same if name == algorithm and ("original", seed) in same]
            for hops in same[algorithm, seeds[0]] if seeds else ():
                sides = ([same[name, seed][hops] for seed in seeds] for name in (algorithm, "original"))
                ours, plain = (
                    np.reshape(side, (len(seeds), -1, chains)).mean(-1) for side in sides
                )  # a story a column
                found = paired_bootstrap(100 * ours, 100 * plain)
                rows.append((layers, algorithm, int(hops), found.value, found.low, found.high, found.p, len(seeds)))
    names = ["layers", "algorithm", "hops", "difference", "low", "high", "p", "seeds"]
    frame = pd.DataFrame(rows, columns=names)
    return frame.assign(p_holm=holm(frame["p"].tolist()))


def words(scores: pd.DataFrame, differences: pd.DataFrame, chance: float) -> list[str]:
    """Say for each depth and number of hops who learned it, and which algorithm differs from Original."""
    said = [] if len(scores) else ["no run came to its exam, so there is no accuracy"]
    for (layers, hops), found in scores.groupby(["layers", "hops"]):
        means = found.groupby("algorithm")["accuracy"].mean()
        learned = [name for name in means.index if means[name] >= LEARNED]
        line = f"{_depth(layers, hops)}: {means.min():.1f} to {means.max():.1f} % right, chance {chance:.1f} %; "
        line += f"learned by {len(learned)} of {counted(len(means), 'algorithm')}"
        here = differences[(differences["layers"] == layers) & (differences["hops"] == hops)]
        sure = here[here["p_holm"] < 0.05]
        said.append(line + "".join(f"; {r.algorithm} {r.difference:+.1f} points" for r in sure.itertuples()))
    return said


def _depth(layers: int, hops: int) -> str:
    return f"{counted(layers, 'layer')}, {counted(hops, 'hop')}"


def learning_words(runs: Sequence[dict[str, Any]]) -> list[str]:
    """Say for each depth and number of hops that somebody learned at which step each algorithm first knew."""
    said = []
    for (layers, hops), found in learned_at(runs).groupby(["layers", "hops"]):
        if found["step"].isna().all():
            continue
        steps = found.groupby("algorithm", sort=False)["step"]
        ranges = [
            f"{name} at step {step.median():.0f} ({step.min():.0f} to {step.max():.0f})" if step.notna().all()
            else f"{name} in {step.count()} of {counted(len(step), 'run')}"
            for name, step in steps
        ]  # fmt: skip
        said.append(f"{_depth(layers, hops)}: {LEARNED:.0f} % right for the first time: {', '.join(ranges)}")
    return said


def failure_words(runs: Sequence[dict[str, Any]]) -> list[str]:
    """Say which runs failed and why; no accuracy counts them."""
    return [
        f"{counted(run['layers'], 'layer')}, {run['algorithm']}, seed {run['seed']}: failed, {run['failed']}"
        for run in runs
        if run.get("failed")
    ]
