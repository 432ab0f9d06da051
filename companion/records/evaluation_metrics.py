"""What is measured on a model, for a run record: scores of tasks, attention, similarity of texts,
time.

Scores are in percent, intervals of 95 %. `training_metrics` has what training leaves.
"""

from typing import Annotated, Literal, NotRequired

from annotated_types import Len
from pydantic import AfterValidator, ConfigDict, with_config
from typing_extensions import TypedDict

from companion.records.training_metrics import (
    Choice,
    Failure,
    Finished,
    Flow,
    Interval,
    Number,
    Percent,
    Share,
    dumped,
    exact,
)
from companion.setup.labels import ATTENTION_MEASURES, GRAPH_MEASURES
from companion.setup.recipes import Finetuning


@with_config(ConfigDict(strict=True))
class Matrix(TypedDict, extra_items=list[list[Number]]):
    """Measures of one matrix: of each a number a layer and head, and its means."""

    by_layer: dict[str, list[Number]]
    overall: dict[str, Number]
    cross_layer_gtd: list[Number]
    positional_entropy: list[Number]


class Scores(TypedDict, total=False):
    """What answers to a task's items are worth."""

    headline: Percent
    metric: str
    scores: dict[str, Percent]
    items: int
    interval: Annotated[list[Percent | None], Len(2, 2)]
    constant: bool


class Floor(Scores, total=False):
    """A bag of words' result, or the reason why it has none."""

    reason: str
    trained_on: int


class FinetuneCheck(Flow):
    """One check of a fine-tuning on its reported split."""

    step: int
    score: Percent


class Epoch(TypedDict):
    """The scores after an epoch."""

    epoch: int
    scores: dict[str, Percent]


class NamedChoice(Choice):
    """The precision too."""

    name: Literal["fp32", "bf16"]


@exact
class Result(Scores, total=False):
    """One task's result, as `scoring.score_predictions` returns it, or why it has none."""

    failed: Failure
    chance: Percent
    majority: Percent
    below_chance: bool
    outcomes: list[float]
    outcomes_f1: list[Share]
    outcomes_normalized: list[int]
    labels: list[float]
    by_hops: dict[str, list[float]]
    floor: Floor
    epoch: int
    seconds: float
    curve: list[FinetuneCheck]
    epochs: list[Epoch]
    attention: Flow
    configuration: dumped(Finetuning)
    precision: NamedChoice


# what every result has
SCORED = {"headline", "scores", "outcomes", "interval", "metric", "items"}
# the only scores below 0
CORRELATIONS = {"matthews", "pearson", "spearman"}


def _known(task: Result) -> Result:
    if "failed" not in task and (missing := SCORED - set(task)):
        raise ValueError(f"lacks {', '.join(sorted(missing))}, and has no failed")
    if "failed" not in task and task["metric"] not in task["scores"]:
        raise ValueError(f"has no score of its metric, {task['metric']}")
    if negative := _negative(task):
        raise ValueError(f"has a score below 0 percent, {negative[0]}")
    if len(task.get("outcomes", [])) != task.get("items", 0):
        raise ValueError(f"{len(task['outcomes'])} outcomes of {task['items']} items")
    return task


def _negative(task: Result) -> list[str]:
    """Return the places of scores below 0 that are no correlations."""
    floor = task.get("floor", {})
    parts = [("", task), (" of floor", floor), *((" of epochs", e) for e in task.get("epochs", []))]
    scores = [
        (name + part, score)
        for part, scored in parts
        for name, score in scored.get("scores", {}).items()
        if name not in CORRELATIONS
    ]
    if task.get("metric") not in CORRELATIONS:
        scores += [("score of curve", check["score"]) for check in task.get("curve", [])]
        for part, scored in (("", task), (" of floor", floor)):
            names = scored.keys() & {"headline", "chance", "majority"}
            scores += [(name + part, scored[name]) for name in sorted(names)]
            scores += [("interval" + part, bound) for bound in scored.get("interval", [])]
    return [place for place, score in scores if score is not None and score < 0]


# whole, or failed
CheckedResult = Annotated[Result, AfterValidator(_known)]


@exact
class FinetuneMetrics(TypedDict):
    """Stage `finetune`."""

    tasks: dict[str, CheckedResult]


class Leak(TypedDict):
    """What a decoder gains by looking ahead: losses in nats per token, and their difference."""

    full_pass: float
    prefixes: float
    leak: float
    by_block: list[float]
    by_position: NotRequired[list[float]]


