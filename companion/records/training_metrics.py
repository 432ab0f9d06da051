"""What training leaves in a run record: curves, exams along training, and what each stage that
trains adds.

Losses are in nats per token, intervals of 95 %, seconds those of training. `evaluation_metrics` has
the other stages.
"""

from typing import Annotated, Any, Literal, NotRequired, get_type_hints

from annotated_types import Len
from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict

from companion.setup.recipes import MultiHop, Pretraining
from companion.setup.sizes_and_strengths import Size
from companion.setup.typed_by_hand import Strict

# the form, and what it is made of
exact = with_config(ConfigDict(extra="forbid", strict=True))
# None where it is undefined
Number = float | None
Interval = Annotated[list[Number], Len(2, 2)]
Share = Annotated[float, Field(ge=0, le=1)]
# a correlation may be below 0
Percent = Annotated[float, Field(ge=-100, le=100)]


def dumped(model: type[Strict], **fields: Any) -> Any:
    """Return the form of a model's `model_dump`: its fields, which a record from before one was
    there may lack.

    A key that is no field any more is refused. `own`: forms of the fields that are models
    themselves.
    """
    forms = {name: field.rebuild_annotation() for name, field in model.model_fields.items()}
    return TypedDict(model.__name__, forms | fields, total=False)


Recipe = dumped(Pretraining)
ExamRecipe = dumped(MultiHop, pretrain=Recipe)
# `asdict` of it
Shape = TypedDict("Shape", get_type_hints(Size))


class Device(TypedDict):
    """What did the work."""

    # the GPU's, or the processor's with its vector set ("AMD EPYC, AVX2"), which early records lack
    name: str
    threads: int
    # of training; None where nothing was trained
    precision: Literal["fp32", "bf16"] | None


class Failure(TypedDict):
    """Why a run, or one task of it, has no result."""

    # "the loss is nan at step 40"
    reason: str
    # with what is left and what to do
    message: str


class Flow(TypedDict):
    """The attention of a few texts: a number a layer, and GTD across layers."""

    entropy: list[Number]
    gtd: list[Number]
    cross_layer_gtd: Number


class Check(Flow):
    """One check of pretraining on held-out text."""

    step: int
    loss: Number
    perplexity: Number
    seconds: float


class Choice(TypedDict):
    """Why a model trained in its precision: "recipe", or in early records the seconds of both."""

    reason: str
    seconds: dict[str, float]


class Logged(TypedDict):
    """The loss of training at a step, and its learning rate."""

    step: int
    loss: Number
    learning_rate: Number


class Sitting(TypedDict):
    """What trained from a step on."""

    step: int
    commit: str
    device: Device
    started: str
    chosen: NotRequired[Choice]


class Trained(TypedDict):
    """A model's training: the curve, and its last point."""

    steps: int
    loss: Number
    perplexity: Number
    seconds: float
    curve: list[Check]
    training: list[Logged]
    sittings: NotRequired[list[Sitting]]


class Finished(Trained):
    """A trained model on the held-out sequences; `parameters` as Table 4 counts them."""

    perplexity_interval: Interval
    sequences: int
    parameters: int
    tokens: int


class Wikitext(TypedDict):
    """A trained model on WikiText-103."""

    perplexity: Number
    perplexity_interval: Interval
    sequences: int
    tokens: int
    split: str
    config: str
    note: str


@exact
class PretrainMetrics(Finished):
    """Stage `pretrain`."""

    parameters_trained: int
    recipe: Recipe
    size: Shape
    wikitext: Wikitext | None


class Branch(Trained):
    """One continuation of a trunk; of each held-out sequence the sum of its losses and its masked
    tokens.
    """

    algorithm: str
    nats: list[float]
    tokens: list[int]
    held_out: Number


class BranchPlan(TypedDict):
    """What its plan says of a trunk and its branches: `branched.Branched`."""

    arms: list[str]
    below: float
    every: int
    steps: int


class InStep(TypedDict):
    """How the branches of the study `lockstep` advanced: `studies.lockstep.run`."""

    # tokens per second of the timing
    speed: float
    seconds: int
    trial: bool
    # held-out sequences by source
    sources: dict[str, int]
    text_tokens: int
    # the first step at a falling rate; None where the run was cut before it
    falls_at: int | None
    ended: bool


@exact
class BranchedMetrics(TypedDict):
    """Stage `branched`."""

    start: int
    trunk: Trained
    branches: list[Branch]
    recipe: NotRequired[Recipe]
    plan: NotRequired[BranchPlan]
    lockstep: NotRequired[InStep]


class ExamCheck(TypedDict):
    """One check of an exam along training; accuracy by hops, from 0 to 1."""

    step: int
    loss: Number
    accuracy: dict[str, Share]
    seconds: NotRequired[float]


class ExamRun(TypedDict):
    """One encoder trained on questions of a known number of hops."""

    layers: int
    algorithm: str
    seed: int
    chains: int
    steps: int
    full_rate: int
    stories: int
    device: Device
    curve: list[ExamCheck]
    # hops -> 0 or 1 a question
    outcomes: dict[str, list[int]]
    failed: Failure | None


@exact
class HopsMetrics(TypedDict):
    """Stage `hops`."""

    multihop: list[ExamRun]
    exam_recipe: ExamRecipe


class FollowedCheck(TypedDict):
    """One check of a followed encoder: its attention before and after the step, and its strengths
    (layer, head).
    """

    step: int
    loss: Number
    accuracy: Share | None
    raw: dict[str, Number]
    refined: dict[str, Number]
    strengths: list[list[Number]]
    seconds: NotRequired[float]


class FollowedRun(TypedDict):
    """One followed encoder, at another strength or of another size."""

    seed: int
    strength: float | str
    curve: list[FollowedCheck]
    device: Device
    failed: Failure | None
    model: NotRequired[str]
    learning_rate: NotRequired[float | None]
    precision: NotRequired[str | None]


class Token(TypedDict):
    """What the step moves off a token: mean column sums."""

    token: str
    before: float
    after: float
    change: float
    count: int


@exact
class BeyondMetrics(TypedDict):
    """Stage `beyond`: rounds of messages, strengths, larger encoders and the exam."""

    recipe: Recipe
    exam_recipe: ExamRecipe | None
    rounds: list[dict[str, Number]]
    one_round: dict[str, list[dict[str, Number]]]
    heads: list[dict[str, Number]]
    tokens: list[Token]
    strengths: list[FollowedRun]
    larger: list[FollowedRun]
    multihop: list[ExamRun]
    # hops -> the path of relations of each story
    paths: dict[str, list[str]]
    public: NotRequired[list[dict[str, Number]]]


class LearningRecipe(TypedDict):
    """All that a run of the study `learning` depends on: `studies.learning.design`."""

    layers: int
    width: int
    arm: str
    rate: float
    seed: int
    warmup: int
    exam: str
    items: int
    steps: int
    every: int
    known: float


@exact
class LearningMetrics(TypedDict):
    """Stage `learning`: one encoder, until it answers two and three hops."""

    recipe: LearningRecipe
    curve: list[ExamCheck]
    # of training, per step
    seconds: float
    failed: Failure | None
