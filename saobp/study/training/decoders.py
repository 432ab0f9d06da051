"""One decoder of a study (Table 7): its text, its start, its training, and the questions that it is asked."""

from typing import Any, get_args

from torch.utils.data import Dataset
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from saobp.study.data.corpora import Blocks, prepared
from saobp.study.data.masking import causal_batch
from saobp.study.data.sources import Source
from saobp.study.data.task_rows import load_reported
from saobp.study.evaluation import heldout, zeroshot
from saobp.study.evaluation.heldout import HeldOut
from saobp.study.setup import labels
from saobp.study.setup.recipes import DecoderAlgorithm
from saobp.study.setup.sizes_and_strengths import strength_of
from saobp.study.setup.studies import Study
from saobp.study.training import architectures, checkpoints, trainer


def texts(study: Study, model: str, source: Source) -> tuple[PreTrainedTokenizerBase, Blocks, Blocks]:
    """Return a study's byte-pair tokenizer, its training text and its held-out text, in sequences of the recipe."""
    recipe, plan = study.decoder_recipe(model), study.decoder
    return prepared(source, study.corpus, plan.tokenizer, plan.vocabulary, recipe)


def untrained(study: Study, model: str, algorithm: str, seed: int, tokenizer: Any) -> PreTrainedModel:
    """Return a decoder before training with its algorithm in place; ValueError for a penalty on the loss, say."""
    if algorithm not in (known := get_args(DecoderAlgorithm)):
        raise ValueError(f"algorithm: no decoder has '{algorithm}'; choose one of {', '.join(known)}")
    network = architectures.decoder(model, tokenizer, dropout=study.decoder_recipe(model).dropout, seed=seed)
    return architectures.refine_with(network, algorithm, strength_of(model, study.strengths))


def train(
    study: Study, model: str, algorithm: str, seed: int, *, network: PreTrainedModel, text: Blocks, held_out: Dataset
) -> list[dict[str, Any]]:
    """Train a decoder in place to predict the next token, or continue a run that was cut off; returns the log."""
    recipe, name = study.decoder_recipe(model), labels.DECODER + model
    folder = checkpoints.work_folder(study, name, algorithm, seed, text.fingerprint, recipe)
    measure = HeldOut(held_out, causal_batch, recipe.evaluation_sequences, recipe.batch, which=recipe.held_out)
    return trainer.pretrain(network, text, causal_batch, recipe, folder=folder, seed=seed, measure=measure)


def asked(
    study: Study, network: PreTrainedModel, tokenizer: Any, source: Source
) -> tuple[dict[str, dict[str, Any]], list[dict[str, Any]]]:
    """Ask a decoder the study's questions without fine-tuning; returns task -> scores, and the splits used."""
    plan, results, splits = study.decoder, {}, []
    for name in plan.tasks:
        spec, rows, split = load_reported(name, source, split=plan.splits.get(name), limit=plan.limit_evaluation)
        results[name] = zeroshot.zero_shot(spec, network, tokenizer, rows, length=plan.length)
        splits.append(split)
    return results, splits


def metrics(
    study: Study, model: str, network: PreTrainedModel, log: list[dict[str, Any]], full: dict[str, Any]
) -> dict[str, Any]:
    """Return what a decoder's record holds of its training and of its perplexity `full` on held-out text."""
    recipe = study.decoder_recipe(model)
    found = {**heldout.summary(log), **full, "perplexity": full["token_perplexity"]}
    found["parameters"] = architectures.parameter_count(network)
    return found | {"tokens_trained": recipe.steps * recipe.batch * recipe.length}
