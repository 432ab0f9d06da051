"""Rows of padding: a query that may look at nothing gets 0, a padded one that may look keeps plain
attention, on every path; so a loss does not depend on how a batch is padded.
"""

import literal_attention
import pytest
import torch
import transformers as hf
from families import (
    CLOSE,
    SIZES,
    TOKENS,
    build,
    refined_modules,
    refined_names,
    sharpened,
    tokens,
)
from literal_attention import literal
from small_models import word_tokenizer
from torch import nn
from transformers import DynamicCache

import saobp
from saobp.models.interface import attention_forward

LENGTH, STRENGTH = 9, 1.5
REAL = {"left": torch.arange(LENGTH) >= 4, "right": torch.arange(LENGTH) < 6}
FORMS = {
    "boolean": lambda shown: shown.clone(),
    "lowest": lambda shown: torch.zeros(shown.shape).masked_fill(
        ~shown, torch.finfo(torch.float32).min
    ),
    "infinite": lambda shown: torch.zeros(shown.shape).masked_fill(~shown, -torch.inf),
}
WAYS = {
    "fused": ({}, {}),
    "learned": ({"learn": "head"}, {}),
    "weights shown": ({}, {"output_attentions": True}),
    "a bias": ({}, {"position_bias": torch.zeros(1, 4, LENGTH, LENGTH)}),
    "rounds of no change": ({"steps": 2, "damping": 0.0}, {}),
    "compiled": ({}, {}),
}


def mask_of(side: str, *, causal: bool, rows: bool) -> torch.Tensor:
    """Return which pairs are shown: the second sequence is padded, its padded rows are hidden too
    with `rows`.
    """
    real = torch.stack([torch.ones(LENGTH, dtype=torch.bool), REAL[side]])
    shown = real[:, None, None, :].expand(2, 1, LENGTH, LENGTH)
    shown = shown.tril() if causal else shown
    return shown & real[:, None, :, None] if rows else shown


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rows", [False, True], ids=["keys hidden", "rows hidden"])
@pytest.mark.parametrize("side", REAL)
@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_rows_of_padding_are_plain_or_nothing_on_every_path(family, side, rows, form, way):
    causal, (options, call) = family == "gpt2", WAYS[way]
    tensors, shown = torch.randn(3, 2, 4, LENGTH, 8), mask_of(side, causal=causal, rows=rows)
    module, oracle = (
        refined_modules(saobp.apply(build(family), "high", STRENGTH, **options))[0],
        (nn.Module()),
    )
    oracle.is_causal, oracle.literal = causal, ("high", STRENGTH, True)

    def attend(query, key, value):
        return attention_forward(module, query, key, value, FORMS[form](shown), **call)

    if way == "compiled":
        attend = torch.compile(attend, backend="eager")
    output, weights = attend(*tensors)
    expected, matrix = literal_attention.attend(oracle, *tensors.double(), shown)
    if options.get("steps") == 2:
        # only the rows of padding are those of one round
        rounds = ~shown.diagonal(0, -2, -1).transpose(1, 2)[..., None]
        output, expected = output * rounds, expected * rounds
    torch.testing.assert_close(output.double(), expected, **CLOSE)
    blind = ~shown.any(-1).transpose(1, 2).expand(-1, -1, 4)
    assert (output[blind] == 0).all() and bool(blind.any()) == (rows or causal and side == "left")
    if weights is not None:
        torch.testing.assert_close(weights.double(), matrix, **CLOSE)


@pytest.mark.parametrize("factor", ["high", "low", "elemmul", "sinkhorn", "uniform"])
@pytest.mark.parametrize("rows", [False, True], ids=["keys hidden", "rows hidden"])
def test_rows_of_padding_are_the_same_whatever_the_factor(factor, rows):
    shown, found = mask_of("left", causal=True, rows=rows), []
    tensors, padded = torch.randn(3, 2, 4, LENGTH, 8), ~REAL["left"]
    for call in ({}, {"output_attentions": True}):
        module = refined_modules(saobp.apply(build("gpt2"), factor, STRENGTH))[0]
        output = attention_forward(module, *tensors, FORMS["lowest"](shown), **call)[0]
        assert (output[1, padded] == 0).all()
        found.append(output)
    torch.testing.assert_close(*found, **CLOSE)


@torch.no_grad()
def test_rows_of_padding_are_nothing_with_a_cache_too():
    model, ids = saobp.apply(build("llama"), "high", STRENGTH), tokens(2, LENGTH)
    oracle = literal(build("llama"), refined_names(model), STRENGTH)
    mask = torch.stack([torch.ones(LENGTH), REAL["left"]]).long()
    call = {"output_attentions": True, "use_cache": False}
    expected = oracle(ids, attention_mask=mask, **call)
    cache, logits = DynamicCache(), []
    for start, end in ((0, 2), (2, 7), (7, LENGTH)):
        part = model(
            ids[:, start:end],
            attention_mask=mask[:, :end],
            output_attentions=True,
            past_key_values=cache,
        )
        logits.append(part.logits)
        for mine, theirs in zip(part.attentions, expected.attentions):
            torch.testing.assert_close(mine, theirs[:, :, start:end, :end].float(), **CLOSE)
    torch.testing.assert_close(torch.cat(logits, 1), expected.logits, **CLOSE)


