"""The story world: a corpus and every benchmark of the study, from a seed, with a known number of
hops.
"""

from companion.storyworld.writer import rows, write

__all__ = ["rows", "write"]
