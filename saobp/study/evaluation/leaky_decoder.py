"""A decoder that cannot know the next token, unless later rows send it messages (App. C)."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from saobp.equations.refine import refine

READINGS = ("prefix", "all rows")  # messages from earlier rows only, or Eq. 11 over all rows of a causal matrix


class Block(nn.Module):
    """A pre-norm transformer block whose causal attention is refined in one of the `READINGS`."""

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
    return means.mean().item(), 1.96 * means.std().item() / math.sqrt(len(means))
