"""One pretraining run of a study, the same in notebook 04, on one machine, or under torchrun on many processes.

    torchrun --nproc-per-node 2 -m saobp.study.training.pretraining --study laptop --model mini --algorithm high

trains to the end and leaves the checkpoints where notebook 04 looks for them: it then has nothing left to train and
writes the record.
"""

import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, get_args

import click
import torch
from torch import nn
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerBase

from saobp.study.data import corpora, sources
from saobp.study.data.masking import SeededMasking
from saobp.study.data.sources import DataError, Source
from saobp.study.data.splits import Absent
from saobp.study.evaluation import heldout
from saobp.study.evaluation.heldout import HeldOut
from saobp.study.setup import recipes
from saobp.study.setup.recipes import Algorithm, Pretraining
from saobp.study.setup.sizes_and_strengths import SIZES, body_parameters, strength_of
from saobp.study.setup.studies import Study, load_study
from saobp.study.training import architectures, checkpoints, regularizers, trainer
from saobp.study.training.watch import TrainingFailed

WIKITEXT = "Salesforce/wikitext"
WIKITEXT_CONFIGS = ("wikitext-103-raw-v1", "wikitext-103-v1")  # of the second, rare words read <unk>
WIKITEXT_TOKENS = 16_384  # from its start


def texts(study: Study, model: str, source: Source) -> tuple[PreTrainedTokenizerBase, corpora.Blocks, corpora.Blocks]:
    """Return a study's tokenizer, its training text and its held-out text in sequences of the recipe's length.

    A study's token file takes the place of its corpus; DataError if it is none, or was written for another study.
    """
    recipe = study.recipe(model)
    if not study.tokens:
        return corpora.prepared(source, study.corpus, study.tokenizer, study.vocabulary, recipe)
    found = corpora.read_file(Path(study.tokens))
    wanted = {name: getattr(study, name) for name in ("tokenizer", "vocabulary", "corpus")}
    for name, value in (wanted | {limit: getattr(recipe, limit) for limit in recipes.LIMITS}).items():
        if (held := found.about.get(name)) != value:  # a file without a word of a limit has all of its text
            raise DataError(f"{study.tokens}: {name} {held}, not {value}: write it for {study.name}")
    return found.tokenizer, found.train, found.validation


def write_tokens(file: Path, profile: str, names: Sequence[str] = ()) -> Path:
    """Write the text of a study to a token file, or that of other data sets, `names`, in equal parts."""
    study = load_study(profile)
    study = replace(study, tokens=None, corpus=dict.fromkeys(names, 1.0) if names else study.corpus)
    about = {name: getattr(study, name) for name in ("tokenizer", "vocabulary", "corpus")}
    about |= {limit: getattr(study.pretrain, limit) for limit in recipes.LIMITS}
    source = sources.resolve(study.data)
    held = texts(study, study.models[0], source)
    return corpora.write_file(file, corpora.TokenFile(*held, about | {"source": source.name}))


def untrained(study: Study, model: str, algorithm: str, seed: int, tokenizer: PreTrainedTokenizerBase) -> nn.Module:
    """Return a model before training with its algorithm, a factor or a penalty on the loss; ValueError for another."""
    if algorithm not in get_args(Algorithm):
        raise ValueError(f"algorithm: no encoder has '{algorithm}'; choose one of {', '.join(get_args(Algorithm))}")
    recipe = study.recipe(model)
    network = architectures.encoder(model, tokenizer, dropout=recipe.dropout, seed=seed)
    network = architectures.refine_with(network, algorithm, strength_of(model, study.strengths))
    return regularizers.attach(network, algorithm, recipe.penalty)


def same_weights(one: nn.Module, other: nn.Module) -> bool:
    """Say whether two networks have the same weights, to the bit; what a penalty keeps for itself is none of theirs."""
    first, second = (
        {name: weight.cpu() for name, weight in network.named_parameters() if not name.startswith(regularizers.NAME)}
        for network in (one, other)
    )
    return first.keys() == second.keys() and all(map(torch.equal, first.values(), second.values()))


