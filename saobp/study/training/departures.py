"""What a run does otherwise than the paper, and what the paper leaves open: the data that go with every number."""

from collections.abc import Collection, Iterator
from dataclasses import fields, replace
from typing import Any

from saobp.study.paper import numbers
from saobp.study.setup import sizes
from saobp.study.setup.recipes import Beyond, Finetuning, MultiHop, Pretraining
from saobp.study.setup.schema import Departure, Value
from saobp.study.setup.studies import Profile, ProfileError

PAPER_SEED = 42
PAPER_TEXTS = "WikiText, BookCorpus, OpenWebText"
PAPER_CORPUS = {"wikitext-103", "bookcorpus/bookcorpus", "Skylion007/openwebtext"}  # Sec. 6, as the hub has them
INFERRED = {"tokens per sequence": (128, "inferred from Table 9: tokens per second times seconds per step")}
TABLE5 = {"steps": "max_steps", "learning rate": "learning_rate", "warm-up steps": "warmup_steps"}


def departures(study: Profile, model: str, text: Any, algorithm: str, seed: int) -> list[Departure]:
    """Name everything that makes a pretraining run another one than the paper's: text, model, method, schedule."""
    recipe, size = study.recipe(model), sizes.SIZES[model].twin_of or model
    return [
        *_text(study, text, recipe), *_size(study, model), *_method(study, model, algorithm, seed),
        *schedule(recipe, size), *([open_("minutes for a row", study.minutes)] if study.minutes else []),
    ]  # fmt: skip


def decoder(study: Profile, model: str, text: Any, algorithm: str, seed: int) -> list[Departure]:
    """Name what a decoder's run does otherwise than the paper, which gives no size and no schedule for decoders."""
    size, plan, recipe = sizes.SIZES[model], study.decoder, study.decoder_recipe(model)
    found = [*_text(study, text, recipe), open_("model", f"{size.layers} layers, width {size.hidden}")]
    if plan.tokenizer != "gpt2":
        found.append(differs("vocabulary", f"{plan.tokenizer}, at most {plan.vocabulary} tokens", 50257, "GPT-2"))
    timing = {name: value for name, value in _schedule(recipe).items() if name != "masking"}
    return [*found, *_method(study, model, algorithm, seed), *(open_(*item) for item in timing.items())]


def beyond(study: Profile, text: Any) -> list[Departure]:
    """Name how the runs of notebook 12 are trained, a part of the record each: "strengths", "sizes", "hops".

    Strengths are set beside Table 5's column of their size, larger models each beside its own.
    Raises ProfileError if the study has no such runs.
    """
    if study.beyond is None:
        raise ProfileError(f"profile {study.name} asks no open questions: it has no section `beyond`")
    plan, exam = study.beyond, study.multihop
    usual = [*_text(study, text, plan.pretrain), *_size(study, plan.model), *_seeds(plan.seeds)]
    usual += schedule(plan.pretrain, sizes.SIZES[plan.model].twin_of or plan.model)
    found = [{**entry, "part": "strengths"} for entry in usual] + list(_larger(study, plan))
    return found + ([{**entry, "part": "hops"} for entry in _exam(exam)] if exam else [])


def _larger(study: Profile, plan: Beyond) -> Iterator[Departure]:
    """Yield what larger models' training differs in from the paper's for their size; their text is the strengths'."""
    for one in plan.larger:
        rate, precision = one.of(plan.pretrain)
        recipe = replace(plan.pretrain, learning_rate=rate, precision=precision)
        found = [*_size(study, one.model), *_seeds(one.seeds)]
        for entry in found + schedule(recipe, sizes.SIZES[one.model].twin_of or one.model):
            yield {**entry, "part": "sizes", "model": one.model}


def _seeds(seeds: Collection[int]) -> list[Departure]:
    other = [str(seed) for seed in seeds if seed != PAPER_SEED]
    return [differs("seed", ", ".join(other), PAPER_SEED)] if other else []


def _size(study: Profile, model: str) -> list[Departure]:
    """Name a scaled-down model with the size that it stands for, and another vocabulary than BERT's."""
    size, found = sizes.SIZES[model], []
    if size.twin_of:
        whole = sizes.SIZES[size.twin_of]
        found.append(differs("model", _shape(size), f"BERT-{size.twin_of.title()}: {_shape(whole)}"))
    if study.tokenizer != "bert":
        found.append(differs("vocabulary", f"{study.tokenizer}, at most {study.vocabulary} words", 30522, "BERT"))
    return found


def _shape(size: sizes.Size) -> str:
    return f"{size.layers} layers, width {size.hidden}"


def _exam(plan: MultiHop) -> list[Departure]:
    recipe = plan.pretrain
    more = sorted({seed for seeds in plan.more_seeds.values() for seed in seeds})
    settings = {
        "layers": ", ".join(map(str, plan.layers)), "width": plan.hidden, "heads": plan.heads,
        "strength": plan.strength, "steps": recipe.steps, "stories per batch": recipe.batch,
        "sentences per story": recipe.length, "learning rate": recipe.learning_rate, "scheduler": recipe.scheduler,
        "warm-up steps": recipe.warmup, "dropout": recipe.dropout, "precision": recipe.precision,
        "seeds": f"{min(plan.seeds)} to {max([*plan.seeds, *more])}",
    }  # fmt: skip
    return [open_(*item) for item in settings.items()]


