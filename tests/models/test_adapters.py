"""Adapters of PEFT on refined models: learned strengths train and are saved, and who saves an
adapter is told what it does not hold.
"""

import copy
import importlib.util
import subprocess
import sys
import warnings
from types import SimpleNamespace

import pytest
import torch
import transformers as hf
from families import build, refined_modules, tokens
from torch import nn

import saobp
from saobp.models import adapters, restore

NEEDS_PEFT = pytest.mark.skipif(importlib.util.find_spec("peft") is None, reason="needs peft")
# of peft, about names that transformers has changed
QUIET = pytest.mark.filterwarnings("ignore:.*:FutureWarning")
WORDS = "saves its adapter alone, without"
BEFORE_LOADING = "give saobp.apply the base before the adapter is loaded"
BEFORE_MAKING = "give saobp.apply the base before the adapter is made, which then keeps them"


class Kept(nn.Module):
    """What PEFT puts in the place of a module that it trains and saves."""

    def __init__(self, module):
        super().__init__()
        self.original_module = module
        self.modules_to_save = nn.ModuleDict({"default": copy.deepcopy(module)})
        self.modules_to_save.requires_grad_(True)

    def forward(self, *args):
        return self.modules_to_save["default"](*args)

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("modules_to_save")["default"], name)


def inject(tuner, model, adapter_name):
    """Freeze a model and keep the modules that the adapter's config names, as PEFT does."""
    model.requires_grad_(False)
    names = tuner.peft_config[adapter_name].modules_to_save or ()
    for module in [*model.modules()]:
        for name in set(names) & module._modules.keys():
            module.add_module(name, Kept(module._modules[name]))


def adapted(model, *, inference_mode=False):
    """Return a model with an adapter of a stand-in for PEFT, and the adapter's config."""
    config = SimpleNamespace(modules_to_save=None, inference_mode=inference_mode)
    tuner = SimpleNamespace(peft_config={"default": config})
    adapters.injecting(inject)(tuner, model, "default")
    return model, config


def told(model):
    """Return what is said when an adapter is saved."""
    saved = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        adapters.saving(lambda self, folder: saved.append(folder))(model, "folder")
    assert saved == ["folder"]
    return [str(warning.message) for warning in caught]


def strengths(model):
    """Return the names of the learned strengths that train."""
    return [
        name
        for name, parameter in model.named_parameters()
        if "saobp" in name and parameter.requires_grad
    ]


def test_an_adapter_trains_and_saves_learned_strengths_of_the_model_under_it():
    model, config = adapted(saobp.apply(build("llama"), "high", 0.5, learn="head"))
    assert config.modules_to_save == ["saobp"] and len(strengths(model)) == 2
    model(tokens(), labels=tokens()).loss.backward()
    assert all(model.get_parameter(name).grad.abs().min() > 0 for name in strengths(model))


@pytest.mark.parametrize("learn", [None, "frozen", "loaded"])
def test_an_adapter_leaves_alone_what_is_not_being_trained(learn):
    model = saobp.apply(build("llama"), "high", 0.5, learn="head" if learn else None)
    model.requires_grad_(learn != "frozen")
    _, config = adapted(model, inference_mode=learn == "loaded")
    assert not config.modules_to_save and not strengths(model)


CASES = {
    "plain": ([], ""),
    "none": (["apply none", "adapter"], ""),
    "applied first": (["apply", "adapter"], f"the refinement; {BEFORE_LOADING}"),
    "adapter first": (["adapter", "apply"], f"the refinement; {BEFORE_LOADING}"),
    "learned first": (["learn", "adapter"], f"the refinement; {BEFORE_LOADING}"),
    "learned later": (
        ["adapter", "learn"],
        f"the refinement and the learned strengths; {BEFORE_MAKING}",
    ),
    "a refined checkpoint": (["apply", "reload", "adapter"], ""),
    "a checkpoint refined otherwise": (
        ["apply", "reload", "apply more", "adapter"],
        f"the refinement; {BEFORE_LOADING}",
    ),
    "a checkpoint with strengths": (["learn", "reload", "adapter"], ""),
    "strengths of a checkpoint that train on": (
        ["learn", "reload", "adapter", "train"],
        f"the learned strengths; {BEFORE_MAKING}",
    ),
}


