"""saobp.apply on every family: exact about padding and the future, plain where it must be, kept by
saving.
"""

import copy
import itertools
import json
import pickle
import subprocess
import sys

import families
import numpy as np
import pytest
import torch
import transformers as hf
from families import (
    BUILDERS,
    CAUSAL,
    CLOSE,
    SIZES,
    TEXT,
    TOKENS,
    build,
    padding_mask,
    refined_modules,
    run,
    tokens,
)
from small_models import word_tokenizer
from torch import nn

import saobp
from saobp.equations import factors
from saobp.measure.capture import capture
from saobp.models.apply import raw_attentions
from saobp.models.interface import attention_forward

FACTORS = [("high", 1.5), ("low", 0.4), ("elemmul", 1.0)]
WITH_AND_WITHOUT_WEIGHTS = ({"use_cache": False}, {"output_attentions": True})


@pytest.mark.parametrize("family", BUILDERS)
def test_factor_none_is_sdpa_to_the_bit_and_strength_zero_is_plain_attention(family):
    model = build(family)
    masks = (None, padding_mask())
    expected = [run(model, mask=mask) for mask in masks]
    saobp.apply(model, "none")
    assert all(torch.equal(run(model, mask=mask), plain) for mask, plain in zip(masks, expected))
    torch.testing.assert_close(run(saobp.apply(model, "high", 0.0)), expected[0], **CLOSE)


@pytest.mark.parametrize("family", TEXT)
@pytest.mark.parametrize(("factor", "strength"), FACTORS)
def test_neither_padding_nor_the_other_sequences_of_a_batch_change_anything(
    family, factor, strength
):
    model, ids = saobp.apply(build(family), factor, strength), tokens()
    sequences = [ids[:1], ids[1:, :6]]
    alone = [run(model, one, torch.ones_like(one), use_cache=False)[0] for one in sequences]
    # special tokens in the padding would be told by RoBERTa's positions; anything else must not
    # matter
    filler = model.config.pad_token_id if family == "roberta" else 7
    for left in (True, False):
        rooms = [(14 - one.shape[1], 0) if left else (0, 14 - one.shape[1]) for one in sequences]
        padded = torch.cat(
            [nn.functional.pad(*given, value=filler) for given in zip(sequences, rooms)]
        )
        mask = torch.cat(
            [nn.functional.pad(torch.ones_like(one), room) for one, room in zip(sequences, rooms)]
        )
        for options in WITH_AND_WITHOUT_WEIGHTS:
            found = run(model, padded, mask, **options)[mask.bool()]
            torch.testing.assert_close(found, torch.cat(alone), **CLOSE)


@pytest.mark.parametrize("family", CAUSAL)
@pytest.mark.parametrize("factor", ["high", "low", "elemmul", "sinkhorn"])
def test_future_tokens_never_change_earlier_outputs(family, factor):
    model, ids = saobp.apply(build(family), factor, 1.5), tokens()
    for mask in (None, torch.ones_like(ids)):
        for options in WITH_AND_WITHOUT_WEIGHTS:
            first, second = (
                run(model, given, mask, **options) for given in (ids, families.other_token(ids))
            )
            torch.testing.assert_close(first[:, :6], second[:, :6], atol=1e-6, rtol=0)
            assert (first[:, 6:] - second[:, 6:]).abs().max() > 1e-3


@pytest.mark.parametrize("family", CAUSAL)
def test_messages_from_all_rows_leak(family):
    model = saobp.apply(build(family), "high", 1.5, messages="all")
    first, second = (run(model, given) for given in (tokens(), families.other_token(tokens())))
    assert (first[:, :6] - second[:, :6]).abs().max() > 20 * CLOSE["atol"]


@pytest.mark.parametrize("family", CAUSAL)
def test_a_causal_module_without_a_mask_stays_causal(family):
    module = refined_modules(saobp.apply(build(family), "high", 1.5))[0]
    groups = 4 if family == "gpt2" else 2
    states = [torch.randn(1, heads, 6, 8) for heads in (4, groups, groups)]
    later = [torch.cat([state[:, :, :4], torch.randn_like(state[:, :, 4:])], 2) for state in states]
    for options in ({}, {"output_attentions": True}):
        output, changed = (
            attention_forward(module, *given, None, **options)[0] for given in (states, later)
        )
        torch.testing.assert_close(output[:, :4], changed[:, :4], atol=1e-6, rtol=0)
        assert not torch.allclose(output[:, 4:], changed[:, 4:])


