"""What a profile may say: the whole difference between a check of minutes and the paper's own runs."""

import difflib
import hashlib
import json
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import Annotated, Literal

import yaml
from annotated_types import Ge, Gt, Le, MinLen
from pydantic import AfterValidator, ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from saobp.study import paths
from saobp.study.tasks import TASKS

Positive = Annotated[int, Gt(0)]
Rate = Annotated[float, Gt(0), Le(1)]
Share = Annotated[float, Ge(0), Le(1)]
Algorithm = Literal["original", "high", "low", "elemmul", "sinkhorn", "uniform", "shuffled", "entropy_reg", "eigen_reg"]
DecoderAlgorithm = Literal["original", "high", "low", "elemmul", "sinkhorn", "high_all_rows"]
Model = Literal["mini", "small", "medium", "mini-narrow", "mini-twin", "small-twin", "medium-twin"]

Task = Literal[tuple(TASKS)]
Precision = Literal["auto", "bf16", "fp32"]

STRICT = ConfigDict(extra="forbid", strict=True)


def _different(seeds: list[int]) -> list[int]:
    if len(set(seeds)) < len(seeds):
        raise ValueError("one stands there twice")
    return seeds


Seeds = Annotated[list[Annotated[int, Ge(0)]], MinLen(1), AfterValidator(_different)]


class ProfileError(ValueError):
    """A profile that cannot be used; the message names the file and the key."""


@dataclass(frozen=True, config=STRICT, kw_only=True)
class Pretraining:
    """How a model is pretrained (Table 5 where the paper says; methods it leaves open are named here)."""

    length: Annotated[int, Ge(3)]  # tokens a sequence, [CLS] and [SEP] included
    batch: Positive  # sequences a step; the paper gives none
    steps: Positive
    learning_rate: Rate
    warmup: Annotated[int, Ge(0)]  # steps
    scheduler: Literal["cosine", "linear", "constant_with_warmup", "warmup_stable_decay"] = "cosine"
    masking: Rate = 0.15  # share of tokens to predict, 80/10/10
    dropout: Share = 0.1
    weight_decay: Share = 0.01
    penalty: Annotated[float, Gt(0)] | None = None  # coefficient of Entropy-Reg or Eigen-Reg; null = its own
    precision: Precision = "auto"  # auto: bf16 only where the processor has it; it slows the smallest models down
    evaluations: Positive = 20  # held-out checks, at geometrically spaced steps
    evaluation_sequences: Positive = 256  # on one fixed mask set
    save_every: Positive = 500  # steps between checkpoints a killed run continues from
    limit_tokens: Positive | None = None  # of the corpus; null = all

    def __post_init__(self):
        refuse_long_warmup(self.warmup, self.steps - self.decay)

    @property
    def decay(self) -> int:
        """Steps at the end in which a rate that was constant until then falls to 0: a fifth; 0 for other schedules."""
        return self.steps // 5 if self.scheduler == "warmup_stable_decay" else 0

    @property
    def full_rate(self) -> int:
        """The step until which the rate is whole after its warm-up; 0 for a schedule that falls from there on."""
        return self.steps - self.decay if self.scheduler in ("warmup_stable_decay", "constant_with_warmup") else 0


def refuse_long_warmup(warmup: int, steps: int) -> None:
    """Raise ValueError for a schedule that never gets to its own learning rate."""
    if warmup > steps:
        raise ValueError(f"its warmup of {warmup} steps is longer than its {steps} steps")


def refuse_untrained_positions(key: str, length: int, recipe: Pretraining) -> None:
    """Raise ValueError where a model would be measured, untuned, on positions that pretraining never reached."""
    if length > recipe.length:
        raise ValueError(f"{key} {length} is more than pretrain.length {recipe.length}: no later position is trained")


@dataclass(frozen=True, config=STRICT, kw_only=True)
class Schedule:
    """What Table 5 sets by size."""

    steps: Positive
    learning_rate: Rate
    warmup: Annotated[int, Ge(0)]

    def __post_init__(self):
        refuse_long_warmup(self.warmup, self.steps)


@dataclass(frozen=True, config=STRICT, kw_only=True)
class Finetuning:
    """One recipe for every algorithm: the same budget, grid and seeds."""

    groups: Annotated[dict[str, Annotated[list[Task], MinLen(1)]], MinLen(1)]  # run name -> its tasks
    length: Positive = 128
    batch: Positive = 32
    epochs: Positive = 3
    learning_rate: Rate = 5e-5
    warmup_share: Share = 0.1
    dropout: Share = 0.1
    weight_decay: Share = 0.01
    seeds: Seeds = field(default_factory=lambda: [42])
    precision: Precision = "auto"
    curve: Annotated[int, Ge(0)] = (
        0  # points at which the paper's tasks of Figures 3 and 9 are followed; they choose nothing
    )
    limit_train: Positive | None = None  # items; null = all
    limit_evaluation: Positive | None = None
    splits: dict[str, Annotated[list[str], MinLen(2)]] = field(default_factory=dict)  # task -> [train, reported]
    epochs_of: dict[Task, Positive] = field(default_factory=dict, repr=False)  # a task's own number of them


