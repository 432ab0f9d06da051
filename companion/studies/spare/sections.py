"""The sections `spare` and `dose` of the plan, read strictly."""

from typing import Annotated

from annotated_types import Gt, Len

from companion.setup import typed_by_hand
from companion.setup.recipes import Positive
from companion.studies import plan

# what the mean of the sets is called among them
MEAN = "mean"
Strength = Annotated[float, Gt(0)]
Strengths = Annotated[list[Strength], Len(1)]


class Arm(typed_by_hand.Strict):
    """One form of the step: a factor, and the keys that it spares."""

    factor: str
    spare: str | float | None = None


class Encoder(typed_by_hand.Strict):
    """What the encoder is asked: pairs by benchmark (None: all of them) and the arms."""

    strengths: Strengths
    arms: dict[str, Arm]
    # at the first strength alone
    exploratory: dict[str, Arm]
    pairs: dict[str, Positive | None]


class Decoder(typed_by_hand.Strict):
    """What the decoder reads, in blocks by length in tokens, and the arms."""

    strengths: Strengths
    arms: dict[str, Arm]
    # on the shortest blocks alone
    short_arms: dict[str, Arm]
    blocks: dict[int, Positive]
    wikitext: str
    # tokens of WikiText that are left out
    after: int
    novels: Annotated[list[str], Len(1)]


class Spare(plan.Question):
    """The plan's section `spare`."""

    encoder: Encoder
    decoder: Decoder
    primary_decoder: plan.Primary
    rule: str


class Dose(plan.Question):
    """The plan's section `dose`."""

    strengths: Strengths
    lengths: Annotated[list[Positive], Len(2)]
    # of the public models by name
    passages: dict[str, Positive]
    curves: dict[str, str]
    axes: list[str]
    number: str
    rule: str