def train(
    study: Study, model: str, algorithm: str, seed: int, *, network: nn.Module, tokenizer: Any, text: Any, held_out: Any
) -> list[dict[str, Any]]:
    """Pretrain a network in place on what `texts` returned, or continue a run that was cut off; returns the log."""
    recipe = study.recipe(model)
    folder = checkpoints.work_folder(study, model, algorithm, seed, text.fingerprint, recipe)
    masking = SeededMasking(tokenizer, recipe.masking, seed)
    measure = held_out_measure(recipe, tokenizer, held_out)
    return trainer.pretrain(network, text, masking, recipe, folder=folder, seed=seed, measure=measure)


def held_out_measure(recipe: Pretraining, tokenizer: PreTrainedTokenizerBase, held_out: Dataset) -> HeldOut:
    """Return what measures the runs of a recipe along training; its masks are those of seed 0 for every run."""
    masks, count = SeededMasking(tokenizer, recipe.masking, 0), recipe.evaluation_sequences
    return HeldOut(held_out, masks, count, recipe.batch, which=recipe.held_out)


def metrics(
    study: Study, model: str, network: nn.Module, log: list[dict[str, Any]], measure: HeldOut
) -> dict[str, Any]:
    """Return what a pretraining record holds: curves, size, recipe, text read, and perplexity with its interval."""
    recipe = study.recipe(model)
    return {
        **heldout.summary(log),
        **measure.perplexity_by_sequence(network),
        "parameters": body_parameters(model, network.config.vocab_size),
        "parameters_trained": architectures.parameter_count(network),
        "tokens": recipe.steps * recipe.batch * recipe.length,
        "recipe": asdict(recipe),
        "size": asdict(SIZES[model]),
    }


def on_wikitext(study: Study, model: str, network: nn.Module, tokenizer: Any, source: Source) -> dict[str, Any]:
    """Return a network's perplexity on WikiText-103, the paper's text for it, as `wikitext`; empty where there is none.

    Measured as on the held-out text: the same share of masks, of seed 0. Raises DataError if the text is there and
    cannot be read; with a token file, whose machine may have neither text nor network, that is no text.
    """
    recipe, split = study.recipe(model), "validation"
    for config in WIKITEXT_CONFIGS:
        with suppress(DataError if study.tokens else Absent):
            text = {f"{WIKITEXT}:{config}": 1.0}
            blocks = corpora.token_blocks(
                source, text, tokenizer, recipe.length, split=split, limit_tokens=WIKITEXT_TOKENS
            )
            break
    else:
        return {}
    masking = SeededMasking(tokenizer, recipe.masking, 0)
    found = HeldOut(blocks, masking, len(blocks), recipe.batch).perplexity_by_sequence(network)
    about = {"tokens": blocks.tokens, "split": split, "config": config, "note": blocks.splits[0]["note"]}
    return {"wikitext": found | about}


@click.command()
@click.option("--study", "--profile", "profile", required=True)
@click.option("--model", required=True)
@click.option("--algorithm", required=True)
@click.option("--seed", type=int, default=42, show_default=True)
def main(profile: str, model: str, algorithm: str, seed: int) -> None:
    """Train one run of a study in the processes that torchrun or Accelerate started."""
    try:
        study = load_study(profile)
        if (model, algorithm) not in study.pairs():
            known = ", ".join(map(" ".join, study.pairs()))
            raise ValueError(f"study {study.name} trains no {model} with {algorithm}: choose one of {known}")
        tokenizer, text, held_out = texts(study, model, sources.resolve(study.data))
        network = untrained(study, model, algorithm, seed, tokenizer)
        train(study, model, algorithm, seed, network=network, tokenizer=tokenizer, text=text, held_out=held_out)
    except (ValueError, TrainingFailed, PermissionError) as error:
        print(f"saobp: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