@dataclass(frozen=True, config=STRICT, kw_only=True)
class AttentionCapture:
    """Which attention is measured, and on how much."""

    tasks: list[Task]
    algorithms: list[Algorithm] | None = None  # of those trained; null = all
    samples: Positive = 1024  # caption of Fig. 4
    batch: Positive = 16
    length: Positive = 128


@dataclass(frozen=True, config=STRICT, kw_only=True)
class Decoding:
    """The causal models of Table 7, pretrained on the profile's corpus and asked without fine-tuning."""

    models: Annotated[list[Model], MinLen(1)]  # widths and depths; the paper gives none for its decoders
    algorithms: Annotated[list[DecoderAlgorithm], MinLen(1)]
    tasks: Annotated[list[Literal["race", "boolq", "hellaswag"]], MinLen(1)]
    tokenizer: Literal["gpt2", "bpe"]
    pretrain: Pretraining
    vocabulary: Positive | None = None  # of a trained tokenizer
    seeds: Seeds = field(default_factory=lambda: [42])
    length: Positive = 128  # tokens that a question and its passage may have
    limit_evaluation: Positive | None = None
    splits: dict[str, str] = field(default_factory=dict)  # task -> reported
    algorithms_of: dict[Model, Annotated[list[DecoderAlgorithm], MinLen(1)]] = field(default_factory=dict)

    def __post_init__(self):
        if self.tokenizer == "bpe" and self.vocabulary is None:
            raise ValueError("tokenizer 'bpe' is trained on the corpus: give it a vocabulary")
        refuse_untrained_positions("length", self.length, self.pretrain)

    def pairs(self) -> list[tuple[str, str]]:
        """Return every (model, algorithm) that is trained."""
        return [(m, a) for m in self.models for a in self.algorithms_of.get(m, self.algorithms)]


@dataclass(frozen=True, config=STRICT, kw_only=True)
class Costs:
    """What is timed for Table 9, and up to which length."""

    models: Annotated[list[Model], MinLen(1)]
    vocabulary: Positive
    batch: Positive = 32
    length: Positive = 128
    rounds: Annotated[int, Ge(5)] = 25  # turns that every way of computing attention takes
    lengths: list[Positive] = field(default_factory=lambda: [512, 1024, 2048, 4096, 8192])  # of attention alone


@dataclass(frozen=True, config=STRICT, kw_only=True)
class MultiHop:
    """The controlled study: stories with chains of facts, and questions with a known number of hops."""

    layers: Annotated[list[Positive], MinLen(1)]  # depths that are compared
    algorithms: Annotated[list[Algorithm], MinLen(1)]
    seeds: Seeds
    pretrain: Pretraining  # schedule; `length` is the sentences of a story
    hops: Annotated[int, Ge(1), Le(3)] = 3  # of the longest question
    chains: Annotated[int, Ge(2)] = 3  # side by side; chance is one of them
    relations: list[Literal["own", "live", "at", "job", "mood"]] = field(
        default_factory=lambda: ["own", "live", "at", "job", "mood"]
    )
    entities: Annotated[int, Ge(6), Le(40)] = 12  # of each kind
    hidden: Positive = 64
    heads: Positive = 4
    strength: Annotated[float, Ge(0)] = 0.2  # BERT-Mini's
    items: Positive = 300  # stories of the exam


@dataclass(frozen=True, config=STRICT, kw_only=True)
class Beyond:
    """The open questions of notebook 12: High at other strengths, and at learned ones, on one model."""

    model: Model
    strengths: list[Annotated[float, Ge(0)]]  # λ; a learned one a head is trained beside them
    pretrain: Pretraining
    seeds: Seeds = field(default_factory=lambda: [42])
    sequences: Positive = 32  # of held-out text, on which rounds of messages, heads and tokens are looked at


