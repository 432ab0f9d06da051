"""Refinement against loops written from the equations, cases worked by hand, and invariants."""

import itertools
import math
from decimal import Decimal, localcontext

import pytest
import torch
from beartype import beartype
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import jaxtyped
from reference import (
    algorithm_1,
    equation_11,
    equation_15,
    exact_marginals,
    loopy_belief_propagation,
)

from saobp.equations.checks import WITHOUT_MESSAGES, first_line
from saobp.equations.factors import OWN
from saobp.equations.messages import log_messages, prefix_key_bias
from saobp.equations.refine import FACTORS, _refined, refine

REFINING = [factor for factor in FACTORS if factor != "none"]
many = settings(max_examples=40, deadline=None)
checked = jaxtyped(typechecker=beartype)(refine)


def scores(length, sharpness=2.0, seed=0, lead=(), dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return sharpness * torch.randn(
        *lead, length, length, generator=generator, dtype=torch.float64
    ).to(dtype)


def softmax(values, mask=None, causal=False):
    """Attention as a transformer makes it: padded keys and future keys at -inf, padded queries left
    alone.
    """
    if causal:
        values = values.masked_fill(
            ~torch.ones(values.shape[-2:], dtype=torch.bool).tril(), -torch.inf
        )
    if mask is not None:
        values = values.masked_fill(~mask, -torch.inf)
    return values.softmax(-1)


def first_keys(length, real):
    return torch.arange(length) < real


seeds = st.integers(0, 10**6)
matrices = st.builds(scores, st.integers(1, 9), st.sampled_from([0.1, 1.0, 4.0, 30.0]), seeds)
strengths = st.sampled_from([0.0, 0.05, 0.2, 1.0, 5.0])


@pytest.mark.parametrize("factor", FACTORS)
def test_strength_zero_and_factor_none_are_plain_attention_exactly(factor):
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        attention = softmax(scores(8, lead=(2, 3))).to(dtype)
        for strength in (
            0,
            0.0,
            torch.tensor(0.0),
            torch.zeros(3),
            *([0.7] if factor == "none" else []),
        ):
            assert torch.equal(refine(attention, factor, strength), attention)


@given(
    matrices, strengths, st.booleans(), st.booleans(), st.booleans(), st.sampled_from([1.0, 0.6])
)
@many
def test_high_and_low_are_equation_11_and_elemmul_equation_15_among_the_real_rows(
    values, strength, low, exclude_self, causal, share
):
    # all, or the first and some others
    mask = 7 * torch.arange(len(values)) % 10 < 10 * share
    attention, among = softmax(values, mask, causal), {"causal": causal, "mask": mask}
    options = {"exclude_self": exclude_self, **among}
    expected = equation_11(attention, strength, low=low, **options)
    refined = refine(attention, "low" if low else "high", strength, **options)
    torch.testing.assert_close(refined[mask], expected[mask], rtol=1e-9, atol=1e-12)
    refined = refine(attention, "elemmul", **among)
    torch.testing.assert_close(refined[mask], equation_15(attention, **among)[mask])


def test_algorithm_1_as_intended_is_equation_11_without_the_self_message_and_each_literal_reading_another_method():
    attention = softmax(scores(7))
    intended = algorithm_1(attention, 0.5)
    torch.testing.assert_close(refine(attention, "high", 0.5), intended)
    for reading in ("own row", "last row", "product of rows"):
        assert (algorithm_1(attention, 0.5, reading) - intended).abs().max() > 0.02, reading
    sink = torch.full((32, 32), 0.5 / 31, dtype=torch.float64).index_fill(1, torch.tensor(0), 0.5)
    # of which one has the opposite sign
    assert refine(sink, "high", 0.2)[:, 0].max() < 0.1
    assert algorithm_1(sink, 0.2, "product of rows")[:, 0].min() > 0.9


def test_one_step_is_the_first_round_of_loopy_belief_propagation_and_exact_for_two_tokens_which_are_a_tree():
    for factor in ("high", "low"):
        expected = loopy_belief_propagation(softmax(scores(5)), 0.7, 1, low=factor == "low")
        torch.testing.assert_close(refine(softmax(scores(5)), factor, 0.7), expected)
    torch.testing.assert_close(
        refine(softmax(scores(2)), "high", 0.9), exact_marginals(softmax(scores(2)), 0.9)
    )
    # by hand, at strength ln 2, so c = 1/2:
    attention = torch.tensor([[0.5, 0.5], [1.0, 0.0]], dtype=torch.float64)
    # row 1 says (1/2, 1), row 0 (3/4, 3/4)
    expected = torch.tensor([[1 / 3, 2 / 3], [1.0, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(refine(attention, "high", math.log(2)), expected)


@pytest.mark.parametrize("factor", REFINING)
def test_uniform_attention_and_a_permutation_are_fixed_points_unless_the_factor_drops_the_prior(
    factor,
):
    uniform, identity = (
        torch.full((6, 6), 1 / 6, dtype=torch.float64),
        torch.eye(6, dtype=torch.float64),
    )
    torch.testing.assert_close(refine(uniform, factor, 0.5), uniform)
    fixed = identity if factor == "elemmul" else identity.roll(1, 0)
    torch.testing.assert_close(refine(identity.roll(1, 0), factor, 0.5), fixed)


def test_rounds_keep_the_prior_and_damping_is_the_share_of_the_old_belief():
    attention, c = softmax(scores(6)), 1 - math.exp(-0.4)
    for damping in (0.0, 0.25):
        current = attention
        for _ in range(3):
            said = torch.log(1 - c * current)
            updated = (attention.log() + said.sum(0) - said).softmax(-1)
            current = damping * current + (1 - damping) * updated
        torch.testing.assert_close(
            refine(attention, "high", 0.4, steps=3, damping=damping), current
        )


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("steps", [1, 3])
def test_shuffling_the_columns_changes_nothing_so_no_path_enters(causal, steps):
    attention = softmax(scores(9, lead=(2, 3)), causal=causal)
    for seed, exclude_self in itertools.product((0, 1), (False, True)):
        options = {"causal": causal, "exclude_self": exclude_self, "steps": steps}
        shuffled = refine(attention, "shuffled", 0.5, seed=seed, **options)
        torch.testing.assert_close(shuffled, refine(attention, "high", 0.5, **options))


@pytest.mark.parametrize("causal", [False, True])
def test_sinkhorn_divides_by_the_column_sums_and_normalises(causal):
    attention = softmax(scores(6), causal=causal)
    expected = torch.zeros_like(attention)
    for j, k in itertools.product(range(6), repeat=2):
        column = sum(attention[i, k] for i in range(j + 1 if causal else 6))
        expected[j, k] = attention[j, k] / column if column > 0 else 0
    expected = expected / expected.sum(1, keepdim=True)
    torch.testing.assert_close(refine(attention, "sinkhorn", causal=causal), expected)


@pytest.mark.parametrize("causal", [False, True])
def test_uniform_meets_the_entropy_of_high_or_stays_where_it_cannot(causal):
    values = scores(12, lead=(4,))
    # a sink, so that High has entropy to gain
    values[..., 0] += 4
    attention = softmax(values, causal=causal)
    high, mixed = (refine(attention, factor, 0.3, causal=causal) for factor in ("high", "uniform"))
    over = -1 if causal else (-2, -1)
    plain, high, reached = (torch.special.entr(maps).sum(over) for maps in (attention, high, mixed))
    torch.testing.assert_close(reached, torch.maximum(plain, high))
    assert (high > plain).any()


@given(matrices, st.sampled_from(FACTORS), strengths, st.randoms(use_true_random=False))
@many
def test_renaming_the_tokens_renames_the_refined_ones(values, factor, strength, random):
    order = list(range(values.shape[-1]))
    random.shuffle(order)
    attention = softmax(values)
    renamed = refine(attention[order][:, order], factor, strength)
    torch.testing.assert_close(renamed, refine(attention, factor, strength)[order][:, order])


@given(
    matrices, st.sampled_from(FACTORS), strengths, st.booleans(), st.integers(1, 5), st.booleans()
)
@many
def test_padding_never_changes_real_tokens_whose_rows_are_distributions_over_what_they_may_see(
    values, factor, strength, causal, padded, left
):
    length = values.shape[-1]
    offset = padded if left else 0
    wide = scores(length + padded, 5.0, seed=1)
    real = slice(offset, offset + length)
    wide[real, real] = values
    mask = torch.zeros(length + padded, dtype=torch.bool)
    mask[real] = True
    attention = wide.masked_fill(~mask, -torch.inf)
    if causal:
        attention = attention.masked_fill(
            ~torch.ones_like(attention, dtype=torch.bool).tril(), -torch.inf
        )
    # a padded query looks where it likes
    attention = torch.where(mask[:, None], attention, wide).softmax(-1)
    alone = refine(softmax(values, causal=causal), factor, strength, causal=causal)
    for lead in ((2, 3), (2,), ()):
        many_of_it = attention.expand(*lead, *attention.shape)
        refined = checked(many_of_it, factor, strength, mask=mask, causal=causal)
        assert refined.shape == many_of_it.shape
    torch.testing.assert_close(refined[real, real], alone)
    assert (refined >= 0).all() and (refined[:, ~mask] == 0).all()
    torch.testing.assert_close(refined.sum(-1)[mask], torch.ones(length, dtype=torch.float64))
    assert not causal or (refined.triu(1)[mask] == 0).all()


@given(matrices, st.sampled_from(FACTORS), strengths, st.integers(1, 3), st.booleans(), st.data())
@many
def test_future_tokens_never_change_earlier_outputs(
    values, factor, strength, steps, exclude_self, data
):
    length = values.shape[-1]
    present = data.draw(st.integers(0, length - 1), label="present")
    other = values.clone()
    other[present:] = scores(length, 9.0, seed=3)[present:]
    options = {"causal": True, "exclude_self": exclude_self}
    options["steps"] = 1 if factor in WITHOUT_MESSAGES else steps
    before = refine(softmax(values, causal=True), factor, strength, **options)
    after = refine(softmax(other, causal=True), factor, strength, **options)
    assert torch.equal(before[:present], after[:present])


@pytest.mark.parametrize(
    "options", [{"factor": "none"}, {"strength": 0.0}, {"strength": torch.tensor(0.0)}, {}]
)
def test_the_row_of_a_padded_query_is_given_back_defined_and_without_padded_keys(options):
    mask = first_keys(5, 3)
    attention = softmax(scores(5), mask)
    attention[3] = torch.nan
    attention[4] = 0.2
    refined = refine(attention, mask=mask, **options)
    assert torch.equal(refined[3], torch.zeros(5, dtype=torch.float64))
    torch.testing.assert_close(refined[4], torch.tensor([0.2, 0.2, 0.2, 0, 0], dtype=torch.float64))
    torch.testing.assert_close(refined[mask][:, mask], refine(attention[mask][:, mask], **options))


def test_no_row_hears_itself_even_in_rounding():
    messages = log_messages(softmax(scores(9), causal=True), 0.4)
    louder = messages.clone()
    louder[4] *= 1e6
    assert torch.equal(prefix_key_bias(messages)[:5], prefix_key_bias(louder)[:5])


@pytest.mark.parametrize(
    ("factor", "causal", "sharpness", "sink"),
    [
        *(
            (factor, False, *shape)
            for factor in ("high", "low")
            for shape in ((2.0, 0.0), (2.0, 6.0), (60.0, 0.0))
        ),
        ("high", True, 60.0, 0.0),
        ("low", True, 2.0, 6.0),
        ("sinkhorn", True, 60.0, 0.0),
        ("sinkhorn", False, 2.0, 6.0),
        ("elemmul", False, 2.0, 0.0),
        ("uniform", False, 2.0, 6.0),
        ("shuffled", False, 60.0, 0.0),
    ],
)
def test_float32_agrees_with_float64_at_a_thousand_tokens(factor, causal, sharpness, sink):
    values = scores(1024, sharpness)
    values[:, 0] += sink
    attention = softmax(values, causal=causal)
    double = refine(attention, factor, 1.0, causal=causal)
    single = refine(attention.float(), factor, 1.0, causal=causal)
    assert single.dtype == torch.float32
    # total mass misplaced in a row
    assert (single - double).abs().sum(-1).max() < 2e-3
    torch.testing.assert_close(single.double(), double, rtol=2e-3, atol=1e-6)


@given(
    st.integers(1, 6),
    st.sampled_from(REFINING),
    st.sampled_from([0.2, 20.0, 90.0, 1e3]),
    st.booleans(),
    seeds,
)
@many
def test_one_hot_and_forbidden_entries_survive_with_finite_gradients(
    length, factor, strength, causal, seed
):
    # sharp enough for exact zeros and ones
    values = scores(length, 200.0, seed, dtype=torch.float32)
    values[scores(length, seed=seed + 1) > 1] = -torch.inf
    values.diagonal().clamp_(min=0)
    values.requires_grad_()
    lam = torch.tensor(strength, requires_grad=True)
    attention = softmax(values, causal=causal)
    refined = refine(attention, factor, lam, causal=causal)
    (refined * scores(length, seed=2, dtype=torch.float32)).sum().backward()
    assert refined.isfinite().all()
    assert values.grad.isfinite().all()
    assert lam.grad is None or lam.grad.isfinite()


@pytest.mark.parametrize("factor", REFINING)
def test_every_row_on_one_key_survives_any_strength(factor):
    for strength in (0.2, 20.0, 90.0, 1e3):
        attention = torch.eye(64)[3].repeat(64, 1).requires_grad_()
        refined = refine(attention, factor, strength)
        refined[:, 3].sum().backward()
        assert refined.isfinite().all() and attention.grad.isfinite().all()


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("factor", [factor for factor in REFINING if factor != "uniform"])
def test_gradients_equal_finite_differences(factor, causal, padded):
    mask = first_keys(4, 3) if padded else None
    rounds = {} if factor in WITHOUT_MESSAGES else {"steps": 2, "damping": 0.3}
    values = scores(4, 1.0, lead=(2,)).requires_grad_()
    strength = torch.tensor([0.4, 1.1], dtype=torch.float64, requires_grad=True)

    def function(values, strength):
        attention = softmax(values, mask, causal)
        return refine(attention, factor, strength, mask=mask, causal=causal, **rounds)

    assert torch.autograd.gradcheck(function, (values, strength))


@pytest.mark.parametrize("factor", [*FACTORS, "own"])
def test_at_strength_zero_the_gradient_is_that_of_what_is_returned(factor, monkeypatch):
    monkeypatch.setitem(
        OWN, "own", lambda prior, strength, visible: prior.square() / prior.square().sum(-1, True)
    )
    attention, weights = softmax(scores(5)).requires_grad_(), scores(5, seed=1)
    for strength in (0.0, torch.zeros((), dtype=torch.float64)):
        (found,) = torch.autograd.grad(
            (refine(attention, factor, strength) * weights).sum(), attention
        )
        # as rows keep their sum
        along = [side - side.mean(-1, keepdim=True) for side in (found, weights)]
        torch.testing.assert_close(*along)


def test_the_gradient_reaches_a_strength_of_zero():
    attention = softmax(scores(6, lead=(2,)))
    strength = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    refine(attention, "high", strength)[..., 0].sum().backward()
    assert (strength.grad != 0).all()


@pytest.mark.parametrize(("dtype", "error"), [(torch.float64, 1e-12), (torch.float32, 3e-7)])
@pytest.mark.parametrize("strength", [-40, -1, -0.05, 0.05, 1, 2, 5, 8, 40])
def test_a_message_keeps_its_digits_at_every_strength_also_from_nearly_all_mass(
    strength, dtype, error
):
    for mass in torch.tensor([0, 1e-9, 1e-3, 0.4, 0.5, 0.9, 0.999, 1 - 1e-9, 1], dtype=dtype):
        with localcontext(prec=60):
            exact = (
                1 - Decimal(mass.item()) + Decimal(mass.item()) * Decimal(-strength).exp()
            ).ln()
        assert log_messages(mass, strength).item() == pytest.approx(float(exact), rel=error, abs=0)
    # a mass rounded above one says what one says
    above = torch.nextafter(torch.tensor(1.0), torch.tensor(2.0))
    assert log_messages(above, 40.0).item() == pytest.approx(-40)


@pytest.mark.parametrize("factor", FACTORS)
def test_half_precision_comes_back_in_kind_and_autocast_changes_nothing_for_it_is_worked_out_in_single(
    factor,
):
    generator = torch.Generator().manual_seed(0)
    places = torch.randint(16, (16, 32), generator=generator)
    # in either half precision too
    exact = torch.nn.functional.one_hot(places, 16).sum(1) / 32
    refined = refine(exact, factor, 0.2)
    for dtype in (torch.bfloat16, torch.float16):
        torch.testing.assert_close(refine(exact.to(dtype), factor, 0.2), refined.to(dtype))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(refine(exact, factor, 0.2), refined)


SQUARE = torch.full((2, 3, 4, 4), 0.25)
CAUSAL = softmax(scores(4, lead=(2, 3), dtype=torch.float32), causal=True)
REFUSED = {
    "attention": [
        [[1.0]],
        torch.eye(3, dtype=torch.long),
        torch.ones(1),
        torch.full((2, 3), 1 / 3),
        torch.zeros(0, 0),
        SQUARE * 0.9,
        torch.randn(3, 3),
        torch.tensor([[1.5, -0.5], [0.5, 0.5]]),
        torch.eye(3).to(torch.float8_e4m3fn),
        SQUARE[:0],
    ],
    "factor": ["medium", 3],
    "strength": [
        -0.1,
        float("inf"),
        float("nan"),
        "0.2",
        True,
        torch.ones(3, dtype=torch.long),
        torch.ones(4),
        torch.ones(1, 2, 3),
        torch.tensor([0.1, -0.1, 0.1]),
        torch.ones(1, device="meta"),
        torch.ones(3).to_sparse(),
        torch.ones(3).to(torch.float8_e4m3fn),
    ],
    "mask": [
        torch.ones(4),
        [True] * 4,
        first_keys(5, 5),
        first_keys(4, 4).expand(3, 4),
        first_keys(4, 0),
    ],
    "causal": [1, torch.eye(9)],
    "exclude_self": ["no"],
    "steps": [0, 1.5, torch.eye(9)],
    "damping": [1.0, -0.1, torch.eye(9)],
}
OTHERS = [
    # mass on padding
    (SQUARE, {"mask": first_keys(4, 3)}, "attention"),
    (SQUARE, {"causal": True}, "attention.*future"),
    # a batch for one matrix
    (SQUARE[0, 0], {"mask": first_keys(4, 4).expand(1, 4)}, "mask"),
    # of a factor without messages
    (SQUARE, {"factor": "elemmul", "steps": 2}, "steps"),
    (SQUARE, {"factor": "sinkhorn", "damping": 0.5}, "damping"),
    *((SQUARE, {"factor": "shuffled", "seed": seed}, "seed") for seed in (None, 2**70)),
    (torch.full((4, 4), 0.251), {}, "attention.*sum to 1"),
    (torch.full((4, 4), 0.27).bfloat16(), {}, "attention.*sum to 1"),
    (torch.full((4, 4), 0.25), {"steps": True}, "steps"),
    (
        torch.full((4, 4), 0.25),
        {"mask": torch.ones(4, 4, dtype=torch.bool)},
        "mask must have shape",
    ),
]
CASES = [(value, {}, "attention") for value in REFUSED.pop("attention")] + OTHERS
CASES += [
    (CAUSAL if name == "causal" else SQUARE, {name: value}, name)
    for name in REFUSED
    for value in REFUSED[name]
]


@pytest.mark.parametrize(("attention", "options", "name"), CASES)
def test_a_wrong_argument_is_refused_in_one_line_that_names_it(attention, options, name):
    with pytest.raises(ValueError, match=f"^{name}") as refusal:
        refine(attention, **options)
    assert "\n" not in str(refusal.value)


def test_an_error_is_quoted_by_its_first_line_and_one_that_says_nothing_by_its_name():
    assert [first_line(error) for error in (ValueError("\n a \nb"), KeyError())] == [
        "a",
        "KeyError",
    ]


@pytest.mark.parametrize("factor", ["hihg", "none"])
def test_a_factor_that_sends_no_messages_is_never_taken_for_high(factor):
    uniform = torch.full((3, 3), 1 / 3)
    with pytest.raises(ValueError, match=f"factor '{factor}' sends no messages"):
        _refined(
            uniform,
            factor,
            torch.tensor(0.2),
            torch.ones(3, 3, dtype=torch.bool),
            False,
            True,
            0,
            {},
        )
