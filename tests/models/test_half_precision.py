"""Half precision: every path is as near to Eq. 9-11 in float64 as torch's attention is to plain attention."""

import copy

import literal_attention
import pytest
import torch
import transformers as hf
from families import CACHE, build, refined_modules, refined_names, tokens
from torch import nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import DynamicCache

import saobp
from saobp.models.interface import attention_forward

MOST = 1.3
"""Largest error, in proportion to that of torch's attention, or to that of rounding what is exact."""

STRENGTH = 0.2
LENGTH, WIDTH = 48, 64
NEAR = (torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)).abs() < 12
WAYS = {
    "fused": {},
    "weights shown": {"output_attentions": True},
    "a bias beside the scores": {"position_bias": torch.zeros(1, 4, LENGTH, LENGTH)},
    "a window": {"attention_mask": NEAR[None, None]},
}
HALVES = [torch.float16, torch.bfloat16]


def exactly(*tensors, factor, causal, mask=None):
    """Return Eq. 11 in float64, or plain attention for factor "none"."""
    module = nn.Module()
    module.is_causal = causal
    if factor != "none":
        module.literal = (factor, STRENGTH, True)
    return literal_attention.attend(module, *tensors, mask)[0].transpose(1, 2)


def far(found, exact):
    """Return the error in proportion to what is exact, in norm."""
    return float((found.double() - exact).norm() / exact.norm())


def drawn(dtype, shift):
    """Return query, key and value; with a shift, products that float16 cannot hold."""
    query, key, value = torch.randn(3, 2, 4, LENGTH, WIDTH)
    return [x.to(dtype) for x in (2 * query + shift, 2 * key + shift, value)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("factor", ["high", "low", "none"])
@pytest.mark.parametrize("family", ["bert", "gpt2"])
@pytest.mark.parametrize("shift", [0.0, 40.0])
@pytest.mark.parametrize("dtype", HALVES)
def test_output_and_gradients_are_as_near_as_those_of_torch_s_attention(
    dtype, shift, family, factor, way
):
    causal, options = family == "gpt2", dict(WAYS[way])
    tensors, given = drawn(dtype, shift), torch.randn(2, 4, LENGTH, WIDTH, dtype=dtype)
    mask = options.pop("attention_mask", None)
    if mask is not None and causal:
        mask = mask.tril()
    module = refined_modules(saobp.apply(build(family), factor, STRENGTH))[0]

    def refined(*heads):
        return attention_forward(module, *heads, mask, **options)[0].transpose(1, 2)

    def exact(*heads):
        return exactly(*heads, factor=factor, causal=causal, mask=mask)

    def plain(*heads):
        return exactly(*heads, factor="none", causal=causal, mask=mask)

    def by_torch(*heads):
        return scaled_dot_product_attention(*heads, mask, is_causal=causal and mask is None)

    sought, found = (with_gradients(way, x, given) for way, x in pairs(exact, refined, tensors))
    best, usual = (with_gradients(way, x, given) for way, x in pairs(plain, by_torch, tensors))
    for number, (mine, wanted) in enumerate(zip(found, sought)):
        rounding = far(wanted.to(dtype), wanted)
        assert far(mine, wanted) <= MOST * max(far(usual[number], best[number]), rounding)


def pairs(exact, tried, tensors):
    """Return a way in float64 with its inputs, and one in half precision with the same."""
    return (exact, [x.double() for x in tensors]), (tried, tensors)


def with_gradients(way, tensors, given):
    """Return the output of a way and the gradients of query, key and value."""
    leaves = [x.detach().clone().requires_grad_() for x in tensors]
    output = way(*leaves)
    return [output.detach(), *torch.autograd.grad(output, leaves, given.to(output.dtype))]


@torch.no_grad()
def test_products_that_float16_cannot_hold_harm_no_way_of_a_decoder():
    sizes = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2}
    model = hf.PhiForCausalLM(
        hf.PhiConfig(vocab_size=61, intermediate_size=48, pad_token_id=0, **sizes)
    )
    for name, parameter in model.named_parameters():
        if name.endswith(("q_proj.bias", "k_proj.bias")):
            parameter.add_(40.0)
    model, ids = model.half().eval(), tokens(2, 12)
    wide = copy.deepcopy(model).double()
    usual = far(model(ids, use_cache=False).logits, wide(ids, use_cache=False).logits)
    names = [f"model.layers.{layer}.self_attn" for layer in range(2)]
    for factor in ("none", "high"):
        refined = [] if factor == "none" else names
        exact = literal_attention.literal(copy.deepcopy(wide), refined, STRENGTH)
        logits = exact(ids, use_cache=False).logits
        saobp.apply(model, factor, STRENGTH)
        cache = DynamicCache()
        parts = [model(part, **{CACHE: cache}).logits for part in ids.split([5, 1, 6], 1)]
        found = {
            "cached": torch.cat(parts, 1),
            "whole": model(ids, use_cache=False).logits,
            "shown": model(ids, use_cache=False, output_attentions=True).logits,
        }
        for name, one in found.items():
            assert far(one, logits) <= MOST * usual, (factor, name)


def with_gradient(model, ids, mask, **call):
    """Return the logits of real tokens, and the gradient of a weighted sum of them by all matrices."""
    logits = model(ids, attention_mask=mask, **call).logits[mask.bool()]
    toward = torch.randn(logits.shape, generator=torch.Generator().manual_seed(1))
    matrices = [one for one in model.parameters() if one.ndim == 2]
    gradients = torch.autograd.grad(logits, matrices, toward.to(logits.dtype), allow_unused=True)
    parts = [one.double().flatten() for one in gradients if one is not None]
    return logits.detach(), torch.cat(parts)


@pytest.mark.parametrize("strength", [0.2, 1.5])
@pytest.mark.parametrize("family", ["bert", "llama"])
@pytest.mark.parametrize("dtype", HALVES)
def test_a_padded_model_and_its_gradient_are_as_near_as_the_plain_model(dtype, family, strength):
    torch.manual_seed(0)
    model, ids, mask = build(family).to(dtype), tokens(3, 24), torch.ones(3, 24, dtype=torch.long)
    mask[1, 15:] = 0
    wide, call = copy.deepcopy(model).double(), {} if family == "bert" else {"use_cache": False}
    plain = with_gradient(literal_attention.literal(copy.deepcopy(wide), []), ids, mask, **call)
    usual = with_gradient(copy.deepcopy(model), ids, mask, **call)
    saobp.apply(model, "high", strength)
    exact = literal_attention.literal(wide, refined_names(model), strength)
    sought = with_gradient(exact, ids, mask, **call)
    for shown in ({}, {"output_attentions": True}):
        found = with_gradient(model, ids, mask, **call, **shown)
        for number in (0, 1):
            most = MOST * far(usual[number], plain[number])
            assert far(found[number], sought[number]) <= most, (number, shown)
