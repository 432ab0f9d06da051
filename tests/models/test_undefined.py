"""Whether a call is refused does not depend on the values of the data: what is no number passes."""

import pytest
import torch
from transformers import AutoModelForCausalLM, GPT2Config

import saobp

CALLS = {
    "by itself": {},
    "attentions shown": {"output_attentions": True},
    "cached": {"use_cache": True},
}


def decoder(factor: str, **refinement):
    """A small decoder in eval mode, refined."""
    torch.manual_seed(0)
    shape = {"n_layer": 2, "n_head": 2, "n_embd": 16, "vocab_size": 30, "n_positions": 16}
    model = AutoModelForCausalLM.from_config(GPT2Config(**shape))
    return saobp.apply(model, factor, 0.3, **refinement).eval()


def embedded(model, *, undefined: float):
    """Embeddings of two sequences of 8 tokens, of which the first holds such a number."""
    tokens = torch.randint(30, (2, 8), generator=torch.Generator().manual_seed(1))
    embeddings = model.get_input_embeddings()(tokens).detach().clone()
    embeddings[0, 3, 0] = undefined
    return embeddings


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("factor", ["none", "high", "low", "elemmul"])
@pytest.mark.parametrize("undefined", [float("nan"), float("inf")])
def test_no_call_is_refused_for_a_number_in_its_activations(factor, call, undefined):
    model = decoder(factor)
    with torch.no_grad():
        logits = model(inputs_embeds=embedded(model, undefined=undefined), **CALLS[call]).logits
    assert logits[0, 3:].isnan().any()
    assert logits[1].isfinite().all(), "the other sequence is as it was"


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("undefined", [float("nan"), float("inf")])
def test_no_call_is_refused_for_a_learned_strength(call, undefined):
    model = decoder("high", learn="head")
    learned = [value for name, value in model.named_parameters() if "saobp" in name]
    assert len(learned) == 2
    for value in learned:
        value.data.fill_(undefined)
    with torch.no_grad():
        logits = model(torch.arange(8)[None], **CALLS[call]).logits
    assert logits.isnan().any() or undefined == float("inf"), "infinity is the strongest message"


def test_a_strength_that_is_no_number_is_of_its_head_alone():
    query = torch.randn(1, 2, 8, 4, generator=torch.Generator().manual_seed(0))
    strength = torch.tensor([float("nan"), 0.2])
    received = saobp.saobp_attention(query, query, query, factor="high", strength=strength)
    assert received[:, 0].isnan().all()
    assert received[:, 1].isfinite().all()
