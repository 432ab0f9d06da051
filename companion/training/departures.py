"""What a run does otherwise than the paper, and what the paper leaves open: the data that go with
every number.
"""

from collections.abc import Collection, Iterable
from typing import Any

from companion.paper import numbers
from companion.paper.arithmetic import LENGTH, VOCABULARY
from companion.records.schema import Departure, Value
from companion.setup import labels
from companion.setup.recipes import Finetuning, MultiHop, Pretraining
from companion.setup.sizes_and_strengths import SIZES, Size, strength_used
from companion.setup.studies import Study

PAPER_SEED = 42
GPT2_VOCABULARY = 50257
PAPER_TEXTS = "WikiText, BookCorpus, OpenWebText"
# Sec. 6, as the hub has them
PAPER_CORPUS = {"wikitext-103", "bookcorpus/bookcorpus", "Skylion007/openwebtext"}
# tokens per sequence
INFERRED = LENGTH, "inferred from Table 9: tokens per second times seconds per step"
# setting and task
CAPTIONS = {("samples", "race"): ("C23", "Table 1"), ("length", "squad"): ("C47", "Figure 6")}
# field -> column
TABLE5 = {"steps": "max_steps", "learning_rate": "learning_rate", "warmup": "warmup_steps"}
# field of a recipe -> name for readers
SCHEDULE = {
    "steps": "steps",
    "learning_rate": "learning rate",
    "warmup": "warm-up steps",
    "scheduler": "scheduler",
    "length": "tokens per sequence",
    "masking": "masking",
    "dropout": "dropout",
    "weight_decay": "weight decay",
    "precision": "precision",
    "batch": "sequences per batch",
}


def departures(
    study: Study,
    model: str,
    text: Any,
    algorithm: str,
    seed: int,
    recipe: Pretraining | None = None,
) -> list[Departure]:
    """Name everything that makes a pretraining run another one than the paper's: text, model,
    method, schedule.

    `recipe` is the study's of the model where none is given.
    """
    recipe = recipe or study.recipe(model)
    rows = _text(study, text, recipe) + _method(study, model, algorithm)
    return _unlike(rows + _trained(study, model, recipe, [seed]))


def decoder(study: Study, model: str, text: Any, algorithm: str, seed: int) -> list[Departure]:
    """Name what a decoder's run does otherwise than the paper, which gives no size and no schedule
    for decoders.
    """
    plan, recipe = study.decoder, study.decoder_recipe(model)
    words = f"{plan.tokenizer}, at most {plan.vocabulary} tokens"
    if plan.tokenizer == "gpt2":
        words = GPT2_VOCABULARY
    rows = _text(study, text, recipe)
    rows.append(("model", _shape(SIZES[model])))
    rows.append(("vocabulary", words, GPT2_VOCABULARY, "GPT-2"))
    rows += [*_method(study, model, algorithm), _seed([seed])]
    for field, name in SCHEDULE.items():
        if field != "masking":
            rows.append((name, getattr(recipe, field)))
    return _unlike(rows)


def beyond(study: Study, text: Any) -> list[Departure]:
    """Name how the runs of notebook 12 are trained, a part of the record each: "strengths",
    "sizes", "hops".

    Strengths are set beside Table 5's column of their size, larger models each beside its own.
    Raises StudyError if the study has no such runs.
    """
    plan, exam = study.section("beyond"), study.multihop
    trained = _trained(study, plan.model, plan.pretrain, plan.seeds)
    differences = _unlike([*_text(study, text, plan.pretrain), *trained], part="strengths")
    # on the strengths' text
    for size in plan.larger:
        trained = _trained(study, size.model, size.recipe(plan.pretrain), size.seeds)
        differences += _unlike(trained, part="sizes", model=size.model)
    if exam:
        differences += [{**entry, "part": "hops"} for entry in exam_of(exam)]
    return differences


def exam_of(plan: MultiHop) -> list[Departure]:
    """Name how the encoders of known hops are trained, and their seeds where they are several: the
    paper has none.
    """
    seeds = [*plan.seeds, *(seed for more in plan.more_seeds.values() for seed in more)]
    settings = {
        "layers": ", ".join(map(str, plan.layers)),
        "width": plan.hidden,
        "heads": plan.heads,
        "strength": plan.strength,
        "seeds": f"{min(seeds)} to {max(seeds)}" if len(seeds) > 1 else None,
    }
    named = SCHEDULE | {"batch": "stories per batch", "length": "sentences per story"}
    del named["masking"], named["weight_decay"]
    training = {name: getattr(plan.pretrain, field) for field, name in named.items()}
    return _unlike((settings | training).items())


def finetuning(study: Finetuning, pretrained: int, tasks: Collection[str]) -> list[Departure]:
    """Name the settings of a fine-tuning run, of which the paper gives none, and what stands in for
    what.

    `pretrained`: tokens per sequence in pretraining, beyond which positions are new to the model;
        `tasks`: the run's.
    """
    longest = max(map(study.tokens, tasks), default=0)
    rows = [
        ("tokens per sequence", study.length),
        ("sequences per batch", study.batch),
        ("epochs", study.epochs),
        ("learning rate", study.learning_rate),
        ("dropout", study.dropout),
        ("positions known from pretraining", pretrained if longest > pretrained else None),
        ("training items at most", study.limit_train or "all", "all"),
        ("reported items at most", study.limit_evaluation or "all", "all"),
    ]
    differences = _unlike(rows)
    for task in sorted(tasks):
        rows = [("epochs", study.epochs_of.get(task))]
        rows.append(("tokens per sequence", study.length_of.get(task)))
        rows += zip(("training split", "reported split"), study.splits.get(task, ()))
        differences += _unlike(rows, task=task)
    return differences


