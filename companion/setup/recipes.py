"""How each stage of a study is run: one recipe a section of a study, with what it may say."""

from collections import Counter
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from annotated_types import Ge, Gt, Le, Len, Lt, MinLen
from pydantic import AfterValidator, model_validator

from companion.setup import labels
from companion.setup.sizes_and_strengths import LEAKY, SIZES
from companion.setup.tasks_and_metrics import TASKS
from companion.setup.typed_by_hand import Strict

Positive = Annotated[int, Gt(0)]
Rate = Annotated[float, Gt(0), Le(1)]
Share = Annotated[float, Ge(0), Le(1)]
Algorithm = Literal[tuple(name for name in labels.ALGORITHMS if name != LEAKY)]
DecoderAlgorithm = Literal["original", "high", "low", "elemmul", "sinkhorn", LEAKY]
Relation = Literal["own", "live", "at", "job", "mood"]
Model = Literal[tuple(name for name in SIZES if name not in labels.PUBLIC)]
Task = Literal[tuple(TASKS)]
# "auto" stands in early records alone, whose device names the precision that was used
Precision = Literal["auto", "bf16", "fp32"]

# of a recipe: tokens of a sequence, and of the whole text
LIMITS = ("length", "limit_tokens")


def _different(seeds: list[int]) -> list[int]:
    if len(set(seeds)) < len(seeds):
        raise ValueError("one stands there twice")
    return seeds


# what numpy and torch take
SEEDS = range(2**32)
Seeds = Annotated[
    list[Annotated[int, Ge(0), Lt(SEEDS.stop)]], MinLen(1), AfterValidator(_different)
]


class Warmed(Strict):
    """A rate that rises for `warmup` of its `steps`; ValueError for a schedule that never gets to
    its own rate.
    """

    # last steps, in which it falls to 0
    decay: ClassVar[int] = 0

    @model_validator(mode="after")
    def _reaches_its_rate(self) -> Self:
        if self.warmup + self.decay > self.steps:
            fall = f" and fall of {self.decay}" if self.decay else ""
            raise ValueError(
                f"its warmup of {self.warmup} steps{fall} is longer than its {self.steps} steps"
            )
        return self


