"""A word-level tokenizer, a text of random words, an encoder and a recipe that trains it in
seconds.
"""

from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset
from transformers import BertForMaskedLM, BertTokenizer, TrainerCallback

from companion.data.masking import SeededMasking
from companion.setup.recipes import Pretraining
from companion.training import architectures, trainer

RECIPE = Pretraining(
    length=16,
    batch=4,
    steps=30,
    learning_rate=1e-3,
    warmup=5,
    dropout=0.1,
    evaluations=4,
    evaluation_sequences=4,
    save_every=6,
    precision="fp32",
)


def word_tokenizer(words: int = 100) -> BertTokenizer:
    """Return a tokenizer whose words are w0, w1, …"""
    entries = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *(f"w{number}" for number in range(words)),
    ]
    vocabulary = {entry: number for number, entry in enumerate(entries)}
    return BertTokenizer(vocab=vocabulary, model_input_names=["input_ids", "attention_mask"])


class RandomText(Dataset):
    """Sequences of random words, the same at every reading."""

    fingerprint = "random"

    def __init__(self, sequences: int = 50, length: int = 16, words: int = 100):
        generator = torch.Generator().manual_seed(0)
        self.tokens = torch.randint(5, 5 + words, (sequences, length), generator=generator)

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.tokens[index]}


def network(algorithm: str = "high", *, dropout: float = 0.0, seed: int = 1) -> BertForMaskedLM:
    """Return an untrained encoder with an algorithm in place."""
    model = architectures.encoder("mini-quarter", word_tokenizer(), dropout=dropout, seed=seed)
    return architectures.refine_with(model, algorithm, 0.2)


def pretrain(
    model: BertForMaskedLM,
    folder: Path,
    *callbacks: TrainerCallback,
    text: Dataset | None = None,
    **options: Any,
) -> list[dict[str, Any]]:
    """Pretrain a model by RECIPE; `options` are fields of it that are otherwise, `measure`, or
    `masking`.
    """
    measure = options.pop("measure", lambda model: {})
    masking = options.pop("masking", None) or SeededMasking(word_tokenizer(), 0.15, 1)
    recipe = RECIPE.changed(**options)
    given = {"folder": folder, "seed": 1, "measure": measure, "callbacks": callbacks}
    return trainer.pretrain(model, text or RandomText(), masking, recipe, **given)
