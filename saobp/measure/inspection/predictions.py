"""What a language model predicts with the refinement in every layer: perplexity against
strength.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from tqdm.auto import tqdm

from saobp.measure.inspection.maps import Sample, encoded, is_causal, plain_copy
from saobp.measure.streams import StreamedBootstrap
from saobp.models.apply import apply

POSITIONS = 16
"""Tokens of a text that are masked, one at a time, for the pseudo-perplexity."""


def kind(model: nn.Module, tokenizer: Any) -> str:
    """Return "perplexity" for a causal language model, "pseudo-perplexity" for a masked one, "" for
    any other.
    """
    if (
        getattr(model, "main_input_name", "") != "input_ids"
        or model.get_output_embeddings() is None
    ):
        return ""
    if "ForMaskedLM" in type(model).__name__:
        return "pseudo-perplexity" if tokenizer.mask_token_id is not None else ""
    return "perplexity" if "LM" in type(model).__name__ and is_causal(model) else ""


def perplexities(
    model: nn.Module,
    tokenizer: Any,
    texts: Iterable[str],
    factor: str,
    strengths: Sequence[float],
    *,
    samples: int = 16,
    tokens: int = 128,
    progress: bool = False,
    spare: str | float | None = None,
) -> list[dict[str, Any]]:
    """Return the perplexity of a model as `saobp.apply` refines it, one row per strength.

    `low` and `high` are its 95 % bootstrap interval over texts; `ratio`, `ratio_low` and
    `ratio_high` are those of the perplexity over that at the first strength, on the same texts.
    Every text is its own context of at most `tokens`. The pseudo-perplexity masks the same
    `POSITIONS` tokens of a text at every strength, one at a time. A model without a language head
    gives an empty list, and so do texts without a word that it knows. The model is not changed.
    Raises ValueError without a text of two tokens or without a strength.
    Source: Salazar et al. 2020 (pseudo-perplexity); Lee et al. 2025, Appendix C (causal form).
    """
    if not (taken := kind(model, tokenizer)):
        return []
    if not len(strengths):
        raise ValueError("strengths must hold one at least")
    refined = plain_copy(model)
    loss = causal_loss if taken == "perplexity" else masked_loss
    chosen = list(itertools.islice(encoded(model, tokenizer, texts, tokens), samples))
    if not chosen:
        raise ValueError("texts: none of two tokens or more")
    if taken != "perplexity":
        chosen = [sample for sample in chosen if len(maskable(sample, tokenizer))]
    if not chosen:
        return []
    sums, counts = np.empty((len(strengths), len(chosen))), np.empty(len(chosen))
    for at, strength in enumerate(tqdm(strengths, unit="λ", desc=taken, disable=not progress)):
        apply(refined, factor if strength else "none", strength or 0.1, spare=spare)
        with torch.inference_mode():
            for text, sample in enumerate(chosen):
                losses = loss(refined, sample, tokenizer)
                sums[at, text], counts[text] = losses.double().sum().item(), len(losses)
    return _summarised(taken, strengths, sums, counts)


def _summarised(
    taken: str, strengths: Sequence[float], sums: np.ndarray, counts: np.ndarray
) -> list[dict[str, Any]]:
    """Return the perplexity at each strength and its ratio to that at the first, with intervals
    over texts.
    """
    texts = StreamedBootstrap()
    for text, count in enumerate(counts):
        texts.add(np.append(sums[:, text], count))
    perplexity = lambda mean: np.exp(mean[:-1] / mean[-1])  # noqa: E731
    ratio = lambda mean: perplexity(mean) / perplexity(mean)[0]  # noqa: E731
    columns = {"perplexity": perplexity(texts.mean()), "ratio": ratio(texts.mean())}
    columns["low"], columns["high"] = texts.interval(perplexity)
    columns["ratio_low"], columns["ratio_high"] = texts.interval(ratio)
    return [
        {"strength": strength, "kind": taken, "texts": len(counts), "tokens": int(counts.sum())}
        | {
            name: None if np.isnan(values[at]) else float(values[at])
            for name, values in columns.items()
        }
        for at, strength in enumerate(strengths)
    ]


def causal_loss(model: nn.Module, sample: Sample, tokenizer: Any) -> Tensor:
    """Return the loss of each token but the first, in nats."""
    inputs = {name: tensor.to(model.device) for name, tensor in sample.inputs.items()}
    logits = model(**inputs, use_cache=False).logits[0, :-1].float()
    return functional.cross_entropy(logits, inputs["input_ids"][0, 1:], reduction="none").cpu()


def maskable(sample: Sample, tokenizer: Any) -> Tensor:
    """Return the places of a text's tokens that are none of the tokenizer's own; an unknown word is
    one of these.
    """
    special = [
        token in tokenizer.all_special_ids for token in sample.inputs["input_ids"][0].tolist()
    ]
    return torch.nonzero(~torch.tensor(special))[:, 0]


def masked_loss(model: nn.Module, sample: Sample, tokenizer: Any) -> Tensor:
    """Return the loss of a text's chosen tokens, each masked alone, in nats."""
    ids, usual = sample.inputs["input_ids"][0], maskable(sample, tokenizer)
    order = torch.randperm(len(usual), generator=torch.Generator().manual_seed(0))
    places = usual[order[:POSITIONS]]
    rows = {name: tensor.expand(len(places), -1).clone() for name, tensor in sample.inputs.items()}
    rows["input_ids"][torch.arange(len(places)), places] = tokenizer.mask_token_id
    logits = model(**{name: tensor.to(model.device) for name, tensor in rows.items()}).logits
    at = logits[torch.arange(len(places)), places].float()
    return functional.cross_entropy(at, ids[places].to(at.device), reduction="none").cpu()
