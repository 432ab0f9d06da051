"""A factor of one's own: what a reader writes, and what is refused before it can give wrong
numbers.
"""

import pytest
import torch
from families import build, generated, run, tokens

import saobp
from saobp.equations.factors import OWN


def normal(weights):
    return weights / weights.sum(-1, keepdim=True).clamp_min(1e-30)


def crowded(prior, strength, visible):
    """Lower every key by the share of rows before it that look at it, a running mean; rows heard:
    earlier ones.
    """
    return normal(prior * torch.exp(-strength * (prior.cumsum(-2) - prior)))


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
    for rounds in ({"steps": 2}, {"damping": 0.5}):
        with pytest.raises(ValueError, match="does not apply"):
            saobp.refine(attention, registered, **rounds)


def test_it_goes_into_a_model_and_through_a_save_and_generates_without_a_cache_alone(
    registered, tmp_path
):
    model = saobp.apply(build("bert"), registered, 0.7)
    model.save_pretrained(tmp_path)
    torch.testing.assert_close(
        run(type(model).from_pretrained(tmp_path).eval(), tokens()), run(model, tokens())
    )
    decoder, ids = saobp.apply(build("llama"), registered, 0.7), tokens(1, 5)
    with pytest.raises(ValueError, match="crowded"):
        generated(decoder, ids, 3)
    assert generated(decoder, ids, 3, use_cache=False).shape == (1, 8)


@pytest.mark.parametrize(
    "function, words",
    [
        (
            lambda prior, strength, visible: normal(
                prior * torch.exp(-strength * prior.sum(-2, True))
            ),
            "leak the future",
        ),
        (
            lambda prior, strength, visible: torch.full_like(prior, 1 / prior.shape[-1]),
            "may not see",
        ),
        (
            lambda prior, strength, visible: normal(prior ** (1 + strength / prior.shape[-1])),
            "padding change the rows",
        ),
        (lambda prior, strength, visible: prior * 2, "rows that sum to 2"),
        (lambda prior, strength, visible: prior * 0.99, "rows that sum to 0.99"),
        (lambda prior, strength, visible: -prior, "negative"),
        (lambda prior, strength, visible: prior[..., 0], "returned shape"),
        (
            lambda prior, strength, visible: None,
            "must return the refined attention, a tensor; got NoneType",
        ),
        (lambda prior: prior, "must take .prior, strength, visible."),
        (None, "must take .prior, strength, visible."),
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
