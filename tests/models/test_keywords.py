"""Whatever transformers' models hand to an attention function is used on every path or refused on
every path.
"""

import ast
import inspect
import re
from pathlib import Path

import pytest
import torch
import transformers as hf
from families import CACHE, CLOSE, VOCABULARY, build, refined_names, tokens
from literal_attention import literal
from torch.nn.attention.flex_attention import create_block_mask
from transformers import DynamicCache
from transformers.integrations.eager_paged import eager_paged_attention_forward
from transformers.integrations.flash_attention import flash_attention_forward
from transformers.integrations.flex_attention import flex_attention_forward
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_flash_attention_utils import (
    FlashAttentionKwargs,
    _flash_attention_forward,
)
from transformers.utils.generic import TransformersKwargs

import saobp
from saobp.models.keywords import OF_A_BATCH, REFUSED, SERVED

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


@pytest.mark.parametrize("step", [False, True])
def test_a_bias_of_fewer_dimensions_is_used_and_of_another_shape_refused(step):
    model, ids = saobp.apply(build("llama"), "high", 1.5), tokens(2, LENGTH)
    rows, cache = slice(-1, None) if step else slice(0, LENGTH), DynamicCache()
    bias = ALIBI[0, :, rows]
    with torch.no_grad():
        expected = model(ids, position_bias=ALIBI, use_cache=False).logits[:, rows]
        if step:
            model(ids[:, :-1], position_bias=ALIBI[0, :, :-1, :-1], **{CACHE: cache})
        found = model(ids[:, rows], position_bias=bias, **{CACHE: cache}).logits
        torch.testing.assert_close(found, expected, **CLOSE)
        for use_cache in (False, True):
            with pytest.raises(ValueError, match="position_bias: LlamaAttention was handed shape"):
                model(ids[:, :4], position_bias=ALIBI, use_cache=use_cache)


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


def handed_by_models() -> set[str]:
    """Return the keywords that transformers' models write where they call an attention function."""
    keywords = set()
    for path in Path(hf.__file__).parent.glob("models/*/modeling_*.py"):
        text = path.read_text()
        for call in re.finditer(r"\b(attention_interface|attn_interface)\(", text):
            keywords |= {
                word.arg for word in parsed_call(text[call.start() :]).keywords if word.arg
            }
    return keywords


def parsed_call(text: str) -> ast.Call:
    """Parse the call that a text begins with."""
    depth = 0
    for place, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if depth == 0 and character == ")":
            return ast.parse(text[: place + 1], mode="eval").body
    raise ValueError("no end of the call")


def known_to_functions() -> set[str]:
    """Return the parameters of transformers' own attention functions, and what goes through all
    layers of its models.
    """
    functions = (
        sdpa_attention_forward,
        flash_attention_forward,
        flex_attention_forward,
        eager_paged_attention_forward,
    )
    parameters = {name for function in functions for name in inspect.signature(function).parameters}
    through = {*FlashAttentionKwargs.__annotations__, *TransformersKwargs.__annotations__}
    # what that function calls what it was handed as something else, and how it works
    inner = {name for name in inspect.signature(_flash_attention_forward).parameters}
    own = {"query_length", "use_top_left_mask", "target_dtype", "attn_implementation"}
    renamed = {"query_states", "key_states", "value_states", "dropout"}
    return (parameters | through | inner - own - renamed) - {"module", "kwargs"}


def test_every_keyword_that_transformers_hands_over_is_served_or_refused():
    handed = handed_by_models()
    assert {"scaling", "position_bias", "softcap", "s_aux", "indices"} <= handed
    assert handed | known_to_functions() <= {*SERVED, *REFUSED}
    assert not {*SERVED} & {*REFUSED}


VALUES = {
    "softcap": 3.0,
    "max_length_q": 5,
    "max_length_k": 5,
    "cu_seq_lens_q": torch.tensor([0, 5, LENGTH]),
    "cu_seq_lens_k": torch.tensor([0, 5, LENGTH]),
}
PATHS = {
    "full": {"use_cache": False},
    "with a cache": {},
    "with attentions": {"use_cache": False, "output_attentions": True},
}


