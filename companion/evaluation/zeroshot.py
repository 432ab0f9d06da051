"""Decoders without fine-tuning: options by log-likelihood, and perplexity (Table 7)."""

from collections.abc import Iterable, Mapping, Sequence
from math import exp
from typing import Any

import datasets
import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from companion.evaluation.heldout import measuring
from companion.evaluation.scoring import Scores, score
from companion.setup.tasks_and_metrics import TaskSpec
from companion.statistics import over_samples
from companion.statistics.intervals import perplexity_interval

# the tokens before, and those whose likelihood is asked
Pair = tuple[list[int], list[int]]


def prompt(spec: TaskSpec, row: Mapping[str, Any]) -> tuple[str, str, list[str]]:
    """Return what may be cut, what may not, and the options that the decoder weighs, of BoolQ, RACE
    or HellaSwag.

    The prompt is the lm-evaluation-harness's for BoolQ, and the same words for RACE.
    """
    if spec.name == "boolq":
        return row["passage"], f"\nQuestion: {row['question']}?\nAnswer:", [" no", " yes"]
    if spec.name == "race":
        return (
            row["article"],
            f"\nQuestion: {row['question']}\nAnswer:",
            [f" {o}" for o in row["options"]],
        )
    return "", row["ctx"], [f" {ending}" for ending in row["endings"]]


def zero_shot(
    spec: TaskSpec,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    rows: datasets.Dataset,
    *,
    length: int,
) -> Scores:
    """Score a decoder's likeliest options; in `accuracy_normalized` log-probabilities are divided
    by options' bytes.

    A passage too long loses its end. Raises ValueError if `length` cannot hold a question with its
    option.
    """
    pairs, sizes = [], []
    for passage, question, options in (prompt(spec, row) for row in rows):
        first, second, *continuations = tokenizer(
            [passage, question, *options], add_special_tokens=False
        )["input_ids"]
        room = length - len(second) - max(map(len, continuations))
        if room < 0:
            raise ValueError(
                f"length={length} cannot hold the question and option of {question.strip()[:60]!r}"
            )
        pairs += [(first[:room] + second, option) for option in continuations]
        sizes.append([len(option.encode()) for option in options])
    sums = np.array(log_likelihoods(model, pairs)).reshape(len(rows), -1)
    result, normalized = score(spec, sums, rows), score(spec, sums / np.array(sizes), rows)
    result["scores"]["accuracy_normalized"] = normalized["headline"]
    return result | {"outcomes_normalized": normalized["outcomes"]}


def log_likelihoods(model: PreTrainedModel, pairs: Sequence[Pair], batch: int = 32) -> list[float]:
    """Return the summed log-probability (nats) of each continuation after its context."""
    return [float(tokens.sum()) for tokens in token_log_likelihoods(model, pairs, batch)]


def token_log_likelihoods(
    model: PreTrainedModel, pairs: Sequence[Pair], batch: int = 32, *, whole: bool = True
) -> list[Float[Tensor, " tokens"]]:
    """Return the log-probability (nats) of each token of each continuation after its context.

    One pass a pair: over the `whole` of it, or over all but its last token.
    """
    order = sorted(range(len(pairs)), key=lambda n: -len(pairs[n][0]) - len(pairs[n][1]))
    likelihoods: dict[int, Tensor] = {}
    with measuring(model):
        for start in range(0, len(order), batch):
            group = [(n, *pairs[n]) for n in order[start : start + batch]]
            texts = [
                torch.tensor([*before, *after][: None if whole else -1])
                for _, before, after in group
            ]
            ids = pad_sequence(texts, batch_first=True)
            mask = pad_sequence([torch.ones_like(text) for text in texts], batch_first=True)
            logits = model(
                input_ids=ids.to(model.device), attention_mask=mask.to(model.device)
            ).logits
            for row, (n, before, after) in zip(logits, group):
                scores = row[len(before) - 1 :][: len(after)].float().log_softmax(-1).cpu()
                likelihoods[n] = scores.gather(1, torch.tensor(after)[:, None])[:, 0]
    return [likelihoods[n] for n in range(len(pairs))]


def causal_perplexity(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    blocks: Iterable[Mapping[str, Tensor]],
    batch: int = 16,
) -> dict[str, Any]:
    """Return a decoder's token and word perplexity on blocks of text; the first token of a block is
    not predicted.

    Words are those between blanks in the text of the others. The 95 % interval, of tokens, is over
    blocks.
    """
    items = [block["input_ids"].tolist() for block in blocks]
    sums = [
        -value for value in log_likelihoods(model, [(ids[:1], ids[1:]) for ids in items], batch)
    ]
    counts, words = (
        [len(ids) - 1 for ids in items],
        sum(len(tokenizer.decode(ids[1:]).split()) for ids in items),
    )
    nats, tokens = sum(sums), sum(counts)
    result = {"token_perplexity": exp(nats / tokens), "word_perplexity": exp(nats / words)}
    result |= {"tokens": tokens, "words": words, "context": max(map(len, items))}
    return result | perplexity_interval(over_samples(sums, counts))
