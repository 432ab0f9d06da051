"""The tracked records that the texts are about, each study read once."""

from functools import cache
from typing import Any

import pandas as pd

from companion import records
from companion.setup import paths

RERUN = ("study", "record", "algorithm", "layers", "strength", "seed")


@cache
def study(name: str) -> list[dict[str, Any]]:
    """Return the tracked records of a study; none where it was not run."""
    return records.load(paths.results(name))


def select(name: str, stage: str, **parameters: Any) -> list[dict[str, Any]]:
    """Return a study's records of a stage whose parameters have the given values."""
    return records.select(study(name), stage, **parameters)


def metrics(name: str, stage: str, **parameters: Any) -> list[dict[str, Any]]:
    """Return what these records measured."""
    return [record["metrics"] for record in select(name, stage, **parameters)]


@cache
def repeats() -> pd.DataFrame:
    """Return runs that were run twice from one seed: of both the held-out loss (nats), of
    `cost` the ratio, of `learning` the steps to two hops.

    `run` names it for readers; `RERUN`, texts that are empty where they do not apply, find it in
    its record.
    """
    keys = dict.fromkeys(RERUN, str)
    return pd.read_csv(
        paths.root() / "data" / "results" / "repeats.csv", dtype=keys, keep_default_na=False
    )
