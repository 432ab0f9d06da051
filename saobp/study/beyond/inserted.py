"""What the step does to a public encoder that is not trained any further: similarity and attention against strength.

The endpoints, factors and strengths are those of the plan's section `retrofit-untrained`.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from annotated_types import Ge
from scipy import stats
from torch import nn

import saobp
from saobp.measure.diagnostics import attention_entropy, gtd, sparsity
from saobp.models import public
from saobp.models.apply import raw_attentions
from saobp.models.module import Refinement
from saobp.study.data import sources
from saobp.study.data.tasks import load_reported
from saobp.study.setup import paths, plan, records
from saobp.study.setup.sizes import WITHOUT_STRENGTH as STRENGTHLESS
from saobp.study.training.trainer import quiet

TOKENS = 256  # of a sentence at most: the encoder's own limit
BATCH = 64
DRAWS = 2000  # of the bootstrap over pairs
MEASURED = 64  # pairs of RTE whose attention is measured


class Untrained(plan.Question):
    """The plan's section `retrofit-untrained`."""

    strengths: list[Annotated[float, Ge(0)]]
    decoder_strengths: list[Annotated[float, Ge(0)]]
    factors: list[str]

    def arms(self) -> Iterator[tuple[str, float]]:
        """Yield (factor, strength): plain attention first, a factor without a strength once."""
        yield "none", 0.0
        for factor in self.factors:
            yield from (
                (factor, s)
                for s in ([0.0] if factor in STRENGTHLESS else self.strengths)
                if s or factor in STRENGTHLESS
            )


@torch.no_grad()
def embeddings(model: nn.Module, tokenizer: Any, texts: Sequence[str]) -> torch.Tensor:
    """Return (text, width): the mean of the last hidden states over real tokens, as the encoder was trained to pool."""
    order = sorted(range(len(texts)), key=lambda n: len(texts[n]))
    rows = torch.empty(len(texts), model.config.hidden_size)
    for start in range(0, len(texts), BATCH):
        chosen = order[start : start + BATCH]
        given = tokenizer(
            [texts[n] for n in chosen], padding=True, truncation=True, max_length=TOKENS, return_tensors="pt"
        )
        real = given["attention_mask"][..., None]
        rows[chosen] = (model(**given).last_hidden_state * real).sum(1) / real.sum(1)
    return rows


def cosines(model: nn.Module, tokenizer: Any, pairs: Any) -> np.ndarray:
    """Return the cosine of the two embeddings of each pair, in [-1, 1]."""
    first, second = (embeddings(model, tokenizer, pairs[column][:]) for column in ("sentence1", "sentence2"))
    return torch.cosine_similarity(first, second).numpy()


def spearman(predicted: np.ndarray, gold: np.ndarray) -> float:
    """Return Spearman's correlation in percent."""
    return float(100 * stats.spearmanr(predicted, gold).statistic)


def paired_interval(predicted: np.ndarray, plain: np.ndarray, gold: np.ndarray, draws: int = DRAWS) -> list[float]:
    """Return the 95 % percentile interval over pairs of the difference in Spearman's correlation, in points."""
    random, differences = np.random.default_rng(0), []
    for _ in range(draws):
        drawn = random.integers(len(gold), size=len(gold))
        differences.append(spearman(predicted[drawn], gold[drawn]) - spearman(plain[drawn], gold[drawn]))
    return np.quantile(differences, [0.025, 0.975]).tolist()


@contextmanager
def in_layer_alone(model: nn.Module, layer: int) -> Iterator[None]:
    """Refine one layer (from 0) of a model that `saobp.apply` refined; the others are plain inside the block."""
    refinements = [module for module in model.modules() if isinstance(module, Refinement)]
    kept = [refinement.options for refinement in refinements]
    for place, refinement in enumerate(refinements):
        if place != layer:
            refinement.options = replace(refinement.options, strength=0.0)
    try:
        yield
    finally:
        for refinement, options in zip(refinements, kept):
            refinement.options = options


