"""What each stage measures: the metrics of a run record, by the stage's name.

Losses are in nats per token, scores in percent, intervals of 95 %, seconds those of training.
"""

from typing import Annotated, Any, Literal, NotRequired

from annotated_types import Len
from pydantic import AfterValidator, ConfigDict, TypeAdapter, with_config
from typing_extensions import TypedDict

STRICT = with_config(ConfigDict(extra="forbid", strict=True))  # the form, and what it is made of
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


@STRICT
class Pretraining(Finished):
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


@STRICT
class Branched(TypedDict):
    """Stage `branched`."""

    start: int
    trunk: Trained
    branches: list[Branch]
    recipe: NotRequired[dict[str, Any]]
    plan: NotRequired[dict[str, Any]]


@STRICT
class Result(TypedDict, total=False):
    """One task's result, as `scoring.score_predictions` returns it, or why it has none."""

    failed: Failure
    scores: dict[str, float]
    headline: float
    metric: str
    items: int
    interval: Interval
    chance: float
    majority: float
    below_chance: bool
    constant: bool
    outcomes: list[float]
    outcomes_f1: list[float]
    outcomes_normalized: list[int]
    labels: list[float]
    by_hops: dict[str, list[float]]
    floor: dict[str, Any]  # a bag of words' result, or the reason why it has none
    epoch: int
    seconds: float
    curve: list[dict[str, Any]]
    epochs: list[dict[str, Any]]
    attention: dict[str, Any]
    configuration: dict[str, Any]
    losses: list[float]
    tokens: int
    precision: dict[str, Any]


SCORED = {"headline", "scores", "outcomes", "interval", "metric", "items"}  # what every result has


def _known(task: Result) -> Result:
    if "failed" not in task and (missing := SCORED - set(task)):
        raise ValueError(f"lacks {', '.join(sorted(missing))}, and has no failed")
    if len(task.get("outcomes", [])) != task.get("items", 0):
        raise ValueError(f"{len(task['outcomes'])} outcomes of {task['items']} items")
    return task


Task = Annotated[Result, AfterValidator(_known)]


@STRICT
class Tasks(TypedDict):
    """Stage `finetune`."""

    tasks: dict[str, Task]


@STRICT
class Decoder(Finished):
    """Stage `decoder`."""

    token_perplexity: Number
    word_perplexity: Number
    words: int
    context: int
    tokens_trained: int
    tasks: dict[str, Task]
    leak: dict[str, Any]


class ExamCheck(TypedDict):
    """One check of an exam along training; accuracy by hops, from 0 to 1."""

    step: int
    loss: Number
    accuracy: dict[str, float]
    seconds: NotRequired[float]


class Exam(TypedDict):
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


@STRICT
class Hops(TypedDict):
    """Stage `hops`."""

    multihop: list[Exam]
    exam_recipe: dict[str, Any]


class FollowCheck(TypedDict):
    """One check of such an encoder; its attention before and after the step, and its strengths (layer, head)."""

    step: int
    loss: Number
    accuracy: Number
    raw: dict[str, Number]
    refined: dict[str, Number]
    strengths: list[list[Number]]
    seconds: NotRequired[float]


class Follow(TypedDict):
    """One encoder at another strength or of another size."""

    seed: int
    strength: float | str
    curve: list[FollowCheck]
    device: Device
    failed: Failure | None
    model: NotRequired[str]
    learning_rate: NotRequired[float | None]
    precision: NotRequired[str | None]


@STRICT
class Beyond(TypedDict):
    """Stage `beyond`: rounds of messages, strengths, larger encoders and the exam."""

    recipe: dict[str, Any]
    exam_recipe: dict[str, Any] | None
    rounds: list[dict[str, Number]]
    one_round: dict[str, list[dict[str, Number]]]
    heads: list[dict[str, Number]]
    tokens: list[dict[str, Any]]
    strengths: list[Follow]
    larger: list[Follow]
    multihop: list[Exam]
    paths: dict[str, list[str]]  # hops -> the path of relations of each story
    public: NotRequired[list[dict[str, Any]]]


class Mean(TypedDict):
    """A measure's mean over texts, layers and heads, its interval over texts, and how many there are."""

    mean: Number
    low: Number
    high: Number
    samples: float
    undefined: NotRequired[float]


class Means(TypedDict):
    """The means of the refined matrix."""

    gtd: Mean
    indirect_entropy: Mean
    clustering_barrat: Mean
    betweenness: Mean
    entropy: NotRequired[Mean]
    sparsity: NotRequired[Mean]
    column_mass_maximum: NotRequired[Mean]


@STRICT
class Attention(TypedDict):
    """Stage `attention`: measures of both matrices, over heads, layers and texts."""

    task: str
    means: Means
    changes: dict[str, dict[str, Number]]  # measure -> softmax, refined, change, low, high, samples, undefined
    graph: dict[str, list[Number]]  # measure -> a number a head and text
    matrices: dict[str, dict[str, Any]]  # "raw" or "refined" -> measure -> (layer, head); by_layer; overall
    nan: dict[str, dict[str, int]]  # matrix -> measure -> undefined numbers
    samples: int
    tokens: int
    layers: int
    heads: int
    beta: float
    hops: int
    graph_nodes: int | None
    graph_threshold: float
    spectrum: bool
    keep_maps: int


class Middle(TypedDict):
    """The median of the rounds, and its quartiles."""

    median: Number
    low: Number
    high: Number


class Timing(TypedDict):
    """One phase of one way to attend; ratios to the fused and to the spelled-out plain attention."""

    milliseconds: Middle
    ratio: Middle
    ratio_to_eager: Middle
    kernel: str
    tokens_per_second: NotRequired[Middle]
    samples_per_second: NotRequired[Middle]
    gmacs: NotRequired[float]
    peak_mib: NotRequired[Middle | None]
    kept_mib: NotRequired[float]


class Way(TypedDict, total=False):
    """One way to attend."""

    train: Timing
    train_no_dropout: Timing
    inference: Timing
    parameters: int


@STRICT
class Ratios(TypedDict):
    """Stages `cost` and `alternations`: times of each way to attend, and their ratios."""

    code: str
    torch: str
    threads: int
    load_average: float
    repeats: int
    ways: dict[str, Way]
    processes: NotRequired[int]
    lengths: NotRequired[list[dict[str, Any]]]


class Point(TypedDict):
    """What one form of the step does to an encoder: the rank correlation in percent, and its change in points."""

    strength: float
    spearman: float
    difference: float
    interval: Interval
    layers: list[dict[str, dict[str, Number]]]  # measure -> raw, refined
    factor: NotRequired[str]
    layer: NotRequired[int]


@STRICT
class Inserted(Result, total=False):
    """Stage `retrofit-untrained`: similarity of pairs of sentences and attention by layer, or a decoder's task."""

    similarity: list[Point]
    one_layer: list[Point]
    pairs: int
    texts: int


FORMS = {  # of the stages that tables, figures and claims read; another's metrics are as its notebook has them
    "pretrain": Pretraining, "branched": Branched, "decoder": Decoder, "finetune": Tasks, "attention": Attention,
    "beyond": Beyond, "hops": Hops, "retrofit": Task, "retrofit-untrained": Inserted, "cost": Ratios,
    "alternations": Ratios,
}  # fmt: skip
METRICS = {stage: TypeAdapter(form) for stage, form in FORMS.items()}
