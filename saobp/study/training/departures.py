"""What a run does differently from the paper, in words that go with every number it gives."""

from collections.abc import Collection
from dataclasses import fields, replace
from typing import Any

from saobp.study.paper import numbers
from saobp.study.setup import labels
from saobp.study.setup.labels import counted, joined
from saobp.study.setup.recipes import Beyond, Finetuning, MultiHop, Pretraining
from saobp.study.setup.studies import Profile, ProfileError
from saobp.study.training import architectures

PAPER_LENGTH = 128  # Table 9: tokens a second times seconds a step is 128 in every row
PAPER_SEED = 42
PAPER_CORPUS = {"wikitext-103", "bookcorpus/bookcorpus", "Skylion007/openwebtext"}  # Sec. 6, as the hub has them


def departures(study: Profile, model: str, text: Any, algorithm: str, seed: int) -> list[str]:
    """Name everything that makes a pretraining run another one than the paper's: text, model, method, schedule."""
    recipe, size = study.recipe(model), architectures.SIZES[model].twin_of or model
    found = [*_text(study, text, recipe), *_size(study, model), *_method(study, model, algorithm, seed)]
    return found + schedule(recipe, size)


def decoder(study: Profile, model: str, text: Any, algorithm: str, seed: int) -> list[str]:
    """Name everything that makes a decoder's run another one than the paper's, as far as the paper says."""
    size, plan, recipe = architectures.SIZES[model], study.decoder, study.decoder_recipe(model)
    found = _text(study, text, recipe)
    found.append(
        f"model: {counted(size.layers, 'layer')}, {size.hidden} wide; the paper gives no sizes for its decoders"
    )
    if plan.tokenizer != "gpt2":
        found.append(f"vocabulary: {plan.tokenizer} of at most {plan.vocabulary} tokens, not GPT-2's 50257")
    timing = [line for line in schedule(recipe, size.twin_of or model) if not line.startswith("masking")]
    return found + _method(study, model, algorithm, seed) + timing


def beyond(study: Profile, text: Any) -> list[str]:
    """Name how the runs of notebook 12 are trained, of which the paper has none: at other strengths, and for hops.

    What begins with "other strengths" and "larger models" is beside Table 5's column of the size. Raises ProfileError
    if the study has no such runs.
    """
    if study.beyond is None:
        raise ProfileError(f"profile {study.name} asks no open questions: it has no section `beyond`")
    plan, exam = study.beyond, study.multihop
    found = [*_text(study, text, plan.pretrain), *_size(study, plan.model), *_seeds(plan.seeds)]
    found += schedule(plan.pretrain, architectures.SIZES[plan.model].twin_of or plan.model)
    said = ["beyond the paper: it has no such experiments", *(f"other strengths, {words}" for words in found)]
    said += [f"larger models, {words}" for words in _larger(study, plan)]
    return said + ([f"questions of known hops: {_exam(exam)}"] if exam else [])


def _larger(study: Profile, plan: Beyond) -> list[str]:
    """Name what larger models' recipes differ in from the paper's for their size."""
    together: dict[str, dict[str, set[str]]] = {}
    titles = {labels.model_title(one.model) for one in plan.larger}
    for one in plan.larger:
        rate, precision = one.of(plan.pretrain)
        recipe = replace(plan.pretrain, learning_rate=rate, precision=precision)
        found = ["text: that of the other strengths", *_size(study, one.model), *_seeds(one.seeds)]
        for words in found + schedule(recipe, architectures.SIZES[one.model].twin_of or one.model):
            matter, mark, rest = words.partition(": ")
            together.setdefault(matter + mark, {}).setdefault(rest, set()).add(labels.model_title(one.model))
    return [f"{matter}{labels.by_model(said, titles)}" for matter, said in together.items()]


def _seeds(seeds: Collection[int]) -> list[str]:
    other = [str(seed) for seed in seeds if seed != PAPER_SEED]
    return [f"seed: {joined(other)}; the paper's only one is {PAPER_SEED}"] if other else []


def _size(study: Profile, model: str) -> list[str]:
    """Name a stand-in for a size of the paper, and other words than BERT's."""
    size, found = architectures.SIZES[model], []
    if size.twin_of:
        found.append(
            f"model: a twin of BERT-{size.twin_of.title()}, {counted(size.layers, 'layer')}, {size.hidden} wide"
        )
    if study.tokenizer != "bert":
        found.append(f"vocabulary: {study.tokenizer} of at most {study.vocabulary} words, not BERT's 30522")
    return found


def _exam(plan: MultiHop) -> str:
    recipe, layers = plan.pretrain, joined([str(number) for number in plan.layers])
    which = f"seeds {min(plan.seeds)} to {max(plan.seeds)}" if len(plan.seeds) > 1 else f"seed {plan.seeds[0]}"
    if plan.more_seeds:
        longest = max(seed for seeds in plan.more_seeds.values() for seed in seeds)
        which += f", to {longest} of {joined([labels.algorithm_title(name) for name in plan.more_seeds])}"
    return (
        f"no pretraining, encoders of {layers} layers, {plan.hidden} wide, {counted(plan.heads, 'head')}, "
        f"λ {plan.strength:g}, {counted(recipe.steps, 'step')} of {recipe.batch} stories of {recipe.length} sentences, "
        f"learning rate {recipe.learning_rate:g} ({recipe.scheduler}, {recipe.warmup} steps of warm-up), "
        f"dropout {recipe.dropout:g}, precision {recipe.precision}, {which}"
    )


