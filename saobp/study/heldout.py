"""The held-out set of pretraining: perplexity on fixed masks, and what the attention does there."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils.data import Dataset

from saobp import attention_entropy, gtd
from saobp.huggingface import raw_attentions


class HeldOut:
    """Measures a model on the same sequences with the same masks every time.

    Called with a model it returns `loss` (nats a predicted token), `perplexity` (its exponential), and per layer,
    averaged over heads and the first sequences, `entropy` (nats) and `gtd` of the refined attention, the one
    that multiplies the values, on unmasked text.
    """

    def __init__(self, blocks: Dataset, collator: Callable, sequences: int, batch: int, *, shown: int = 16):
        items = [blocks[index] for index in range(min(sequences, len(blocks)))]
        self.batches = [collator(items[start : start + batch]) for start in range(0, len(items), batch)]
        tokens = torch.stack([torch.as_tensor(item["input_ids"]) for item in items[:shown]])
        self.shown = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
        self.tokens = sum(self._targets(batch) for batch in self.batches)

    def __call__(self, model: nn.Module) -> dict[str, Any]:
        """Measure a model; it is put back into the mode it was in."""
        training = model.training
        model.eval()
        with torch.no_grad():
            loss = sum(self._loss(model, batch) * self._targets(batch) for batch in self.batches) / self.tokens
            with raw_attentions(model) as pairs:
                getattr(model, model.base_model_prefix)(**_to(self.shown, model))
            refined = [refined for _, refined in pairs]
        model.train(training)
        return {
            "loss": loss,
            "perplexity": math.exp(min(loss, 700)),
            "entropy": [attention_entropy(layer).mean().item() for layer in refined],
            "gtd": [gtd(layer).mean().item() for layer in refined],
        }

    @staticmethod
    def _loss(model: nn.Module, batch: dict[str, torch.Tensor]) -> float:
        return model(**_to(batch, model)).loss.item()

    @staticmethod
    def _targets(batch: dict[str, torch.Tensor]) -> int:
        return int((batch["labels"] != -100).sum())


def _to(batch: dict[str, torch.Tensor], model: nn.Module) -> dict[str, torch.Tensor]:
    device = next(model.parameters()).device
    return {name: values.to(device) for name, values in batch.items()}