@pytest.mark.parametrize("family", BUILDERS)
@pytest.mark.parametrize(("factor", "strength"), FACTORS)
def test_returned_weights_are_the_refined_plain_ones_and_outputs_change(family, factor, strength):
    model = saobp.apply(build(family), factor, strength)
    eager = build(family)
    eager.set_attn_implementation("eager")
    assert (run(model) - run(eager)).abs().max() > 20 * CLOSE["atol"]
    mask = padding_mask()
    with raw_attentions(model) as pairs:
        given = families.called(model, mask=mask, output_attentions=True).attentions
    real = None if family == "vit" else mask.bool()
    plain = families.called(eager, mask=mask, output_attentions=True).attentions
    # in the first layer nothing differs yet; a padded row's attention is nobody's business
    torch.testing.assert_close(pairs[0][0][0], plain[0][0], **CLOSE)
    for (raw, refined), returned in zip(pairs, given, strict=True):
        if factor == "elemmul" and family in ("modernbert", "mistral"):
            # a window masks too, which refine's key mask cannot say: next test
            continue
        expected = saobp.refine(raw, factor, strength, mask=real, causal=family in CAUSAL)
        torch.testing.assert_close(refined, expected, **CLOSE)
        torch.testing.assert_close(returned, refined, **CLOSE)


@pytest.mark.parametrize("family", ["modernbert", "mistral"])
@pytest.mark.parametrize("factor", ["high", "elemmul", "uniform"])
def test_no_factor_puts_mass_outside_the_window(family, factor):
    model = saobp.apply(build(family), factor, 1.5)
    pairs = families.seen(model, tokens(length=14), use_cache=False)
    windowed = [(raw, refined) for raw, refined in pairs if (raw == 0).any(dim=(-1, -2)).all()]
    assert windowed
    for raw, refined in windowed:
        assert (refined[raw == 0] == 0).all()
        torch.testing.assert_close(refined.sum(-1), torch.ones_like(refined.sum(-1)), **CLOSE)


def test_dropout_falls_on_the_refined_probabilities_and_returned_weights_are_those_before_it():
    model = saobp.apply(build("bert"), "high", 1.0)
    query, key = torch.randn(1, 4, 6, 8), torch.randn(1, 4, 6, 8)
    value = torch.eye(6).expand(1, 4, 6, 6)
    call = {"dropout": 0.5, "output_attentions": True}
    kept, weights = attention_forward(refined_modules(model)[0], query, key, value, None, **call)
    kept = kept.transpose(1, 2)
    assert (kept == 0).any() and not (kept == 0).all()
    torch.testing.assert_close(kept[kept != 0], 2 * weights[kept != 0], **CLOSE)
    weights = model.train()(tokens(), output_attentions=True).attentions[0]
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights.sum(-1)), **CLOSE)


def test_a_model_never_applied_is_left_alone_also_one_of_the_same_config(tmp_path):
    config = hf.BertConfig(**TOKENS, **SIZES)
    untouched, other = (families.sharpened(hf.BertForMaskedLM(config)) for _ in range(2))
    expected = run(untouched, tokens())
    saobp.apply(other, "high", 1.5)
    assert torch.equal(run(untouched, tokens()), expected)
    assert untouched.config._attn_implementation == "sdpa"
    assert not hasattr(config, "saobp") and not hasattr(untouched.config, "saobp")
    assert not any(module._forward_pre_hooks for module in untouched.modules())
    assert all(
        module.config is other.config for module in other.modules() if hasattr(module, "config")
    )
    untouched.save_pretrained(tmp_path)
    torch.testing.assert_close(
        run(hf.BertForMaskedLM.from_pretrained(tmp_path).eval(), tokens()), expected
    )


def test_applying_again_replaces_and_leaves_one_hook():
    model = saobp.apply(saobp.apply(build("bert"), "high", 1.5, learn="head"), "low", 0.3)
    fresh = saobp.apply(build("bert"), "low", 0.3)
    assert torch.equal(run(model), run(fresh))
    assert len(refined_modules(model)[0]._forward_pre_hooks) == 1
    assert not [name for name, _ in model.named_parameters() if "saobp" in name]


