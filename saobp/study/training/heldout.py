"""The held-out set of pretraining: perplexity on fixed masks, and what the attention does there."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import Dataset

from saobp import attention_entropy, gtd
from saobp.measure.diagnostics import cross_layer_gtd
from saobp.models.apply import raw_attentions
from saobp.study.statistics import Estimate, over_samples


@torch.no_grad()
def flow(model: nn.Module, batch: dict[str, torch.Tensor]) -> dict[str, Any]:
    """Return what a model's refined attention, the one that multiplies the values, does on a batch.

    A list a layer, averaged over heads and sequences: `entropy` (nats) and `gtd`; and `cross_layer_gtd`, one
    number. Inputs may be (batch, token), or (batch, option, token) of a multiple choice.
    """
    tokens, mask = (batch[name].flatten(0, -2).to(model.device) for name in ("input_ids", "attention_mask"))
    training = model.training
    model.eval()
    with raw_attentions(model) as pairs:
        getattr(model, model.base_model_prefix)(input_ids=tokens, attention_mask=mask)
    model.train(training)
    layers, mask = [refined for _, refined in pairs], mask.bool()
    return {
        "entropy": [attention_entropy(layer, mask=mask).mean().item() for layer in layers],
        "gtd": [gtd(layer, mask=mask).mean().item() for layer in layers],
        "cross_layer_gtd": cross_layer_gtd(layers, hops=min(4, len(layers)), mask=mask).mean().item(),
    }


class HeldOut:
    """Measures a model on the same sequences with the same masks every time.

    Called with a model it returns `loss` (nats per predicted token), `perplexity` (its exponential), and per layer,
    averaged over heads and the first sequences, what `flow` returns, on unmasked text. Of a `SparseBertForMaskedLM`,
    `accuracy` gives the share of masked tokens that it puts first, and `over_sequences` the loss with its interval.
    """

    def __init__(self, blocks: Dataset, collator: Callable, sequences: int, batch: int, *, shown: int = 16):
        items = [blocks[index] for index in range(min(sequences, len(blocks)))]
        batches = [collator(items[start : start + batch]) for start in range(0, len(items), batch)]
        self.batches = [batch for batch in batches if self._targets(batch)]
        if not self.batches:
            raise ValueError(
                f"evaluation_sequences: {sequences} held-out sequences have no token to predict; take more"
            )
        tokens = torch.stack([torch.as_tensor(item["input_ids"]) for item in items[:shown]])
        self.shown = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
        self.tokens = sum(self._targets(batch) for batch in self.batches)

    def __call__(self, model: nn.Module) -> dict[str, Any]:
        """Measure a model; it is put back into the mode it was in."""
        with _evaluated(model):
            loss = sum(self._loss(model, batch) * self._targets(batch) for batch in self.batches) / self.tokens
        return {"loss": loss, "perplexity": math.exp(min(loss, 700)), **flow(model, self.shown)}

    def accuracy(self, model: nn.Module) -> float:
        """Return the share of masked tokens, 0 to 1, that the model finds most likely."""
        right = 0
        with _evaluated(model):
            for batch in (_to(batch, model) for batch in self.batches):
                targets = batch["labels"][batch["labels"] != -100]
                right += int((model(**batch).logits.argmax(-1) == targets).sum())
        return right / self.tokens

    def by_sequence(self, model: nn.Module) -> tuple[list[float], list[int]]:
        """Return of each sequence with masked tokens the sum of their losses (nats) and how many they are."""
        nats, targets = [], []
        with _evaluated(model):
            for batch in (_to(batch, model) for batch in self.batches):
                chosen = batch["labels"] != -100
                logits = model(**batch).logits.float()
                losses = functional.cross_entropy(logits, batch["labels"][chosen], reduction="none")
                sums = losses.new_zeros(len(chosen)).index_add(0, chosen.nonzero()[:, 0], losses)
                counts = chosen.sum(1)
                nats += sums[counts > 0].tolist()
                targets += counts[counts > 0].tolist()
        return nats, targets

    def over_sequences(self, model: nn.Module) -> Estimate:
        """Return the loss (nats per masked token) with its 95 % interval over the sequences that have one."""
        return over_samples(*self.by_sequence(model))

    @staticmethod
    def _loss(model: nn.Module, batch: dict[str, torch.Tensor]) -> float:
        return model(**_to(batch, model)).loss.item()

    @staticmethod
    def _targets(batch: dict[str, torch.Tensor]) -> int:
        return int((batch["labels"] != -100).sum())


@contextmanager
def _evaluated(model: nn.Module) -> Iterator[None]:
    """Put a model into evaluation mode without gradients, and back into the mode it was in."""
    training = model.training
    model.eval()
    with torch.no_grad():
        yield
    model.train(training)


def _to(batch: dict[str, torch.Tensor], model: nn.Module) -> dict[str, torch.Tensor]:
    device = next(model.parameters()).device
    return {name: values.to(device) for name, values in batch.items()}
