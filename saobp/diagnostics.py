"""The names of `saobp.measure.gtd_and_entropy`, importable from their former place."""

from saobp.measure.gtd_and_entropy import (
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
