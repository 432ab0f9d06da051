"""One pretraining run of a study, the same in notebook 04, on one machine, or under torchrun on
many processes.

    torchrun --nproc-per-node 2 -m companion.training.pretraining --study laptop --model mini
    --algorithm high

trains to the end and leaves the checkpoints where notebook 04 looks for them: it then has nothing
left to train and writes the record.
"""

import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, get_args

import click
import torch
from torch import nn
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerBase

from companion.data import corpora, sources
from companion.data.masking import batches
from companion.data.splits import Absent, DataError, Source
from companion.data.task_rows import load_reported
from companion.data.tokenizers import make_tokenizer
from companion.evaluation import heldout, zeroshot
from companion.evaluation.heldout import HeldOut
from companion.records.schema import Split
from companion.setup import labels, recipes
from companion.setup.recipes import Algorithm, DecoderAlgorithm, Pretraining
from companion.setup.sizes_and_strengths import SIZES, body_parameters, strength_of
from companion.setup.studies import Study, load_study
from companion.training import architectures, checkpoints, regularizers, trainer
from companion.training.watch import TrainingFailed
from saobp.measure.command import OneLine, visible

WIKITEXT = "Salesforce/wikitext"
# of the second, rare words read <unk>
WIKITEXT_CONFIGS = ("wikitext-103-raw-v1", "wikitext-103-v1")
# from its start
WIKITEXT_TOKENS = 16_384


def texts(
    study: Study, model: str, source: Source
) -> tuple[PreTrainedTokenizerBase, corpora.Blocks, corpora.Blocks]:
    """Return the tokenizer of a study's encoders or decoders, and its training and held-out text in
    their sequences.

    A study's token file takes the place of its corpus for encoders; DataError if it is none, or of
    another study.
    """
    recipe, plan = study.recipe(model), study.decoder if labels.is_decoder(model) else study
    if plan is study and study.tokens:
        *parts, about = corpora.read_file(Path(study.tokens))
        for name, value in _content(study, recipe).items():
            # a file without a word of a limit has all of its text
            written = about.get(name)
            if written != value:
                raise DataError(
                    f"{study.tokens}: {name} {written}, not {value}: write it for {study.name}"
                )
        return tuple(parts)
    tokenizer = make_tokenizer(plan.tokenizer, source, study.corpus, plan.vocabulary)
    blocks = partial(corpora.token_blocks, source, study.corpus, tokenizer, recipe.length)
    return tokenizer, blocks(limit_tokens=recipe.limit_tokens), blocks(split="validation")


def _content(study: Study, recipe: Pretraining) -> dict[str, Any]:
    """Return what tells the token file of a study from another's."""
    of_study = {name: getattr(study, name) for name in ("tokenizer", "vocabulary", "corpus")}
    return of_study | {limit: getattr(recipe, limit) for limit in recipes.LIMITS}


def write_tokens(file: Path, study_name: str, names: Sequence[str] = ()) -> Path:
    """Write the text of a study to a token file, or that of other data sets, `names`, in equal
    parts.
    """
    # before it is tokenised
    corpora.refuse_to_overwrite(file)
    study = load_study(study_name)
    study = study.changed(tokens=None, corpus=dict.fromkeys(names, 1.0) if names else study.corpus)
    source = sources.resolve(study.data)
    about = _content(study, study.pretrain) | {"source": source.name}
    return corpora.write_file(file, *texts(study, study.models[0], source), about)


def untrained(
    study: Study, model: str, algorithm: str, seed: int, tokenizer: PreTrainedTokenizerBase
) -> nn.Module:
    """Return a model before training with its algorithm, a factor or for encoders a penalty;
    ValueError for another.
    """
    size, recipe = model.removeprefix(labels.DECODER), study.recipe(model)
    kind, known, build = "encoder", get_args(Algorithm), architectures.encoder
    if labels.is_decoder(model):
        kind, known, build = "decoder", get_args(DecoderAlgorithm), architectures.decoder
    if algorithm not in known:
        raise ValueError(
            f"algorithm: no {kind} has '{algorithm}'; choose one of {', '.join(known)}"
        )
    network = build(size, tokenizer, dropout=recipe.dropout, seed=seed)
    network = architectures.refine_with(network, algorithm, strength_of(size, study.strengths))
    return regularizers.attach(network, algorithm, recipe.penalty)


def same_weights(left: nn.Module, right: nn.Module) -> bool:
    """Say whether two networks have the same weights, to the bit; what a penalty keeps for itself
    is none of theirs.
    """
    first, second = _weights(left), _weights(right)
    return first.keys() == second.keys() and all(map(torch.equal, first.values(), second.values()))


