"""The held-out set of pretraining: perplexity on fixed masks, what the attention does there, and
the curve of both.
"""

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Dataset

from companion.statistics import over_samples
from companion.statistics.intervals import perplexity_interval
from saobp import attention_entropy, gtd
from saobp.measure.gtd_and_entropy import cross_layer_gtd
from saobp.models.apply import raw_attentions

# where accelerate keeps the forward that it puts an autocast around
WRAPPED = "_original_forward"
# sequences whose attention is looked at
SHOWN = 16


@contextlib.contextmanager
def measuring(model: nn.Module) -> Iterator[None]:
    """Hold a model in evaluation mode, without gradients and without training's autocast; then put
    it back.
    """
    training, around = model.training, vars(model).get("forward")
    model.eval()
    if WRAPPED in vars(model):
        model.forward = vars(model)[WRAPPED]
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(training)
        if around is not None:
            model.forward = around


def flow(model: nn.Module, batch: dict[str, torch.Tensor]) -> dict[str, Any]:
    """Return `entropy` (nats) and `gtd` by layer, and `cross_layer_gtd`, of a model's refined
    attention on a batch.

    Means over heads and sequences. Inputs may be (batch, token), or (batch, option, token) of a
    multiple choice.
    """
    names = [name for name in ("input_ids", "attention_mask", "token_type_ids") if name in batch]
    batch_inputs = {name: batch[name].flatten(0, -2).to(model.device) for name in names}
    with measuring(model), raw_attentions(model) as pairs:
        model.base_model(**batch_inputs)
    layers, mask = [refined for _, refined in pairs], batch_inputs["attention_mask"].bool()
    return {
        "entropy": [attention_entropy(layer, mask=mask).mean().item() for layer in layers],
        "gtd": [gtd(layer, mask=mask).mean().item() for layer in layers],
        "cross_layer_gtd": cross_layer_gtd(layers, hops=min(4, len(layers)), mask=mask)
        .mean()
        .item(),
    }


def sample(blocks: Dataset, sequences: int, which: str = "even") -> list[dict[str, Any]]:
    """Return so many held-out sequences, or all: evenly spaced over the text, or its "first"."""
    count = min(sequences, len(blocks))
    return [blocks[n if which == "first" else n * len(blocks) // count] for n in range(count)]


class HeldOut:
    """Measures a model on the same sequences with the same masks every time (`which`: see
    `sample`).

    Called, it returns `loss` (nats per predicted token), `perplexity`, and the `flow` of the first
    sequences, unmasked.
    """

    def __init__(
        self,
        blocks: Dataset,
        collator: Callable,
        sequences: int,
        batch: int,
        which: str = "even",
    ):
        items = sample(blocks, sequences, which)
        batches = [collator(items[start : start + batch]) for start in range(0, len(items), batch)]
        self.batches = [batch for batch in batches if (batch["labels"] != -100).any()]
        if not self.batches:
            none = f"{sequences} held-out sequences have no token to predict"
            raise ValueError(f"evaluation_sequences: {none}; take more")
        tokens = torch.stack(
            [torch.as_tensor(item["input_ids"]) for item in sample(items, SHOWN, which)]
        )
        self.shown = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
        self.tokens = sum(int((batch["labels"] != -100).sum()) for batch in self.batches)

    def __call__(self, model: nn.Module) -> dict[str, Any]:
        nats = sum(
            output.loss.item() * int(chosen.sum()) for chosen, _, output in self._outputs(model)
        )
        loss = nats / self.tokens
        return {"loss": loss, "perplexity": math.exp(min(loss, 700)), **flow(model, self.shown)}

    def accuracy(self, model: nn.Module) -> float:
        """Return the share of masked tokens, 0 to 1, that the model finds most likely."""
        right = (output.logits.argmax(-1) == targets for _, targets, output in self._outputs(model))
        return sum(int(each.sum()) for each in right) / self.tokens

    def by_sequence(self, model: nn.Module) -> tuple[list[float], list[int]]:
        """Return of each sequence with masked tokens the sum of their losses (nats) and how many
        they are.
        """
        nats, targets = [], []
        for chosen, targets_of, output in self._outputs(model):
            losses = functional.cross_entropy(output.logits.float(), targets_of, reduction="none")
            sums = losses.new_zeros(len(chosen)).index_add(0, chosen.nonzero()[:, 0], losses)
            predicted = chosen.any(1)
            nats += sums[predicted].tolist()
            targets += chosen.sum(1)[predicted].tolist()
        return nats, targets

    def perplexity_by_sequence(self, model: nn.Module) -> dict[str, Any]:
        """Return the perplexity with its 95 % interval over the sequences that have a masked
        token.
        """
        loss = over_samples(*self.by_sequence(model))
        return {"perplexity": math.exp(min(loss.value, 700)), **perplexity_interval(loss)}

    def _outputs(self, model: nn.Module) -> Iterator[tuple[Tensor, Tensor, Any]]:
        """Yield of each batch where a token is to be predicted, which one, and the output in
        evaluation mode.
        """
        with measuring(model):
            for batch in self.batches:
                batch = {name: values.to(model.device) for name, values in batch.items()}
                chosen = batch["labels"] != -100
                yield chosen, batch["labels"][chosen], model(**batch)


def curve(log: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return of a pretraining log its held-out checks: "step", what was measured, "seconds" of
    training.
    """
    return [{"step": entry["step"], **entry["heldout"]} for entry in log if "heldout" in entry]


def summary(log: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what a pretraining record holds: the curve, its last point, the training losses.

    "sittings": from which step on which code trained, on what, since when.
    """
    checks, losses = curve(log), [entry for entry in log if "loss" in entry]
    return {
        "steps": checks[-1]["step"],
        "loss": losses[-1]["loss"] if losses else None,
        **{key: checks[-1][key] for key in ("perplexity", "seconds")},
        "curve": checks,
        "training": [
            {key: entry[key] for key in ("step", "loss", "learning_rate")} for entry in losses
        ],
        "sittings": [
            {"step": entry["step"], **entry["sitting"]} for entry in log if "sitting" in entry
        ],
    }
