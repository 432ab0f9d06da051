"""What the plan says of the study `lockstep`."""

from typing import Annotated, Literal

from annotated_types import Ge, Gt, Lt, MinLen
from pydantic import model_validator

from companion.setup.recipes import Algorithm, Model, Positive, Pretraining, Rate, Seeds
from companion.setup.sizes_and_strengths import SIZES
from companion.studies.plan import Question

NAME = "lockstep"
# the arm that is left out on a machine that is not fast enough for all
SPARED = "uniform"
Part = Annotated[float, Gt(0), Lt(1)]


class Lockstep(Question):
    """The plan's section `lockstep`."""

    training: str
    model: Model
    arms: Annotated[list[Algorithm], MinLen(1)]
    trunks: Seeds
    # data set -> weight
    corpus: Annotated[dict[str, float], MinLen(1)]
    tokenizer: Literal["bert"]
    # tokens a sequence
    length: Annotated[int, Ge(3)]
    # of the token file
    text_tokens: Positive
    # sequences a step
    batch: Positive
    learning_rate: Rate
    # steps
    warmup: Annotated[int, Ge(0)]
    masking: Rate
    # sequences
    held_out: Positive
    # of the whole, the timing included
    seconds: Positive
    timing: Positive
    # of the seconds after the timing
    trunk_share: Part
    # share of the branches' seconds at which their rate begins to fall
    falling: Part
    # steps of a branch in its turn
    turn: Positive
    checks: Positive
    # tokens per second without which nothing is started, or one arm is left out
    enough: Positive
    all_arms: Positive
    power: str

    @model_validator(mode="after")
    def _possible(self) -> "Lockstep":
        if self.timing >= self.seconds:
            raise ValueError(f"timing: {self.timing} s are not less than the {self.seconds} s")
        if "original" not in self.arms:
            raise ValueError("arms: original is not among them, with which all are compared")
        return self

    @property
    def strength(self) -> float:
        """The strength of the model's size."""
        return SIZES[self.model].strength

    def recipe(self, steps: int, precision: str) -> Pretraining:
        """Return how a model was trained that made so many steps, as records tell it."""
        return Pretraining(
            length=self.length,
            batch=self.batch,
            steps=steps,
            learning_rate=self.learning_rate,
            warmup=min(self.warmup, steps),
            scheduler="constant_with_warmup",
            masking=self.masking,
            dropout=0.0,
            evaluations=self.checks + 2,
            evaluation_sequences=self.held_out,
            precision=precision,
        )


def arms_at(planned: Lockstep, speed: float) -> list[str]:
    """Return the arms that a machine of so many tokens per second trains, by the plan's rule.

    Raises ValueError for one that is too slow for any.
    """
    if speed < planned.enough:
        raise ValueError(
            f"{speed:.0f} tokens per second are fewer than the {planned.enough} of the plan: "
            "nothing is started; give --trial for a run that is none of the study's"
        )
    if speed < planned.all_arms:
        return [arm for arm in planned.arms if arm != SPARED]
    return list(planned.arms)