MEASURES: dict[str, Callable[..., torch.Tensor]] = {
    "entropy": attention_entropy,
    "gtd": gtd,
    "sparsity": sparsity,
    "largest_column_share": lambda attention, mask: attention.sum(-2).amax(-1) / mask.sum(-1)[:, None],
}


@torch.no_grad()
def attention_by_layer(model: nn.Module, tokenizer: Any, texts: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """Return per layer each measure before ("raw") and after ("refined") the step, mean over texts and heads.

    entropy in nats; gtd and sparsity without unit; largest_column_share: of all mass, what the largest column holds.
    """
    found: list[dict[str, Any]] = []
    for first, second in texts:
        given = tokenizer(first, second, return_tensors="pt", truncation=True, max_length=TOKENS)
        with raw_attentions(model) as pairs:
            model(**given)
        mask = given["attention_mask"].bool()
        found.append(
            [{m: [f(a, mask=mask).mean().item() for a in pair] for m, f in MEASURES.items()} for pair in pairs]
        )
    return [
        {
            m: dict(zip(("raw", "refined"), np.mean([text[layer][m] for text in found], axis=0).tolist()))
            for m in MEASURES
        }
        for layer in range(len(found[0]))
    ]


def measure(study: Untrained, alone: float) -> dict[str, Any]:
    """Return what every arm does to similarity and attention, and what one layer alone does at strength `alone`."""
    model, tokenizer = public.load("minilm")
    source = sources.resolve("hub")
    _, pairs, split = load_reported("stsb", source)
    _, entailment, other = load_reported("rte", source)
    texts = list(zip(entailment["sentence1"][:MEASURED], entailment["sentence2"][:MEASURED]))
    gold, arms, layers = np.asarray(pairs["label"][:]), [], []
    plain = None
    for factor, strength in study.arms():
        saobp.apply(model, factor, strength or 0.1)
        predicted = cosines(model, tokenizer, pairs)
        plain = predicted if plain is None else plain
        interval = paired_interval(predicted, plain, gold)
        arms.append({
            "factor": factor, "strength": strength, "spearman": spearman(predicted, gold), "interval": interval,
            "difference": spearman(predicted, gold) - spearman(plain, gold),
            "layers": attention_by_layer(model, tokenizer, texts),
        })  # fmt: skip
        print(f"{factor} {strength:g}: {arms[-1]['spearman']:.2f}", flush=True)
    saobp.apply(model, "high", alone)
    for layer in range(model.config.num_hidden_layers):
        with in_layer_alone(model, layer):
            predicted = cosines(model, tokenizer, pairs)
            layers.append({
                "layer": layer + 1, "strength": alone, "spearman": spearman(predicted, gold),
                "interval": paired_interval(predicted, plain, gold),
                "difference": spearman(predicted, gold) - spearman(plain, gold),
                "layers": attention_by_layer(model, tokenizer, texts),
            })  # fmt: skip
    data = {"source": source.name, "splits": [split, other]}
    return {"metrics": {"similarity": arms, "one_layer": layers, "pairs": len(gold), "texts": len(texts)}, "data": data}


def main() -> None:
    """Make the record of the plan's section `retrofit-untrained` for the encoder."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--plan", type=Path, default=plan.file())
    parser.add_argument("--out", type=Path, default=paths.build("retrofit") / "records")
    given = parser.parse_args()
    quiet()
    run = records.Run("retrofit-untrained", profile="retrofit", parameters={"model": "minilm"})
    study = plan.section(given.plan, "retrofit-untrained", Untrained)
    found = measure(study, alone=0.1)
    departures = [
        {"matter": "model", "ours": "all-MiniLM-L6-v2, not trained any further", "paper": "pretrained with it"}
    ]
    path = given.out / "13-retrofit-untrained-minilm.json"
    run.save(path, found["metrics"], data=found["data"], departures=departures, precision="fp32")


if __name__ == "__main__":
    main()
