"""What a study may say: the whole difference between a check of minutes and the paper's own
runs.
"""

import difflib
import json
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from annotated_types import Ge, Gt, MinLen
from pydantic import ValidationError, model_validator

from companion.setup import labels, paths, recipes, typed_by_hand
from companion.setup.recipes import Algorithm, Model, Positive, Pretraining, Schedule, Seeds


class StudyError(ValueError):
    """A study that cannot be used; the message names the file and the key."""


# the first that has any results is shown; rows of `paper` come first in it
SAY_MOST = ("narrow", "paper", "laptop")
# whose splits stand in where a mirror lacks the ones of the hub
STAND_INS = "narrow"
# the study whose models train for seconds: it checks that everything runs
EXERCISE = "smoke"
# at the paper's own sizes, trained as the paper says
PAPER_STUDY = "paper"
# as wide as the paper's: the first of them with records goes above the scaled-down models
FULL_WIDTH = (PAPER_STUDY, "laptop")
# trained on real text; the planned study is of seeds that none had seen
ENCODERS, FRESH_ENCODERS = "narrow", "scratch"
FRESH_DECODERS = "decoders"
# questions of several hops, likewise
EXAM, FRESH_EXAM = "stories", "hops"
# with the step inserted
PUBLIC_ENCODER = "retrofit"
# and with sparing, by λ and length
PUBLIC_MODELS = "spare"
# time to learn at tuned learning rates
TUNED_EXAM = "learning"
# the paper's three sizes, of which the times of the larger two are at hand
LADDER = "ladder"
# of Original and High, 300 in each setting
ALTERNATIONS = "cost"
PLANNED = (
    FRESH_EXAM,
    PUBLIC_ENCODER,
    FRESH_ENCODERS,
    "branched",
    "branched-again",
    FRESH_DECODERS,
    ALTERNATIONS,
)
TRACKED = (ENCODERS, "laptop", EXAM, *PLANNED)


class Study(typed_by_hand.Strict):
    """A whole study: data, models, algorithms, seeds and the recipe of each stage."""

    name: str
    # "synthetic", "hub", or a folder laid out like the hub; SAOBP_DATA overrides it
    data: str
    # data set -> weight
    corpus: Annotated[dict[str, Annotated[float, Gt(0)]], MinLen(1)]
    tokenizer: Literal["bert", "gpt2", "wordpiece", "bpe"]
    models: Annotated[list[Model], MinLen(1)]
    algorithms: Annotated[list[Algorithm], MinLen(1)]
    pretrain: Pretraining
    finetune: recipes.Finetuning
    attention: recipes.AttentionCapture
    decoder: recipes.Decoding | None = None
    cost: recipes.Costs | None = None
    multihop: recipes.MultiHop | None = None
    beyond: recipes.Beyond | None = None
    # of a trained tokenizer
    vocabulary: Positive | None = None
    # the paper's only seed
    seeds: Seeds = [42]
    # a size's own list
    algorithms_of: dict[Model, Annotated[list[Algorithm], MinLen(1)]] = {}
    # where a size has its own; else `pretrain`'s
    schedules: dict[Model, Schedule] = {}
    # λ; default Sec. 6, by size
    strengths: dict[Model, Annotated[float, Ge(0)]] = {}
    # a file of `saobp tokens`, which encoders read in place of the corpus
    tokens: str | None = None

    @model_validator(mode="after")
    def _possible(self) -> Self:
        paths.plain(self.name)
        for group in self.finetune.groups:
            if not paths.is_plain(group):
                raise ValueError(
                    f"finetune.groups: {group!r} is no name of a group; take letters, digits, '-' and '_'"
                )
        if self.tokenizer in ("wordpiece", "bpe") and self.vocabulary is None:
            raise ValueError(
                f"tokenizer '{self.tokenizer}' is trained on the corpus: give it a vocabulary"
            )
        if self.tokenizer in ("gpt2", "bpe"):
            raise ValueError(
                f"tokenizer '{self.tokenizer}' has no [MASK], which encoders need: take bert or wordpiece"
            )
        if self.beyond and self.beyond.model not in self.models:
            raise ValueError(
                f"beyond.model: '{self.beyond.model}' is none of `models`, whose runs it looks at"
            )
        recipes.refuse_untrained_positions("attention.length", self.attention.length, self.pretrain)
        # its models read the text of the others
        for key in recipes.LIMITS if self.beyond else ():
            value, usual = (
                getattr(recipe, key) for recipe in (self.beyond.pretrain, self.pretrain)
            )
            if value != usual:
                raise ValueError(
                    f"beyond.pretrain.{key} {value} is not pretrain.{key} {usual}: give both the same"
                )
        return self

    def pairs(self) -> list[tuple[str, str]]:
        """Return every (model, algorithm) that is trained: `algorithms`, or a size's own list if it
        has one.
        """
        return [(m, a) for m in self.models for a in self.algorithms_of.get(m, self.algorithms)]

    def looked_at(self) -> list[tuple[str, str, str]]:
        """Return every (model, algorithm, task) whose attention is measured."""
        plan, chosen = self.attention, self.attention.algorithms
        pairs = [(m, a) for m, a in self.pairs() if chosen is None or a in chosen]
        return [(m, a, task) for m, a in pairs for task in plan.tasks_of.get(m, plan.tasks)]

    def recipe(self, model: str) -> Pretraining:
        """Return how an encoder ("mini") or decoder ("gpt2-mini") is pretrained, by its size's own
        schedule if any.
        """
        size = model.removeprefix(labels.DECODER)
        usual = self.section("decoder").pretrain if labels.is_decoder(model) else self.pretrain
        return usual.changed(**dict(self.schedules[size])) if size in self.schedules else usual

    def decoder_recipe(self, size: str) -> Pretraining:
        """Return how the decoder of a size is pretrained."""
        return self.recipe(labels.DECODER + size)

    def section(self, name: str) -> Any:
        """Return a section that a study may leave out. Raises StudyError, one line, if this one
        does.
        """
        if (section := getattr(self, name)) is None:
            raise StudyError(
                f"study {self.name} has no section `{name}`: add it, or take a study that has one"
            )
        return section