@exact
class DecoderMetrics(Finished):
    """Stage `decoder`."""

    token_perplexity: Number
    word_perplexity: Number
    words: int
    context: int
    tokens_trained: int
    tasks: dict[str, CheckedResult]
    leak: Leak


class Mean(TypedDict):
    """A measure's mean over texts, layers and heads, its interval over texts, and how many there
    are.
    """

    mean: Number
    low: Number
    high: Number
    samples: float
    undefined: NotRequired[float]


# those of the refined matrix
Means = TypedDict("Means", dict.fromkeys((*ATTENTION_MEASURES, *GRAPH_MEASURES), Mean))

# before the step and after it
Matrices = TypedDict("Matrices", dict.fromkeys(("raw", "refined"), Matrix))


@exact
class AttentionMetrics(TypedDict):
    """Stage `attention`: measures of both matrices, over heads, layers and texts."""

    task: str
    means: Means
    # measure -> softmax, refined, change, low, high, samples, undefined
    changes: dict[str, dict[str, Number]]
    # measure -> a number a head and text
    graph: dict[str, list[Number]]
    matrices: Matrices
    # matrix -> measure -> undefined numbers
    nan: dict[str, dict[str, int]]
    samples: int
    tokens: int
    layers: int
    heads: int
    beta: float
    hops: int
    graph_nodes: int | None
    graph_threshold: float
    # of early records
    spectrum: NotRequired[bool]
    keep_maps: int


class Middle(TypedDict):
    """The median of the rounds, and its quartiles."""

    median: Number
    low: Number
    high: Number


class Timing(TypedDict):
    """One phase of one way to attend; ratios to the fused and to the spelled-out plain
    attention.
    """

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


class Length(TypedDict):
    """One way to attend at one length; ratios to the first way."""

    length: int
    way: str
    median_ms: float
    quartiles_ms: Interval
    fastest_ms: float
    ratio: float
    ratio_quartiles: Interval
    ratio_of_fastest: NotRequired[float]
    rounds: int
    ratio_to_sdpa: Middle
    ratio_to_materialised: NotRequired[Middle]
    kernel: str
    peak_mib: Middle


@exact
class CostMetrics(TypedDict):
    """Stages `cost` and `alternations`: times of each way to attend, and their ratios."""

    code: str
    torch: str
    threads: int
    load_average: float
    repeats: int
    ways: dict[str, Way]
    processes: NotRequired[int]
    lengths: NotRequired[list[Length]]


class Point(TypedDict):
    """What one form of the step does to an encoder: the rank correlation in percent, and its change
    in points.
    """

    strength: float
    spearman: Percent
    difference: float
    interval: Interval
    # measure -> raw, refined
    layers: list[dict[str, dict[str, Number]]]
    factor: NotRequired[str]
    layer: NotRequired[int]


@exact
class UntrainedMetrics(Result, total=False):
    """Stage `retrofit-untrained`: similarity of pairs of sentences and attention by layer, or a
    decoder's task.
    """

    similarity: list[Point]
    one_layer: list[Point]
    pairs: int
    texts: int
    losses: list[float]
    tokens: int


class PairScores(TypedDict):
    """A benchmark's pairs of sentences: their score in percent, and the cosine of each pair."""

    score: Percent
    pairs: int
    cosines: list[float]


class ScoreChange(TypedDict):
    """A change of score in points, with its 95 % and its 90 % interval."""

    difference: float
    interval: Interval
    interval_90: Interval


class ArmChanges(TypedDict):
    """What an arm changes against plain attention, by benchmark and in their mean."""

    arm: str
    strength: float
    sets: dict[str, ScoreChange]


class BlockLosses(TypedDict):
    """The loss of each block of text, in nats per predicted token, and its source."""

    losses: list[float]
    sources: list[str]


@exact
class SpareMetrics(TypedDict, total=False):
    """Stage `spare`: pairs by benchmark, the changes of all arms, or blocks by length in tokens."""

    sets: dict[str, PairScores]
    changes: list[ArmChanges]
    blocks: dict[str, BlockLosses]


class DoseCell(TypedDict):
    """One passage cut into pieces of a length: its refined attention by layer, and the harm.

    The largest column sum, entropy in nats; of a decoder the loss in nats per token, of an encoder
    1 - cosine with the original's embedding.
    """

    length: int
    passage: int
    sink_by_layer: list[float]
    entropy_by_layer: list[float]
    harm: float


@exact
class DoseMetrics(TypedDict):
    """Stage `dose`: one strength at every length; the source of each passage."""

    cells: list[DoseCell]
    sources: list[str]
