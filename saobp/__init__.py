"""Self-attention refinement by one step of belief propagation, for any transformers model.

refine             refine attention probabilities (Eq. 7-11, 15, 16)
saobp_attention    the same, fused from query, key and value
apply              put it into a transformers model
register_factor    make a function of your own a factor
inspect            measure a model's attention before and after the refinement
gtd, indirect_entropy, attention_entropy, sparsity
                   what an attention matrix does (Eq. 2, 12-14, App. E)
"""

from importlib import import_module
from typing import Any

from saobp.models.restore import watch

_HOMES = {
    "FACTORS": "saobp.equations.refine",
    "apply": "saobp.models.apply",
    "attention_entropy": "saobp.measure.gtd_and_entropy",
    "gtd": "saobp.measure.gtd_and_entropy",
    "indirect_entropy": "saobp.measure.gtd_and_entropy",
    "inspect": "saobp.measure.inspect",
    "refine": "saobp.equations.refine",
    "register_factor": "saobp.equations.factors",
    "saobp_attention": "saobp.fused.attention",
    "sparsity": "saobp.measure.gtd_and_entropy",
}
"""Where the public names are; torch is imported with the first of them that is used."""

__all__ = [*_HOMES]

watch()  # a refined checkpoint comes back refined once saobp is imported


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'saobp' has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return __all__
