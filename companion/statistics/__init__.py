"""Intervals and paired tests that say what a score can and cannot show."""

from companion.statistics.intervals import (
    Error,
    Estimate,
    geometric_interval,
    mean_interval,
    median_interval,
    on_scale,
    over_samples,
)
from companion.statistics.paired import holm, item_errors, paired_difference
from companion.statistics.seeds import level_at

__all__ = [
    "Error",
    "Estimate",
    "geometric_interval",
    "holm",
    "item_errors",
    "level_at",
    "mean_interval",
    "median_interval",
    "on_scale",
    "over_samples",
    "paired_difference",
]
