"""What an inspection measures, in the field's words: titles, meanings, ranges and sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from saobp.equations.checks import quoted

if TYPE_CHECKING:
    from torch import nn

FACTORS = ("high", "low", "elemmul", "sinkhorn")
"""Factors that an inspection shows."""

LONGEST_MATRIX = 1024
"""Tokens of the longest text of which a layer's L x L matrices are made."""


@dataclass(frozen=True)
class Measure:
    """A number of each head, or of each layer."""

    title: str
    unit: str
    # in one line
    meaning: str
    # of the values, in words
    range: str
    source: str
    # needs the L x L matrix
    matrix: bool = False
    # the step does not change it
    fixed: bool = False


PAPER = "Lee et al. 2025"
MEASURES = {
    "column_mass_maximum": Measure(
        "largest column sum",
        "queries",
        "attention that the most attended token receives; a sink where it is large",
        "1 (all tokens receive alike) to L (one token takes all)",
        "Zhang et al. 2023 (H2O), Sec. 4",
    ),
    "sink_rate": Measure(
        "sink rate",
        "",
        "share of keys that receive over 0.3 of the attention of the queries that see them",
        "0 (no sink) to 1",
        "Gu et al. 2025, Sec. 3",
    ),
    "entropy": Measure(
        "row entropy",
        "nats",
        "how many keys a query attends to, as the exponential of this",
        "0 (one key) to log L (all keys alike)",
        f"{PAPER}, Eq. 2; Zhai et al. 2023",
    ),
    "effective_rank": Measure(
        "effective rank",
        "",
        "how many different ways to attend the queries of a head have",
        "1 (all queries attend alike) to L",
        "Roy and Vetterli 2007",
        matrix=True,
    ),
    "rank_one_distance": Measure(
        "distance to rank one",
        "",
        "how far the rows are from being equal, over the matrix' norm",
        "0 (all queries attend alike) to 1",
        "Dong et al. 2021, Sec. 2",
    ),
    "sink_value_norm": Measure(
        "value norm of the sink",
        "",
        "norm of the value vector of the most attended token over the median norm",
        "0 (attending to it does nothing) upwards, 1 is ordinary",
        "Kobayashi et al. 2020; Guo et al. 2024",
    ),
    "massive_activation": Measure(
        "massive activations",
        "",
        "largest absolute hidden value after the layer over the median",
        "1 upwards; massive from about 1,000, if the value is over 100, too",
        "Sun et al. 2024, Sec. 2",
        fixed=True,
    ),
    "max_logit": Measure(
        "largest logit",
        "nats",
        "largest scaled score before the softmax",
        "any number; extremely large where a training run of 8 B parameters diverged",
        "Dehghani et al. 2023, Sec. 2",
        fixed=True,
    ),
    "gtd": Measure(
        "GTD",
        "",
        "share of paths of two to four hops in the norm of all paths",
        "0 to 1; uniform attention, the identity and a full sink all give 0.86",
        f"{PAPER}, Eq. 13",
    ),
    "indirect_entropy": Measure(
        "indirect entropy",
        "nats",
        "how widely paths of two to four hops end",
        "0 (one key) to log L",
        f"{PAPER}, Eq. 14",
        matrix=True,
    ),
    "sparsity": Measure(
        "sparsity",
        "",
        "share of entries below 1/L",
        "0 (uniform) to 1 - 1/L (one key per query)",
        f"{PAPER}, App. E",
    ),
    "moved": Measure(
        "total variation",
        "",
        "share of a row that the step moves to other keys",
        "0 (nothing changes) to 1",
        "half the sum of absolute differences",
    ),
}
"""By name, in the order of the page."""

OF_LANGUAGE_MODELS = "perplexity"
"""What may be asked for beside them, of language models."""


def chosen(measures: Sequence[str] | None, tokens: int) -> tuple[str, ...]:
    """Return the measures asked for, in order; None is all that texts of so many tokens can have.

    Raises ValueError in one line for a name that is none, or one that needs a matrix too large.
    """
    names = (*MEASURES, OF_LANGUAGE_MODELS)
    large = [name for name in names if name == OF_LANGUAGE_MODELS or MEASURES[name].matrix]
    large = large if tokens > LONGEST_MATRIX else []
    if measures is None:
        return tuple(name for name in names if name not in large)
    measures = [measures] if isinstance(measures, str) else [*measures]
    for name in measures:
        if name not in names:
            raise ValueError(f"measures must be of {', '.join(names)}; got {quoted(name)}")
        if name in large:
            raise ValueError(
                f"measures: {name} is taken of at most {LONGEST_MATRIX:,} tokens; "
                f"leave it out or set tokens to {LONGEST_MATRIX}"
            )
    if not set(measures) & MEASURES.keys():
        raise ValueError("measures must hold one besides perplexity; None takes all")
    return tuple(name for name in names if name in measures)


MINI = 0.2, 11.17e6
"""Strength and parameters of the paper's BERT-Mini, from which Sec. 6 scales the strength of other
sizes.
"""


def strength_for(model: nn.Module) -> float:
    """Return the paper's strength for a model's size: 0.2 times 11.17 M over its parameters (Sec.
    6), one digit.

    The paper's own 0.08 and 0.05 for its larger sizes follow. Smaller models get 0.2, the most that
    the paper uses.
    """
    strength, parameters = MINI
    count = sum(parameter.numel() for parameter in model.parameters())
    return float(f"{strength * min(1.0, parameters / count):.1g}")
