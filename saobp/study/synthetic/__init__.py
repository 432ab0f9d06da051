"""The story world: a corpus and every benchmark of the study, from a seed, with a known number of hops."""

from saobp.study.synthetic.controlled import multihop
from saobp.study.synthetic.writer import rows, write

__all__ = ["multihop", "rows", "write"]
