"""Spared keys against the loops of the equations, a case worked by hand, and invariants."""

import itertools

import pytest
import torch
from reference import equation_11

from saobp.equations.refine import refine

LENGTH = 7
MASKS = {
    "none": None,
    "right": torch.arange(LENGTH) < 5,
    "left": torch.arange(LENGTH) >= 2,
}
KEYS = torch.arange(LENGTH) % 3 == 0
BIDIRECTIONAL = ["first", "edges", 0.1, 0.3, KEYS]


def attention_of(mask=None, causal=False, lead=(), sharpness=2.0):
    """Return random attention (..., L, L) whose padded keys, and future keys, have no mass."""
    scores = sharpness * torch.randn(*lead, LENGTH, LENGTH, dtype=torch.float64)
    # a sink
    scores[..., 0] += 2
    visible = torch.ones(LENGTH, LENGTH, dtype=torch.bool)
    if causal:
        visible = visible.tril()
    if mask is not None:
        visible = visible & mask[..., None, :]
    return scores.masked_fill(~visible, -1e30).softmax(-1)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("spare", BIDIRECTIONAL, ids=str)
@pytest.mark.parametrize("factor", ["high", "low"])
@pytest.mark.parametrize("exclude_self", [True, False])
def test_spared_keys_are_left_out_of_the_loop_of_equation_11(mask, spare, factor, exclude_self):
    real = MASKS[mask]
    attention = attention_of(real)
    options = {"mask": real, "spare": spare, "exclude_self": exclude_self}
    expected = equation_11(attention, 0.5, low=factor == "low", **options)
    refined = refine(attention, factor, 0.5, **options)
    rows = slice(None) if real is None else real
    torch.testing.assert_close(refined[rows], expected[rows], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("spare", ["first", KEYS], ids=str)
@pytest.mark.parametrize("exclude_self", [True, False])
def test_causal_spared_keys_are_left_out_of_the_loop_of_equation_11(mask, spare, exclude_self):
    real = MASKS[mask]
    attention = attention_of(real, causal=True)
    rows = slice(None) if real is None else real
    options = {"mask": real, "spare": spare, "exclude_self": exclude_self, "causal": True}
    attention[~attention.isfinite()] = 0
    expected = equation_11(attention, 0.5, **options)
    refined = refine(attention, "high", 0.5, **options)
    torch.testing.assert_close(refined[rows], expected[rows], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("spare", ["first", "edges", 0.3], ids=str)
def test_each_sequence_of_a_batch_spares_its_own_keys(spare):
    masks = torch.stack([MASKS["right"], MASKS["left"]])
    attention = attention_of(masks[:, None], lead=(2, 3))
    strength = torch.tensor([0.1, 0.4, 0.9], dtype=torch.float64)
    refined = refine(attention, "high", strength, mask=masks, spare=spare)
    for sequence, head in itertools.product(range(2), range(3)):
        options = {"mask": masks[sequence], "spare": spare}
        expected = equation_11(attention[sequence, head], float(strength[head]), **options)
        real = masks[sequence]
        torch.testing.assert_close(refined[sequence, head][real], expected[real])


@pytest.mark.parametrize("shape", [(LENGTH,), (2, LENGTH), (1, 3, LENGTH), (2, 3, LENGTH)])
def test_a_mask_of_keys_has_two_dimensions_for_the_batch_and_three_for_heads(shape):
    spare = torch.rand(shape) < 0.5
    attention = attention_of(lead=(2, 3))
    refined = refine(attention, "high", 0.5, spare=spare)
    for sequence, head in itertools.product(range(2), range(3)):
        keys = spare[:, None] if len(shape) == 2 else spare
        keys = keys.expand(2, 3, LENGTH)[sequence, head]
        expected = equation_11(attention[sequence, head], 0.5, spare=keys)
        torch.testing.assert_close(refined[sequence, head], expected)


def test_by_hand_a_spared_key_keeps_its_odds_against_another_and_a_share_is_strictly_more():
    half = torch.full((2, 2), 0.5, dtype=torch.float64)
    # each key has exactly half of all attention: none is spared
    torch.testing.assert_close(refine(half, "high", 1.0, spare=0.5), half)
    # at strength ln 2, c = 1/2: every row says 3/4 about key 1, nothing about key 0
    refined = refine(half, "high", torch.tensor(2.0).log().item(), spare="first")
    expected = torch.tensor([4 / 7, 3 / 7], dtype=torch.float64).expand(2, 2)
    torch.testing.assert_close(refined, expected)
    attention = attention_of()
    spared = torch.arange(LENGTH) < 3
    refined = refine(attention, "high", 2.0, spare=spared)
    odds = attention[:, :3] / attention[:, :1]
    torch.testing.assert_close(refined[:, :3] / refined[:, :1], odds)


@pytest.mark.parametrize("factor", ["high", "low", "uniform", "shuffled"])
@pytest.mark.parametrize("causal", [False, True])
def test_no_key_spared_changes_nothing_and_all_keys_spared_is_plain_attention(factor, causal):
    attention = attention_of(causal=causal)
    options = {"causal": causal, "steps": 1 if factor == "uniform" else 2}
    nothing, everything = torch.zeros(LENGTH).bool(), torch.ones(LENGTH).bool()
    refined = refine(attention, factor, 0.5, **options)
    assert torch.equal(refine(attention, factor, 0.5, spare=nothing, **options), refined)
    plain = refine(attention, factor, 0.5, spare=everything, **options)
    torch.testing.assert_close(plain, attention, rtol=1e-12, atol=1e-12)


def test_uniform_meets_the_entropy_of_spared_high():
    attention = attention_of(sharpness=0.5)
    # the sink alone gets its bias, so that the entropy grows
    spare = torch.arange(LENGTH) > 0
    high, uniform = (refine(attention, factor, 0.2, spare=spare) for factor in ("high", "uniform"))
    entropies = [torch.special.entr(refined).sum(-1).mean() for refined in (high, uniform)]
    torch.testing.assert_close(*entropies)
    unspared = refine(attention, "high", 0.2)
    assert (torch.special.entr(unspared).sum(-1).mean() - entropies[0]).abs() > 0.001


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(("causal", "spare"), [(False, "edges"), (False, 0.3), (True, "first")])
def test_gradients_under_sparing_equal_finite_differences(mask, causal, spare):
    real = MASKS[mask]
    scores = attention_of(real, causal=causal, sharpness=0.5).clamp(min=1e-300).log()
    strength = torch.tensor([0.3], dtype=torch.float64, requires_grad=True)

    def refined(scores, strength):
        return refine(
            scores.softmax(-1)[None], "high", strength, mask=real, causal=causal, spare=spare
        )

    assert torch.autograd.gradcheck(refined, (scores.requires_grad_(), strength))


def test_padding_and_later_tokens_never_change_what_is_spared():
    attention = attention_of(causal=True)
    refined = refine(attention, causal=True, spare="first")
    cut = attention[:5, :5]
    torch.testing.assert_close(refined[:5, :5], refine(cut, causal=True, spare="first"))
    real = MASKS["left"]
    padded = attention_of(real)
    for spare in ("first", "edges", 0.3):
        alone = refine(padded[real][:, real], spare=spare)
        refined = refine(padded, mask=real, spare=spare)[real][:, real]
        torch.testing.assert_close(refined, alone)


SQUARE = torch.full((2, 3, 4, 4), 0.25)
FOUR = torch.ones(4, dtype=torch.bool)
REFUSED = [
    ({"spare": "last"}, "spare must be"),
    ({"spare": 0.0}, "spare must be"),
    ({"spare": 1.1}, "spare must be"),
    ({"spare": float("nan")}, "spare must be"),
    ({"spare": True}, "spare must be"),
    ({"spare": [True] * 4}, "spare must be"),
    ({"spare": torch.ones(4)}, "spare must be"),
    ({"spare": torch.ones(5).bool()}, "spare must have shape"),
    ({"spare": torch.ones(1).bool()}, "spare must have shape"),
    ({"spare": FOUR.expand(3, 4)}, "spare must have shape"),
    ({"spare": FOUR.expand(2, 2, 4)}, "spare must have shape"),
    ({"spare": FOUR.expand(1, 2, 3, 4)}, "spare must have shape"),
    ({"spare": "first", "factor": "elemmul"}, "spare does not apply to factor 'elemmul'"),
    ({"spare": "first", "factor": "sinkhorn"}, "spare does not apply to factor 'sinkhorn'"),
    ({"spare": "edges", "causal": True}, "spare='edges' cannot be known in a causal model"),
    ({"spare": 0.3, "causal": True}, "spare=0.3 cannot be known in a causal model"),
]


def test_a_mask_of_another_length_is_refused_with_each_shape_that_fits_once():
    for attention, shapes in ((SQUARE[0, 0], "(4,)"), (SQUARE[0], "(4,) or (3, 4)")):
        with pytest.raises(ValueError) as refusal:
            refine(attention, spare=torch.ones(5).bool())
        assert str(refusal.value) == f"spare must have shape {shapes}; got (5,)"


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_a_way_of_sparing_that_cannot_be_followed_is_refused_in_one_line(options, message):
    attention = torch.eye(4).expand(2, 3, 4, 4) if options.get("causal") else SQUARE
    with pytest.raises(ValueError, match=f"^{message}") as refusal:
        refine(attention, **options)
    assert "\n" not in str(refusal.value)