@pytest.mark.parametrize("factor", ["high", "elemmul", "sinkhorn"])
def test_one_strength_a_head_of_which_0_is_plain_whether_attention_is_asked_for_or_not(factor):
    # which the config below keeps as Python's
    numbers = {"steps": np.int64(1), "damping": np.float32(0)}
    model = saobp.apply(build("bert"), factor, [0.0, 0.5, 1.0, 2.0], **numbers)
    with torch.no_grad(), raw_attentions(model) as pairs:
        shown = run(model)
    torch.testing.assert_close(run(model), shown, **CLOSE)
    for raw, refined in pairs:
        for head, strength in enumerate((0.0, 0.5, 1.0, 2.0)):
            torch.testing.assert_close(
                refined[:, head], saobp.refine(raw[:, head], factor, strength), **CLOSE
            )
        assert not torch.allclose(refined[:, 1], raw[:, 1], atol=1e-4)
    assert json.loads(model.config.to_json_string())["saobp"] == model.config.saobp


def test_cross_attention_and_the_decoder_stay_plain_also_after_loading_and_generate_as_without_a_cache(
    tmp_path,
):
    model, plain = families.encoder_decoder(), families.encoder_decoder()
    plain.load_state_dict(model.state_dict())
    saobp.apply(model, "high", 1.5, learn="layer")
    refined = [name for name, module in model.named_modules() if "saobp" in module._modules]
    assert refined and all(name.startswith("encoder.") for name in refined)
    states = model.encoder(tokens(), attention_mask=padding_mask())
    assert not torch.allclose(
        states[0], plain.encoder(tokens(), attention_mask=padding_mask())[0], atol=1e-3
    )
    targets = {"decoder_input_ids": tokens(length=5, seed=3)}
    call = {"encoder_outputs": states, "attention_mask": padding_mask(), **targets}
    torch.testing.assert_close(model(**call).logits, plain(**call).logits, **CLOSE)
    weights = model(**call, output_attentions=True)
    assert len(weights.cross_attentions) == 2 and weights.cross_attentions[0].shape == (2, 4, 5, 9)
    assert torch.equal(
        *(families.generated(model, tokens(), use_cache=use) for use in (True, False))
    )
    model.save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path)
    assert loaded.state_dict().keys() == model.state_dict().keys()
    assert torch.equal(loaded(tokens(), **targets).logits, model(tokens(), **targets).logits)


@pytest.mark.parametrize("learn", ["head", "layer"])
def test_learned_strengths_start_at_the_strength_also_those_that_a_checkpoint_lacks_and_train(
    learn, tmp_path
):
    build("bert").save_pretrained(tmp_path)
    model, fixed = (
        saobp.apply(build("bert"), "high", 0.7, learn=learn),
        saobp.apply(build("bert"), "high", 0.7),
    )
    config = hf.BertConfig.from_pretrained(tmp_path)
    config.saobp = model.config.saobp
    for one in (model, hf.BertForMaskedLM.from_pretrained(tmp_path, config=config)):
        torch.testing.assert_close(run(one), run(fixed), **CLOSE)
    learned = {name: parameter for name, parameter in model.named_parameters() if "saobp" in name}
    assert [parameter.shape[0] for parameter in learned.values()] == [
        4 if learn == "head" else 1
    ] * 2
    for options in ({}, {"output_attentions": True}):
        model.zero_grad()
        run(model, **options).square().sum().backward()
        assert all(parameter.grad.abs().min() > 0 for parameter in learned.values())


@pytest.mark.parametrize("family", BUILDERS)
def test_saving_and_loading_keeps_the_refinement_and_so_does_a_copy(family, tmp_path):
    model = saobp.apply(build(family), "low", 0.4, learn="head")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "saobp" in name:
                parameter.copy_(torch.linspace(-1, 1, 4))
    model.save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path)
    assert loaded.config.saobp == model.config.saobp
    expected = run(model)
    assert all(torch.equal(run(other), expected) for other in (loaded, copy.deepcopy(model)))


def test_a_head_over_a_refined_body_is_saved_with_what_the_body_does(tmp_path):
    model = build("bert")
    for strength in (0.7, 1.5):
        saobp.apply(model.bert, "high", strength)
        model.save_pretrained(tmp_path)
        loaded = hf.BertForMaskedLM.from_pretrained(tmp_path)
        assert torch.equal(run(loaded, tokens()), run(model, tokens()))
    assert not hasattr(model.config, "saobp")
    # by hand, which changes nothing that the model does
    loaded.config.saobp["strength"] = 0.1
    loaded.save_pretrained(tmp_path)
    assert torch.equal(
        run(hf.BertForMaskedLM.from_pretrained(tmp_path), tokens()), run(model, tokens())
    )


