"""Batches for pretraining: masked tokens to predict (80/10/10), or the text as its own labels."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast, TrainerCallback

# of the chosen tokens; the rest stay what they are (Devlin et al. 2019)
MASKED, RANDOM = 0.8, 0.1


def masked(
    tokens: torch.Tensor, draws: torch.Tensor, tokenizer: PreTrainedTokenizerBase, share: float
) -> dict[str, torch.Tensor]:
    """Mask a share of the tokens (sequence, token), 80/10/10, and return a batch with its labels.

    `draws` are three uniform numbers a token, (3, sequence, token): whether it is chosen, what is
    done to it, and the word that may replace it. Special tokens are never chosen.
    """
    choice, treatment, word = draws
    special = torch.tensor(tokenizer.all_special_ids, device=tokens.device)
    chosen = (choice < share) & ~torch.isin(tokens, special)
    inputs = tokens.masked_fill(chosen & (treatment < MASKED), tokenizer.mask_token_id)
    replaced = chosen & (treatment >= 1 - RANDOM)
    inputs = torch.where(replaced, (word * len(tokenizer)).long(), inputs)
    labels = tokens.masked_fill(~chosen, -100)
    return {"input_ids": inputs, "attention_mask": torch.ones_like(inputs), "labels": labels}


@dataclass
class SeededMasking(TrainerCallback):
    """Masks 15 % (or `share`) of the tokens, 80/10/10, anew in every epoch.

    The masks of a sequence depend on its tokens, the seed and the epoch, and on nothing else: a run
    that was killed and continued, or spread over several processes, sees those of a run in one
    piece.
    """

    tokenizer: PreTrainedTokenizerFast
    share: float
    seed: int
    epoch: int = 0

    def __call__(self, items: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        tokens = torch.stack([torch.as_tensor(item["input_ids"]) for item in items])
        draws = []
        # three uniform numbers a token, keyed by the sequence, the seed and the epoch
        for row in tokens.numpy():
            digest = hashlib.sha256(row.tobytes() + f" {self.seed} {self.epoch}".encode()).digest()
            generator = np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16])))
            draws.append(generator.random((3, len(row))))
        return masked(tokens, torch.from_numpy(np.stack(draws, axis=1)), self.tokenizer, self.share)

    def on_epoch_begin(self, args, state, control, **kwargs):
        """Count epochs from what the Trainer has seen, also where a run is continued in the middle
        of one.
        """
        self.epoch = int(state.epoch or 0)


def causal_batch(items: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    """Stack sequences for a causal model: every token is the label of the position before it."""
    tokens = torch.stack([torch.as_tensor(item["input_ids"]) for item in items])
    return {
        "input_ids": tokens,
        "attention_mask": torch.ones_like(tokens),
        "labels": tokens.clone(),
    }


def batches(
    tokenizer: PreTrainedTokenizerFast, share: float, seed: int
) -> Callable[[list[dict[str, Any]]], dict]:
    """Return what makes batches of `corpora.token_blocks`: masked ones of an encoder's tokenizer,
    else causal ones.
    """
    return (
        SeededMasking(tokenizer, share, seed)
        if tokenizer.num_special_tokens_to_add()
        else causal_batch
    )
