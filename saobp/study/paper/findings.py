"""Print sentences at a page's width."""

from textwrap import fill

WIDTH = 100  # characters of a printed line, which a page holds


def say(*sentences: str) -> None:
    """Print sentences, each on a line of its own that is broken where a page ends."""
    print(*(fill(sentence, WIDTH) for sentence in sentences), sep="\n")
