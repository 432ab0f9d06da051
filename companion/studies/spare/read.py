"""What the records of the plan's section `spare` say: every change against plain attention."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import nan
from typing import Literal

import numpy as np
from scipy import stats

from companion import records
from companion.records.schema import Record
from companion.statistics.intervals import LEVEL
from companion.statistics.paired import RESAMPLES
from companion.studies import plan
from companion.studies.spare.sections import MEAN, Spare

# as the table of results has them
Outcome = Literal["supported", "contradicted", "no effect", "open"]


@dataclass(frozen=True)
class Comparison:
    """One change against plain attention, with its 95 % interval and its outcome by the plan.

    `low_90` and `high_90` are the interval that the two one-sided tests read.
    """

    study: str
    model: str
    endpoint: str
    unit: str
    contrast: str
    estimate: float
    low: float
    high: float
    low_90: float
    high_90: float
    n: int
    of_what: str
    margin: float
    # "primary", "secondary" or "exploratory"
    planned: str
    # 1: more is better; -1: less is
    better: int

    @property
    def outcome(self) -> Outcome:
        """Return the outcome by the plan's rule: within the margin first, then the side of 0."""
        if -self.margin < self.low_90 and self.high_90 < self.margin:
            return "no effect"
        if self.low <= 0 <= self.high:
            return "open"
        return "supported" if self.estimate * self.better > 0 else "contradicted"


def comparisons(selected: Sequence[Record]) -> list[Comparison]:
    """Return every change of the study that its records hold, the primary ones first.

    Without records of an arm, its change is left out.
    """
    study = plan.section(plan.file(), "spare", Spare)
    every = [*_encoder(study, selected), *_decoder(study, selected)]
    return sorted(every, key=lambda each: each.planned != "primary")


def _encoder(study: Spare, selected: Sequence[Record]) -> Iterator[Comparison]:
    """Yield the changes of the mean over the sets and of each set."""
    for record in records.select(selected, "spare", model="minilm", task="intervals"):
        plain = records.select(selected, "spare", model="minilm", arm="original")[0]
        pairs = {name: each["pairs"] for name, each in plain["metrics"]["sets"].items()}
        pairs[MEAN] = sum(pairs.values())
        for change in record["metrics"]["changes"]:
            for name, values in change["sets"].items():
                contrast = _contrast(change["arm"], change["strength"])
                first = name == MEAN and contrast == study.primary.contrast
                extra = change["arm"] in study.encoder.exploratory
                yield Comparison(
                    study="spare",
                    model="minilm",
                    endpoint="mean of three sets" if name == MEAN else name,
                    unit=study.primary.unit,
                    contrast=contrast,
                    estimate=values["difference"],
                    low=values["interval"][0],
                    high=values["interval"][1],
                    low_90=values["interval_90"][0],
                    high_90=values["interval_90"][1],
                    n=pairs[name],
                    of_what="pairs",
                    margin=study.primary.margin,
                    planned="primary" if first else "exploratory" if extra else "secondary",
                    better=study.primary.direction,
                )


def _decoder(study: Spare, selected: Sequence[Record]) -> Iterator[Comparison]:
    """Yield the changes of the loss, by length of the blocks."""
    runs = records.select(selected, "spare", model="smollm2", task="loss")
    plain = [run for run in runs if run["parameters"]["arm"] == "original"]
    primary = study.primary_decoder
    for run in runs:
        if not plain or run is plain[0]:
            continue
        for length, blocks in run["metrics"]["blocks"].items():
            before = plain[0]["metrics"]["blocks"][length]["losses"]
            change = np.array(blocks["losses"]) - before
            ends = [_interval(change, blocks["sources"], level) for level in (LEVEL, 2 * LEVEL)]
            contrast = _contrast(run["parameters"]["arm"], run["parameters"]["strength"])
            first = int(length) == max(study.decoder.blocks) and contrast == primary.contrast
            yield Comparison(
                study="spare",
                model="smollm2",
                endpoint=f"loss on blocks of {length} tokens",
                unit=primary.unit,
                contrast=contrast,
                estimate=float(change.mean()),
                low=ends[0][0],
                high=ends[0][1],
                low_90=ends[1][0],
                high_90=ends[1][1],
                n=len(change),
                of_what="blocks",
                margin=primary.margin,
                planned="primary" if first else "secondary",
                better=primary.direction,
            )


def _contrast(arm: str, strength: float) -> str:
    return f"{arm} at {strength:g} - original"


def _interval(change: np.ndarray, sources: Sequence[str], level: float) -> tuple[float, float]:
    """Return the percentile interval of the mean change, blocks drawn within each source."""
    parts = [change[np.array(sources) == name] for name in dict.fromkeys(sources)]
    if min(map(len, parts)) < 2:
        return nan, nan
    bootstrap = stats.bootstrap(
        parts,
        _mean_of_all,
        n_resamples=RESAMPLES,
        confidence_level=1 - level,
        method="percentile",
        rng=np.random.default_rng(0),
    )
    return tuple(map(float, bootstrap.confidence_interval))


def _mean_of_all(*parts: np.ndarray, axis: int) -> np.ndarray:
    """Return the mean over the draws of all sources together."""
    total = sum(part.sum(axis) for part in parts)
    return total / sum(part.shape[axis] for part in parts)