def with_steps(steps, folder):
    """Return a model after some steps."""
    model = build("llama")
    for step in steps:
        if step == "apply":
            saobp.apply(model, "high", 0.5)
        if step == "apply more":
            saobp.apply(model, "high", 0.7)
        if step == "apply none":
            saobp.apply(model, "none")
        if step == "learn":
            saobp.apply(model, "high", 0.5, learn="head")
        if step == "adapter":
            # the strengths of a checkpoint stay frozen unless they are to be trained
            adapted(model, inference_mode="reload" in steps)
        if step == "reload":
            model.save_pretrained(folder)
            model = type(model).from_pretrained(folder)
        if step == "train":
            model.requires_grad_(True)
    return model


@pytest.mark.parametrize("case", CASES)
def test_who_saves_an_adapter_is_told_once_what_it_does_not_hold(case, tmp_path):
    steps, lost = CASES[case]
    found = told(with_steps(steps, tmp_path))
    assert found == ([f"model: LlamaForCausalLM {WORDS} {lost}"] if lost else [])


PATCHED = """if True:
    import pathlib, sys
    tuners = pathlib.Path("peft/tuners")
    tuners.mkdir(parents=True)
    (tuners / "tuners_utils.py").write_text("class BaseTuner:\\n def inject_adapter(self): pass")
    (tuners / "__init__.py").touch()
    (tuners.parent / "__init__.py").touch()
    (tuners.parent / "peft_model.py").write_text(
        "class PeftModel:\\n def save_pretrained(self): pass\\n def add_adapter(self): pass"
    )
    sys.path.insert(0, "")
    {first}
    {then}
    assert "transformers" not in sys.modules
    assert hasattr(PeftModel.save_pretrained, "warns_of_adapter")
    assert hasattr(BaseTuner.inject_adapter, "keeps_strengths")
"""
OURS = "import saobp"
THEIRS = "from peft.peft_model import PeftModel; from peft.tuners.tuners_utils import BaseTuner"


@pytest.mark.parametrize("order", [(OURS, THEIRS), (THEIRS, OURS)], ids=["ours", "theirs"])
def test_peft_is_patched_whichever_is_imported_first(order, tmp_path):
    script = PATCHED.format(first=order[0], then=order[1])
    subprocess.run([sys.executable, "-c", script], check=True, cwd=tmp_path, timeout=120)


PATCHED_METHODS = {"save_pretrained": print, "add_adapter": print, "__init__": print}


def test_nothing_is_patched_twice():
    tuners_utils = SimpleNamespace(BaseTuner=type("Tuner", (), {"inject_adapter": inject}))
    peft_model = SimpleNamespace(PeftModel=type("Model", (), PATCHED_METHODS))
    for _ in range(2):
        restore.PATCHES["peft.tuners.tuners_utils"](tuners_utils)
        restore.PATCHES["peft.peft_model"](peft_model)
    assert tuners_utils.BaseTuner.inject_adapter.__wrapped__ is inject
    for method in PATCHED_METHODS:
        assert getattr(peft_model.PeftModel, method).__wrapped__ is print


def lora(**options):
    """Return a config of LoRA."""
    from peft import LoraConfig

    return LoraConfig(target_modules=["q_proj"], task_type="CAUSAL_LM", **options)


def ia3():
    """Return a config of IA3."""
    from peft import IA3Config

    return IA3Config(target_modules=["k_proj"], feedforward_modules=[], task_type="CAUSAL_LM")


KINDS = {"LoRA": lora, "DoRA": lambda: lora(use_dora=True), "IA3": ia3}