class Pretraining(Warmed):
    """How a model is pretrained (Table 5 where the paper says; methods it leaves open are named
    here).
    """

    # tokens a sequence, [CLS] and [SEP] included
    length: Annotated[int, Ge(3)]
    # sequences a step; the paper gives none
    batch: Positive
    steps: Positive
    learning_rate: Rate
    # steps
    warmup: Annotated[int, Ge(0)]
    # last steps of "warmup_stable_decay", in which the rate falls; null = a fifth
    falling: Positive | None = None
    scheduler: Literal["cosine", "linear", "constant_with_warmup", "warmup_stable_decay"] = "cosine"
    # share of tokens to predict, 80/10/10
    masking: Rate = 0.15
    dropout: Share = 0.1
    weight_decay: Share = 0.01
    # coefficient of Entropy-Reg or Eigen-Reg; null = its own
    penalty: Annotated[float, Gt(0)] | None = None
    # of the forward and backward pass; bf16 by autocast
    precision: Precision = "fp32"
    # held-out checks, at geometrically spaced steps
    evaluations: Positive = 20
    # on one fixed mask set
    evaluation_sequences: Positive = 256
    # which those are; the first may all be of one long document
    held_out: Literal["even", "first"] = "even"
    # steps between checkpoints a killed run continues from
    save_every: Positive = 500
    # of the corpus; null = all
    limit_tokens: Positive | None = None

    @property
    def decay(self) -> int:
        """Steps at the end in which a rate that was constant until then falls to 0; 0 for other
        schedules.
        """
        return (self.falling or self.steps // 5) if self.scheduler == "warmup_stable_decay" else 0

    @property
    def full_rate(self) -> int:
        """The step until which the rate is whole after its warm-up; 0 for a schedule that falls
        from there on.
        """
        return (
            self.steps - self.decay
            if self.scheduler in ("warmup_stable_decay", "constant_with_warmup")
            else 0
        )


def identity(recipe: Pretraining) -> dict[str, Any]:
    """Return what tells a run of a recipe from one of another, without what no run before had
    otherwise.
    """
    before = {"falling": None, "held_out": "first"}
    return {
        key: value for key, value in recipe.model_dump().items() if before.get(key, ...) != value
    }


def refuse_untrained_positions(key: str, length: int, recipe: Pretraining) -> None:
    """Raise ValueError where a model would be measured, untuned, on positions that pretraining
    never reached.
    """
    if length > recipe.length:
        raise ValueError(
            f"{key} {length} is more than pretrain.length {recipe.length}: no later position is trained"
        )


class Schedule(Warmed):
    """What Table 5 sets by size."""

    steps: Positive
    learning_rate: Rate
    warmup: Annotated[int, Ge(0)]


class Finetuning(Strict):
    """One recipe for every algorithm: the same budget, grid and seeds."""

    # run name -> its tasks
    groups: Annotated[dict[str, Annotated[list[Task], MinLen(1)]], MinLen(1)]
    length: Positive = 128
    batch: Positive = 32
    epochs: Positive = 3
    learning_rate: Rate = 5e-5
    warmup_share: Annotated[float, Ge(0), Lt(1)] = 0.1
    dropout: Share = 0.1
    weight_decay: Share = 0.01
    seeds: Seeds = [42]
    precision: Precision = "fp32"
    # points at which the tasks of Figures 3 and 9 are followed; they choose nothing
    curve: Annotated[int, Ge(0)] = 0
    # items; null = all
    limit_train: Positive | None = None
    limit_evaluation: Positive | None = None
    # task -> [train, reported]
    splits: dict[Task, Annotated[list[str], Len(2, 2)]] = {}
    # a task's own number of them
    epochs_of: dict[Task, Positive] = {}
    # a task's own tokens per item
    length_of: dict[Task, Positive] = {}

    @model_validator(mode="after")
    def _possible(self) -> Self:
        tasks = [task for group in self.groups.values() for task in group]
        if twice := [task for task, times in Counter(tasks).items() if times > 1]:
            raise ValueError(f"groups: {', '.join(twice)} would be run, and counted, twice")
        return self

    def tokens(self, task: str) -> int:
        """Return how many tokens an item of a task has at most."""
        return self.length_of.get(task, self.length)


class AttentionCapture(Strict):
    """Which attention is measured, and on how much."""

    tasks: list[Task]
    # a size's own list
    tasks_of: dict[Model, list[Task]] = {}
    # of those trained; null = all
    algorithms: list[Algorithm] | None = None
    # caption of Fig. 4
    samples: Positive = 1024
    batch: Positive = 16
    length: Positive = 128


class Decoding(Strict):
    """The causal models of Table 7, pretrained on the study's corpus and asked without
    fine-tuning.
    """

    # widths and depths; the paper gives none for its decoders
    models: Annotated[list[Model], MinLen(1)]
    algorithms: Annotated[list[DecoderAlgorithm], MinLen(1)]
    tasks: Annotated[list[Literal["race", "boolq", "hellaswag"]], MinLen(1)]
    tokenizer: Literal["gpt2", "bpe"]
    pretrain: Pretraining
    # of a trained tokenizer
    vocabulary: Positive | None = None
    seeds: Seeds = [42]
    # tokens that a question and its passage may have
    length: Positive = 128
    limit_evaluation: Positive | None = None
    # task -> reported
    splits: dict[Task, str] = {}
    algorithms_of: dict[Model, Annotated[list[DecoderAlgorithm], MinLen(1)]] = {}

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.tokenizer == "bpe" and self.vocabulary is None:
            raise ValueError("tokenizer 'bpe' is trained on the corpus: give it a vocabulary")
        refuse_untrained_positions("length", self.length, self.pretrain)
        return self

    def pairs(self) -> list[tuple[str, str]]:
        """Return every (model, algorithm) that is trained."""
        return [(m, a) for m in self.models for a in self.algorithms_of.get(m, self.algorithms)]


class Costs(Strict):
    """What is timed for Table 9, and up to which length."""

    models: Annotated[list[Model], MinLen(1)]
    vocabulary: Positive
    batch: Positive = 32
    length: Positive = 128
    # turns that every way of computing attention takes
    rounds: Annotated[int, Ge(5)] = 25
    # of attention alone
    lengths: list[Positive] = [512, 1024, 2048, 4096, 8192]


class MultiHop(Strict):
    """The controlled study: stories with chains of facts, and questions with a known number of
    hops.
    """

    # depths that are compared
    layers: Annotated[list[Positive], MinLen(1)]
    algorithms: Annotated[list[Algorithm], MinLen(1)]
    seeds: Seeds
    # schedule; `length` is the sentences of a story
    pretrain: Pretraining
    # of the longest question
    hops: Annotated[int, Ge(1), Le(3)] = 3
    # side by side; chance is one of them
    chains: Annotated[int, Ge(2)] = 3
    relations: list[Relation] = list(get_args(Relation))
    # of each kind
    entities: Annotated[int, Ge(6), Le(40)] = 12
    hidden: Positive = 64
    heads: Positive = 4
    strength: Annotated[float, Ge(0)] = SIZES["mini"].strength
    # stories of the exam
    items: Positive = 300
    # which stories: another name draws others
    exam: str = "exam"
    # of some algorithms, after the seeds of all
    more_seeds: dict[Algorithm, Seeds] = {}

    @model_validator(mode="after")
    def _possible(self) -> Self:
        for name, seeds in self.more_seeds.items():
            if name not in self.algorithms or set(seeds) & set(self.seeds):
                raise ValueError(
                    f"more_seeds: {name} is not among the algorithms, or has a seed of all"
                )
        if self.pretrain.length != (facts := 2 * self.hops * self.chains):
            chains = f"{self.hops} hops in {self.chains} chains"
            raise ValueError(f"pretrain.length: {chains} make stories of {facts} sentences")
        return self

    def runs(self) -> list[tuple[int, str, int]]:
        """Return depth, algorithm and seed of every encoder that is trained."""
        every = [(name, seed) for seed in self.seeds for name in self.algorithms]
        every += [(name, seed) for name, seeds in self.more_seeds.items() for seed in seeds]
        return [(layers, *run) for layers in self.layers for run in every]


class Larger(Strict):
    """A larger model beside the one of `Beyond`, by its recipe: at λ = 0 and at the size's own
    λ.
    """

    model: Model
    seeds: Seeds = [42]
    # null: the recipe's, with which a wide model may learn nothing
    learning_rate: Rate | None = None
    # null: the recipe's
    precision: Precision | None = None

    def recipe(self, usual: Pretraining) -> Pretraining:
        """Return the recipe that this model is trained by: the usual one but for its own rate and
        precision.
        """
        changes = {"learning_rate": self.learning_rate, "precision": self.precision}
        return usual.changed(**{name: value for name, value in changes.items() if value})


class Beyond(Strict):
    """The open questions of notebook 12: High at other strengths, and at learned ones, on one
    model; larger models.
    """

    model: Model
    # λ
    strengths: list[Annotated[float, Ge(0)]]
    pretrain: Pretraining
    # what has a learned λ of its own
    learned: list[Literal["head", "layer"]] = ["head"]
    larger: list[Larger] = []
    seeds: Seeds = [42]
    # of held-out text, on which rounds of messages, heads and tokens are looked at
    sequences: Positive = 32

    @model_validator(mode="after")
    def _possible(self) -> Self:
        named = Counter((size.model, size.recipe(self.pretrain)) for size in self.larger)
        if twice := [
            f"{m} at learning rate {recipe.learning_rate:g}"
            for (m, recipe), times in named.items()
            if times > 1
        ]:
            raise ValueError(
                f"larger: {', '.join(twice)} is there twice; put its seeds into one entry"
            )
        if any(size.model == self.model for size in self.larger):
            raise ValueError(
                f"larger: {self.model} is the model of beyond itself, which stands beside the larger ones"
            )
        return self
