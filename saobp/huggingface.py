"""The names of `saobp.models.apply`, importable from their former place."""

from saobp.models.apply import Options, apply, raw_attentions

__all__ = [
    "Options",
    "apply",
    "raw_attentions",
]
