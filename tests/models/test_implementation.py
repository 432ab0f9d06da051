"""`attn_implementation="saobp"`: models are refined by their config, and plain by another name."""

import json
import subprocess
import sys
import warnings

import pytest
import torch
import transformers as hf
from families import CAUSAL, build, clip, encoder_decoder, generated, refined_modules, run, tokens

import saobp

FAMILIES = ["bert", "roberta", "modernbert", "gpt2", "llama"]
NAME = "saobp"


def auto(family):
    return hf.AutoModelForCausalLM if family in CAUSAL else hf.AutoModelForMaskedLM


def saved(model, folder):
    """Save a model, and return the folder and the config that lies there."""
    model.save_pretrained(folder)
    return folder, json.loads((folder / "config.json").read_text())


@pytest.mark.parametrize("family", FAMILIES)
def test_a_plain_checkpoint_is_refined_by_the_defaults_and_saved_and_loaded_as_any_other(
    family, tmp_path
):
    folder, _ = saved(build(family), tmp_path / "plain")
    model = auto(family).from_pretrained(folder, attn_implementation=NAME).eval()
    expected = run(saobp.apply(build(family)), tokens())
    assert torch.equal(run(model, tokens()), expected)
    assert not torch.equal(run(build(family), tokens()), expected)
    assert model.config._attn_implementation == NAME
    folder, config = saved(model, tmp_path / "refined")
    assert config["saobp"] == saobp.apply(build(family)).config.saobp
    for options in ({}, {"attn_implementation": NAME}):
        loaded = auto(family).from_pretrained(folder, **options).eval()
        assert torch.equal(run(loaded, tokens()), expected)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_that_stands_is_switched_on_by_the_options_in_its_config_and_off_again(family):
    model = build(family)
    plain = run(model, tokens())
    model.config.saobp = {"factor": "low", "strength": 0.7, "spare": "first"}
    model.set_attn_implementation(NAME)
    refined = saobp.apply(build(family), "low", 0.7, spare="first")
    assert torch.equal(run(model, tokens()), run(refined, tokens()))
    with pytest.warns(UserWarning, match='^attn_implementation: "sdpa" switches') as told:
        model.set_attn_implementation("sdpa")
    assert len(told) == 1 and "\n" not in str(told[0].message)
    assert torch.equal(run(model, tokens()), plain)
    assert not refined_modules(model)
    assert not any(module._forward_pre_hooks for module in model.modules())
    model.set_attn_implementation(NAME)
    assert torch.equal(run(model, tokens()), run(refined, tokens()))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_another_implementation_loads_a_refined_checkpoint_plain_and_says_so_once(
    family, implementation, tmp_path
):
    folder, _ = saved(saobp.apply(build(family), "high", 0.7), tmp_path / "refined")
    with pytest.warns(UserWarning, match=f'^attn_implementation: "{implementation}"') as told:
        model = auto(family).from_pretrained(folder, attn_implementation=implementation).eval()
    assert len(told) == 1 and "\n" not in str(told[0].message)
    plain = run(build(family), tokens())
    torch.testing.assert_close(run(model, tokens()), plain, atol=2e-5, rtol=1e-4)
    # and saved as what it is
    _, config = saved(model, tmp_path / "plain")
    assert "saobp" not in config
    model.set_attn_implementation(NAME)
    assert refined_modules(model)[0].saobp.options.strength == 0.7


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_a_decoder_that_is_switched_on_generates_as_without_a_cache(family):
    model = build(family)
    model.set_attn_implementation(NAME)
    ids = tokens()
    expected = generated(model, ids, use_cache=False)
    assert torch.equal(generated(model, ids), expected)


def test_learned_strengths_are_named_as_lost():
    model = saobp.apply(build("bert"), "high", 0.7, learn="head")
    with pytest.warns(UserWarning, match="its learned strengths are lost"):
        model.set_attn_implementation("eager")
    assert not any("saobp" in name for name in model.state_dict())


