"""The study `paper` taken one step, for it was never run: its models, vocabulary, lengths and rates
at full size.
"""

import math

import pytest
import torch
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from companion.data.masking import SeededMasking, causal_batch
from companion.setup.studies import load_study
from companion.training import pretraining, trainer

STUDY = load_study("paper")
# of the released BERT's vocabulary
WORDS = 30_522
# sequences, of the step's many
FEW = 4


@pytest.fixture(scope="module")
def tokenizer():
    """As many words as the released vocabulary has; which ones does not matter to a step."""
    marks = {"pad_token": "[PAD]", "unk_token": "[UNK]", "mask_token": "[MASK]"}
    names = [*marks.values(), *(f"word{index}" for index in range(WORDS - len(marks)))]
    backend = Tokenizer(
        models.WordLevel({name: index for index, name in enumerate(names)}, unk_token="[UNK]")
    )
    return PreTrainedTokenizerFast(tokenizer_object=backend, **marks)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "algorithm"),
    [*STUDY.pairs(), *((f"gpt2-{model}", algorithm) for model, algorithm in STUDY.decoder.pairs())],
)
def test_every_model_of_the_paper_takes_a_step(model, algorithm, tokenizer, tmp_path):
    """The first of its recipe's steps, on a few sequences of its length, at its full rate."""
    encodes, recipe = not model.startswith("gpt2-"), STUDY.recipe(model)
    network = pretraining.untrained(STUDY, model, algorithm, 42, tokenizer)
    collator = SeededMasking(tokenizer, recipe.masking, 42) if encodes else causal_batch
    weights = (
        network.bert.encoder.layer[0].attention.self.query
        if encodes
        else network.transformer.h[0].attn.c_attn
    )
    before = weights.weight.clone()
    blocks = [{"input_ids": row} for row in torch.randint(3, WORDS, (FEW, recipe.length)).tolist()]
    recipe = recipe.changed(
        steps=1, warmup=0, batch=FEW, save_every=1, scheduler="constant_with_warmup"
    )
    log = trainer.pretrain(
        network, blocks, collator, recipe, folder=tmp_path, seed=42, measure=lambda model: {}
    )
    loss = next(entry["loss"] for entry in log if "loss" in entry)
    # a penalty included
    assert loss == pytest.approx(math.log(WORDS), abs=1.0)
    assert not torch.equal(weights.weight, before)