@dataclass(frozen=True, config=STRICT, kw_only=True)
class Profile:
    """A whole study: data, models, algorithms, seeds and the recipe of each stage."""

    name: str
    data: str  # "synthetic", "hub", or a folder laid out like the hub; SAOBP_DATA overrides it
    corpus: Annotated[dict[str, Annotated[float, Gt(0)]], MinLen(1)]  # data set -> weight
    tokenizer: Literal["bert", "gpt2", "wordpiece", "bpe"]
    models: Annotated[list[Model], MinLen(1)]
    algorithms: Annotated[list[Algorithm], MinLen(1)]
    pretrain: Pretraining
    finetune: Finetuning
    attention: AttentionCapture
    decoder: Decoding | None = None
    cost: Costs | None = None
    multihop: MultiHop | None = None
    beyond: Beyond | None = None
    vocabulary: Positive | None = None  # of a trained tokenizer
    seeds: Seeds = field(default_factory=lambda: [42])  # the paper's only seed
    algorithms_of: dict[Model, Annotated[list[Algorithm], MinLen(1)]] = field(default_factory=dict)  # a size's own list
    schedules: dict[Model, Schedule] = field(default_factory=dict)  # where a size has its own; else `pretrain`'s
    strengths: dict[Model, Annotated[float, Ge(0)]] = field(default_factory=dict)  # λ; default Sec. 6, by size

    def __post_init__(self):
        if self.tokenizer in ("wordpiece", "bpe") and self.vocabulary is None:
            raise ValueError(f"tokenizer '{self.tokenizer}' is trained on the corpus: give it a vocabulary")
        if self.tokenizer in ("gpt2", "bpe"):
            raise ValueError(f"tokenizer '{self.tokenizer}' has no [MASK], which encoders need: take bert or wordpiece")
        refuse_untrained_positions("attention.length", self.attention.length, self.pretrain)

    def pairs(self) -> list[tuple[str, str]]:
        """Return every (model, algorithm) that is trained: `algorithms`, or a size's own list if it has one."""
        return [(m, a) for m in self.models for a in self.algorithms_of.get(m, self.algorithms)]

    def looked_at(self) -> list[tuple[str, str, str]]:
        """Return every (model, algorithm, task) whose attention is measured."""
        plan, chosen = self.attention, self.attention.algorithms
        pairs = [(m, a) for m, a in self.pairs() if chosen is None or a in chosen]
        return [(m, a, task) for m, a in pairs for task in plan.tasks]

    def recipe(self, model: str) -> Pretraining:
        """Return how a model of this study is pretrained: `pretrain`, with its size's own schedule if it has one."""
        own = self.schedules.get(model)
        return replace(self.pretrain, **asdict(own)) if own else self.pretrain

    def decoder_recipe(self, model: str) -> Pretraining:
        """Return how a decoder of this study is pretrained, by the same schedules."""
        own = self.schedules.get(model)
        return replace(self.decoder.pretrain, **asdict(own)) if own else self.decoder.pretrain

    def fingerprint(self) -> str:
        """Return 12 hex digits that change with any value of the profile."""
        return hashlib.sha256(repr(asdict(self)).encode()).hexdigest()[:12]


SECTIONS = {
    "schedules": Schedule,
    "pretrain": Pretraining,
    "finetune": Finetuning,
    "attention": AttentionCapture,
    "decoder": Decoding,
    "cost": Costs,
    "multihop": MultiHop,
    "beyond": Beyond,
}


def available() -> list[str]:
    """List the names of the profiles that come with the repository."""
    return sorted(path.stem for path in (paths.root() / "notebooks" / "profiles").glob("*.yaml"))


def find(name_or_path: str | Path) -> Path:
    """Return the file of a profile given by name (`smoke`) or path (`my/profile.yaml`)."""
    text = str(name_or_path)
    if text.endswith((".yaml", ".yml")):
        return Path(text)
    known = paths.root() / "notebooks" / "profiles" / f"{text}.yaml"
    if "/" in text or not known.is_file():
        raise ProfileError(f"no profile is called {text!r}: choose one of {', '.join(available())}")
    return known


def load_profile(name_or_path: str | Path) -> Profile:
    """Read a profile; every key is checked before anything runs.

    Raises ProfileError, one line that names the file and the key, for a missing or unreadable file,
    an unknown key, a wrong type or an impossible value.
    """
    path = find(name_or_path)
    if not path.is_file():
        raise ProfileError(f"{path}: no such profile; choose one of {', '.join(available())}, or the path of your own")
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise ProfileError(f"{path}: cannot be read as YAML ({reason})") from None
    if not isinstance(values, dict):
        raise ProfileError(f"{path}: a profile is a mapping of keys to values")
    try:
        # as JSON, because there a mapping may become a dataclass while numbers and texts stay strictly apart
        profile = TypeAdapter(Profile).validate_json(json.dumps(values, default=str))
    except ValidationError as error:
        raise ProfileError(f"{path}: {_explain(error)}") from None
    if profile.name != path.stem:
        raise ProfileError(f"{path}: key 'name' must be the file's own, '{path.stem}': runs find each other by it")
    return profile


def _explain(error: ValidationError) -> str:
    """Put the first validation error in one line that names the key; a misspelt key comes before a missing one."""
    errors = error.errors(include_url=False)
    unknown = ("unexpected_keyword_argument", "extra_forbidden")
    first = next((e for e in errors if e["type"] in unknown), errors[0])
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] in unknown:
        known = [SECTIONS[part] for part in first["loc"][:-1] if part in SECTIONS] or [Profile]
        close = difflib.get_close_matches(str(first["loc"][-1]), known[-1].__dataclass_fields__, n=1)
        return f"unknown key {key!r}" + (f": did you mean '{close[0]}'?" if close else "")
    if first["type"] == "missing":
        return f"key {key!r} is missing"
    if first["type"] == "value_error":
        return f"key {key!r}: {first['ctx']['error']}" if key else str(first["ctx"]["error"])
    hint = " (in YAML a number needs a point before its exponent: 1.0e-4)" if _like_number(first["input"]) else ""
    return f"key {key!r}: {first['msg'][0].lower()}{first['msg'][1:]}, not {first['input']!r}{hint}"


def _like_number(value: object) -> bool:
    try:
        return isinstance(value, str) and float(value) is not None
    except ValueError:
        return False
