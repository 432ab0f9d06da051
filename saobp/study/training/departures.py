"""What a run does otherwise than the paper, and what the paper leaves open: the data that go with every number."""

from collections.abc import Collection
from dataclasses import fields
from typing import Any

from saobp.study.paper import numbers
from saobp.study.paper.arithmetic import VOCABULARY
from saobp.study.setup.recipes import Finetuning, MultiHop, Pretraining
from saobp.study.setup.schema import Departure, Value
from saobp.study.setup.sizes_and_strengths import SIZES, Size, strength_used
from saobp.study.setup.studies import Study

PAPER_SEED = 42
PAPER_TEXTS = "WikiText, BookCorpus, OpenWebText"
PAPER_CORPUS = {"wikitext-103", "bookcorpus/bookcorpus", "Skylion007/openwebtext"}  # Sec. 6, as the hub has them
INFERRED = {"tokens per sequence": (128, "inferred from Table 9: tokens per second times seconds per step")}
CAPTIONS = {("samples", "race"): ("C23", "Table 1"), ("tokens per sample at most", "squad"): ("C47", "Figure 6")}
TABLE5 = {"steps": "max_steps", "learning rate": "learning_rate", "warm-up steps": "warmup_steps"}
SCHEDULE = {  # name for readers -> field of a recipe
    "steps": "steps", "learning rate": "learning_rate", "warm-up steps": "warmup", "scheduler": "scheduler",
    "tokens per sequence": "length", "masking": "masking", "dropout": "dropout", "weight decay": "weight_decay",
    "precision": "precision", "sequences per batch": "batch",
}  # fmt: skip


def departures(
    study: Study, model: str, text: Any, algorithm: str, seed: int, recipe: Pretraining | None = None
) -> list[Departure]:
    """Name everything that makes a pretraining run another one than the paper's: text, model, method, schedule.

    `recipe` is the study's of the model where none is given.
    """
    recipe = recipe or study.recipe(model)
    minutes = [differs("minutes for a row", study.minutes)] if study.minutes else []
    trained = _trained(study, model, recipe, [seed])
    return [*_text(study, text, recipe), *_method(study, model, algorithm), *trained, *minutes]


def decoder(study: Study, model: str, text: Any, algorithm: str, seed: int) -> list[Departure]:
    """Name what a decoder's run does otherwise than the paper, which gives no size and no schedule for decoders."""
    size, plan, recipe = SIZES[model], study.decoder, study.decoder_recipe(model)
    found = [*_text(study, text, recipe), differs("model", f"{size.layers} layers, width {size.hidden}")]
    if plan.tokenizer != "gpt2":
        found.append(differs("vocabulary", f"{plan.tokenizer}, at most {plan.vocabulary} tokens", 50257, "GPT-2"))
    timing = [differs(name, getattr(recipe, field)) for name, field in SCHEDULE.items() if name != "masking"]
    return [*found, *_method(study, model, algorithm), *_seeds([seed]), *timing]


def beyond(study: Study, text: Any) -> list[Departure]:
    """Name how the runs of notebook 12 are trained, a part of the record each: "strengths", "sizes", "hops".

    Strengths are set beside Table 5's column of their size, larger models each beside its own.
    Raises StudyError if the study has no such runs.
    """
    plan, exam = study.section("beyond"), study.multihop
    own = _text(study, text, plan.pretrain) + _trained(study, plan.model, plan.pretrain, plan.seeds)
    found = [{**entry, "part": "strengths"} for entry in own]
    for one in plan.larger:  # on the strengths' text
        own = _trained(study, one.model, one.recipe(plan.pretrain), one.seeds)
        found += [{**entry, "part": "sizes", "model": one.model} for entry in own]
    return found + ([{**entry, "part": "hops"} for entry in exam_of(exam)] if exam else [])


def _trained(study: Study, model: str, recipe: Pretraining, seeds: Collection[int]) -> list[Departure]:
    """Name what differs in a model's training from the paper's of the size that it stands for."""
    size, found = SIZES[model], []
    if size.scaled_from:
        whole = f"BERT-{size.scaled_from.title()}: {_shape(SIZES[size.scaled_from])}"
        found.append(differs("model", _shape(size), whole))
    if study.tokenizer != "bert":
        found.append(differs("vocabulary", f"{study.tokenizer}, at most {study.vocabulary} words", VOCABULARY, "BERT"))
    return [*found, *_seeds(seeds), *schedule(recipe, size.scaled_from or model)]


def _seeds(seeds: Collection[int]) -> list[Departure]:
    other = [str(seed) for seed in seeds if seed != PAPER_SEED]
    return [differs("seed", ", ".join(other), PAPER_SEED)] if other else []


def _shape(size: Size) -> str:
    return f"{size.layers} layers, width {size.hidden}"


def exam_of(plan: MultiHop) -> list[Departure]:
    """Name how the encoders of known hops are trained, and their seeds where they are several: the paper has none."""
    seeds = [*plan.seeds, *(seed for more in plan.more_seeds.values() for seed in more)]
    settings = {"layers": ", ".join(map(str, plan.layers)), "width": plan.hidden, "heads": plan.heads}
    settings |= {"strength": plan.strength} | ({"seeds": f"{min(seeds)} to {max(seeds)}"} if len(seeds) > 1 else {})
    named = {"sequences per batch": "stories per batch", "tokens per sequence": "sentences per story"}
    training = {named.get(name, name): getattr(plan.pretrain, field) for name, field in SCHEDULE.items()}
    del training["masking"], training["weight decay"]
    return [differs(*item) for item in (settings | training).items()]


