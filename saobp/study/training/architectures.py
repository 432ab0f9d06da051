"""The paper's models as configurations (Tables 4 and 7), and scaled-down twins that are named so."""

from dataclasses import dataclass

import torch
from torch import nn
from transformers import BertConfig, BertForMaskedLM, BertModel, GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from transformers.modeling_outputs import MaskedLMOutput

import saobp

PLAIN = ("original", "entropy_reg", "eigen_reg")  # their attention is not refined; every other algorithm is a factor

WITHOUT_STRENGTH = (*PLAIN, "elemmul", "sinkhorn")  # Eq. 15 and the Sinkhorn step have no λ

LEAKY = "high_all_rows"  # High in a decoder that hears later rows too: what the paper's decoders may have done


@dataclass(frozen=True)
class Size:
    """One row of Table 4, or a twin of it."""

    layers: int
    hidden: int
    heads: int
    feedforward: int
    strength: float  # λ of Sec. 6, by the size it stands in for
    twin_of: str | None = None


SIZES = {
    "mini": Size(4, 256, 4, 1024, 0.2),
    "small": Size(4, 512, 8, 2048, 0.08),
    "medium": Size(8, 512, 8, 2048, 0.05),
    "mini-narrow": Size(4, 128, 4, 512, 0.2, twin_of="mini"),  # half as wide
    "mini-twin": Size(4, 64, 4, 256, 0.2, twin_of="mini"),  # a quarter as wide, as the next two
    "small-twin": Size(4, 128, 8, 512, 0.08, twin_of="small"),
    "medium-twin": Size(8, 128, 8, 512, 0.05, twin_of="medium"),
    "minilm": Size(6, 384, 12, 1536, 0.1),  # public and trained (saobp.models.public); 0.2 × 11.17 M / 22.7 M
}


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


def strength_of(model: str, strengths: dict[str, float] | None = None) -> float:
    """Return λ for a model: what a profile says, else Sec. 6's value for its size."""
    return (strengths or {}).get(model, SIZES[model].strength)


def strength_used(model: str, algorithm: str, strengths: dict[str, float] | None = None) -> float | None:
    """Return λ for a model, or None for an algorithm that has none."""
    return None if algorithm in WITHOUT_STRENGTH else strength_of(model, strengths)


def bert_config(model: str, vocabulary: int, *, dropout: float = 0.1, positions: int = 512) -> BertConfig:
    """Return the configuration of a BERT of Table 4 or of a twin."""
    size = SIZES[model]
    return BertConfig(
        vocab_size=vocabulary,
        hidden_size=size.hidden,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        intermediate_size=size.feedforward,
        max_position_embeddings=positions,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )


def gpt2_config(model: str, vocabulary: int, *, dropout: float = 0.1, positions: int = 512) -> GPT2Config:
    """Return a GPT-2 of the same width and depth; the paper gives no sizes for its decoders."""
    size = SIZES[model]
    return GPT2Config(
        vocab_size=vocabulary,
        n_embd=size.hidden,
        n_layer=size.layers,
        n_head=size.heads,
        n_inner=size.feedforward,
        n_positions=positions,
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
    config = with_tokenizer(bert_config(model, len(tokenizer), dropout=dropout), tokenizer)
    torch.manual_seed(seed)
    return SparseBertForMaskedLM(config)


def decoder(model: str, tokenizer: PreTrainedTokenizerFast, *, dropout: float, seed: int) -> GPT2LMHeadModel:
    """Build an untrained causal language model; the same seed gives every algorithm the same start."""
    config = with_tokenizer(gpt2_config(model, len(tokenizer), dropout=dropout), tokenizer)
    torch.manual_seed(seed)
    return GPT2LMHeadModel(config)


def refine_with(model: nn.Module, algorithm: str, strength: float) -> nn.Module:
    """Put an algorithm's factor into a model; Original and the penalties keep plain attention, seen the same way."""
    if algorithm == LEAKY:
        return saobp.apply(model, "high", strength, messages="all")
    return saobp.apply(model, "none" if algorithm in PLAIN else algorithm, strength)


def parameter_count(model: nn.Module) -> int:
    """Count trainable parameters, shared ones once."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def body_parameters(model: str, vocabulary: int) -> int:
    """Count a BERT's parameters as Table 4 does: with the pooler, without the masked-LM head."""
    with torch.device("meta"):
        return parameter_count(BertModel(bert_config(model, vocabulary)))
