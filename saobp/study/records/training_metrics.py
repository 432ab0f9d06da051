"""What training leaves in a run record: curves, exams along training, and what each stage that trains adds.

Losses are in nats per token, intervals of 95 %, seconds those of training. `evaluation_metrics` has the other stages.
"""

from typing import Annotated, Any, Literal, NotRequired

from annotated_types import Len
from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

exact = with_config(ConfigDict(extra="forbid", strict=True))  # the form, and what it is made of
Number = float | None  # None where it is undefined
Interval = Annotated[list[Number], Len(2, 2)]


class Device(TypedDict):
    """What did the work."""

    name: str  # the processor's or the GPU's
    threads: int
    precision: Literal["fp32", "bf16"] | None  # of training; None where nothing was trained


class Failure(TypedDict):
    """Why a run, or one task of it, has no result."""

    reason: str  # "the loss is nan at step 40"
    message: str  # with what is left and what to do


class Check(TypedDict):
    """One check of pretraining on held-out text; of attention a number a layer."""

    step: int
    loss: Number
    perplexity: Number
    entropy: list[Number]
    gtd: list[Number]
    cross_layer_gtd: Number
    seconds: float


class Sitting(TypedDict):
    """What trained from a step on."""

    step: int
    commit: str
    device: Device
    started: str
    chosen: NotRequired[dict[str, Any]]  # why this precision: `precision.Choice`


class Trained(TypedDict):
    """A model's training: the curve, and its last point."""

    steps: int
    loss: Number
    perplexity: Number
    seconds: float
    curve: list[Check]
    training: list[dict[str, Number]]  # step, loss, learning_rate
    sittings: NotRequired[list[Sitting]]


class Finished(Trained):
    """A trained model on the held-out sequences; `parameters` as Table 4 counts them."""

    perplexity_interval: Interval
    sequences: int
    parameters: int
    tokens: int


@exact
class PretrainMetrics(Finished):
    """Stage `pretrain`."""

    parameters_trained: int
    recipe: dict[str, Any]
    size: dict[str, Any]
    wikitext: dict[str, Any] | None


class Branch(Trained):
    """One continuation of a trunk; of each held-out sequence the sum of its losses and its masked tokens."""

    algorithm: str
    nats: list[float]
    tokens: list[int]
    held_out: Number


@exact
class BranchedMetrics(TypedDict):
    """Stage `branched`."""

    start: int
    trunk: Trained
    branches: list[Branch]
    recipe: NotRequired[dict[str, Any]]
    plan: NotRequired[dict[str, Any]]


class ExamCheck(TypedDict):
    """One check of an exam along training; accuracy by hops, from 0 to 1."""

    step: int
    loss: Number
    accuracy: dict[str, float]
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
    outcomes: dict[str, list[int]]  # hops -> 0 or 1 a question
    failed: Failure | None


@exact
class HopsMetrics(TypedDict):
    """Stage `hops`."""

    multihop: list[ExamRun]
    exam_recipe: dict[str, Any]


class FollowedCheck(TypedDict):
    """One check of a followed encoder: its attention before and after the step, and its strengths (layer, head)."""

    step: int
    loss: Number
    accuracy: Number
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


@exact
class BeyondMetrics(TypedDict):
    """Stage `beyond`: rounds of messages, strengths, larger encoders and the exam."""

    recipe: dict[str, Any]
    exam_recipe: dict[str, Any] | None
    rounds: list[dict[str, Number]]
    one_round: dict[str, list[dict[str, Number]]]
    heads: list[dict[str, Number]]
    tokens: list[dict[str, Any]]
    strengths: list[FollowedRun]
    larger: list[FollowedRun]
    multihop: list[ExamRun]
    paths: dict[str, list[str]]  # hops -> the path of relations of each story
    public: NotRequired[list[dict[str, Any]]]
