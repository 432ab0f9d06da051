"""Intervals and paired tests that say what a score can and cannot show."""

from saobp.study.statistics.intervals import (
    Error,
    Estimate,
    geometric_interval,
    mean_interval,
    median_interval,
    on_scale,
    over_samples,
)
from saobp.study.statistics.paired import holm, item_errors, paired_difference
from saobp.study.statistics.seeds import borrow, level_at, seed_variance, sign_flip_interval

__all__ = [
    "Error", "Estimate", "borrow", "geometric_interval", "holm", "item_errors", "level_at", "mean_interval",
    "median_interval", "on_scale", "over_samples", "paired_difference", "seed_variance", "sign_flip_interval",
]  # fmt: skip
