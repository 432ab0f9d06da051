"""The names of `saobp.measure.capture`, importable from their former place."""

from saobp.measure.capture import INPUTS, PIXELS, capture

__all__ = [
    "INPUTS",
    "PIXELS",
    "capture",
]