def partial(text: Any) -> bool:
    """Say whether any split behind a text is less than what was published under its name."""
    return not all(split.get("complete") for split in text.splits) or any(
        split["dataset"].startswith(("saobp/", "local/")) for split in text.splits
    )


def _text(study: Profile, text: Any, recipe: Pretraining) -> list[str]:
    """Name another text than the paper's three, or less of it; of the same text the weights, which it does not give."""
    names = {"wikitext-103" if ":wikitext-103" in name else name.partition(":")[0] for name in study.corpus}
    same = names == PAPER_CORPUS and not partial(text)
    paper = "the paper gives no weights and no rule" if same else "the paper: WikiText, BookCorpus and OpenWebText"
    limit = [f"text: at most {recipe.limit_tokens} tokens of it"] if recipe.limit_tokens else []
    return [f"text: {text.description}; {paper}", *limit]


def _method(study: Profile, model: str, algorithm: str, seed: int) -> list[str]:
    """Name another strength or seed than the paper's, and baselines that are not exactly their authors'."""
    used, usual = architectures.strength_used(model, algorithm, study.strengths), architectures.SIZES[model].strength
    found = [f"strength: {used:g}, not {usual:g} (Sec. 6)"] if used not in (None, usual) else []
    if algorithm == "eigen_reg":
        found.append("Eigen-Reg: a reconstruction after Bao et al. 2024, whose exact penalty is not in the paper")
    if algorithm.endswith("_reg") and (penalty := study.recipe(model).penalty) is not None:
        found.append(f"penalty: coefficient {penalty:g}, not the usual of {algorithm}")
    return found + _seeds([seed])


def schedule(recipe: Pretraining, size: str) -> list[str]:
    """Compare a recipe with Table 5 and with the reading of what it leaves out."""
    paper, row = numbers.load(), {"model": size.title()}
    pairs = [
        ("steps", recipe.steps, paper.value(5, metric="max_steps", **row)),
        ("learning rate", recipe.learning_rate, paper.value(5, metric="learning_rate", **row)),
        ("warm-up steps", recipe.warmup, paper.value(5, metric="warmup_steps", **row)),
        ("scheduler", recipe.scheduler, paper.printed(5, metric="lr_scheduler_type", **row)),
        ("tokens a sequence", recipe.length, PAPER_LENGTH),
    ]
    found = [f"{name}: {_plain(ours)}, not {_plain(theirs)}" for name, ours, theirs in pairs if ours != theirs]
    usual = {field.name: field.default for field in fields(Pretraining)}
    for name in ("masking", "dropout", "weight_decay"):
        if getattr(recipe, name) != usual[name]:
            found.append(f"{name.replace('_', ' ')}: {getattr(recipe, name)}, not BERT's {usual[name]}")
    return [*found, precision(recipe), f"batch: {counted(recipe.batch, 'sequence')}; the paper gives none"]


def precision(recipe: Pretraining) -> str:
    """Name what a recipe trains in; what that came to on its processor is in the record's "sittings"."""
    said = {"auto": "bfloat16 autocast or float32, whichever is faster on the processor", "bf16": "bfloat16 autocast"}
    return f"precision: {said.get(recipe.precision, recipe.precision)}; the paper gives none"


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def finetuning(study: Finetuning, pretrained: int, tasks: Collection[str]) -> list[str]:
    """Name what limits a fine-tuning run: items left out, splits that stand in for others, positions new to the model.

    `pretrained`: tokens a sequence had in pretraining; `tasks`: those of the run.
    """
    found = []
    if max(map(study.tokens, tasks), default=0) > pretrained:
        found.append(f"positions past {pretrained} are trained in fine-tuning alone")
    if study.limit_train or study.limit_evaluation:
        found.append(f"items: at most {study.limit_train} to train on and {study.limit_evaluation} reported")
    for task, (train, reported) in _of(study.splits, tasks):
        found.append(f"{task}: trained on {train}, reported on {reported}")
    for task, epochs in _of(study.epochs_of, tasks):
        found.append(f"{task}: {counted(epochs, 'epoch')}, the others {study.epochs}")
    for task, length in _of(study.length_of, tasks):
        found.append(f"{task}: length {length}, the others {study.length}")
    recipe = (
        f"length {study.length}", f"batch {study.batch}", counted(study.epochs, "epoch"),
        f"learning rate {study.learning_rate:g}", f"dropout {study.dropout:g}",
    )  # fmt: skip
    return [*found, f"{', '.join(recipe)}: the paper gives none of these"]


def _of(given: dict[str, Any], tasks: Collection[str]) -> list[tuple[str, Any]]:
    return [(task, value) for task, value in given.items() if task in tasks]
