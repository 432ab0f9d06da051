"""What the runs of `multihop` show: accuracy by the number of hops, when it was learned, who differs from Original."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from saobp.study.setup.labels import algorithm_title, counted, joined
from saobp.study.statistics import Estimate, holm, paired_difference

LEARNED = 90.0  # percent right: what an algorithm has learned
STILL = 2.0  # points; a run that moves by less stands still
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
    """Return how far each run was moving while its rate was whole, for its first "full_rate" steps, and afterwards.

    Columns: layers, algorithm, seed, hops, moved (points): mean accuracy on the last quarter of those steps, minus that
    on the quarter before; fell (points): accuracy at the end, minus that mean on the last quarter.
    """
    rows = []
    for run in (run for run in runs if run.get("full_rate")):
        whole = run["full_rate"]
        for hops, curve in curves([run]).groupby("hops"):
            step, right = curve["step"], curve["accuracy"]
            before, last = right[step.between(whole / 2, 0.75 * whole)], right[step.between(0.75 * whole, whole)]
            end = right[step.idxmax()]
            rows.append((*(run[key] for key in RUN), hops, last.mean() - before.mean(), end - last.mean()))
    return pd.DataFrame(rows, columns=[*RUN, "hops", "moved", "fell"])


def movement_words(runs: Sequence[dict[str, Any]]) -> list[str]:
    """Say for each number of hops how many runs still moved before their rate fell, and how many while it fell."""
    found, said = movement(runs), []
    for hops, rows in found.groupby("hops"):
        moved, fell = ((rows[name].abs() >= STILL).sum() for name in ("moved", "fell"))
        said.append(f"{counted(hops, 'hop')} {moved} and {fell}")
    every = len(found[RUN].drop_duplicates())
    line = f"runs of {every} that moved by {STILL:.0f} points or more in the last half of the whole rate, and while it "
    return [line + "fell: " + ", ".join(said) + "; more steps may change what these know"] if said else []


def differences(runs: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Compare every algorithm with Original on the same stories and seeds: one row a depth, algorithm and hops.

    Columns: layers, algorithm, hops, difference, low, high (points, 95 %), p, p_holm (over all rows), seeds. The
    interval covers seeds and stories; with one seed the stories alone.
    """
    rows = []
    for layers in dict.fromkeys(run["layers"] for run in runs):
        whole = [run for run in runs if run["layers"] == layers and not run.get("failed")]
        same = {(run["algorithm"], run["seed"]): by_story(run) for run in whole}
        for algorithm in dict.fromkeys(name for name, _ in same if name != "original"):
            seeds = [seed for name, seed in same if name == algorithm and ("original", seed) in same]
            for hops in same[algorithm, seeds[0]] if seeds else ():
                sides = ([same[name, seed][hops] for seed in seeds] for name in (algorithm, "original"))
                found = paired_difference(*map(np.stack, sides))
                rows.append((layers, algorithm, hops, found.value, found.low, found.high, found.p, len(seeds)))
    names = ["layers", "algorithm", "hops", "difference", "low", "high", "p", "seeds"]
    frame = pd.DataFrame(rows, columns=names)
    return frame.assign(p_holm=holm(frame["p"].tolist()))


def by_story(run: dict[str, Any]) -> dict[int, np.ndarray]:
    """Return what a run has right of each story of its exam, in percent, for each number of hops."""
    return {
        int(hops): 100 * np.reshape(answers, (-1, run["chains"])).mean(-1) for hops, answers in run["outcomes"].items()
    }


def points(found: Estimate) -> str:
    """A number of points with its interval, or "alike" where equal answers leave none."""
    value, low, high = (round(end, 1) + 0.0 for end in (found.value, found.low, found.high))  # no minus before a zero
    return f"{value:+.1f}" + (f" [{low:.1f}, {high:.1f}]" if low <= high else " (alike)")


def overview(runs: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Return a table to read, a row a depth and number of hops: percent right, the mean of the seeds and their range.

    Columns: Layers, Hops, each algorithm by its title (* where it differs from Original after Holm's correction), and
    High − Original in points with its 95 % interval over seeds and stories.
    """
    right, gaps = scores(runs), differences(runs).set_index(["layers", "hops", "algorithm"])
    rows = []
    for (layers, hops), found in right.groupby(["layers", "hops"]):
        row = {"Layers": str(layers), "Hops": str(hops)}
        for name, seeds in found.groupby("algorithm", sort=False)["accuracy"]:
            sure = (layers, hops, name) in gaps.index and gaps.loc[(layers, hops, name), "p_holm"] < 0.05
            row[algorithm_title(name)] = _spread(seeds) + ("*" if sure else "")
        if (layers, hops, "high") in gaps.index:
            gap = gaps.loc[(layers, hops, "high")]
            row["High − Original"] = points(Estimate(*gap[["difference", "low", "high", "seeds"]]))
        rows.append(row)
    return pd.DataFrame(rows).fillna("–")


def _spread(seeds: pd.Series) -> str:
    """The mean of some seeds and their ends: "67 (33 to 100)"; the mean alone where they are alike."""
    low, mean, high = (f"{value:.0f}" for value in (seeds.min(), seeds.mean(), seeds.max()))
    return mean if low == high else f"{mean} ({low} to {high})"


def words(scores: pd.DataFrame, differences: pd.DataFrame, chance: float) -> list[str]:
    """Say for each depth and number of hops who learned it, and which algorithm differs from Original."""
    said = [] if len(scores) else ["no run came to its exam, so there is no accuracy"]
    for (layers, hops), found in scores.groupby(["layers", "hops"]):
        means = found.groupby("algorithm", sort=False)["accuracy"].mean()
        learned = [name for name in means.index if means[name] >= LEARNED]
        line = f"{_depth(layers, hops)}: {means.min():.1f} to {means.max():.1f} % right, chance {chance:.1f} %; "
        line += f"{LEARNED:.0f} % or more, as a mean of seeds, for {_of_all(learned, len(means))}"
        here = differences[(differences["layers"] == layers) & (differences["hops"] == hops)]
        sure = here[here["p_holm"] < 0.05]
        named = [f"{algorithm_title(row.algorithm)} {row.difference:+.1f} points" for row in sure.itertuples()]
        tested = f"; unlike Original after Holm's correction: {', '.join(named) or 'none'}" if len(here) else ""
        said.append(line + tested)
    return said


def _of_all(names: Sequence[str], number: int) -> str:
    """Name some of so many algorithms: "none of 3 algorithms", "Original and High (2 of 3)", "all 3 algorithms"."""
    if len(names) in (0, number):
        return f"{'all' if names else 'none of'} {counted(number, 'algorithm')}"
    return f"{joined(list(map(algorithm_title, names)))} ({len(names)} of {number})"


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
            f"{algorithm_title(name)} at step {step.median():.0f} ({step.min():.0f} to {step.max():.0f})"
            if step.notna().all() else f"{algorithm_title(name)} in {step.count()} of {counted(len(step), 'run')}"
            for name, step in steps
        ]  # fmt: skip
        said.append(f"{_depth(layers, hops)}: {LEARNED:.0f} % right for the first time: {', '.join(ranges)}")
    return said


def failure_words(runs: Sequence[dict[str, Any]]) -> list[str]:
    """Say which runs failed and why; no accuracy counts them."""
    return [
        f"{counted(run['layers'], 'layer')}, {algorithm_title(run['algorithm'])}, seed {run['seed']}: failed, "
        f"{run['failed']['reason']}"
        for run in runs
        if run.get("failed")
    ]
