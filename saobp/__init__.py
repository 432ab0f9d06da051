"""Self-attention refinement by one step of belief propagation, for any transformers model.

refine             refine attention probabilities (Eq. 7-11, 15, 16)
saobp_attention    the same, fused from query, key and value
apply              put it into a transformers model
register_factor    make a function of your own a factor
inspect            measure a model's attention before and after the refinement
attention_statistics
                   column sums, entropy, logsumexp, GTD from query and key, without the matrix
AttentionCallback  log them while transformers' Trainer trains
gtd, indirect_entropy, attention_entropy, sparsity
                   what an attention matrix does (Eq. 2, 12-14, App. E)

The import loads neither torch nor transformers. It registers three things: `from_pretrained` gives
a model whose config has the field `saobp` its refinement back, `attn_implementation="saobp"` refines
any model, and a former module's name is answered by its new one.
"""

import sys
from importlib import import_module
from importlib.abc import MetaPathFinder
from typing import Any

from saobp.models.restore import watch

_HOMES = {
    "AttentionCallback": "saobp.measure.callback",
    "FACTORS": "saobp.equations.refine",
    "apply": "saobp.models.apply",
    "attention_entropy": "saobp.measure.gtd_and_entropy",
    "attention_statistics": "saobp.measure.statistics",
    "gtd": "saobp.measure.gtd_and_entropy",
    "indirect_entropy": "saobp.measure.gtd_and_entropy",
    "inspect": "saobp.measure.inspect",
    "refine": "saobp.equations.refine",
    "register_factor": "saobp.equations.factors",
    "saobp_attention": "saobp.fused.attention",
    "sparsity": "saobp.measure.gtd_and_entropy",
}
"""Where the public names are; torch is imported with the first of them that is used."""

_MOVED = {
    "saobp.capture": "saobp.measure.capture",
    "saobp.diagnostics": "saobp.measure.gtd_and_entropy",
    "saobp.graph": "saobp.measure.graph",
    "saobp.huggingface": "saobp.models.apply",
    "saobp.storyworld": "companion.storyworld",
    "saobp.study": "companion",
}
"""Former modules, and where their names are now."""

__all__ = [*_HOMES]


class _Moved(MetaPathFinder):
    """Tell who imports a former module where its names are; asked last, when no module was
    found.
    """

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        if name in _MOVED:
            raise ModuleNotFoundError(f"{name} has moved: import {_MOVED[name]}", name=name)


sys.meta_path.append(_Moved())
# a refined checkpoint comes back refined once saobp is imported
watch()


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'saobp' has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return __all__