def _text(study: Study, text: Any, recipe: Pretraining) -> list[Departure]:
    """Name another text than the paper's three, or less of it; of the same text the weights, which it does not give."""
    names = {"wikitext-103" if ":wikitext-103" in name else name.partition(":")[0] for name in study.corpus}
    limit = [differs("tokens of text", recipe.limit_tokens, "all")] if recipe.limit_tokens else []
    own = ("saobp/", "local/")  # written here, whatever it says of itself
    whole = all(split.get("complete") and not split["dataset"].startswith(own) for split in text.splits)
    if names == PAPER_CORPUS and whole:
        return [differs("weights of the texts", " : ".join(f"{weight:g}" for weight in study.corpus.values())), *limit]
    return [differs("text", ", ".join(study.corpus), PAPER_TEXTS), *limit]


def _method(study: Study, model: str, algorithm: str) -> list[Departure]:
    """Name another strength than the paper's, and baselines that are not exactly their authors'."""
    used, usual = strength_used(model, algorithm, study.strengths), SIZES[model].strength
    found = [differs("strength", used, usual)] if used not in (None, usual) else []
    if algorithm == "eigen_reg":
        found.append(differs("Eigen-Reg", "reconstructed after Bao et al. 2024"))
    if algorithm.endswith("_reg") and (penalty := study.recipe(model).penalty) is not None:
        found.append(differs("penalty coefficient", penalty))
    return found


def schedule(recipe: Pretraining, size: str) -> list[Departure]:
    """Compare a schedule with Table 5, with BERT's where the paper is silent, and name what neither gives."""
    paper, row = numbers.load(), {"model": size.title()}
    known: dict[str, tuple] = {name: (paper.value(5, metric=metric, **row),) for name, metric in TABLE5.items()}
    known["scheduler"] = (paper.printed(5, metric="lr_scheduler_type", **row),)
    usual = {field.name: field.default for field in fields(Pretraining)}
    known |= INFERRED | {name: (usual[SCHEDULE[name]], "BERT") for name in ("masking", "dropout", "weight decay")}
    compared = ((name, getattr(recipe, field), known.get(name, (None,))) for name, field in SCHEDULE.items())
    return [differs(name, ours, *theirs) for name, ours, theirs in compared if theirs[0] != ours]


def finetuning(study: Finetuning, pretrained: int, tasks: Collection[str]) -> list[Departure]:
    """Name the settings of a fine-tuning run, of which the paper gives none, and what stands in for what.

    `pretrained`: tokens per sequence in pretraining, beyond which positions are new to the model; `tasks`: the run's.
    """
    settings = {
        "tokens per sequence": study.length, "sequences per batch": study.batch, "epochs": study.epochs,
        "learning rate": study.learning_rate, "dropout": study.dropout,
    }  # fmt: skip
    if max(map(study.tokens, tasks), default=0) > pretrained:
        settings["positions known from pretraining"] = pretrained
    found = [differs(*item) for item in settings.items()]
    limits = {"training items at most": study.limit_train, "reported items at most": study.limit_evaluation}
    found += [differs(name, limit, "all") for name, limit in limits.items() if limit]
    for task in sorted(tasks):
        for name, given in (("epochs", study.epochs_of), ("tokens per sequence", study.length_of)):
            found += [{**differs(name, given[task]), "task": task}] if task in given else []
        for name, split in zip(("training split", "reported split"), study.splits.get(task, ())):
            found.append({**differs(name, split), "task": task})
    return found


def attention(samples: int, length: int, task: str, left_out: int = 0) -> list[Departure]:
    """Name how attention was measured: items, tokens per item, and items whose question `length` cannot hold."""
    settings: dict[str, Value] = {"samples": samples, "tokens per sample at most": length}
    settings |= {"weights": "pretrained, not fine-tuned"} | ({"items too long": left_out} if left_out else {})
    paper = numbers.load()
    said = {name: (paper.claim(id), where) for (name, of), (id, where) in CAPTIONS.items() if of == task}
    compared = ((name, ours, *said.get(name, (None,))) for name, ours in settings.items())
    return [{**differs(*item), "task": task} for item in compared if item[1] != item[2]]


def cost(model: str, batch: int, length: int, rounds: int, vocabulary: int, phase: str = "") -> list[Departure]:
    """Name how the cost of a model was measured, in one `phase` of `whole_model.PHASES` or in all of them."""
    tokens, basis = INFERRED["tokens per sequence"]
    batches = {"": ("1 in training, 32 in inference", basis)}
    batches["inference"] = (32, "inferred from Table 9: samples per second times seconds per batch")
    found = [
        differs("sequences per batch", batch, *batches.get(phase, (1, basis))),
        differs("tokens per sequence", length, tokens, basis), differs("rounds", rounds, "an average over 200 steps"),
    ]  # fmt: skip
    found += [] if phase == "inference" else [differs("logits", "at masked positions only")]
    found += [differs("dropout", 0.0, 0.1, "BERT")] if phase == "train_no_dropout" else []
    part = {"part": "inference" if phase == "inference" else "training"} if phase else {}
    found = [{**entry, **part} for entry in found if entry["ours"] != entry["paper"]]
    whole = SIZES[model].scaled_from
    found += [] if vocabulary == VOCABULARY else [differs("vocabulary", vocabulary, VOCABULARY, "BERT")]
    return found + ([differs("model", _shape(SIZES[model]), f"BERT-{whole.title()}")] if whole else [])


def differs(matter: str, ours: Value, paper: Value = None, *basis: str) -> Departure:
    """Return a departure from what the paper, or who it follows (`basis`), does; None where it gives nothing."""
    return {"matter": matter, "ours": ours, "paper": paper, **({"basis": basis[0]} if basis else {})}
