"""Intervals, paired tests and correlations that say what a score can and cannot show."""

from saobp.study.statistics.correlations import (
    Correlation,
    across_seeds,
    block_bootstrap,
    correlation,
    effective_sample_size,
)
from saobp.study.statistics.errors import Error
from saobp.study.statistics.intervals import (
    Estimate,
    binomial_error,
    correlation_error,
    mean_interval,
    over_samples,
)
from saobp.study.statistics.paired import Difference, holm, item_errors, paired_bootstrap, paired_correlations

__all__ = [
    "Correlation",
    "Difference",
    "Error",
    "Estimate",
    "across_seeds",
    "binomial_error",
    "block_bootstrap",
    "correlation",
    "correlation_error",
    "effective_sample_size",
    "holm",
    "item_errors",
    "mean_interval",
    "over_samples",
    "paired_bootstrap",
    "paired_correlations",
]
