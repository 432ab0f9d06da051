"""Self-attention refinement by one step of belief propagation, for any transformers model.

refine             refine attention probabilities (Eq. 7-11, 15, 16)
saobp_attention    the same, fused from query, key and value
apply              put it into a transformers model
register_factor    make a function of your own a factor
inspect            measure a model's attention before and after the refinement
gtd, indirect_entropy, attention_entropy, sparsity
                   what an attention matrix does (Eq. 2, 12-14, App. E)
"""

from saobp.equations.factors import register_factor
from saobp.equations.refine import FACTORS, refine
from saobp.fused.attention import saobp_attention
from saobp.measure.diagnostics import attention_entropy, gtd, indirect_entropy, sparsity
from saobp.measure.inspect import inspect
from saobp.models.apply import apply

__all__ = [
    "FACTORS",
    "apply",
    "attention_entropy",
    "gtd",
    "indirect_entropy",
    "inspect",
    "refine",
    "register_factor",
    "saobp_attention",
    "sparsity",
]
