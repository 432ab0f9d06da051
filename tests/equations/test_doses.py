"""A dose is the strength of each message times the number of tokens that its sender may look at."""

import pytest
import torch
from reference import equation_11

import saobp
import saobp.fused.tiled.tiles
from saobp.equations.doses import Dose
from saobp.equations.refine import refine
from saobp.fused.attention import saobp_attention

LENGTH, AMOUNT = 7, 3.0
PLACES = torch.arange(LENGTH)
MASKS = {"none": None, "right": PLACES < 5, "left": PLACES >= 2, "holes": PLACES % 3 != 1}


def attention_of(mask, causal, lead=()):
    """Return random attention (..., L, L) whose padded keys, and future keys, have no mass."""
    visible = torch.ones(LENGTH, LENGTH, dtype=torch.bool)
    if causal:
        visible = visible.tril()
    if mask is not None:
        visible = visible & mask[..., None, :]
    scores = 2 * torch.randn(*lead, LENGTH, LENGTH, dtype=torch.float64)
    return scores.masked_fill(~visible, -1e30).softmax(-1)


def strengths_of(mask, causal):
    """Return the strength of each row's messages, by counting."""
    strengths = []
    for row in range(LENGTH):
        seen = range(row + 1) if causal else range(LENGTH)
        tokens = sum(1 for key in seen if mask is None or mask[key])
        strengths.append(AMOUNT / tokens if tokens else 0.0)
    return strengths


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("factor", ["high", "low"])
@pytest.mark.parametrize("exclude_self", [True, False])
@pytest.mark.parametrize("spare", [None, "first"])
def test_a_dose_is_divided_by_the_tokens_that_the_sender_of_a_message_may_look_at(
    mask, causal, factor, exclude_self, spare
):
    real = MASKS[mask]
    attention = attention_of(real, causal)
    options = {"mask": real, "causal": causal, "exclude_self": exclude_self, "spare": spare}
    strengths = strengths_of(real, causal)
    expected = equation_11(attention, strengths, low=factor == "low", **options)
    refined = refine(attention, factor, saobp.dose(AMOUNT), **options)
    rows = slice(None) if real is None else real
    torch.testing.assert_close(refined[rows], expected[rows], rtol=1e-12, atol=1e-14)


def test_without_causality_it_is_the_strength_over_the_real_tokens_of_each_sequence():
    mask = torch.stack([MASKS["right"], PLACES < 3])
    attention = attention_of(mask[:, None], False, lead=(2, 3))
    strength = torch.tensor([[AMOUNT / 5], [AMOUNT / 3]])
    by_hand = refine(attention, "high", strength, mask=mask)
    dosed = refine(attention, "high", saobp.dose(AMOUNT), mask=mask)
    torch.testing.assert_close(dosed, by_hand)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("spare", [None, "first"])
@pytest.mark.parametrize("tiles", [{}, {"WHOLE": 2, "TILE": 16, "LONG": 16, "QUERIES": 3}])
def test_the_fused_operation_gives_the_numbers_and_gradients_of_refine(
    mask, is_causal, spare, tiles, monkeypatch
):
    for name, size in tiles.items():
        monkeypatch.setattr(saobp.fused.tiled.tiles, name, size)
    real = None if MASKS[mask] is None else torch.stack([MASKS[mask], MASKS[mask].flip(0)])
    query, key, value = torch.randn(3, 2, 4, LENGTH, 5, dtype=torch.float64)
    inputs = [x.requires_grad_() for x in (3 * query, key, value)]
    options = {"mask": real, "spare": spare}
    fused = saobp_attention(*inputs, strength=saobp.dose(AMOUNT), is_causal=is_causal, **options)
    scores = inputs[0] @ inputs[1].mT / 5**0.5
    visible = torch.ones(2, 1, LENGTH, LENGTH).bool() if real is None else real[:, None, None]
    if is_causal:
        visible = visible.expand(2, 1, LENGTH, LENGTH).tril()
    blind = ~visible.any(-1, keepdim=True)
    attention = scores.masked_fill(~(visible | blind), -torch.inf).softmax(-1).masked_fill(blind, 0)
    refined = refine(attention, "high", saobp.dose(AMOUNT), causal=is_causal, **options)
    expected = refined @ inputs[2]
    torch.testing.assert_close(fused, expected)
    upstream = torch.randn_like(fused)
    gradients = (torch.autograd.grad(x, inputs, upstream) for x in (fused, expected))
    for gradient, exact in zip(*gradients):
        torch.testing.assert_close(gradient, exact)


def test_a_causal_row_depends_on_no_later_token():
    attention = attention_of(None, True)
    refined = refine(attention, strength=saobp.dose(AMOUNT), causal=True)
    cut = refine(attention[:4, :4], strength=saobp.dose(AMOUNT), causal=True)
    torch.testing.assert_close(refined[:4, :4], cut)


@pytest.mark.parametrize("amount", [0, -1.0, float("inf"), float("nan"), True, "2", None, [2.0]])
def test_a_dose_that_is_no_number_above_0_is_refused_in_one_line(amount):
    with pytest.raises(ValueError, match="^dose must be finite and above 0; got") as refusal:
        saobp.dose(amount)
    assert "\n" not in str(refusal.value)


def test_a_dose_says_what_it_is_and_refuses_a_sequence_without_a_token():
    assert repr(saobp.dose(2)) == "saobp.dose(2)" and saobp.dose(2) == Dose(2.0)
    attention = torch.full((2, 3, 3), 1 / 3)
    mask = torch.tensor([[True, True, True], [False, False, False]])
    with pytest.raises(ValueError, match="^mask must leave at least one real token"):
        refine(attention, strength=saobp.dose(2), mask=mask)
