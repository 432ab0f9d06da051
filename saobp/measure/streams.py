"""Sums over a stream of samples, in memory that does not depend on their number: of a capture, and
with a bootstrap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float

POSITIONS = "positional_entropy"

Values = Float[np.ndarray, "*shape"]


class StreamedBootstrap:
    """Mean and percentile intervals of arrays that come one sample at a time.

    Each draw weighs each sample by a Poisson(1) number, as drawing with replacement does in the
    limit of many samples, so that only one weighted sum per draw is kept.
    Source: Chamandy et al. 2012, Estimating uncertainty for massive data streams.
    """

    def __init__(self, draws: int = 400, seed: int = 0):
        self.random, self.draws, self.samples = np.random.default_rng(seed), draws, 0
        self.total: Values | float = 0.0
        self.weights, self.sums = np.zeros(draws), np.zeros((draws, 1))

    def add(self, values: Values) -> None:
        """Take one sample; every sample has the same shape."""
        values = np.asarray(values, float)
        if not self.samples:
            self.sums = np.zeros((self.draws, values.size))
        drawn = self.random.poisson(1.0, self.draws)
        self.total, self.samples = self.total + values, self.samples + 1
        self.weights += drawn
        self.sums[drawn > 0] += drawn[drawn > 0, None] * values.reshape(1, -1)

    def mean(self) -> Values:
        """Return the mean of the samples."""
        return np.asarray(self.total / self.samples)

    def interval(self, statistic=lambda values: values) -> tuple[Values, Values]:
        """Return the 95 % percentile interval of a statistic of the mean; NaN with fewer than two
        samples.
        """
        drawn = self.weights > 0
        means = self.sums[drawn] / self.weights[drawn, None]
        draws = [statistic(mean.reshape(np.shape(self.total))) for mean in means]
        low, high = np.quantile(draws, [0.025, 0.975], axis=0)
        return (
            (low, high)
            if self.samples > 1
            else (np.full_like(low, np.nan), np.full_like(high, np.nan))
        )


@dataclass
class Tally:
    """Running sums and numbers of defined values in them: (matrix, layer, head) unless named
    otherwise.
    """

    samples: int = 0
    tokens: int = 0
    sums: dict[str, np.ndarray] = field(default_factory=dict)
    counts: dict[str, np.ndarray] = field(default_factory=dict)

    def add(self, name: str, values: np.ndarray) -> None:
        """Sum values (matrix, sample, ...) over the samples where they are defined."""
        self.sums[name] = np.nansum(values, axis=1)
        self.counts[name] = np.isfinite(values).sum(axis=1)

    def merge(self, addition: Tally) -> None:
        """Add another tally; positions may be longer in one of the two."""
        self.samples += addition.samples
        self.tokens += addition.tokens
        for mine, theirs in ((self.sums, addition.sums), (self.counts, addition.counts)):
            for name, value in theirs.items():
                total = mine.get(name, np.zeros_like(value))
                mine[name] = np.zeros(np.maximum(total.shape, value.shape), dtype=total.dtype)
                for array in (total, value):
                    mine[name][..., : array.shape[-1]] += array

    def to_json(self) -> dict[str, Any]:
        """Write the tally as plain lists and numbers."""
        arrays = {
            key: {k: v.tolist() for k, v in getattr(self, key).items()}
            for key in ("sums", "counts")
        }
        return {"samples": self.samples, "tokens": self.tokens, **arrays}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Tally:
        """Read what `to_json` wrote."""
        arrays = [{k: np.array(v) for k, v in record[key].items()} for key in ("sums", "counts")]
        return cls(record["samples"], record["tokens"], *arrays)