def test_a_model_of_parts_refined_otherwise_is_not_saved(tmp_path):
    model = families.clip()
    saobp.apply(model.text_model, "high", 0.7)
    for _ in range(2):
        with pytest.raises(ValueError, match="model: parts of CLIPModel are refined") as error:
            model.save_pretrained(tmp_path)
        assert "\n" not in str(error.value) and not list(tmp_path.iterdir())
        saobp.apply(model.vision_model, "high", 1.5)
    saobp.apply(model, "high", 0.7).save_pretrained(tmp_path)


def test_auto_classes_and_other_heads_load_the_refinement(tmp_path):
    model = saobp.apply(build("gpt2"), "high", 1.5)
    model.save_pretrained(tmp_path)
    assert torch.equal(
        run(hf.AutoModelForCausalLM.from_pretrained(tmp_path), tokens()), run(model, tokens())
    )
    expected = model.transformer(tokens()).last_hidden_state
    assert torch.equal(hf.AutoModel.from_pretrained(tmp_path)(tokens()).last_hidden_state, expected)


FRESH = """if True:
    import os, sys, torch

    def whole():
        for family in ("bert", "gpt2"):
            model, ids, logits = torch.load(f"{family}.pt", weights_only=False)
            assert torch.equal(model(ids).logits, logits)

    def saved():
        from transformers import AutoModelForMaskedLM
        ids, logits = torch.load("expected.pt")
        torch.testing.assert_close(AutoModelForMaskedLM.from_pretrained(".")(ids).logits, logits)

    search = "import importlib.util, saobp; importlib.util.find_spec('transformers.modeling_utils')"
    for start, loads in (("", [whole]), ("import saobp", [saved, whole]), (search, [saved])):
        if os.fork() == 0:
            exec(start)
            assert "transformers.modeling_utils" not in sys.modules
            for load in loads:
                load()
            os._exit(0)
        assert os.wait()[1] == 0, start
"""


def test_a_model_saved_or_pickled_whole_is_refined_in_a_fresh_process_that_imports_little(tmp_path):
    for family in ("bert", "gpt2"):
        model = saobp.apply(build(family), "high", 1.5, learn="head")
        torch.save((model, tokens(), run(model, tokens())), tmp_path / f"{family}.pt")
    model = saobp.apply(build("bert"), "high", 1.5)
    model.save_pretrained(tmp_path)
    torch.save((tokens(), run(model, tokens())), tmp_path / "expected.pt")
    subprocess.run([sys.executable, "-c", FRESH], check=True, timeout=300, cwd=tmp_path)


def test_a_model_of_an_unknown_factor_is_refused_when_it_is_unpickled():
    saobp.register_factor("mine", lambda prior, strength, visible: prior)
    saved = pickle.dumps(saobp.apply(build("bert"), "mine"))
    # as in a process that has not registered it
    del factors.OWN["mine"]
    with pytest.raises(ValueError, match="factor must be one of .*got 'mine'"):
        pickle.loads(saved)


@pytest.mark.parametrize("options", [{}, {"num_hidden_groups": 3}, {"inner_group_num": 2}])
def test_a_module_in_several_layers_is_seen_in_each_in_the_order_of_the_calls(options):
    sizes = {**SIZES, **TOKENS, "num_hidden_layers": 3, "embedding_size": 16}
    model = saobp.apply(
        families.sharpened(hf.AlbertModel(hf.AlbertConfig(**sizes, **options))), "high", 1.5
    )
    inputs = []
    for module in refined_modules(model):
        module.register_forward_hook(lambda module, given, output: inputs.append(output[1]))
    with torch.no_grad(), raw_attentions(model) as pairs:
        # the second pass takes the place of the first
        for _ in range(2):
            inputs.clear()
            model(tokens(), output_attentions=True)
    assert len(pairs) == len(inputs) == 3 * options.get("inner_group_num", 1)
    for (raw, refined), returned in zip(pairs, inputs, strict=True):
        torch.testing.assert_close(refined, returned, **CLOSE)
        torch.testing.assert_close(refined, saobp.refine(raw, "high", 1.5), **CLOSE)
    assert not torch.allclose(pairs[0][0], pairs[-1][0], atol=1e-3)


