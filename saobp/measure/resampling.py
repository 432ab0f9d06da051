"""Means with bootstrap intervals over a stream of samples, in memory that does not depend on their number."""

import numpy as np
from jaxtyping import Float

Values = Float[np.ndarray, "*shape"]
Draws = Float[np.ndarray, "draws *shape"]


class StreamedBootstrap:
    """Mean and percentile intervals of arrays that come one sample at a time.

    Each draw weighs each sample by a Poisson(1) number, as drawing with replacement does in the limit of many samples,
    so that only one weighted sum per draw is kept.
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

    def draws_of(self, statistic=lambda values: values) -> Draws:
        """Return a linear statistic of the mean, a function of the array's shape, in every draw that drew a sample."""
        drawn = self.weights > 0
        means = self.sums[drawn] / self.weights[drawn, None]
        return np.stack([statistic(one.reshape(np.shape(self.total))) for one in means])

    def interval(self, statistic=lambda values: values, level: float = 0.95) -> tuple[Values, Values]:
        """Return the percentile interval of a statistic of the mean; NaN with fewer than two samples."""
        tail = (1 - level) / 2
        low, high = np.quantile(self.draws_of(statistic), [tail, 1 - tail], axis=0)
        return (low, high) if self.samples > 1 else (np.full_like(low, np.nan), np.full_like(high, np.nan))
