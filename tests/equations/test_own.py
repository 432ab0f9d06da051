"""A factor of one's own: what a reader writes, and what is refused before it can give wrong
numbers.
"""

import pytest
import torch
from families import build, generated, run, tokens

import saobp
from saobp.equations.factors import BIDIRECTIONAL, OWN


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


def crowded_by_all(prior, strength, visible):
    """Lower every key by its column sum over all rows: High to first order, its own row included."""
    return normal(prior * torch.exp(-strength * prior.sum(-2, True)))


def thrown_away(prior, strength, visible):
    """Keep of each row what is left beside one more key that nobody reads."""
    return prior / (1 + strength * prior.max(-1, keepdim=True).values)


@pytest.fixture
def of_column_sums():
    saobp.register_factor("by_all", crowded_by_all, causal=False)
    yield "by_all"
    del OWN["by_all"]
    BIDIRECTIONAL.discard("by_all")


def test_a_factor_of_all_rows_is_exact_in_encoders_and_refused_wherever_order_matters(
    of_column_sums,
):
    attention = torch.randn(2, 4, 9, 9, dtype=torch.float64).softmax(-1)
    column = attention.sum(-2, keepdim=True)
    expected = (attention.log() - 0.7 * column).softmax(-1)
    torch.testing.assert_close(saobp.refine(attention, of_column_sums, 0.7), expected)
    model = saobp.apply(build("bert"), of_column_sums, 0.7)
    mask = torch.ones(2, 9, dtype=torch.long)
    mask[1, 6:] = 0
    alone = run(model, tokens()[1:, :6])
    torch.testing.assert_close(run(model, tokens(), mask)[1:, :6], alone, atol=2e-5, rtol=1e-4)
    causal = torch.ones(9, 9, dtype=torch.bool).tril()
    query, key, value = torch.randn(3, 2, 4, 9, 8)
    refusals = [
        lambda: saobp.refine(torch.eye(9), of_column_sums, 0.7, causal=True),
        lambda: saobp.saobp_attention(query, key, value, factor=of_column_sums, is_causal=True),
        lambda: saobp.apply(build("llama"), of_column_sums, 0.7),
        lambda: model(tokens(), attention_mask=causal[None, None]),
    ]
    for refused in refusals:
        with pytest.raises(ValueError, match="was registered with causal=False") as refusal:
            refused()
        assert "\n" not in str(refusal.value)
    # registered again, for every order
    saobp.register_factor(of_column_sums, crowded)
    saobp.refine(torch.eye(9), of_column_sums, 0.7, causal=True)


def test_rows_that_sum_to_less_than_one_average_their_values_by_what_is_left():
    saobp.register_factor("thrown_away", thrown_away, sums_to_one=False)
    try:
        query, key, value = torch.randn(3, 2, 4, 9, 8, dtype=torch.float64)
        plain = (query @ key.mT / 8**0.5).softmax(-1)
        expected = plain / (1 + 0.7 * plain.amax(-1, keepdim=True)) @ value
        attended = saobp.saobp_attention(query, key, value, factor="thrown_away", strength=0.7)
        torch.testing.assert_close(attended, expected)
        model = saobp.apply(build("gpt2"), "thrown_away", 0.7)
        weights = model(tokens(), use_cache=False, output_attentions=True).attentions[0]
        assert (weights.sum(-1) < 0.95).all()
        cut = model(tokens()[:, :5], use_cache=False).logits
        full = model(tokens(), use_cache=False).logits
        torch.testing.assert_close(full[:, :5], cut, atol=2e-5, rtol=1e-4)
    finally:
        del OWN["thrown_away"]


@pytest.mark.parametrize(
    ("function", "options", "words"),
    [
        (thrown_away, {}, "less is for sums_to_one=False"),
        (lambda prior, *_: 1.1 * prior, {"sums_to_one": False}, "which is more than 1"),
        (crowded_by_all, {}, "causal=False keeps it out"),
        (crowded, {"causal": None}, "causal must be True or False"),
        (crowded, {"sums_to_one": 1}, "sums_to_one must be True or False"),
    ],
)
def test_what_a_factor_may_do_is_said_when_it_is_registered(function, options, words):
    with pytest.raises(ValueError, match=words) as refusal:
        saobp.register_factor("wrong", function, **options)
    assert "\n" not in str(refusal.value)
    assert "wrong" not in OWN and "wrong" not in BIDIRECTIONAL


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