def test_layers_run_again_for_their_gradient_keep_their_places_and_none_is_seen_when_the_block_ends():
    model = saobp.apply(build("bert"), "high", 1.5).train()
    getattr(model, f"{families.CHECKPOINTING}_enable")()
    with raw_attentions(model) as pairs:
        loss = model(tokens(), labels=tokens()).loss
        before = [raw for raw, _ in pairs]
        loss.backward()
    assert len(pairs) == 2 and [raw.shape for raw, _ in pairs] == [raw.shape for raw in before]
    last = pairs[0][0]
    run(model)
    assert pairs[0][0] is last


WRONG = [
    ({"factor": "hihg"}, "factor"),
    ({"strength": -1.0}, "strength"),
    ({"strength": float("nan")}, "strength"),
    ({"strength": "much"}, "strength"),
    ({"strength": [0.1, 0.2]}, "strength has 2 entries"),
    ({"strength": torch.ones(2, 4)}, "strength must be a number or one a head"),
    ({"learn": "token"}, "learn"),
    ({"learn": "head", "factor": "elemmul"}, "learn"),
    ({"learn": "head", "strength": 0.0}, "learn"),
    ({"learn": "layer", "strength": [0.1, 0.2, 0.3, 0.4]}, "learn"),
    ({"messages": "later"}, "messages"),
    ({"steps": 0}, "steps"),
    ({"damping": 1.0}, "damping"),
]


@pytest.mark.parametrize(("options", "message"), WRONG)
def test_wrong_options_are_refused_by_name_and_change_nothing(options, message):
    model = build("bert")
    before = run(model)
    with pytest.raises(ValueError, match=message) as error:
        saobp.apply(model, **options)
    assert "\n" not in str(error.value)
    assert torch.equal(run(model), before) and not hasattr(model.config, "saobp")


def test_models_that_cannot_be_served_are_refused_by_name_when_apply_is_called():
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "intermediate_size": 32, "vocab_size": 61}
    heads = {
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "num_local_experts": 2,
    }
    capping = hf.Gemma2Config(**TOKENS, **SIZES, **families.GROUPS, head_dim=8)
    for message, model in {
        "MambaForCausalLM": hf.MambaForCausalLM(hf.MambaConfig(**sizes)),
        "GptOssForCausalLM.*sinks": hf.GptOssForCausalLM(hf.GptOssConfig(**sizes, **heads)),
        "caps its attention scores": hf.Gemma2ForCausalLM(capping),
        "DiffLlamaAttention.* attends twice": hf.DiffLlamaForCausalLM(
            hf.DiffLlamaConfig(**SIZES, **TOKENS)
        ),
        "DeepseekV32Attention.* keys that an indexer picks": hf.DeepseekV32ForCausalLM(
            hf.DeepseekV32Config(**SIZES, **TOKENS, n_routed_experts=4, q_lora_rank=8)
        ),
        "Linear": nn.Linear(2, 2),
    }.items():
        with pytest.raises(ValueError, match=message) as error:
            saobp.apply(model, "high")
        assert "\n" not in str(error.value)


def test_what_holds_a_model_is_told_which_of_its_parts_to_give(tmp_path):
    model = build("bert")
    encoder = nn.Sequential(nn.ModuleDict({"auto_model": model.bert}), nn.Linear(2, 2))
    holders = {
        "model[0].auto_model (BertModel)": encoder,
        "model.module (BertForMaskedLM)": nn.DataParallel(model),
        "model.model (BertForMaskedLM)": hf.FeatureExtractionPipeline(
            model=model, tokenizer=word_tokenizer()
        ),
    }
    calls = (
        saobp.apply,
        lambda holder: saobp.inspect(holder, word_tokenizer(), ["w1"]),
        lambda holder: capture(holder, [], tmp_path / "capture.parquet"),
    )
    for (part, holder), call in itertools.product(holders.items(), calls):
        with pytest.raises(ValueError) as error:
            call(holder)
        name = type(holder).__name__
        assert str(error.value) == (
            f"model: {name} holds a transformers model; give that one, {part}"
        )
    assert isinstance(saobp.apply(encoder[0].auto_model), hf.BertModel)


