"""Sizes of the models (Table 4), scaled-down ones among them, and which algorithms have a strength;
no model code.
"""

from dataclasses import dataclass

# their attention is not refined; every other algorithm is a factor
PLAIN = ("original", "entropy_reg", "eigen_reg")

# Eq. 15 and the Sinkhorn step have no λ
WITHOUT_STRENGTH = (*PLAIN, "elemmul", "sinkhorn")

# a decoder in which later rows send messages too: what the paper's may have done
LEAKY = "high_all_rows"


@dataclass(frozen=True)
class Size:
    """One row of Table 4, or a scaled-down form of it."""

    layers: int
    hidden: int
    heads: int
    feedforward: int
    # λ of Sec. 6, by the size in the paper
    strength: float
    scaled_from: str | None = None


SIZES = {
    "mini": Size(4, 256, 4, 1024, 0.2),
    "small": Size(4, 512, 8, 2048, 0.08),
    "medium": Size(8, 512, 8, 2048, 0.05),
    # half as wide
    "mini-narrow": Size(4, 128, 4, 512, 0.2, scaled_from="mini"),
    # a quarter as wide, as the next two
    "mini-quarter": Size(4, 64, 4, 256, 0.2, scaled_from="mini"),
    "small-quarter": Size(4, 128, 8, 512, 0.08, scaled_from="small"),
    "medium-quarter": Size(8, 128, 8, 512, 0.05, scaled_from="medium"),
    # public and trained (saobp.models.public); 0.2 × 11.17 M / 22.7 M
    "minilm": Size(6, 384, 12, 1536, 0.1),
}


def strength_of(model: str, strengths: dict[str, float] | None = None) -> float:
    """Return λ for a model: what a study says, else Sec. 6's value for its size."""
    return (strengths or {}).get(model, SIZES[model].strength)


def strength_used(
    model: str, algorithm: str, strengths: dict[str, float] | None = None
) -> float | None:
    """Return λ for a model, or None for an algorithm that has none."""
    return None if algorithm in WITHOUT_STRENGTH else strength_of(model, strengths)


def body_parameters(model: str, vocabulary: int) -> int:
    """Count a BERT's parameters as Table 4 does: with the pooler, without the masked-LM head."""
    size = SIZES[model]
    hidden, norm = size.hidden, 2 * size.hidden
    embeddings = (vocabulary + 512 + 2) * hidden + norm
    attention = 4 * (hidden + 1) * hidden + norm
    feedforward = (hidden + 1) * size.feedforward + (size.feedforward + 1) * hidden + norm
    return embeddings + size.layers * (attention + feedforward) + (hidden + 1) * hidden