def partial(text: Any) -> bool:
    """Say whether any split behind a text is less than what was published under its name."""
    return not all(split.get("complete") for split in text.splits) or any(
        split["dataset"].startswith(("saobp/", "local/")) for split in text.splits
    )


def _text(study: Profile, text: Any, recipe: Pretraining) -> list[Departure]:
    """Name another text than the paper's three, or less of it; of the same text the weights, which it does not give."""
    names = {"wikitext-103" if ":wikitext-103" in name else name.partition(":")[0] for name in study.corpus}
    limit = [differs("tokens of text", recipe.limit_tokens, "all")] if recipe.limit_tokens else []
    if names == PAPER_CORPUS and not partial(text):
        return [open_("weights of the texts", " : ".join(f"{weight:g}" for weight in study.corpus.values())), *limit]
    return [differs("text", ", ".join(study.corpus), PAPER_TEXTS), *limit]


def _method(study: Profile, model: str, algorithm: str, seed: int) -> list[Departure]:
    """Name another strength or seed than the paper's, and baselines that are not exactly their authors'."""
    used, usual = sizes.strength_used(model, algorithm, study.strengths), sizes.SIZES[model].strength
    found = [differs("strength", used, usual)] if used not in (None, usual) else []
    if algorithm == "eigen_reg":
        found.append(open_("Eigen-Reg", "reconstructed after Bao et al. 2024"))
    if algorithm.endswith("_reg") and (penalty := study.recipe(model).penalty) is not None:
        found.append(open_("penalty coefficient", penalty))
    return found + _seeds([seed])


def _schedule(recipe: Pretraining) -> dict[str, Value]:
    """Return every setting of a training schedule by its name for readers."""
    return {
        "steps": recipe.steps, "learning rate": recipe.learning_rate, "warm-up steps": recipe.warmup,
        "scheduler": recipe.scheduler, "tokens per sequence": recipe.length, "masking": recipe.masking,
        "dropout": recipe.dropout, "weight decay": recipe.weight_decay, "precision": recipe.precision,
        "sequences per batch": recipe.batch,
    }  # fmt: skip


def schedule(recipe: Pretraining, size: str) -> list[Departure]:
    """Compare a schedule with Table 5, with BERT's where the paper is silent, and name what neither gives."""
    paper, row = numbers.load(), {"model": size.title()}
    known: dict[str, tuple] = {name: (paper.value(5, metric=metric, **row),) for name, metric in TABLE5.items()}
    known["scheduler"] = (paper.printed(5, metric="lr_scheduler_type", **row),)
    usual = {field.name: field.default for field in fields(Pretraining)}
    known |= INFERRED | {
        name: (usual[name.replace(" ", "_")], "BERT") for name in ("masking", "dropout", "weight decay")
    }
    told = ((name, ours, known.get(name, (None,))) for name, ours in _schedule(recipe).items())
    return [differs(name, ours, *theirs) for name, ours, theirs in told if theirs[0] != ours]


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
    found = [open_(*item) for item in settings.items()]
    limits = {"training items at most": study.limit_train, "reported items at most": study.limit_evaluation}
    found += [differs(name, limit, "all") for name, limit in limits.items() if limit]
    for task in sorted(tasks):
        for name, given in (("epochs", study.epochs_of), ("tokens per sequence", study.length_of)):
            found += [{**open_(name, given[task]), "task": task}] if task in given else []
        for name, split in zip(("training split", "reported split"), study.splits.get(task, ())):
            found.append({**differs(name, split, "the published one"), "task": task})
    return found


def attention(samples: int, length: int, task: str, left_out: int = 0) -> list[Departure]:
    """Name how attention was measured: items, tokens per item, and items whose question `length` cannot hold."""
    settings: dict[str, Value] = {
        "samples": samples, "tokens per sample at most": length, "weights": "pretrained, not fine-tuned",
    }  # fmt: skip
    settings |= {"items too long": left_out} if left_out else {}
    return [{**open_(*item), "task": task} for item in settings.items()]


def cost(model: str, batch: int, length: int, rounds: int, vocabulary: int) -> list[Departure]:
    """Name how the cost of a model was measured."""
    found = [
        differs("sequences per batch", batch, "1 in training, 32 in inference"), open_("tokens per sequence", length),
        differs("rounds", rounds, 1), differs("vocabulary", vocabulary, 30522, "BERT"),
        open_("logits", "at masked positions only"),
    ]  # fmt: skip
    whole = sizes.SIZES[model].twin_of
    return found + ([differs("model", _shape(sizes.SIZES[model]), f"BERT-{whole.title()}")] if whole else [])


def differs(matter: str, ours: Value, paper: Value, *basis: str) -> Departure:
    """Return a departure from what the paper, or who it follows (`basis`), does."""
    return {"matter": matter, "ours": ours, "paper": paper, **({"basis": basis[0]} if basis else {})}


def open_(matter: str, ours: Value) -> Departure:
    """Return a setting that the paper does not give."""
    return {"matter": matter, "ours": ours, "paper": None}
