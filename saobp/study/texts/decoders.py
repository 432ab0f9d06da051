"""Decoders: held-out perplexity, what a later row leaks, and answers without fine-tuning."""

from math import log
from typing import Any

import pandas as pd

from saobp.study.paper import comparisons, numbers
from saobp.study.setup import paths, tracked
from saobp.study.setup.studies import load_study
from saobp.study.statistics import Estimate, mean_interval
from saobp.study.statistics.seeds import metric, seed_gaps
from saobp.study.texts.attention import STUDY


def run(algorithm: str) -> dict[str, Any]:
    """Return what one decoder's first run measured."""
    return tracked.metrics(STUDY, "decoder", algorithm=algorithm)[0]


def difference(name: str = "high", against: str = "original", study: str = STUDY) -> Estimate:
    """Return an algorithm's log perplexity on held-out text minus another's, in nats per token, seed by seed."""
    gaps = seed_gaps(tracked.select(study, "decoder"), metric("perplexity"), (name, against), log=True)
    return mean_interval([*gaps.values()])


def public() -> pd.DataFrame:
    """Return what `saobp inspect` found of a public decoder's perplexity, a row per strength (`perplexities`)."""
    return pd.read_csv(paths.root() / "data" / "results" / "smollm2.csv", index_col="strength")


def public_rise(strength: float) -> Estimate:
    """Return by how many percent a public decoder's perplexity rises at a strength (95 % over texts)."""
    found = public().loc[strength]
    rise, low, high = (100 * (found[name] - 1) for name in ("ratio", "ratio_low", "ratio_high"))
    return Estimate(rise, low, high, int(found["texts"]))


def printed() -> list[float]:
    """Return the fall of log perplexity that the paper prints for each size, in nats."""
    return comparisons.perplexities(numbers.load())["fall"].tolist()


def leak() -> Estimate:
    """Return what the form that reads later rows gains by reading them, in nats per token (95 % over sequences)."""
    return mean_interval(run("high_all_rows")["leak"]["by_block"])


def perplexity(algorithm: str) -> Estimate:
    """Return a decoder's held-out perplexity (95 % over sequences)."""
    found = run(algorithm)
    return Estimate(found["perplexity"], *found["perplexity_interval"], 1, found["sequences"])


def leaking() -> tuple[int, int]:
    """Count the positions at which the form that reads later rows gains by them, and all."""
    found = run("high_all_rows")["leak"]["by_position"]
    return sum(gap > 0 for gap in found), len(found)


def prefix_loss(algorithm: str) -> float:
    """Return a decoder's loss when each token is predicted from its prefix alone, in nats per token."""
    return run(algorithm)["leak"]["prefixes"]


def even_guess() -> float:
    """Return the loss of giving every token of the vocabulary the same probability, in nats per token."""
    return log(load_study(STUDY).decoder.vocabulary)
