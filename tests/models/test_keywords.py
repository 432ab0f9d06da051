"""Whatever transformers' models hand to an attention function is used on every path or refused on
every path.
"""

import pytest
import torch
import transformers as hf
from families import CACHE, CLOSE, VOCABULARY, build, refined_names, tokens
from literal_attention import literal
from transformers import DynamicCache

import saobp

LENGTH = 9
SLOPES = torch.tensor([0.5, 0.25, 0.125, 0.0625])[None, :, None, None]
DISTANCE = (torch.arange(LENGTH)[None] - torch.arange(LENGTH)[:, None]).clamp(max=0)
ALIBI = DISTANCE * SLOPES
STEEP = 40 * ALIBI
"""A bias as steep as a fill of hidden keys."""
WITH_BIAS = ("gpt2", "llama", "qwen2", "mistral")


def pix2struct() -> torch.nn.Module:
    """Build a decoder with a relative bias far from nothing."""
    sizes = {"hidden_size": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
    given = {"vocab_size": VOCABULARY, "is_decoder": True, "pad_token_id": 0}
    torch.manual_seed(0)
    config = hf.Pix2StructTextConfig(**sizes, **given, initializer_range=0.3)
    model = hf.Pix2StructTextModel(config).eval()
    relative = next(part for name, part in model.named_parameters() if "relative" in name)
    torch.nn.init.normal_(relative, std=2.0)
    return model


@pytest.mark.parametrize("bias", [ALIBI, STEEP], ids=["alibi", "steep"])
@pytest.mark.parametrize("family", WITH_BIAS)
def test_a_relative_bias_counts_on_every_path(family, bias):
    model, ids = saobp.apply(build(family), "high", 1.5), tokens(2, LENGTH)
    oracle = literal(build(family), refined_names(model), 1.5)
    cache, parts = DynamicCache(), []
    with torch.no_grad():
        expected = oracle(ids, position_bias=bias, use_cache=False).logits
        for call in ({"use_cache": False}, {"output_attentions": True, "use_cache": False}, {}):
            found = model(ids, position_bias=bias, **call).logits
            torch.testing.assert_close(found, expected, **CLOSE)
        for start, end in ((0, 5), (5, 6), (6, LENGTH)):
            part = bias[:, :, start:end, :end]
            call = {"position_bias": part, CACHE: cache}
            parts.append(model(ids[:, start:end], **call).logits)
        unbiased = model(ids).logits
    torch.testing.assert_close(torch.cat(parts, 1), expected, **CLOSE)
    assert (unbiased - expected).abs().max() > 100 * CLOSE["atol"]


def test_a_relative_bias_counts_in_training_and_compiled():
    model, ids = saobp.apply(build("llama"), "high", 1.5), tokens(2, LENGTH)
    oracle = literal(build("llama"), refined_names(model), 1.5)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    gradients = []
    for way in (oracle, model, compiled):
        learned = ALIBI.clone().requires_grad_()
        logits = way(ids, position_bias=learned, use_cache=False).logits
        (100 * logits.square().sum()).backward()
        gradients.append(learned.grad)
    for found in gradients[1:]:
        torch.testing.assert_close(found, gradients[0], atol=1e-4, rtol=1e-3)
    assert gradients[0].abs().max() > 1e-2


def test_a_relative_bias_follows_a_cache_through_crops_and_changes_of_the_batch():
    model, ids = saobp.apply(build("llama"), "high", 1.5), tokens(2, LENGTH)
    order, cache = torch.tensor([1, 1, 0]), DynamicCache()
    with torch.no_grad():
        expected = model(ids[order], position_bias=ALIBI, use_cache=False).logits
        model(ids[:, :6], position_bias=ALIBI[:, :, :6, :6], **{CACHE: cache})
        model(ids[:, 6:8].flip(1), position_bias=ALIBI[:, :, 6:8, :8], **{CACHE: cache})
        cache.batch_select_indices(order)
        cache.crop(-4)
        rest = {"position_bias": ALIBI[:, :, 4:, :], CACHE: cache}
        found = model(ids[order, 4:], **rest).logits
    torch.testing.assert_close(found, expected[:, 4:], **CLOSE)


@pytest.mark.parametrize("factor", ["none", "high", "low"])
def test_a_decoder_with_a_relative_bias_of_its_own_generates_as_without_a_cache(factor):
    model, ids = saobp.apply(pix2struct(), factor, 0.5), tokens(2, LENGTH)
    with torch.no_grad():
        full = model(ids, use_cache=False).logits
        torch.testing.assert_close(model(ids, use_cache=True).logits, full, **CLOSE)
    if factor == "high":
        oracle = literal(pix2struct(), refined_names(model), 0.5)
        with torch.no_grad():
            torch.testing.assert_close(oracle(ids, use_cache=False).logits, full, **CLOSE)
