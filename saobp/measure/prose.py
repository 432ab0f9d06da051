"""Real English text that comes with the package, so that a model's attention can be measured
without any data set.
"""

from importlib.resources import files
from numbers import Integral

from saobp.equations.checks import quoted


def prose(paragraphs: int | None = None) -> list[str]:
    """Return the first paragraphs of the embedded prose, or all 300 of them (40 to 160 words each).

    Paragraphs of G. K. Chesterton's novel "The Man Who Was Thursday" (1908), in the public domain.
    Raises ValueError if `paragraphs` is no whole number between 1 and 300.
    Source: data/README.md names where the text was taken from.
    """
    texts = (
        files("saobp.measure")
        .joinpath("prose.txt")
        .read_text(encoding="utf-8")
        .rstrip()
        .split("\n\n")
    )
    if paragraphs is not None and not (
        isinstance(paragraphs, Integral) and 1 <= paragraphs <= len(texts)
    ):
        raise ValueError(
            f"paragraphs must be a whole number between 1 and {len(texts)}, got {quoted(paragraphs)}"
        )
    return texts[:paragraphs]
