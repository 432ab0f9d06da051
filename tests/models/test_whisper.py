"""Timestamps of words, for which transformers itself switches Whisper's attention to eager."""

import copy
import re
from pathlib import Path

import pytest
import torch
import transformers as hf
from families import CLOSE, VOCABULARY, build, run

import saobp
from saobp.models import supported

SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 3}
STACKS = {
    f"{stack}_{what}": size
    for stack in ("encoder", "decoder")
    for what, size in (("layers", 2), ("attention_heads", 4), ("ffn_dim", 48))
}
LENGTHS = {"max_target_positions": 64, "max_source_positions": 50, "num_mel_bins": 8}
FACTORS = [("none", 0.5), ("high", 1.5)]
# what transformers says of arguments that it passes to itself
pytestmark = pytest.mark.filterwarnings("ignore")


def whisper() -> hf.WhisperForConditionalGeneration:
    """Build a Whisper that may tell when it heard each token."""
    sizes = {"vocab_size": VOCABULARY, "d_model": 32, **STACKS, **LENGTHS, **SPECIAL}
    no_rules = {"suppress_tokens": None, "begin_suppress_tokens": None}
    torch.manual_seed(0)
    model = hf.WhisperForConditionalGeneration(hf.WhisperConfig(**sizes, **no_rules)).eval()
    for parameter in model.parameters():
        if parameter.ndim == 2:
            torch.nn.init.normal_(parameter, std=0.3)
    model.generation_config.alignment_heads = [[0, 0], [1, 2]]
    model.generation_config.no_timestamps_token_id = 40
    return model


def sound() -> torch.Tensor:
    return torch.randn(2, 8, 100, generator=torch.Generator().manual_seed(1))


def spoken(model, **call):
    """Return what a model hears, and when."""
    options = {"return_token_timestamps": True, "return_dict_in_generate": True, "num_frames": 100}
    return model.generate(max_new_tokens=8, **options, **call)


@pytest.mark.parametrize(("factor", "strength"), FACTORS)
@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_words_have_the_times_that_the_plain_decoder_gives_them(factor, strength, implementation):
    plain, model = whisper(), whisper()
    model.set_attn_implementation(implementation)
    saobp.apply(model, factor, strength)
    with torch.no_grad():
        heard = model.model.encoder(sound()).last_hidden_state
    before = model.generate(sound(), max_new_tokens=8)
    found = spoken(model, input_features=sound())
    if factor != "none":
        # whose attention is no longer that of the plain decoder's config
        plain.model.encoder = copy.deepcopy(model.model.encoder)
    expected = spoken(plain, input_features=sound())
    assert torch.equal(found["sequences"], expected["sequences"])
    torch.testing.assert_close(found["token_timestamps"], expected["token_timestamps"])
    assert torch.equal(model.generate(sound(), max_new_tokens=8), before)
    with torch.no_grad():
        again = model.model.encoder(sound()).last_hidden_state
    torch.testing.assert_close(again, heard, **CLOSE)


def test_transformers_switches_no_other_model_by_itself():
    folder = Path(hf.__file__).parent
    switch = re.compile(r"^\s+self(\.\w+)*\.config\._attn_implementation = \"", re.MULTILINE)
    files = (*folder.glob("models/*/*.py"), *folder.glob("generation/*.py"))
    found = {path.parent.name for path in files if switch.search(path.read_text())}
    known = {name.split(".")[2] for name in supported.SWITCHED_BY_TRANSFORMERS}
    assert found == known


def test_a_refused_call_leaves_the_model_as_it_was():
    model = saobp.apply(build("llama"), "high", 1.5)
    before = run(model)
    ids = torch.tensor([[5, 6, 7, 8]])
    refused = (
        {"s_aux": torch.ones(4)},
        {"attention_mask": torch.ones(1, 4, 4)},
        {"attention_mask": torch.full((1, 1, 4, 4), float("nan"))},
        {"past_key_values": hf.StaticCache(config=model.config, max_cache_len=8)},
    )
    for call in refused:
        with pytest.raises(ValueError):
            model(ids, **call)
        assert model.config._attn_implementation == "saobp"
        assert torch.equal(run(model), before)