def attention(samples: int, length: int, task: str, left_out: int = 0) -> list[Departure]:
    """Name how attention was measured: items, tokens per item, and items whose question `length`
    cannot hold.
    """
    paper = numbers.load()
    printed = {}
    for (setting, of), (id, where) in CAPTIONS.items():
        if of == task:
            printed[setting] = (paper.claim(id), where)
    settings = [
        ("samples", samples, *printed.get("samples", ())),
        ("tokens per sample at most", length, *printed.get("length", ())),
        ("weights", "pretrained, not fine-tuned"),
        ("items too long", left_out or None),
    ]
    return _unlike(settings, task=task)


def cost(
    model: str, batch: int, length: int, rounds: int, vocabulary: int, phase: str = ""
) -> list[Departure]:
    """Name how the cost of a model was measured, in one `phase` of `whole_model.PHASES` or in all
    of them.
    """
    tokens, basis = INFERRED
    batches = {"": ("1 in training, 32 in inference", basis)}
    batches["inference"] = (32, "inferred from Table 9: samples per second times seconds per batch")
    rows = [
        ("sequences per batch", batch, *batches.get(phase, (1, basis))),
        ("tokens per sequence", length, tokens, basis),
        ("rounds", rounds, "an average over 200 steps"),
        ("logits", None if phase == "inference" else "at masked positions only"),
        ("dropout", 0.0 if phase == "train_no_dropout" else 0.1, 0.1, "BERT"),
    ]
    part = {"part": "inference" if phase == "inference" else "training"} if phase else {}
    size = SIZES[model]
    of_model = [("vocabulary", vocabulary, VOCABULARY, "BERT")]
    if size.scaled_from:
        of_model.append(("model", _shape(size), labels.model_title(size.scaled_from)))
    return _unlike(rows, **part) + _unlike(of_model)


def differs(matter: str, ours: Value, paper: Value = None, *basis: str) -> Departure:
    """Return a departure from what the paper, or who it follows (`basis`), does; None where it
    gives nothing.
    """
    departure = {"matter": matter, "ours": ours, "paper": paper}
    if basis:
        departure["basis"] = basis[0]
    return departure


def _unlike(rows: Iterable[tuple], **of: str) -> list[Departure]:
    """Return the departures among rows of `differs`' arguments: those where ours is not the
    paper's.
    """
    entries = ({**differs(*row), **of} for row in rows)
    return [entry for entry in entries if entry["ours"] != entry["paper"]]


def _shape(size: Size) -> str:
    return f"{size.layers} layers, width {size.hidden}"


def _seed(seeds: Collection[int]) -> tuple:
    others = ", ".join(str(seed) for seed in seeds if seed != PAPER_SEED)
    return "seed", others or PAPER_SEED, PAPER_SEED


def _text(study: Study, text: Any, recipe: Pretraining) -> list[tuple]:
    """Compare the text with the paper's three; of the same text name the weights, which the paper
    does not give.
    """
    names = set()
    for name in study.corpus:
        names.add("wikitext-103" if ":wikitext-103" in name else name.partition(":")[0])
    # written here, whatever it says of itself
    written_here = ("saobp/", "local/")
    ours = any(split["dataset"].startswith(written_here) for split in text.splits)
    complete = all(split.get("complete") for split in text.splits)
    which = ("text", ", ".join(study.corpus), PAPER_TEXTS)
    if names == PAPER_CORPUS and complete and not ours:
        weights = " : ".join(f"{weight:g}" for weight in study.corpus.values())
        which = ("weights of the texts", weights)
    return [which, ("tokens of text", recipe.limit_tokens or "all", "all")]


def _method(study: Study, model: str, algorithm: str) -> list[tuple]:
    """Compare the strength with the paper's, and name baselines that are not exactly their
    authors'.
    """
    rows = []
    used = strength_used(model, algorithm, study.strengths)
    if used is not None:
        rows.append(("strength", used, SIZES[model].strength))
    if algorithm == "eigen_reg":
        rows.append(("Eigen-Reg", "reconstructed after Bao et al. 2024"))
    if algorithm.endswith("_reg"):
        rows.append(("penalty coefficient", study.recipe(model).penalty))
    return rows


def _trained(study: Study, model: str, recipe: Pretraining, seeds: Collection[int]) -> list[tuple]:
    """Compare a model and its training with the paper's of its size: with Table 5, with BERT's
    where that is silent.
    """
    size, paper = SIZES[model], numbers.load()
    row = {"model": labels.published_model(model)}
    known: dict[str, tuple] = {"length": INFERRED}
    for field, metric in TABLE5.items():
        known[field] = (paper.value(5, metric=metric, **row),)
    known["scheduler"] = (paper.printed(5, metric="lr_scheduler_type", **row),)
    for field in ("masking", "dropout", "weight_decay"):
        known[field] = (Pretraining.model_fields[field].default, "BERT")
    words = f"{study.tokenizer}, at most {study.vocabulary} words"
    if study.tokenizer == "bert":
        words = VOCABULARY
    rows = []
    if size.scaled_from:
        whole = f"{labels.model_title(size.scaled_from)}: {_shape(SIZES[size.scaled_from])}"
        rows.append(("model", _shape(size), whole))
    rows += [("vocabulary", words, VOCABULARY, "BERT"), _seed(seeds)]
    for field, name in SCHEDULE.items():
        rows.append((name, getattr(recipe, field), *known.get(field, ())))
    return rows
