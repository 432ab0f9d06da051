"""Whether messages tell a decoder the tokens that it has to predict, and what it gains by that (App. C, Table 7).

`Decoder` cannot know the next token, unless later rows send it messages.
"""

import copy
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Float64, Int, Int64
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from saobp.equations.refine import refine
from saobp.study.evaluation.zeroshot import token_log_likelihoods
from saobp.study.statistics.intervals import NORMAL

ROUNDING = 1e-9  # nats; in double precision an unchanged log-probability comes back to about 1e-15


@torch.no_grad()
def changes(model: PreTrainedModel, ids: Int64[Tensor, " length"], place: int) -> Float64[np.ndarray, " length"]:
    """Return how far each position's log-probabilities move (nats, the largest over words) when one token is another.

    The token at `place` is replaced by the next word of the vocabulary. In double precision, on a copy.
    """
    exact = copy.deepcopy(model).double().eval()
    other = ids.clone()
    other[place] = (other[place] + 1) % model.config.vocab_size
    one, two = (exact(input_ids=text[None].to(model.device)).logits.log_softmax(-1)[0] for text in (ids, other))
    return (one - two).abs().amax(-1).cpu().numpy()


def looks_ahead(changed: Float64[np.ndarray, " length"], place: int) -> bool:
    """Say whether any position before the replaced token moved by more than rounding."""
    return bool((changed[:place] > ROUNDING).any())


def leak(model: PreTrainedModel, blocks: Iterable[Mapping[str, Int64[Tensor, " length"]]]) -> dict[str, Any]:
    """Return a decoder's loss read off full passes and off prefixes alone, in nats per token, and the difference.

    The difference, 0 for a model that does not look ahead, is also given `by_block` and `by_position` (of each token
    but the first; blocks of one length). Raises ValueError without a block.
    """
    items = [block["input_ids"].tolist() for block in blocks]
    if not items:
        raise ValueError("blocks: none given; measure the leak on two or more")
    prefixes = [(ids[:end], ids[end : end + 1]) for ids in items for end in range(1, len(ids))]
    passes = token_log_likelihoods(model, [(ids[:1], ids[1:]) for ids in items])
    seen = (passes, token_log_likelihoods(model, prefixes, whole=False))
    full, alone = (-torch.cat(tokens).double().numpy().reshape(len(items), -1) for tokens in seen)
    gap = alone - full
    means = {"full_pass": float(full.mean()), "prefixes": float(alone.mean()), "leak": float(gap.mean())}
    return means | {"by_block": gap.mean(1).tolist(), "by_position": gap.mean(0).tolist()}


class Block(nn.Module):
    """A pre-norm transformer block; messages are of the "prefix", or by Eq. 11 of "all rows" of a causal matrix."""

    def __init__(self, width: int, heads: int, reading: str, strength: float):
        super().__init__()
        self.heads, self.reading, self.strength = heads, reading, strength
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, hidden: Float[Tensor, "batch length width"]) -> Float[Tensor, "batch length width"]:
        joined = self.project(self.before_attention(hidden)).unflatten(-1, (3, self.heads, -1))
        query, key, value = joined.permute(2, 0, 3, 1, 4)  # each (batch, heads, length, width / heads)
        scores = query @ key.mT / math.sqrt(query.shape[-1])
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        attention = scores.masked_fill(future, -torch.inf).softmax(-1)
        context = refine(attention, "high", self.strength, causal=self.reading == "prefix") @ value
        hidden = hidden + self.output(context.transpose(1, 2).flatten(-2))
        return hidden + self.mlp(self.before_mlp(hidden))


class Decoder(nn.Module):
    """A causal language model, of 2 layers and 4 heads."""

    def __init__(self, reading: str, strength: float, *, vocabulary: int = 8, length: int = 16, width: int = 64):
        super().__init__()
        self.vocabulary, self.length = vocabulary, length
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, 4, reading, strength) for _ in range(2)))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, vocabulary))

    def forward(self, tokens: Int[Tensor, "batch length"]) -> Float[Tensor, "batch length vocabulary"]:
        return self.head(self.blocks(self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]))

    def losses(self, sequences: int, generator: torch.Generator) -> Float[Tensor, "sequences length"]:
        """Return the cross-entropy of the next token, in nats, on fresh independent uniform tokens."""
        tokens = torch.randint(self.vocabulary, (sequences, self.length + 1), generator=generator)
        logits = self(tokens[:, :-1])
        return functional.cross_entropy(logits.mT, tokens[:, 1:], reduction="none")


def trained_losses(
    reading: str, strength: float, *, steps: int, batch: int = 64, sequences: int = 2000, seed: int = 0, **sizes: int
) -> Float[Tensor, "sequences length"]:
    """Train a `Decoder` of some `sizes` on independent uniform tokens and return its losses on fresh ones, in nats.

    No causal model beats ln V on average: whatever lies below is information from the future.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        decoder = Decoder(reading, strength, **sizes)
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(decoder.parameters(), lr=6e-3, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 6e-3, total_steps=steps, pct_start=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        decoder.losses(batch, generator).mean().backward()
        nn.utils.clip_grad_norm_(decoder.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        return decoder.losses(sequences, generator)


def sequence_interval(losses: Float[Tensor, "sequences length"]) -> tuple[float, float]:
    """Return the mean loss and half the width of its 95 % interval; sequences are independent, tokens not."""
    means = losses.mean(1)
    return means.mean().item(), NORMAL * means.std().item() / math.sqrt(len(means))