@pytest.mark.parametrize("learn", ["head", "layer"])
# torch's own, of its quantisation
@pytest.mark.filterwarnings("ignore")
def test_strengths_of_a_quantised_model_are_learned_in_float32(learn):
    model = torch.ao.quantization.quantize_dynamic(build("bert"), {nn.Linear}, dtype=torch.qint8)
    fixed = run(saobp.apply(copy.deepcopy(model), "high", 0.7), tokens())
    # linear weights of another type alone
    by_hand = {torch.float8_e4m3fn: build("bert"), torch.int8: build("bert")}
    for dtype, one in by_hand.items():
        for module in filter(lambda part: isinstance(part, nn.Linear), one.modules()):
            module.weight = nn.Parameter(module.weight.to(dtype), requires_grad=False)
    for quantised in (model, *by_hand.values()):
        saobp.apply(quantised, "high", 0.7, learn=learn)
        assert {one.dtype for name, one in quantised.named_parameters() if "saobp" in name} == {
            torch.float32
        }
    torch.testing.assert_close(run(model, tokens()), fixed, **CLOSE)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("learn", ["head", "layer"])
@pytest.mark.parametrize("to", ["memory", "disk"])
def test_strengths_of_an_offloaded_model_are_learned(to, learn, when, tmp_path):
    accelerate = pytest.importorskip("accelerate")
    model, expected = build("bert"), run(saobp.apply(build("bert"), "high", 0.7), tokens())
    if when == "before":
        saobp.apply(model, "high", 0.7, learn=learn)
    if to == "disk":
        accelerate.disk_offload(model, str(tmp_path), execution_device=torch.device("cpu"))
    else:
        accelerate.cpu_offload(model, execution_device=torch.device("cpu"))
    if when == "after":
        saobp.apply(model, "high", 0.7, learn=learn)
    for show in (False, True):
        torch.testing.assert_close(run(model, tokens(), output_attentions=show), expected, **CLOSE)


def test_a_strength_without_a_number_is_refused_in_one_line():
    with torch.device("meta"):
        model = saobp.apply(
            hf.BertForMaskedLM(hf.BertConfig(**SIZES, **TOKENS)).eval(), "high", 0.7, learn="head"
        )
    model.load_state_dict(build("bert").state_dict(), strict=False, assign=True)
    for name, kept in build("bert").named_buffers():
        model.get_submodule(name.rpartition(".")[0]).register_buffer(name.rpartition(".")[2], kept)
    with pytest.raises(ValueError, match="learn: the strength is on the meta device") as error:
        run(model, tokens())
    assert "\n" not in str(error.value)


def test_options_of_another_version_and_switching_the_attention_behind_our_back_are_refused(
    tmp_path,
):
    model = saobp.apply(build("bert"), "high")
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    options, no_options = config["saobp"], "must be the options"
    for odd, said in (
        (options | {"colour": "red"}, ".*colour"),
        (
            options | {"factor": "mine"},
            r"no factor 'mine' is known; saobp\.register_factor comes before loading",
        ),
        ([], no_options),
        ("high", no_options),
        (0, no_options),
    ):
        (tmp_path / "config.json").write_text(json.dumps(config | {"saobp": odd}))
        with pytest.raises(ValueError, match=rf"^config\.saobp: {said}"):
            hf.AutoModelForMaskedLM.from_pretrained(tmp_path)
    model.config._attn_implementation = "sdpa"
    with pytest.raises(ValueError, match="attn_implementation"):
        run(model)
    for family in ("bert", "vit"):
        never = build(family)
        never.config._attn_implementation = "saobp"
        with pytest.raises(ValueError, match=r"attn_implementation: .* refines nothing"):
            run(never)


def test_arguments_that_bend_the_scores_are_refused():
    module = refined_modules(saobp.apply(build("llama"), "high"))[0]
    states = [torch.randn(1, heads, 6, 8) for heads in (4, 2, 2)]
    for argument in ("softcap", "s_aux", "cache", "block_indices"):
        with pytest.raises(ValueError, match=argument):
            attention_forward(module, *states, None, **{argument: torch.ones(1)})
    with pytest.raises(ValueError, match="attention_mask"):
        attention_forward(module, *states, torch.ones(1, 6))


@pytest.mark.parametrize(("name", "options"), [("bert", {}), ("gpt2", {"use_cache": False})])
def test_damping_of_one_step_counts_whether_or_not_somebody_asks_for_attention(name, options):
    model, ids = saobp.apply(build(name), "high", 1.5, damping=0.9), tokens()
    with torch.no_grad():
        found, shown = (
            model(ids, output_attentions=shown, **options).logits for shown in (False, True)
        )
        undamped = saobp.apply(model, "high", 1.5)(ids, **options).logits
    torch.testing.assert_close(found, shown, **CLOSE)
    assert (found - undamped).abs().max() > 1e-3
