"""A factor of one's own: what a reader writes, and what is refused before it can give wrong numbers."""

import pytest
import torch
from transformers import BertConfig, BertModel, LlamaConfig, LlamaForCausalLM

import saobp
from saobp.equations.factors import OWN


def crowded(prior, strength, visible):
    """Lower every key by the share of rows before it that look at it, a running mean; rows heard: earlier ones."""
    heard = prior.cumsum(-2) - prior
    weights = prior * torch.exp(-strength * heard)
    return weights / weights.sum(-1, keepdim=True).clamp_min(1e-30)


@pytest.fixture
def registered():
    saobp.register_factor("crowded", crowded)
    yield "crowded"
    del OWN["crowded"]


def test_a_registered_factor_works_wherever_a_factor_does(registered):
    attention = torch.randn(2, 4, 9, 9).softmax(-1)
    refined = saobp.refine(attention, registered, 0.7)
    torch.testing.assert_close(refined, crowded(attention, torch.tensor(0.7), None))
    query, key, value = torch.randn(3, 2, 4, 9, 8)
    attended = saobp.saobp_attention(query, key, value, factor=registered, strength=0.7)
    plain = (query @ key.mT / 8**0.5).softmax(-1)
    torch.testing.assert_close(attended, saobp.refine(plain, registered, 0.7) @ value)


def test_it_goes_into_a_model_and_through_a_save(registered, tmp_path):
    config = BertConfig(vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)
    model = saobp.apply(BertModel(config).eval(), registered, 0.7)
    tokens = torch.randint(50, (2, 7))
    before = model(tokens).last_hidden_state
    model.save_pretrained(tmp_path)
    torch.testing.assert_close(BertModel.from_pretrained(tmp_path).eval()(tokens).last_hidden_state, before)


def test_generation_with_a_cache_is_refused_and_without_one_it_works(registered):
    config = LlamaConfig(
        vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64
    )
    model = saobp.apply(LlamaForCausalLM(config).eval(), registered, 0.7)
    tokens = torch.randint(50, (1, 5))
    with pytest.raises(ValueError, match="crowded"):
        model.generate(tokens, max_new_tokens=3, do_sample=False)
    assert model.generate(tokens, max_new_tokens=3, do_sample=False, use_cache=False).shape == (1, 8)


def heavy(prior, strength, visible):
    return prior * 2


def leaky(prior, strength, visible):
    weights = prior * torch.exp(-strength * prior.sum(-2, keepdim=True))
    return weights / weights.sum(-1, keepdim=True).clamp_min(1e-30)


def spread(prior, strength, visible):
    return torch.full_like(prior, 1 / prior.shape[-1])


@pytest.mark.parametrize(
    "function, words",
    [
        (heavy, "rows that sum to 2"),
        (leaky, "leak the future"),
        (spread, "may not see"),
        (lambda prior, strength, visible: -prior, "negative"),
        (lambda prior, strength, visible: prior[..., 0], "returned shape"),
    ],
)
def test_a_function_that_would_give_wrong_numbers_is_refused(function, words):
    with pytest.raises(ValueError, match=words):
        saobp.register_factor("wrong", function)
    assert "wrong" not in OWN


@pytest.mark.parametrize("name", ["high", "two words", "", 3])
def test_a_name_that_is_taken_or_none_is_refused(name):
    with pytest.raises(ValueError, match="name must be"):
        saobp.register_factor(name, crowded)