@pytest.mark.parametrize("path", [*PATHS, "a later step", "in training", "compiled"])
@pytest.mark.parametrize("keyword", REFUSED)
def test_what_cannot_be_served_is_refused_on_every_path(keyword, path):
    model, ids = saobp.apply(build("llama"), "high", 0.5), tokens(2, LENGTH)
    call = PATHS.get(path, {}) | {keyword: VALUES.get(keyword, torch.ones(1))}
    if path == "a later step":
        call[CACHE] = DynamicCache()
        model(ids, **{CACHE: call[CACHE]})
    if path == "compiled":
        model = torch.compile(model, backend="eager")
        call["use_cache"] = False
    with torch.set_grad_enabled(path == "in training"), pytest.raises(Exception) as error:
        model(ids, **call)
    assert f"{keyword}: LlamaAttention" in str(error.value)
    if path != "compiled":
        assert isinstance(error.value, ValueError) and "\n" not in str(error.value)


BLOCKS = create_block_mask(
    lambda batch, head, query, key: query >= key, None, None, 128, 128, device="cpu"
)
UNKNOWN = {
    "a tensor": torch.ones(1),
    "tensors": (torch.ones(1), torch.ones(1)),
    "a list": [[0.5, 0.25]],
    "a function": lambda score, batch, head, query, key: score - 1,
    "blocks": BLOCKS,
}


@pytest.mark.parametrize("what", UNKNOWN)
@pytest.mark.parametrize("path", [*PATHS, "a later step", "in training"])
@pytest.mark.parametrize("family", ["llama", "bert"])
def test_a_keyword_that_nobody_knows_is_refused_if_it_may_change_attention(family, path, what):
    if family == "bert" and path == "a later step":
        pytest.skip("a decoder's")
    model, ids = saobp.apply(build(family), "high", 0.5), tokens(2, LENGTH)
    call = PATHS.get(path, {}) if family == "llama" else {}
    call = call | {"of_nobody": UNKNOWN[what]}
    if path == "a later step":
        call[CACHE] = DynamicCache()
        model(ids, **{CACHE: call[CACHE]})
    with torch.set_grad_enabled(path == "in training"), pytest.raises(ValueError) as error:
        model(ids, **call)
    assert re.match("of_nobody: (Llama|Bert).*Attention was handed", str(error.value))
    assert "\n" not in str(error.value)
    # and the plain model's own words and numbers pass
    call["of_nobody"] = None
    with torch.no_grad():
        model(ids, **call)
        model(ids, of_nobody=3)


def test_what_tokenizers_and_collators_give_changes_nothing():
    model, ids = saobp.apply(build("llama"), "high", 0.5), tokens(2, LENGTH)
    beside = dict.fromkeys(set(OF_A_BATCH) - {"labels", "shift_labels"}, torch.ones_like(ids))
    with torch.no_grad():
        expected = model(ids).logits
        assert torch.equal(model(ids, **beside).logits, expected)


ALWAYS_GIVEN = ("query", "key", "value", "dropout", "scaling")


@pytest.mark.parametrize("keyword", [name for name in SERVED if name not in ALWAYS_GIVEN])
def test_what_a_call_leaves_out_is_not_refused(keyword):
    model, ids = saobp.apply(build("llama"), "high", 0.5), tokens(2, LENGTH)
    nothing = (
        {} if keyword in inspect.signature(type(model).forward).parameters else {keyword: None}
    )
    torch.testing.assert_close(model(ids, **nothing).logits, model(ids).logits, **CLOSE)


@pytest.mark.parametrize("factor", ["high", "low"])
def test_both_ways_of_looking_are_used_on_every_path(factor):
    model, ids = saobp.apply(build("llama"), factor, 0.7), tokens(2, LENGTH)
    oracle = literal(build("llama"), refined_names(model), 0.7, factor=factor)
    pairs = torch.ones(2, 1, LENGTH, LENGTH, dtype=torch.bool)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    with torch.no_grad():
        expected = oracle(ids, attention_mask=pairs, use_cache=False).logits
        for way in (model, compiled):
            found = way(ids, is_causal=False, use_cache=False).logits
            torch.testing.assert_close(found, expected, **CLOSE)
        for call in ({}, {"output_attentions": True}):
            found = model(ids, is_causal=False, **call).logits
            torch.testing.assert_close(found, expected, **CLOSE)
    torch.testing.assert_close(model(ids, is_causal=False).logits, expected, **CLOSE)
