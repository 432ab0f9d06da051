"""Decoders: held-out perplexity, what a later row leaks, and answers without fine-tuning."""

from math import log
from typing import Any

import numpy as np
import pandas as pd

from companion.paper import comparisons, numbers
from companion.records import tracked
from companion.setup import paths
from companion.setup.studies import ENCODERS, PUBLIC_ENCODER, load_study
from companion.statistics import Estimate, mean_interval, over_samples
from companion.statistics.seeds import metric, seed_gap


def run(algorithm: str) -> dict[str, Any]:
    """Return what one decoder's first run measured."""
    return tracked.metrics(ENCODERS, "decoder", algorithm=algorithm)[0]


def difference(name: str = "high", study: str = ENCODERS) -> Estimate:
    """Return an algorithm's log perplexity on held-out text minus Original's, in nats per token,
    seed by seed.
    """
    return seed_gap(
        tracked.select(study, "decoder"), metric("perplexity"), (name, "original"), log=True
    )


def public() -> pd.DataFrame:
    """Return what `saobp inspect` found of a public decoder's perplexity, a row per strength; rise:
    in percent.
    """
    found = pd.read_csv(paths.root() / "data" / "results" / "smollm2.csv", index_col="strength")
    rises = 100 * (found[["ratio", "ratio_low", "ratio_high"]] - 1)
    return found.assign(
        rise=[Estimate(*ends, row) for ends, row in zip(rises.to_numpy(), found["texts"])]
    )


def read(strength: float, task: str = "wikipedia") -> Estimate | None:
    """Return what the step changes in it by text: nats per token of Wikipedia, or points; None
    where it was not run.
    """
    runs = tracked.select(PUBLIC_ENCODER, "retrofit-untrained", model="smollm2", task=task)
    found = {run["parameters"]["strength"]: run["metrics"] for run in runs}
    if strength not in found:
        return None
    name, unit = ("losses", 1) if task == "wikipedia" else ("outcomes", 100)
    return over_samples(unit * (np.asarray(found[strength][name]) - found[0.0][name]))


def apart(task: str) -> tuple[int, int]:
    """Count the strengths whose interval of a benchmark excludes zero (`read`), and all that were
    asked it.
    """
    gaps = [gap for strength in public().index if strength and (gap := read(strength, task))]
    return sum(gap.low > 0 or gap.high < 0 for gap in gaps), len(gaps)


def printed() -> list[float]:
    """Return the fall of log perplexity that the paper prints for each size, in nats."""
    return comparisons.perplexities(numbers.load())["fall"].tolist()


def leak() -> Estimate:
    """Return what the form that reads later rows gains by reading them, in nats per token (95 %
    over sequences).
    """
    return mean_interval(run("high_all_rows")["leak"]["by_block"])


def even_guess() -> float:
    """Return the loss of giving every token of the vocabulary the same probability, in nats per
    token.
    """
    return log(load_study(ENCODERS).decoder.vocabulary)
