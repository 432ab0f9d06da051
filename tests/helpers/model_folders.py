"""Folders of small models with their tokenizers, as somebody would have them."""

import copy
from pathlib import Path

import families
import torch
import transformers as hf
from small_models import word_tokenizer

TEXTS = [
    " ".join(f"w{(7 * text + 3 * word) % 90}" for word in range(12 + text)) for text in range(6)
]
"""Texts in the words of `word_tokenizer`."""
IDS = {"vocab_size": 105, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
DECODER = hf.GPT2Config(**IDS, n_embd=32, n_layer=2, n_head=4, n_positions=64)
MODERN = {
    "local_attention": 6,
    "global_attn_every_n_layers": 2,
    "sep_token_id": 3,
    "cls_token_id": 2,
}


def decoder() -> hf.GPT2LMHeadModel:
    """Build a small decoder that knows `TEXTS`, with a config of its own."""
    torch.manual_seed(0)
    return hf.GPT2LMHeadModel(copy.deepcopy(DECODER)).eval()


def folder(kind: str, path: Path) -> Path:
    """Save a random model of a kind ("gpt2", "modernbert" or "vit") with its tokenizer or image
    processor.
    """
    model = {
        "vit": lambda: hf.ViTForImageClassification(
            hf.ViTConfig(**families.SIZES, **families.IMAGE)
        ),
        "gpt2": decoder,
        "modernbert": lambda: hf.ModernBertForMaskedLM(
            hf.ModernBertConfig(**IDS, **families.SIZES, **MODERN)
        ),
    }[kind]()
    reader = (
        hf.ViTImageProcessor(size={"height": 12, "width": 12})
        if kind == "vit"
        else word_tokenizer()
    )
    families.sharpened(model).save_pretrained(path)
    reader.save_pretrained(path)
    return path


def text_file(path: Path) -> Path:
    """Write `TEXTS` as paragraphs."""
    path.write_text("\n\n".join(TEXTS) + "\n", encoding="utf-8")
    return path