def _weights(network: nn.Module) -> dict[str, torch.Tensor]:
    weights = {name: weight.cpu() for name, weight in network.named_parameters()}
    return {name: weights[name] for name in weights if not name.startswith(regularizers.NAME)}


def train(
    study: Study,
    model: str,
    algorithm: str,
    seed: int,
    *,
    network: nn.Module,
    tokenizer: Any,
    text: Any,
    held_out: Any,
) -> list[dict[str, Any]]:
    """Pretrain a network in place on what `texts` returned, or continue a run that was cut off;
    returns the log.
    """
    recipe = study.recipe(model)
    folder = checkpoints.work_folder(study, model, algorithm, seed, text.fingerprint)
    settings = {
        "folder": folder,
        "seed": seed,
        "measure": held_out_measure(recipe, tokenizer, held_out),
    }
    return trainer.pretrain(
        network, text, batches(tokenizer, recipe.masking, seed), recipe, **settings
    )


def held_out_measure(
    recipe: Pretraining, tokenizer: PreTrainedTokenizerBase, held_out: Dataset
) -> HeldOut:
    """Return what measures the runs of a recipe along training; its masks are those of seed 0 for
    every run.
    """
    masks, count = batches(tokenizer, recipe.masking, 0), recipe.evaluation_sequences
    return HeldOut(held_out, masks, count, recipe.batch, which=recipe.held_out)


def metrics(
    study: Study, model: str, network: nn.Module, log: list[dict[str, Any]], measure: HeldOut
) -> dict[str, Any]:
    """Return what a pretraining record holds: curves, size, recipe, text read, and perplexity with
    its interval.
    """
    recipe = study.recipe(model)
    return {
        **heldout.summary(log),
        **measure.perplexity_by_sequence(network),
        "parameters": body_parameters(model, network.config.vocab_size),
        "parameters_trained": architectures.parameter_count(network),
        "tokens": recipe.steps * recipe.batch * recipe.length,
        "recipe": recipe.model_dump(),
        "size": asdict(SIZES[model]),
    }


def on_wikitext(
    study: Study, model: str, network: nn.Module, tokenizer: Any, source: Source
) -> dict[str, Any]:
    """Return a network's perplexity on WikiText-103, measured as on the held-out text, under
    "wikitext".

    It is None where there is no such text. Raises DataError if it cannot be read; with a token
    file, whose machine may lack text and network, that is none.
    """
    recipe, part = study.recipe(model), {"split": "validation", "limit_tokens": WIKITEXT_TOKENS}
    for config in WIKITEXT_CONFIGS:
        with suppress(DataError if study.tokens else Absent):
            blocks = corpora.token_blocks(
                source, {f"{WIKITEXT}:{config}": 1.0}, tokenizer, recipe.length, **part
            )
            break
    else:
        return {"wikitext": None}
    measure = HeldOut(blocks, batches(tokenizer, recipe.masking, 0), len(blocks), recipe.batch)
    about = {
        "tokens": blocks.tokens,
        "split": part["split"],
        "config": config,
        "note": blocks.splits[0]["note"],
    }
    return {"wikitext": measure.perplexity_by_sequence(network) | about}


def answers(
    study: Study, network: nn.Module, tokenizer: PreTrainedTokenizerBase, source: Source
) -> tuple[dict[str, dict[str, Any]], list[Split]]:
    """Ask a decoder the study's questions without fine-tuning; returns task -> scores, and the
    splits used.
    """
    plan, results, splits = study.decoder, {}, []
    for name in plan.tasks:
        spec, rows, split = load_reported(
            name, source, split=plan.splits.get(name), limit=plan.limit_evaluation
        )
        results[name] = zeroshot.zero_shot(spec, network, tokenizer, rows, length=plan.length)
        splits.append(split)
    return results, splits


@click.command(cls=OneLine)
@click.option("--study", "study_name", required=True)
@click.option("--model", required=True)
@click.option("--algorithm", required=True)
@click.option("--seed", type=int, default=42, show_default=True)
def main(study_name: str, model: str, algorithm: str, seed: int) -> None:
    """Train one run of a study in the processes that torchrun or Accelerate started."""
    try:
        study = load_study(study_name)
        if (model, algorithm) not in study.pairs():
            known = ", ".join(map(" ".join, study.pairs()))
            raise ValueError(
                f"study {study.name} trains no {model} with {algorithm}: choose one of {known}"
            )
        tokenizer, text, held_out = texts(study, model, sources.resolve(study.data))
        network = untrained(study, model, algorithm, seed, tokenizer)
        read = {"tokenizer": tokenizer, "text": text, "held_out": held_out}
        train(study, model, algorithm, seed, network=network, **read)
    except (ValueError, TrainingFailed, PermissionError) as error:
        print(f"saobp: {visible(str(error))}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
