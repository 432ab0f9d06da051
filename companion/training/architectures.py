"""The paper's models as configurations (Tables 4 and 7), and scaled-down ones that are named so."""

from typing import Any

import torch
from torch import nn
from transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
)
from transformers.modeling_outputs import MaskedLMOutput

import saobp
from companion.setup.sizes_and_strengths import (  # noqa: F401
    LEAKY,
    PLAIN,
    SIZES,
    WITHOUT_STRENGTH,
    Size,
    strength_used,
)
from companion.training import devices, regularizers


class SparseBertForMaskedLM(BertForMaskedLM):
    """BERT whose vocabulary logits, most of a small model's work, are computed at the positions
    with a label alone.

    Same parameters, loss and checkpoints as `BertForMaskedLM`; `logits` has one row a labelled
    position. While it trains its loss has the penalty that `regularizers` attached; what is
    measured in between is without it.
    """

    def forward(
        self, input_ids=None, attention_mask=None, labels=None, num_items_in_batch=None, **kwargs
    ) -> MaskedLMOutput:
        if labels is None:
            return super().forward(input_ids, attention_mask=attention_mask, **kwargs)
        penalty = getattr(self, regularizers.NAME, None) if self.training else None
        if isinstance(penalty, regularizers.EntropyRegularizer):
            kwargs["output_attentions"] = True
        outputs = self.bert(input_ids, attention_mask=attention_mask, **kwargs)
        chosen = labels != -100
        logits = self.cls(outputs.last_hidden_state[chosen])
        # the Trainer hands over the count of labels in all accumulated batches: the mean is over
        # those
        count = chosen.sum() if num_items_in_batch is None else torch.as_tensor(num_items_in_batch)
        # nothing to predict, in a batch of very short texts, is a loss of zero
        total = nn.functional.cross_entropy(logits.float(), labels[chosen], reduction="sum")
        loss = total / count.clamp(min=1)
        if penalty is None:
            return MaskedLMOutput(loss=loss, logits=logits, attentions=outputs.attentions)
        real = None if attention_mask is None else attention_mask.bool()
        # the Trainer multiplies a loss that it gave a count of labels by the number of processes
        shares = 1 if num_items_in_batch is None else devices.processes().num_processes
        with torch.autocast(loss.device.type, enabled=False):
            loss = loss + penalty(outputs.attentions, real) / shares
        return MaskedLMOutput(loss=loss, logits=logits)


def bert_config(size: Size, vocabulary: int, *, dropout: float = 0.1, **more: Any) -> BertConfig:
    """Return the configuration of a BERT of some size, with `more` of BertConfig's own settings."""
    return BertConfig(
        vocab_size=vocabulary,
        hidden_size=size.hidden,
        intermediate_size=size.feedforward,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        **more,
    )


def special_tokens(tokenizer: PreTrainedTokenizerFast) -> dict[str, int | None]:
    """Return a tokenizer's special tokens as configurations name them; GPT-2's own lie outside a
    smaller vocabulary.
    """
    names = ("pad_token_id", "bos_token_id", "eos_token_id")
    return {name: getattr(tokenizer, name) for name in names}


def encoder(
    model: str, tokenizer: PreTrainedTokenizerFast, *, dropout: float, seed: int
) -> BertForMaskedLM:
    """Build an untrained masked language model; the same seed gives every algorithm the same
    start.
    """
    torch.manual_seed(seed)
    special = special_tokens(tokenizer)
    config = bert_config(SIZES[model], len(tokenizer), dropout=dropout, **special)
    return SparseBertForMaskedLM(config)


def decoder(
    model: str, tokenizer: PreTrainedTokenizerFast, *, dropout: float, seed: int
) -> GPT2LMHeadModel:
    """Build an untrained GPT-2 as wide and deep as the encoder: the paper gives no sizes for its
    decoders.
    """
    size = SIZES[model]
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=512,
        n_layer=size.layers,
        n_head=size.heads,
        n_embd=size.hidden,
        n_inner=size.feedforward,
        resid_pdrop=dropout,
        embd_pdrop=dropout,
        attn_pdrop=dropout,
        **special_tokens(tokenizer),
    )
    torch.manual_seed(seed)
    network = GPT2LMHeadModel(config)
    # by which the Trainer knows that the first token is no target
    network.loss_type = "ForCausalLM"
    return network


def refine_with(model: nn.Module, algorithm: str, strength: float) -> nn.Module:
    """Put an algorithm's factor into a model; Original and the penalties keep plain attention, seen
    the same way.
    """
    if algorithm == LEAKY:
        return saobp.apply(model, "high", strength, messages="all")
    if algorithm in WITHOUT_STRENGTH and algorithm not in PLAIN:
        # any but 0, which is plain attention
        strength = 1.0
    return saobp.apply(model, "none" if algorithm in PLAIN else algorithm, strength)


def parameter_count(model: nn.Module) -> int:
    """Count trainable parameters, shared ones once."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)