@NEEDS_PEFT
@QUIET
@pytest.mark.parametrize("learn", [None, "head"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_adapter_of_peft_comes_back_on_a_base_that_is_refined_as_the_warning_says(
    kind, learn, tmp_path
):
    from peft import PeftModel, get_peft_model

    build("llama").save_pretrained(tmp_path / "base")

    def base():
        return hf.AutoModelForCausalLM.from_pretrained(tmp_path / "base")

    model = get_peft_model(saobp.apply(base(), "high", 0.5, learn=learn), KINDS[kind]())
    assert len(strengths(model)) == (2 if learn else 0)
    changed(model)
    with pytest.warns(
        UserWarning, match=f"PeftModelForCausalLM {WORDS} the refinement; "
    ) as caught:
        model.save_pretrained(tmp_path / "adapter")
    assert len(caught) == 1
    again = saobp.apply(base(), "high", 0.5, learn=learn)
    same(PeftModel.from_pretrained(again, tmp_path / "adapter"), model)
    merged = model.merge_and_unload()
    merged.save_pretrained(tmp_path / "merged")
    same(hf.AutoModelForCausalLM.from_pretrained(tmp_path / "merged"), model)


def changed(model):
    """Change what trains."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.3 * torch.randn_like(parameter))


@torch.no_grad()
def same(model, expected):
    """Assert that two models give the same logits."""
    logits = [one.eval()(tokens(), use_cache=False).logits for one in (model, expected)]
    torch.testing.assert_close(*logits, atol=1e-4, rtol=1e-4)


@NEEDS_PEFT
@QUIET
@pytest.mark.parametrize("learn", [None, "head"])
def test_an_adapter_of_peft_brings_a_refined_checkpoint_back_without_a_word(learn, tmp_path):
    from peft import AutoPeftModelForCausalLM, get_peft_model

    refined = saobp.apply(build("llama"), "high", 0.5, learn=learn)
    refined.save_pretrained(tmp_path / "base")
    model = get_peft_model(hf.AutoModelForCausalLM.from_pretrained(tmp_path / "base"), lora())
    changed(model)
    # warnings are errors here
    model.save_pretrained(tmp_path / "adapter")
    same(AutoPeftModelForCausalLM.from_pretrained(tmp_path / "adapter"), model)


@NEEDS_PEFT
@QUIET
@pytest.mark.parametrize("learn", [None, "head"])
def test_an_adapter_that_transformers_adds_is_kept_and_told_of_as_well(learn, tmp_path):
    model = saobp.apply(build("llama"), "high", 0.5, learn=learn)
    start = copy.deepcopy(model)
    model.add_adapter(lora())
    assert len(strengths(model)) == (2 if learn else 0)
    changed(model)
    with pytest.warns(UserWarning, match=f"LlamaForCausalLM {WORDS} the refinement; ") as caught:
        model.save_pretrained(tmp_path)
    assert len(caught) == 1
    start.load_adapter(tmp_path)
    same(start, model)


@NEEDS_PEFT
@QUIET
def test_an_adapter_that_comes_before_the_refinement_is_told_of_when_it_is_saved(tmp_path):
    from peft import get_peft_model

    model = get_peft_model(build("llama"), lora())
    # warnings are errors here
    saobp.apply(model, "high", 0.5, learn="head")
    assert len(refined_modules(model)) == 2 and len(strengths(model)) == 2
    with pytest.warns(UserWarning, match=f"the learned strengths; {BEFORE_MAKING}") as caught:
        model.save_pretrained(tmp_path)
    assert len(caught) == 1


@NEEDS_PEFT
@QUIET
@pytest.mark.parametrize("learn", ["head", None])
def test_a_model_whose_adapter_keeps_its_strengths_is_not_refined_again(learn):
    from peft import get_peft_model

    model = get_peft_model(saobp.apply(build("llama"), "high", 0.5, learn="head"), lora())
    for part in (model, model.base_model.model):
        with pytest.raises(ValueError, match="^model: an adapter keeps the learned strengths"):
            saobp.apply(part, "high", 0.3, learn=learn)
    assert len(refined_modules(model)) == 2 and len(strengths(model)) == 2


@NEEDS_PEFT
@QUIET
def test_an_adapter_of_tokens_that_can_keep_no_strengths_advises_what_works(tmp_path):
    from peft import TrainableTokensConfig, get_peft_model

    model = saobp.apply(build("llama"), "high", 0.5, learn="head")
    config = TrainableTokensConfig(token_indices=[3], target_modules=["embed_tokens"])
    with pytest.warns(UserWarning, match="TRAINABLE_TOKENS freezes the learned strengths"):
        model = get_peft_model(model, config)
    with pytest.warns(UserWarning, match="strengths; save the refined base, load it from there"):
        model.save_pretrained(tmp_path)


def prompt():
    """Return a config of prompts that are learned before the input."""
    from peft import PromptTuningConfig

    return PromptTuningConfig(num_virtual_tokens=3, task_type="CAUSAL_LM")


def encoded_prompt():
    """Return a config of prompts that a network makes."""
    from peft import PromptEncoderConfig

    return PromptEncoderConfig(num_virtual_tokens=3, task_type="CAUSAL_LM", encoder_hidden_size=16)


def adaption():
    """Return a config of prompts inside the attention."""
    from peft import AdaptionPromptConfig

    return AdaptionPromptConfig(adapter_len=3, adapter_layers=2, task_type="CAUSAL_LM")


def prefix():
    """Return a config of keys and values before those of the input."""
    from peft import PrefixTuningConfig

    return PrefixTuningConfig(num_virtual_tokens=3, task_type="CAUSAL_LM")


@NEEDS_PEFT
@QUIET
@pytest.mark.parametrize("learn", [None, "head"])
@pytest.mark.parametrize("kind", [prompt, encoded_prompt], ids=["prompt", "p-tuning"])
def test_prompts_train_and_save_learned_strengths_and_come_back_as_the_warning_says(
    kind, learn, tmp_path
):
    from peft import PeftModel, get_peft_model

    model = get_peft_model(saobp.apply(build("llama"), "high", 0.5, learn=learn), kind())
    assert len(strengths(model)) == (2 if learn else 0)
    mask = torch.ones_like(tokens())
    model(tokens(), attention_mask=mask, labels=tokens()).loss.backward()
    assert all(model.get_parameter(name).grad.abs().min() > 0 for name in strengths(model))
    changed(model)
    for folder in (tmp_path / "once", tmp_path / "again"):
        with pytest.warns(UserWarning, match=f"{WORDS} the refinement; ") as caught:
            model.save_pretrained(folder)
        assert len(caught) == 1
        again = saobp.apply(build("llama"), "high", 0.5, learn=learn)
        again = PeftModel.from_pretrained(again, folder)
        with torch.no_grad():
            logits = [one.eval()(tokens(), attention_mask=mask).logits for one in (again, model)]
        torch.testing.assert_close(*logits, atol=1e-4, rtol=1e-4)
        model = again


@NEEDS_PEFT
@QUIET
def test_an_adapter_that_can_keep_no_strengths_says_so_when_it_is_made_and_saved(tmp_path):
    from peft import PeftModel, get_peft_model

    refined = saobp.apply(build("llama"), "high", 0.5, learn="head")
    changed(refined)
    with pytest.warns(UserWarning, match="ADAPTION_PROMPT freezes the learned strengths of Llama"):
        model = get_peft_model(refined, adaption())
    advice = "the learned strengths; save the refined base, load it from there"
    with pytest.warns(UserWarning, match=advice):
        model.save_pretrained(tmp_path / "lost")
    # as it advises
    kept = saobp.apply(build("llama"), "high", 0.5, learn="head")
    changed(kept)
    kept.save_pretrained(tmp_path / "base")
    base = hf.AutoModelForCausalLM.from_pretrained(tmp_path / "base")
    with pytest.warns(UserWarning, match="ADAPTION_PROMPT freezes"):
        model = get_peft_model(base, adaption())
    changed(model)
    # warnings are errors here
    model.save_pretrained(tmp_path / "adapter")
    base = hf.AutoModelForCausalLM.from_pretrained(tmp_path / "base")
    same(PeftModel.from_pretrained(base, tmp_path / "adapter"), model)


@NEEDS_PEFT
@QUIET
def test_keys_without_queries_are_refused_when_they_are_made_and_by_factor_none_they_are_not():
    from peft import get_peft_model

    model = saobp.apply(build("llama"), "high", 0.5, learn="head")
    with pytest.raises(
        ValueError, match="PREFIX_TUNING puts keys without queries .* PROMPT_TUNING"
    ):
        get_peft_model(model, prefix())
    # and the base is left as it was
    assert len(strengths(model)) == 2
    mask = torch.ones_like(tokens())
    plain = get_peft_model(saobp.apply(build("llama"), "none"), prefix())
    plain(tokens(), attention_mask=mask)
    later = get_peft_model(build("llama"), prefix())
    saobp.apply(later, "high", 0.5)
    with pytest.raises(ValueError, match="filled without refinement .*a prefix.* sent no messages"):
        later(tokens(), attention_mask=mask)
