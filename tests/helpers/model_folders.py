"""Folders of small models with their tokenizers, as somebody would have them."""

from pathlib import Path

import families
from small_models import word_tokenizer
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    ModernBertConfig,
    ModernBertForMaskedLM,
    ViTConfig,
    ViTForImageClassification,
    ViTImageProcessor,
)

TEXTS = [" ".join(f"w{(7 * text + 3 * word) % 90}" for word in range(12 + text)) for text in range(6)]
"""Texts in the words of `word_tokenizer`."""


def folder(kind: str, path: Path) -> Path:
    """Save a random model of a kind ("gpt2", "modernbert" or "vit") with its tokenizer or image processor."""
    tokenizer = word_tokenizer()
    ids = {"vocab_size": len(tokenizer), "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
    if kind == "vit":
        model = ViTForImageClassification(ViTConfig(**families.SIZES, **families.IMAGE))
        reader = ViTImageProcessor(size={"height": 12, "width": 12})
    elif kind == "gpt2":
        model, reader = GPT2LMHeadModel(GPT2Config(**ids, n_embd=32, n_layer=2, n_head=4, n_positions=64)), tokenizer
    else:
        config = ModernBertConfig(**ids, **families.SIZES, local_attention=6, global_attn_every_n_layers=2,
                                  sep_token_id=3, cls_token_id=2)  # fmt: skip
        model, reader = ModernBertForMaskedLM(config), tokenizer
    families.sharpened(model).save_pretrained(path)
    reader.save_pretrained(path)
    return path


def text_file(path: Path) -> Path:
    """Write `TEXTS` as paragraphs."""
    path.write_text("\n\n".join(TEXTS) + "\n", encoding="utf-8")
    return path
