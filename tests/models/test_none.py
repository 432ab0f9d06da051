"""Factor "none" is the model as it was before `apply`: the same numbers from the same calls, with
maps that can be seen.
"""

import copy
import pickle

import pytest
import torch
import transformers as hf
from families import (
    BUILDERS,
    CACHE,
    CLOSE,
    GROUPS,
    SIZES,
    TOKENS,
    VOCABULARY,
    build,
    generated,
    other_token,
    run,
    tokens,
)
from torch import nn
from transformers import DynamicCache, StaticCache
from transformers.integrations.sdpa_attention import sdpa_attention_forward

import saobp
from saobp.measure.capture import capture
from saobp.measure.inspection import maps
from saobp.models.apply import raw_attentions
from saobp.models.interface import attention_forward
from saobp.models.supported import refuse

STACKS = {
    f"{stack}_{what}": size
    for stack in ("encoder", "decoder")
    for what, size in (("layers", 2), ("attention_heads", 4), ("ffn_dim", 48))
}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
EXPERTS = {"num_local_experts": 2, "num_experts_per_tok": 1}


def drawn(model: nn.Module) -> nn.Module:
    """Draw weights so large that attention is far from uniform."""
    torch.manual_seed(0)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            nn.init.normal_(parameter, std=0.25)
    return model.eval()


def bigbird_pegasus() -> nn.Module:
    config = hf.BigBirdPegasusConfig(vocab_size=VOCABULARY, d_model=32, **STACKS)
    return drawn(hf.BigBirdPegasusForCausalLM(config))


def nllb_moe() -> nn.Module:
    sizes = {"vocab_size": VOCABULARY, "d_model": 32, "num_experts": 4, **STACKS}
    config = hf.NllbMoeConfig(**sizes, decoder_layerdrop=0, encoder_layerdrop=0)
    return drawn(hf.NllbMoeForConditionalGeneration(config))


def gemma2() -> nn.Module:
    sizes = {**TOKENS, **SIZES, **GROUPS, "head_dim": 8, "attn_logit_softcapping": 2.0}
    return drawn(hf.Gemma2ForCausalLM(hf.Gemma2Config(**sizes)))


def gpt_oss() -> nn.Module:
    sizes = {**TOKENS, **SIZES, **HEADS, **EXPERTS}
    model = drawn(hf.GptOssForCausalLM(hf.GptOssConfig(**sizes)))
    for layer in model.model.layers:
        nn.init.normal_(layer.self_attn.sinks, std=2.0)
    return model


def diffllama() -> nn.Module:
    torch.manual_seed(0)
    return drawn(hf.DiffLlamaForCausalLM(hf.DiffLlamaConfig(**SIZES, **TOKENS)))


def layoutlm() -> nn.Module:
    return drawn(hf.LayoutLMForMaskedLM(hf.LayoutLMConfig(**SIZES, **TOKENS)))


def mamba() -> nn.Module:
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "vocab_size": VOCABULARY}
    return drawn(hf.MambaForCausalLM(hf.MambaConfig(**sizes)))


ODD = {
    "modules that do not say that they are causal": bigbird_pegasus,
    "an encoder-decoder without sdpa": nllb_moe,
    "capped scores": gemma2,
    "sinks beside the keys": gpt_oss,
    "attention that attends twice": diffllama,
    "modules that say nothing of causality": layoutlm,
    "no attention at all": mamba,
}