@torch.no_grad()
def test_rows_of_padding_in_parts_that_stay_plain_are_those_of_the_plain_model():
    sizes = {
        f"{part}_{name}": 2
        for part in ("encoder", "decoder")
        for name in ("layers", "attention_heads")
    }
    model = hf.BartForConditionalGeneration(hf.BartConfig(**TOKENS, d_model=32, **sizes)).eval()
    mask, start = torch.stack([torch.ones(LENGTH), REAL["left"]]).long(), tokens(2, LENGTH, seed=3)
    # the encoder reads nothing of the second sequence, and its decoder starts with padding
    nothing = torch.stack([torch.ones(LENGTH), torch.zeros(LENGTH)]).long()
    states = model.get_encoder()(tokens(), attention_mask=torch.ones_like(mask))
    call = {"decoder_input_ids": start, "decoder_attention_mask": mask}
    call |= {"attention_mask": nothing, "encoder_outputs": states}
    expected = model(**call).logits
    for shown in (False, True):
        found = saobp.apply(model, "high", STRENGTH)(**call, output_attentions=shown).logits
        torch.testing.assert_close(found, expected, **CLOSE)


def sentences(side: str, pad: int) -> list[dict]:
    """Return sequences of three lengths as a tokenizer would."""
    return [{"input_ids": row[:size].tolist()} for row, size in zip(tokens(3, 12), (12, 7, 4))]


COLLATED = [
    ("bert", "left", "masked"),
    ("bert", "right", "masked"),
    ("modernbert", "right", "masked"),
    ("gpt2", "right", "next"),
    ("gpt2", "left", "next"),
    ("llama", "right", "next"),
    ("llama", "left", "next"),
    ("bert", "right", "classes"),
]


def collated(side: str, kind: str) -> dict[str, torch.Tensor]:
    """Return a padded batch as a collator of transformers makes it."""
    tokenizer = word_tokenizer(50)
    tokenizer.padding_side = side
    rows = sentences(side, tokenizer.pad_token_id)
    if kind == "classes":
        rows = [row | {"labels": [token % 3 for token in row["input_ids"]]} for row in rows]
        return dict(hf.DataCollatorForTokenClassification(tokenizer)(rows))
    return dict(hf.DataCollatorForLanguageModeling(tokenizer, mlm=kind == "masked")(rows))


@pytest.mark.parametrize("call", [{}, {"output_attentions": True}], ids=["fused", "shown"])
@pytest.mark.parametrize(("family", "side", "kind"), COLLATED)
def test_the_loss_of_a_padded_batch_is_that_of_its_sequences_without_padding(
    family, side, kind, call
):
    model = build(family)
    if kind == "classes":
        config = hf.BertConfig(**TOKENS, **SIZES, num_labels=3)
        model = sharpened(hf.BertForTokenClassification(config))
    saobp.apply(model, "high", STRENGTH)
    batch = collated(side, kind)
    real = batch["attention_mask"].bool()
    if "next" in kind:
        # a first token that padding predicts: no sequence without padding does
        first = real & (real.cumsum(1) == 1)
        batch["labels"][first] = -100
        call = call | {"use_cache": False}
    if family != "modernbert":
        batch["position_ids"] = (real.cumsum(1) - 1).clamp(min=0)
    losses, gradients = [], []
    for rows in [slice(0, 3), *range(3)]:
        one = batch
        if isinstance(rows, int):
            one = {name: entry[rows][real[rows]][None] for name, entry in batch.items()}
        counted = int((one["labels"][:, 1:] if kind == "next" else one["labels"]).ne(-100).sum())
        loss = (
            model(**one, **call).loss * counted if counted else torch.zeros((), requires_grad=True)
        )
        losses.append(loss.detach())
        wanted = [*model.parameters()]
        gradients.append(torch.autograd.grad(loss, wanted, allow_unused=True) if counted else None)
    torch.testing.assert_close(losses[0], sum(losses[1:]), **CLOSE)
    for number, together in enumerate(gradients[0]):
        if together is not None:
            parts = [one[number] for one in gradients[1:] if one]
            torch.testing.assert_close(together, sum(parts), atol=2e-4, rtol=1e-3)


@pytest.mark.parametrize("factor", ["high", "none"])
@pytest.mark.parametrize("call", [{}, {"output_attentions": True}], ids=["fused", "shown"])
def test_padding_that_predicts_the_first_token_knows_nothing_of_it(factor, call):
    model = saobp.apply(build("llama"), factor, STRENGTH)
    mask = REAL["left"].long().expand(2, -1)
    first, second = (
        model(tokens(2, LENGTH, seed=seed) * mask, attention_mask=mask, use_cache=False, **call)
        for seed in (1, 2)
    )
    assert torch.equal(first.logits[:, :4], second.logits[:, :4])
    assert not torch.equal(first.logits[:, 4:], second.logits[:, 4:])
