"""Encoders trained from scratch: when a run starts to learn, where it ends, and how far a re-run lies from it."""

from functools import cache
from math import log
from typing import Any

import numpy as np
import pandas as pd

from saobp.study.beyond import strengths
from saobp.study.setup import paths
from saobp.study.setup.sizes import SIZES
from saobp.study.statistics import Estimate, mean_interval
from saobp.study.tables import losses
from saobp.study.texts import tracked
from saobp.study.texts.attention import STUDY

STARTED = 5.0  # nats: a run has started to learn at the first logged step with a training loss below it


@cache
def encoders(study: str = STUDY) -> pd.DataFrame:
    """Return one row a run: algorithm, seed, start (step; NaN: never) and end (held-out loss, nats)."""
    rows = []
    for run in tracked.select(study, "pretrain"):
        given, log_ = run["parameters"], pd.DataFrame(run["metrics"]["training"])
        start = log_.loc[log_["loss"] < STARTED, "step"].min()
        rows.append((given["algorithm"], given["seed"], start, log(run["metrics"]["perplexity"])))
    return pd.DataFrame(rows, columns=["algorithm", "seed", "start", "end"])


def start_and_end() -> tuple[float, int]:
    """Return the correlation of start and end over runs of every algorithm but ElemMul, which hardly starts; and n."""
    found = encoders().query("algorithm != 'elemmul'").dropna()
    return float(np.corrcoef(found["start"], found["end"])[0, 1]), len(found)


def gap(name: str = "high", study: str = STUDY) -> Estimate:
    """Return an algorithm's held-out loss minus Original's at the end, in nats, seed by seed."""
    row = losses.gaps(tracked.study(study)).set_index("algorithm").loc[name]
    return Estimate(row["difference"], row["low"], row["high"], int(row["seeds"]))


def gaps(study: str = STUDY) -> dict[str, Estimate]:
    """Return `gap` of every algorithm but Original."""
    return {name: gap(name, study) for name in dict.fromkeys(encoders(study)["algorithm"]) if name != "original"}


def by_seed(name: str) -> dict[int, float]:
    """Return an algorithm's held-out loss minus Original's of each seed, in nats."""
    ends = encoders().pivot(index="seed", columns="algorithm", values="end")
    return (ends[name] - ends["original"]).to_dict()


def _grown() -> list[dict[str, Any]]:
    """The runs by size on stories, those of the study's own model first."""
    (record,) = tracked.select("stories", "beyond")
    return strengths.by_size(record)


def grown() -> pd.DataFrame:
    """Return a row a size trained on stories: its loss with the refinement minus that without (`strengths.gaps`)."""
    return strengths.gaps(_grown())


def largest() -> str:
    """Return the largest model trained on stories."""
    return max({run["model"] for run in _grown()}, key=lambda name: (SIZES[name].layers, SIZES[name].hidden))


def grown_pairs() -> Estimate:
    """Return the mean over all pairs of `grown`'s runs, one a size and seed, of the difference in loss (nats)."""
    return mean_interval(_pairs())


def grown_below() -> tuple[int, int]:
    """Count the pairs of `grown_pairs` in which the refinement ends lower, and all."""
    return sum(gap < 0 for gap in _pairs()), len(_pairs())


def _pairs() -> list[float]:
    return [gap for *_, losses in strengths.paired(_grown()) for gap in losses.iloc[:, 1] - losses.iloc[:, 0]]


def swept(study: str) -> pd.DataFrame:
    """Return the held-out loss (nats, mean over seeds) at every fixed strength, and how many seeds it has."""
    record = tracked.select(study, "beyond")[0]
    frame = strengths.sweep(record["metrics"]["strengths"])
    frame = frame[frame["strength"].map(lambda strength: not isinstance(strength, str))]
    return frame.groupby("strength")["loss"].agg(["mean", "count"])


def not_started(study: str) -> dict[float, float]:
    """Return the held-out loss (nats) at the strengths above 0 whose runs end above `STARTED`."""
    means = swept(study)["mean"]
    return means[(means.index > 0) & (means > STARTED)].to_dict()


def unlike_plain(study: str) -> tuple[int, int, int]:
    """Count the settings of λ whose loss differs from that at λ = 0 after Holm's correction; the fixed; the learned."""
    record = tracked.select(study, "beyond")[0]
    found = strengths.against_plain(strengths.sweep(record["metrics"]["strengths"]))
    learned = found["strength"].map(lambda strength: isinstance(strength, str)).sum()
    return int((found["p_holm"] < losses.LEVEL).sum()), int(len(found) - learned), int(learned)


@cache
def repeats() -> pd.DataFrame:
    """Return runs that were run twice from one seed: held-out loss (nats) of the first run and of the second."""
    return pd.read_csv(paths.root() / "data" / "results" / "repeats.csv")


def apart() -> float:
    """Return the largest difference between two runs of one seed, in nats."""
    return float((repeats()["second"] - repeats()["first"]).abs().max())


def reruns(study: str = STUDY) -> list[float]:
    """Return the differences between two runs of one seed in a study, in nats, the largest last."""
    own = repeats().query("study == @study")
    return sorted((own["second"] - own["first"]).abs())
