"""The names of `saobp.measure.diagnostics`, importable from their former place."""

from saobp.measure.diagnostics import (
    attention_entropy,
    column_mass_maximum,
    cross_layer_gtd,
    effective_rank,
    gtd,
    hoyer,
    idempotence_gap,
    indirect_attention,
    indirect_entropy,
    measure,
    row_entropy,
    sparsity,
)

__all__ = [
    "attention_entropy",
    "column_mass_maximum",
    "cross_layer_gtd",
    "effective_rank",
    "gtd",
    "hoyer",
    "idempotence_gap",
    "indirect_attention",
    "indirect_entropy",
    "measure",
    "row_entropy",
    "sparsity",
]