def available() -> list[str]:
    """List the names of the studies that come with the repository."""
    return sorted(path.stem for path in (paths.root() / "notebooks" / "studies").glob("*.yaml"))


def find(name_or_path: str | Path) -> Path:
    """Return the file of a study given by name (`smoke`) or path (`my/study.yaml`)."""
    text = str(name_or_path)
    if text.endswith((".yaml", ".yml")):
        return Path(text)
    known = paths.root() / "notebooks" / "studies" / f"{text}.yaml"
    if "/" not in text and known.is_file():
        return known
    if any(
        text in typed_by_hand.read(plan) for plan in (paths.root() / "data" / "plan").glob("*.yaml")
    ):
        raise StudyError(
            f"{text!r} is a planned study, a section of data/plan: SCALE.md has the command of its runs"
        )
    raise StudyError(f"no study is called {text!r}: choose one of {', '.join(available())}")


def load_study(name_or_path: str | Path) -> Study:
    """Read a study and check every key. Raises StudyError, one line that names the file and the
    key.
    """
    path = find(name_or_path)
    try:
        # as JSON: what YAML alone has, such as a date, is a text there, and an error speaks of
        # arrays and objects
        study = Study.model_validate_json(json.dumps(typed_by_hand.read(path), default=str))
    except ValidationError as error:
        raise StudyError(f"{path}: {_explain(error)}") from None
    except ValueError as error:
        lost = f"{path}: no such study; choose one of {', '.join(available())}, or the path of your own"
        raise StudyError(str(error) if path.is_file() else lost) from None
    if study.name != path.stem:
        raise StudyError(
            f"{path}: key 'name' must be the file's own, '{path.stem}': runs find each other by it"
        )
    return study


def _explain(error: ValidationError) -> str:
    """Put the first validation error in one line that names the key, and the key that was meant."""
    key, first = typed_by_hand.first_flaw(error)
    if first["type"] == typed_by_hand.UNKNOWN:
        known = {
            key
            for kind in (Study, *vars(recipes).values())
            for key in getattr(kind, "model_fields", ())
        }
        close = difflib.get_close_matches(str(first["loc"][-1]), sorted(known), n=1)
        return f"unknown key {key!r}" + (f": did you mean '{close[0]}'?" if close else "")
    if first["type"] == "missing":
        return f"key {key!r} is missing"
    message = f"{first['msg'][0].lower()}{first['msg'][1:]}, not {first['input']!r}"
    message = str(first["ctx"]["error"]) if first["type"] == "value_error" else message
    return f"key {key!r}: {message}" if key else message
