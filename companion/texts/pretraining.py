"""Encoders trained from scratch: when a run starts to learn, where it ends, and how far a re-run
lies from it.
"""

from functools import cache
from math import log

import numpy as np
import pandas as pd

from companion.beyond import strengths
from companion.records import tracked
from companion.setup.studies import ENCODERS, EXAM
from companion.statistics import Estimate, geometric_interval, mean_interval, trajectories
from companion.statistics.intervals import LEVEL
from companion.statistics.seeds import branch_gaps, metric, seed_gap, seed_gaps


@cache
def encoders(study: str = ENCODERS, of: str = "training") -> pd.DataFrame:
    """Return one row a run: algorithm, seed, start (step; NaN: never) and end (held-out loss,
    nats).
    """
    return trajectories.starts(tracked.study(study), of)


def start_and_end(study: str = ENCODERS) -> tuple[float, int]:
    """Return the correlation of start and end over runs of every algorithm but ElemMul, which
    hardly starts; and n.
    """
    found = encoders(study).query("algorithm != 'elemmul'").dropna()
    return float(np.corrcoef(found["start"], found["end"])[0, 1]), len(found)


def gap(name: str = "high", study: str = ENCODERS, *on: str) -> Estimate:
    """Return an algorithm's last held-out loss minus Original's, in nats, over seeds; `on`
    "wikitext" in its place.
    """
    return seed_gap(
        tracked.select(study, "pretrain"), metric(*on, "perplexity"), (name, "original"), log=True
    )


def rerun_gap(name: str = "high", study: str = ENCODERS) -> Estimate:
    """Return `gap` with the second loss of each run that was re-run (in `narrow` on the processor
    of the others).
    """
    again = (
        tracked.repeats().query("study == @study").drop_duplicates("run").set_index("run")["second"]
    )
    read = lambda run: again.get(run["name"], log(run["metrics"]["perplexity"]))  # noqa: E731
    return seed_gap(tracked.select(study, "pretrain"), read, (name, "original"))


def gaps() -> dict[str, Estimate]:
    """Return `gap` of every algorithm but Original."""
    return {
        name: gap(name) for name in dict.fromkeys(encoders()["algorithm"]) if name != "original"
    }


def by_seed(name: str) -> dict[int, float]:
    """Return an algorithm's held-out loss minus Original's of each seed, in nats."""
    return seed_gaps(
        tracked.select(ENCODERS, "pretrain"), metric("perplexity"), (name, "original"), log=True
    )


def branches(name: str = "high", study: str = "branched") -> Estimate:
    """Return the held-out loss of an algorithm's branches minus that of Original's of the same
    trunks, in nats.
    """
    return mean_interval(
        [*branch_gaps(tracked.select(study, "branched"), (name, "original")).values()]
    )


def later_start(study: str, of: str = "training") -> Estimate:
    """Return by which factor High starts to learn later than Original, by a loss (`starts`), over
    seeds of both.
    """
    starts = encoders(study, of).pivot(index="seed", columns="algorithm", values="start")
    return geometric_interval((starts["high"] / starts["original"]).dropna())


def grown() -> pd.DataFrame:
    """Return a row per size trained on stories: loss with the refinement minus loss without
    (`strengths.gaps`).
    """
    return strengths.gaps(strengths.by_size(*tracked.select(EXAM, "beyond")))


def grown_pairs() -> pd.DataFrame:
    """Return the pairs of `grown`'s runs, one per size and seed: "difference" in loss (nats),
    "started", "lower".

    A pair that has not started to learn on either side counts as no difference.
    """
    pairs = strengths.pairs(strengths.by_size(*tracked.select(EXAM, "beyond")))
    started, gap = (
        pairs[["plain", "refined"]].min(axis=1) < trajectories.STARTED,
        pairs["refined"] - pairs["plain"],
    )
    return pairs.assign(difference=gap, started=started, lower=started & (gap < 0))


def swept(study: str) -> pd.DataFrame:
    """Return the held-out loss (nats, mean over seeds) at every fixed strength, and how many seeds
    it has.
    """
    frame = strengths.sweep(tracked.metrics(study, "beyond")[0]["strengths"])
    return (
        frame[~frame["strength"].isin(strengths.TAUGHT)]
        .groupby("strength")["loss"]
        .agg(["mean", "count"])
    )


def unlike_plain(study: str) -> tuple[int, int, int]:
    """Count the settings of λ whose loss differs from that at λ = 0 after Holm's correction; the
    fixed; the learned.
    """
    found = strengths.against_plain(
        strengths.sweep(tracked.metrics(study, "beyond")[0]["strengths"])
    )
    learned = int(found["strength"].isin(strengths.TAUGHT).sum())
    return int((found["p_holm"] < LEVEL).sum()), len(found) - learned, learned


def reruns(study: str = ENCODERS) -> list[float]:
    """Return the differences between two runs of one seed in a study, in nats, the largest last."""
    own = tracked.repeats().query("study == @study")
    return sorted((own["second"] - own["first"]).abs())