def test_a_model_of_several_stacks_and_an_encoder_decoder_are_refined_as_by_apply(tmp_path):
    torch.manual_seed(0)
    folder, _ = saved(encoder_decoder(), tmp_path / "t5")
    model = hf.AutoModelForSeq2SeqLM.from_pretrained(folder, attn_implementation=NAME)
    names = [name for name, module in model.named_modules() if hasattr(module, "saobp")]
    assert names and all(name.startswith("encoder") for name in names)
    folder, _ = saved(clip(), tmp_path / "clip")
    model = hf.CLIPModel.from_pretrained(folder, attn_implementation=NAME)
    assert len(refined_modules(model)) == len(refined_modules(saobp.apply(clip())))


def test_a_refined_part_of_a_plain_model_is_switched_off_with_it():
    model = build("bert")
    plain = run(model, tokens())
    model.bert.set_attn_implementation(NAME)
    assert not torch.equal(run(model, tokens()), plain)
    with pytest.warns(UserWarning, match="switches the refinement of BertForMaskedLM off"):
        model.set_attn_implementation("sdpa")
    assert torch.equal(run(model, tokens()), plain)


def test_asking_again_for_what_is_there_changes_nothing():
    model = saobp.apply(build("bert"), "low", 0.7, learn="head")
    expected, before = run(model, tokens()), refined_modules(model)[0].saobp
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.set_attn_implementation(NAME)
    assert refined_modules(model)[0].saobp is before
    assert torch.equal(run(model, tokens()), expected)


def test_models_that_cannot_be_served_are_refused_in_one_line(tmp_path):
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4}
    sizes |= {"intermediate_size": 48, "vocab_size": 61}
    groups = {"num_key_value_heads": 2, "head_dim": 8, "pad_token_id": 0}
    capped = hf.Gemma2Config(**sizes, **groups)
    without = hf.MambaConfig(**sizes)
    for config, message in ((capped, "caps"), (without, "no self-attention")):
        with pytest.raises(ValueError, match=f"^model: .*{message}") as refusal:
            hf.AutoModel.from_config(config, attn_implementation=NAME)
        assert "\n" not in str(refusal.value)
    hf.AutoModel.from_config(hf.MambaConfig(**sizes)).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="^model: MambaModel has no self-attention"):
        hf.AutoModel.from_pretrained(tmp_path, attn_implementation=NAME)
    model = hf.AutoModel.from_pretrained(tmp_path)
    with pytest.raises(ValueError, match="^model: MambaModel has no self-attention"):
        model.set_attn_implementation(NAME)
    with pytest.raises(ValueError, match='^attn_implementation: "saobp" is one for all parts'):
        clip().set_attn_implementation({"text_config": NAME})
    with pytest.raises(ValueError, match='^attn_implementation: "saobp" is one for all parts'):
        saobp.apply(clip()).set_attn_implementation({"text_config": "eager"})
    wrong = build("bert")
    wrong.config.saobp = {"colour": "red"}
    with pytest.raises(ValueError, match=r"^config\.saobp: .*colour"):
        wrong.set_attn_implementation(NAME)
    assert not refined_modules(wrong)


FRESH = """if True:
    import sys, saobp
    assert "torch" not in sys.modules and "transformers" not in sys.modules
    from transformers import AutoModelForMaskedLM
    model = AutoModelForMaskedLM.from_pretrained(".", attn_implementation="saobp")
    assert model.config.saobp["strength"] == 0.2
    assert sum(hasattr(module, "saobp") for module in model.modules()) == 2
"""


def test_the_name_is_known_after_the_import_alone_which_loads_neither_torch_nor_transformers(
    tmp_path,
):
    build("bert").save_pretrained(tmp_path)
    subprocess.run([sys.executable, "-c", FRESH], check=True, timeout=300, cwd=tmp_path)