def inputs(model: nn.Module, ids: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return ids as a model takes them; of an encoder-decoder they go to both."""
    both = {"decoder_input_ids": ids} if model.config.is_encoder_decoder else {}
    return {"input_ids": ids, **both}


def logits_of(model: nn.Module, ids: torch.Tensor, **call) -> torch.Tensor:
    """Return the logits of a call without gradient."""
    with torch.no_grad():
        return model(**inputs(model, ids), **call).logits


@pytest.mark.parametrize("kind", ODD)
def test_the_plain_model_is_left_as_it_was_whatever_it_does(kind):
    plain, model, ids = ODD[kind](), saobp.apply(ODD[kind](), "none"), tokens()
    mask = torch.ones_like(ids)
    mask[1, 6:] = 0
    for call in ({}, {"attention_mask": mask}, {"labels": ids}):
        assert torch.equal(logits_of(model, ids, **call), logits_of(plain, ids, **call)), call
    shown = (logits_of(one, ids, output_attentions=True) for one in (model, plain))
    torch.testing.assert_close(*shown, **CLOSE)
    if plain.can_generate():
        made = (generated(one, ids, 5, output_logits=True) for one in (plain, model))
        assert torch.equal(*made)


def test_a_decoder_whose_modules_do_not_say_so_stays_causal_and_shows_it(tmp_path):
    model, ids = saobp.apply(bigbird_pegasus(), "none"), tokens()
    changed = (logits_of(model, given, use_cache=False) for given in (ids, other_token(ids, 8)))
    first, second = changed
    assert torch.equal(first[:, :-1], second[:, :-1])
    with torch.no_grad(), raw_attentions(model) as pairs:
        model(ids, use_cache=False)
    assert len(pairs) == 2 and all(torch.equal(raw, refined) for raw, refined in pairs)
    assert not any(raw.triu(1).any() for raw, _ in pairs)
    shown = maps.maps_of(
        maps.plain_copy(bigbird_pegasus()), maps.Sample({"input_ids": ids[:1]}, [])
    )
    assert not any(layer.triu(1).any() for layer in shown)
    for number, one in enumerate((bigbird_pegasus(), model)):
        path = tmp_path / f"{number}.parquet"
        capture(one, [{"input_ids": ids}], path, keep_maps=2, progress=False)
        kept = maps_in(path)
        assert len(kept) and not any(torch.as_tensor(each).triu(1).any() for each in kept)


def maps_in(path):
    """Return the maps that a capture kept."""
    import numpy as np

    with np.load(path.with_suffix(".maps.npz")) as file:
        return [file[name] for name in file.files if file[name].ndim >= 3]


@pytest.mark.parametrize("kind", ["capped scores", "sinks beside the keys"])
def test_maps_of_scores_that_cannot_be_refined_are_those_of_the_model(kind):
    plain, model, ids = ODD[kind](), saobp.apply(ODD[kind](), "none"), tokens()
    expected = [one.float() for one in plain(ids, output_attentions=True).attentions]
    with torch.no_grad(), raw_attentions(model) as pairs:
        model(ids)
    for (raw, refined), own in zip(pairs, expected, strict=True):
        torch.testing.assert_close(raw, own, **CLOSE)
        assert torch.equal(raw, refined)
    with pytest.raises(ValueError):
        refuse(plain)


CALLS = {
    "a mask of three dimensions": {"attention_mask": torch.ones(2, 9, 9).tril().bool()},
    "numbers that may be a bias": {"attention_mask": -40.0 * torch.rand(2, 1, 9, 9)},
    "not a number": {"attention_mask": torch.zeros(2, 1, 9, 9).fill_(float("nan"))},
    "a token hidden from itself": {"attention_mask": ~torch.eye(9, dtype=torch.bool)[None, None]},
    "packed sequences": {"cu_seq_lens_q": torch.tensor([0, 5, 9]), "max_length_q": 5},
    "packed by position": {"position_ids": torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3, 4]] * 2)},
    "sinks": {"s_aux": torch.ones(4)},
    "indices": {"indices": torch.zeros(2, 9, 4, dtype=torch.long)},
    "a cap": {"softcap": 3.0},
    "both ways": {"is_causal": False},
    "an unknown keyword": {"colour": "red"},
}


def outcome(model: nn.Module, call: dict) -> torch.Tensor | str:
    """Return the logits of a call, or what it raises."""
    try:
        return logits_of(model, tokens(), **call)
    except Exception as error:
        return type(error).__name__


@pytest.mark.parametrize("use_cache", [False, True])
@pytest.mark.parametrize("call", CALLS)
def test_no_call_is_refused_that_the_plain_model_runs(call, use_cache):
    given = CALLS[call] | {"use_cache": use_cache}
    plain, found = (outcome(model, given) for model in (build("llama"), plain_again("llama")))
    if isinstance(plain, str):
        assert found == plain
    else:
        torch.testing.assert_close(found, plain, atol=0, rtol=0, equal_nan=True)


def plain_again(family: str) -> nn.Module:
    """Return a model that was refined, and is plain again."""
    return saobp.apply(saobp.apply(build(family), "high", 0.5), "none")


@pytest.mark.parametrize("kind", ["static", "filled by the plain model", "evicted by hand"])
def test_no_cache_is_refused_that_the_plain_model_takes(kind):
    plain, model, ids = build("llama"), plain_again("llama"), tokens()
    found = []
    for one in (plain, model):
        static = StaticCache(config=one.config, max_cache_len=16)
        cache = static if kind == "static" else DynamicCache()
        with torch.no_grad():
            plain(ids[:, :6], **{CACHE: cache})
            if kind == "evicted by hand":
                for layer in cache.layers:
                    layer.keys, layer.values = layer.keys[:, :, 2:], layer.values[:, :, 2:]
            found.append(one(ids[:, 6:], **{CACHE: cache}).logits)
    assert torch.equal(*found)


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("family", BUILDERS)
def test_a_model_keeps_its_own_implementation_and_may_be_switched(family, implementation):
    plain = build(family)
    plain.set_attn_implementation(implementation)
    model = saobp.apply(saobp.apply(copy.deepcopy(plain), "high", 0.5), "none")
    assert torch.equal(run(model), run(plain))
    assert model.config._attn_implementation == implementation
    other = "sdpa" if implementation == "eager" else "eager"
    for one in (plain, model):
        one.set_attn_implementation(other)
    torch.testing.assert_close(run(model), run(plain), **CLOSE)
    with raw_attentions(model) as pairs:
        run(model)
    assert len(pairs) == 2 and all(raw.dtype is torch.float32 for raw, _ in pairs)


def test_copies_and_saved_models_stay_plain_and_visible(tmp_path):
    model = saobp.apply(bigbird_pegasus(), "none")
    expected = logits_of(model, tokens(), use_cache=False)
    model.save_pretrained(tmp_path)
    copies = {
        "copied": copy.deepcopy(model),
        "pickled": pickle.loads(pickle.dumps(model)),
        "loaded": hf.BigBirdPegasusForCausalLM.from_pretrained(tmp_path),
    }
    for name, one in copies.items():
        with raw_attentions(one) as pairs:
            assert torch.equal(logits_of(one, tokens(), use_cache=False), expected), name
        assert len(pairs) == 2 and pairs[0] is not None, name


@pytest.mark.parametrize("train", [False, True])
def test_a_bias_of_a_model_in_bfloat16_is_added_as_before(train):
    ids, found = tokens(), []
    for factor in (None, "none"):
        model = build("t5").to(torch.bfloat16).train(train)
        for module in model.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
        if factor:
            saobp.apply(model, factor)
        output = model(ids).last_hidden_state
        output.float().square().mean().backward()
        gradient = next(p.grad for name, p in model.named_parameters() if "relative" in name)
        found.append((output, gradient))
    for before, after in zip(*found):
        torch.testing.assert_close(after, before, atol=0.05, rtol=0.05)


@pytest.mark.parametrize("low", [torch.finfo(torch.float32).min, -1e4, -float("inf")])
def test_a_query_that_an_additive_mask_hides_everything_from_is_as_in_the_plain_model(low):
    plain, ids = build("llama"), tokens(1, 6)
    model = saobp.apply(copy.deepcopy(plain), "none")
    seen = torch.ones(6, 6, dtype=torch.bool).tril()
    seen[:, :2] = False
    mask = torch.zeros(1, 1, 6, 6).masked_fill(~seen, low)
    expected = plain(ids, attention_mask=mask, use_cache=False).logits
    for shown in (False, True):
        found = model(ids, attention_mask=mask, use_cache=False, output_attentions=shown).logits
        torch.testing.assert_close(found, expected, **CLOSE)
        found.sum().backward()
        assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


LOWEST = torch.finfo(torch.float32).min
BLIND = ("boolean", LOWEST, -1e4, -torch.inf)


def hiding(form: str | float) -> torch.Tensor:
    """Return a causal mask that hides everything from the first two of six queries."""
    seen = torch.ones(6, 6, dtype=torch.bool).tril()
    seen[:, :2] = False
    if form == "boolean":
        return seen[None, None]
    return torch.zeros(1, 1, 6, 6).masked_fill(~seen, form)


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("form", BLIND)
@pytest.mark.parametrize("precision", ["float32", "float16", "bfloat16", "autocast"])
def test_a_query_that_sees_nothing_is_as_in_the_plain_model_on_every_path(
    precision, form, biased, train
):
    plain, ids = build("gpt2"), tokens(1, 6)
    autocast = precision == "autocast"
    if not autocast:
        plain.to(getattr(torch, precision))
    model = saobp.apply(copy.deepcopy(plain), "none")
    generator = torch.Generator().manual_seed(0)
    call = {"attention_mask": hiding(form), "use_cache": False}
    if biased:
        call["position_bias"] = torch.randn(1, 4, 6, 6, generator=generator)
    outputs = []
    with torch.set_grad_enabled(train), torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        for one, shown in ((plain, False), (model, False), (model, True)):
            outputs.append(one(ids, output_attentions=shown, **call).logits.float())
    near = 2e-5 if precision == "float32" else 0.05
    for found in outputs[1:]:
        torch.testing.assert_close(found, outputs[0], atol=near, rtol=near)


def test_gradients_of_a_query_that_sees_nothing_are_the_plain_model_s_and_shown_the_literal_ones():
    tensors = torch.randn(3, 1, 4, 6, 8, generator=torch.Generator().manual_seed(0)).unbind()
    module = nn.Module()
    module.is_causal = True
    mask = hiding(LOWEST)

    def gradients(attend, shown: bool = False) -> list[torch.Tensor]:
        inputs = [tensor.clone().requires_grad_() for tensor in tensors]
        call = {"output_attentions": True} if shown else {}
        output = attend(module, *inputs, mask, **call)[0]
        return torch.autograd.grad(output.square().sum(), inputs)

    def literal(module, query, key, value, mask, **_):
        weights = (query @ key.mT * 8**-0.5 + mask).softmax(-1)
        return ((weights @ value).transpose(1, 2),)

    of_the_plain_model = gradients(sdpa_attention_forward)
    assert all(map(torch.equal, gradients(attention_forward), of_the_plain_model))
    torch.testing.assert_close(gradients(attention_forward, True), gradients(literal), **CLOSE)


def test_a_cap_that_sdpa_refuses_is_refused_where_maps_are_shown_too():
    model = saobp.apply(build("llama"), "none")
    for shown in (False, True):
        with pytest.raises(ValueError, match="does not support `softcap`"):
            model(tokens(), softcap=3.0, output_attentions=shown)
