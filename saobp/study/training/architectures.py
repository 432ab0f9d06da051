"""The paper's models as configurations (Tables 4 and 7), and scaled-down ones that are named so."""

import torch
from torch import nn
from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from transformers.modeling_outputs import MaskedLMOutput

import saobp
from saobp.study.setup.sizes_and_strengths import LEAKY, PLAIN, SIZES, strength_used  # noqa: F401  notebooks have all of a model here


class SparseBertForMaskedLM(BertForMaskedLM):
    """BERT whose vocabulary logits are computed at the positions with a label, and nowhere else.

    Same parameters, loss and checkpoints as `BertForMaskedLM`; `logits` has one row a labelled position.
    The vocabulary head at every position is most of a small model's work.
    """

    def forward(
        self, input_ids=None, attention_mask=None, labels=None, num_items_in_batch=None, **kwargs
    ) -> MaskedLMOutput:
        if labels is None:
            return super().forward(input_ids, attention_mask=attention_mask, **kwargs)
        outputs = self.bert(input_ids, attention_mask=attention_mask, **kwargs)
        chosen = labels != -100
        logits = self.cls(outputs.last_hidden_state[chosen])
        # the Trainer hands over the count of labels in all accumulated batches: the mean is over those
        count = chosen.sum() if num_items_in_batch is None else torch.as_tensor(num_items_in_batch)
        # nothing to predict, in a batch of very short texts, is a loss of zero
        loss = nn.functional.cross_entropy(logits.float(), labels[chosen], reduction="sum") / count.clamp(min=1)
        return MaskedLMOutput(loss=loss, logits=logits, attentions=outputs.attentions)


def bert_config(model: str, vocabulary: int, *, dropout: float = 0.1) -> BertConfig:
    """Return the configuration of a BERT of Table 4, or of a scaled-down one."""
    size = SIZES[model]
    return BertConfig(
        vocab_size=vocabulary,
        hidden_size=size.hidden,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        intermediate_size=size.feedforward,
        max_position_embeddings=512,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )


def gpt2_config(model: str, vocabulary: int, *, dropout: float = 0.1) -> GPT2Config:
    """Return a GPT-2 of the same width and depth; the paper gives no sizes for its decoders."""
    size = SIZES[model]
    return GPT2Config(
        vocab_size=vocabulary,
        n_embd=size.hidden,
        n_layer=size.layers,
        n_head=size.heads,
        n_inner=size.feedforward,
        n_positions=512,
        resid_pdrop=dropout,
        embd_pdrop=dropout,
        attn_pdrop=dropout,
        bos_token_id=None,  # GPT-2's own lie outside a smaller vocabulary; `with_tokenizer` sets ours
        eos_token_id=None,
    )


def with_tokenizer(config, tokenizer: PreTrainedTokenizerFast):
    """Copy the tokenizer's special tokens into a configuration."""
    for name in ("pad_token_id", "bos_token_id", "eos_token_id"):
        setattr(config, name, getattr(tokenizer, name))
    return config


def encoder(model: str, tokenizer: PreTrainedTokenizerFast, *, dropout: float, seed: int) -> BertForMaskedLM:
    """Build an untrained masked language model; the same seed gives every algorithm the same start."""
    torch.manual_seed(seed)
    return SparseBertForMaskedLM(with_tokenizer(bert_config(model, len(tokenizer), dropout=dropout), tokenizer))


def decoder(model: str, tokenizer: PreTrainedTokenizerFast, *, dropout: float, seed: int) -> GPT2LMHeadModel:
    """Build an untrained causal language model; the same seed gives every algorithm the same start."""
    torch.manual_seed(seed)
    return GPT2LMHeadModel(with_tokenizer(gpt2_config(model, len(tokenizer), dropout=dropout), tokenizer))


def refine_with(model: nn.Module, algorithm: str, strength: float) -> nn.Module:
    """Put an algorithm's factor into a model; Original and the penalties keep plain attention, seen the same way."""
    if algorithm == LEAKY:
        return saobp.apply(model, "high", strength, messages="all")
    return saobp.apply(model, "none" if algorithm in PLAIN else algorithm, strength)


def parameter_count(model: nn.Module) -> int:
    """Count trainable parameters, shared ones once."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)
