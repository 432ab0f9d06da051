"""Layers that attend to the keys of another layer (Gemma 3n, Gemma 4): with a cache as without one,
and whichever logits are asked for.
"""

import copy

import pytest
import torch
import transformers as hf
from families import CACHE, CLOSE, SIZES, TOKENS, VOCABULARY, generated, refined_names, tokens
from literal_attention import literal
from torch import nn
from transformers import DynamicCache

import saobp

WINDOW = 4
LAYERS = {
    "num_hidden_layers": 4,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
    "num_kv_shared_layers": 2,
    "sliding_window": WINDOW,
}
HEADS = {"num_key_value_heads": 2, "head_dim": 8}
PER_LAYER = {"vocab_size_per_layer_input": VOCABULARY, "hidden_size_per_layer_input": 8}
GLOBAL = {"global_head_dim": 8, "num_global_key_value_heads": 2}
ALTUP = {"laurel_rank": 4, "altup_num_inputs": 2, "activation_sparsity_pattern": None}
# as many sequences as a selection of a cache leaves
ORDER = torch.tensor([1, 0, 1])


def gemma4() -> nn.Module:
    config = hf.Gemma4TextConfig(**TOKENS | SIZES | LAYERS | HEADS | PER_LAYER | GLOBAL)
    return drawn(hf.Gemma4ForCausalLM, config)


def gemma3n() -> nn.Module:
    sizes = TOKENS | SIZES | LAYERS | HEADS | PER_LAYER | ALTUP
    return drawn(hf.Gemma3nForCausalLM, hf.Gemma3nTextConfig(**sizes))


def drawn(kind: type[nn.Module], config) -> nn.Module:
    torch.manual_seed(0)
    model = kind(config).eval()
    for parameter in model.parameters():
        if parameter.ndim == 2:
            nn.init.normal_(parameter, std=0.3)
    return model


MODELS = {"gemma3n": gemma3n, "gemma4": gemma4}
LOGITS = {"atol": 2e-4, "rtol": 1e-3}


def full_logits(model: nn.Module, ids: torch.Tensor, **call) -> torch.Tensor:
    with torch.no_grad():
        return model(ids, use_cache=False, **call).logits


@pytest.mark.parametrize("name", MODELS)
def test_every_way_to_call_a_model_gives_the_numbers_of_the_literal_form(name):
    model, ids = saobp.apply(MODELS[name](), "high", 0.5), tokens(2, 12)
    assert len(refined_names(model)) == 4
    expected = full_logits(literal(MODELS[name](), refined_names(model), 0.5), ids)
    plain = full_logits(MODELS[name](), ids)
    assert (expected - plain).abs().max() > 1e-2
    with torch.no_grad():
        ways = {
            "without a cache": model(ids, use_cache=False).logits,
            "with one": model(ids).logits,
            "with one that knows no layers": model(ids, **{CACHE: DynamicCache()}).logits,
            "with attentions": model(ids, output_attentions=True).logits,
        }
        for kept in (1, 2, 5):
            last = model(ids, logits_to_keep=kept).logits
            torch.testing.assert_close(last, expected[:, -kept:], **LOGITS)
    ways["with gradients"] = model(ids).logits
    for way, found in ways.items():
        torch.testing.assert_close(found, expected, **LOGITS, msg=way)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("sizes", [(12,), (7, 1, 4), (1,) * 12])
def test_any_split_of_the_rows_gives_the_full_forward(name, sizes):
    model, ids = saobp.apply(MODELS[name](), "high", 0.5), tokens(2, 12)
    for cache in (DynamicCache(config=model.config), DynamicCache()):
        with torch.no_grad():
            parts = [model(part, **{CACHE: cache}).logits for part in ids.split(sizes, dim=1)]
        torch.testing.assert_close(torch.cat(parts, 1), full_logits(model, ids), **LOGITS)


@pytest.mark.parametrize("name", MODELS)
def test_a_cache_is_cropped_and_selected_with_its_shared_layers(name):
    model, ids = saobp.apply(MODELS[name](), "high", 0.5), tokens(2, 12)
    cache = DynamicCache(config=model.config)
    with torch.no_grad():
        model(ids[:, :9].clone().index_fill(1, torch.tensor([7, 8]), 5), **{CACHE: cache})
        cache.crop(-2)
        kept = copy.deepcopy(cache)
        kept.batch_select_indices(ORDER)
        for one, rows in ((cache, torch.arange(2)), (kept, ORDER)):
            found = model(ids[rows, 7:], **{CACHE: one}).logits
            expected = full_logits(model, ids[rows])[:, 7:]
            torch.testing.assert_close(found, expected, **LOGITS)


@pytest.mark.parametrize("factor", ["none", "high", "low"])
@pytest.mark.parametrize("name", MODELS)
def test_they_generate_as_without_a_cache(name, factor):
    model, call = saobp.apply(MODELS[name](), factor, 0.5), {"output_logits": True}
    call["return_dict_in_generate"] = True
    made = [generated(model, tokens(2, 7), 6, use_cache=use, **call) for use in (True, False)]
    assert torch.equal(made[0].sequences, made[1].sequences)
    torch.testing.assert_close(*(torch.stack(one.logits) for one in made), **LOGITS)


@pytest.mark.parametrize("kept", [0, 1, 2])
@pytest.mark.parametrize("name", MODELS)
def test_factor_none_leaves_out_the_rows_that_the_plain_model_leaves_out(name, kept):
    plain, model, ids = MODELS[name](), saobp.apply(MODELS[name](), "none"), tokens(2, 12)
    for use_cache in (True, False):
        call = {"logits_to_keep": kept, "use_cache": use_cache}
        with torch.no_grad():
            assert torch.equal(model(ids, **call).logits, plain(ids, **call).logits)


def test_keys_taken_out_by_hand_are_named_as_the_cause_and_the_cache_is_left_as_it_was():
    sizes = {**TOKENS, **SIZES}
    model = saobp.apply(hf.LlamaForCausalLM(hf.LlamaConfig(**sizes)).eval(), "high", 0.5)
    ids, cache = tokens(1, 14), DynamicCache(config=model.config)
    with torch.no_grad():
        model(ids[:, :8], **{CACHE: cache})
        for layer in cache.layers:
            layer.keys, layer.values = layer.keys[:, :, 2:], layer.values[:, :, 2:]
        for rest in (ids[:, 8:], ids[:, 8:9]):
            with pytest.raises(ValueError, match=r"holds 6 keys of 8 tokens.*by hand") as error:
                model(rest, **{CACHE: cache})
            assert "\n" not in str(error.value) and cache.get_seq_length() == 6


def test_keys_put_in_by_hand_are_named_as_the_cause():
    model = saobp.apply(gemma4(), "high", 0.5)
    ids, cache = tokens(1, 14), DynamicCache(config=model.config)
    with torch.no_grad():
        model(ids[:, :8], **{CACHE: cache})
        for layer in cache.layers[:2]:
            layer.keys, layer.values = (x.repeat(1, 1, 2, 1) for x in (layer.keys, layer.values))
        with pytest.raises(ValueError, match=r"holds 16 keys of 8 tokens"):
            model(ids[:, 8:], **{CACHE: cache})
    torch.testing.assert_close(model(ids).logits, model(ids, use_cache=False).logits, **CLOSE)
