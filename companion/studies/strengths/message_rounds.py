"""More rounds of messages than the paper's one, and what mass they move: one row a measurement."""

from collections.abc import Sequence

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

import saobp
from companion.evaluation.heldout import measuring
from saobp.models.apply import raw_attentions


def rounds(
    attention: Float[Tensor, "*batch L L"],
    strength: float,
    *,
    most: int = 4,
    dampings: Sequence[float] = (0.0, 0.5),
) -> pd.DataFrame:
    """Refine by 1 to `most` rounds of messages; one row a damping and round, of which 0 is the
    attention itself.

    Columns: damping, round, change (`moved` from the round before, 0 to 1), and those of `shape`.
    """
    rows = []
    for damping in dampings:
        before = attention
        for number in range(most + 1):
            after = attention
            if number:
                after = saobp.refine(attention, "high", strength, steps=number, damping=damping)
            place = {"damping": damping, "round": number, "change": moved(before, after)}
            rows.append(place | shape(after))
            before = after
    return pd.DataFrame(rows)


def one_round(
    attention: Float[Tensor, "*batch L L"],
    strengths: Sequence[float],
    *,
    most: int = 60,
    damping: float = 0.8,
) -> pd.DataFrame:
    """Set one round of messages beside the beliefs in which `most` damped rounds settle; one row a
    strength (nats).

    Columns: strength, left (distance from the settled beliefs after one round over that before it,
        above 1 is farther), still (what the last round moves over the whole distance: 0 where
        settled; both are 0 at a strength of 0, which moves nothing), and before, after, settled: the column sum of the key with the largest in
        `attention`, 0 to L, mean over matrices.
    """
    rows = []
    largest = attention.sum(-2).argmax(-1, keepdim=True)
    for strength in strengths:
        last, settled = (
            saobp.refine(attention, "high", strength, steps=n, damping=damping)
            for n in (most - 1, most)
        )
        after = saobp.refine(attention, "high", strength)
        # at a strength of 0 there is no way to go, and nothing of it is left
        distance = moved(attention, settled) or 1.0
        row = {
            "strength": strength,
            "left": moved(after, settled) / distance,
            "still": moved(last, settled) / distance,
        }
        for name, side in (("before", attention), ("after", after), ("settled", settled)):
            row[name] = side.sum(-2).gather(-1, largest).mean().item()
        rows.append(row)
    return pd.DataFrame(rows)


def moved(before: Tensor, after: Tensor) -> float:
    """Return the mean share of a row's mass that two matrices place differently (total
    variation).
    """
    return (before - after).abs().sum(-1).mean().item() / 2


def shape(attention: Float[Tensor, "*batch L L"]) -> dict[str, float]:
    """Return mean entropy (nats), GTD, and the largest column sum over the mean (1 to L)."""
    return {
        "entropy": saobp.attention_entropy(attention).mean().item(),
        "gtd": saobp.gtd(attention).mean().item(),
        "largest_column": attention.sum(-2).amax(-1).mean().item(),
    }


def matrices(model: nn.Module, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Return raw and refined attention of sequences without padding, each (layer, sequence, head,
    L, L).
    """
    with measuring(model), raw_attentions(model) as pairs:
        model(input_ids=tokens, attention_mask=torch.ones_like(tokens))
    return tuple(torch.stack(side) for side in zip(*pairs))


def by_head(raw: Tensor, refined: Tensor) -> pd.DataFrame:
    """Say how much of each head's mass the refinement moves: layer, head (from 1), moved, entropy,
    largest_column.
    """
    rows = []
    for layer in range(raw.shape[0]):
        for head in range(raw.shape[2]):
            before, after = raw[layer, :, head], refined[layer, :, head]
            place = {"layer": layer + 1, "head": head + 1, "moved": moved(before, after)}
            rows.append(place | shape(before))
    return pd.DataFrame(rows)


def by_token(
    raw: Tensor, refined: Tensor, tokens: Tensor, tokenizer: PreTrainedTokenizerBase
) -> pd.DataFrame:
    """Say which tokens lose mass as keys: token, count, before and after (column sums), change;
    most lost first.
    """
    before, after = (side.sum(-2).mean((0, 2)).flatten().tolist() for side in (raw, refined))
    words = tokenizer.convert_ids_to_tokens(tokens.flatten().tolist())
    groups = pd.DataFrame({"token": words, "before": before, "after": after}).groupby("token")
    frame = groups.mean()
    frame["count"] = groups.size()
    frame["change"] = frame["after"] - frame["before"]
    return frame.sort_values("change").reset_index()
