"""saobp.measure.gtd_and_entropy against slow loops from the equations, closed forms, invariants."""

import math
import operator
from functools import partial

import pytest
import torch
from beartype import beartype
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import jaxtyped

from saobp.measure import gtd_and_entropy as d

# s: the row sum of G at beta = 0.9, K = 4
PATHS = 0.9 + 0.9**2 + 0.9**3
IDEMPOTENT = PATHS**2 / (1 + PATHS**2)
MATRIX_DIAGNOSTICS = [
    d.attention_entropy,
    d.gtd,
    d.indirect_entropy,
    d.sparsity,
    d.hoyer,
    d.column_mass_maximum,
    d.idempotence_gap,
    d.effective_rank,
]


def rows(*shape, seed=0, scale=2.0, dtype=torch.float64):
    """Row-stochastic matrices from Gaussian scores."""
    generator = torch.Generator().manual_seed(seed)
    return (scale * torch.randn(*shape, generator=generator, dtype=dtype)).softmax(-1)


def padded(attention, total, fill=math.nan):
    """Put the matrix into the middle of a larger one full of `fill`; return it with its mask."""
    size = attention.shape[-1]
    start = (total - size) // 2
    frame = torch.full((*attention.shape[:-2], total, total), fill, dtype=attention.dtype)
    frame[..., start : start + size, start : start + size] = attention
    mask = torch.zeros(total, dtype=torch.bool)
    mask[start : start + size] = True
    return frame, mask


def loop_indirect(attention, beta, hops):
    """Eq. 12, entry by entry: extend every path by one token at a time."""
    power, total = attention.tolist(), [[0.0] * len(attention) for _ in attention]
    for t in range(2, hops + 1):
        power = [
            [sum(map(operator.mul, row, column)) for column in zip(*attention.tolist())]
            for row in power
        ]
        total = [[g + beta ** (t - 1) * p for g, p in zip(*rows)] for rows in zip(total, power)]
    return total


def loop_row_entropy(row):
    """Eq. 2 for one row."""
    return -sum(p * math.log(p) for p in map(float, row) if p > 0)


@pytest.mark.parametrize("hops", [2, 3, 4, 5, 6, 7])
@pytest.mark.parametrize("beta", [0.5, 0.9])
def test_gtd_and_its_paths_equal_the_loop_for_any_number_of_hops(beta, hops):
    attention = rows(6, 6)
    expected = loop_indirect(attention, beta, hops)
    torch.testing.assert_close(
        d.indirect_attention(attention, beta, hops), torch.tensor(expected, dtype=torch.float64)
    )
    # Eq. 13
    direct, indirect = (
        sum(a * a for row in paths for a in row) for paths in (attention.tolist(), expected)
    )
    assert d.gtd(attention, beta, hops).item() == pytest.approx(
        indirect / (direct + indirect), abs=1e-12
    )


def test_entropies_and_hoyer_are_the_means_of_the_rows_loops():
    attention = rows(7, 7)
    norms = [sum(a * a for a in row) ** 0.5 for row in attention.tolist()]
    per_row = [(7**0.5 - 1 / norm) / (7**0.5 - 1) for norm in norms]
    assert d.hoyer(attention).item() == pytest.approx(sum(per_row) / 7)
    expected = [loop_row_entropy(row) for row in attention]
    assert d.row_entropy(attention).tolist() == pytest.approx(expected)
    assert d.attention_entropy(attention).item() == pytest.approx(sum(expected) / 7)
    paths = [[g / sum(row) for g in row] for row in loop_indirect(attention, 0.9, 4)]
    assert d.indirect_entropy(attention).item() == pytest.approx(
        sum(map(loop_row_entropy, paths)) / 7, abs=1e-12
    )


def test_sparsity_counts_entries_below_the_threshold():
    attention = torch.tensor([[0.6, 0.4, 0.0], [0.3, 0.3, 0.4], [0.005, 0.0, 0.995]])
    # below 1/3: 0, .3, .3, .005, 0
    assert d.sparsity(attention).item() == pytest.approx(5 / 9)
    assert d.sparsity(attention, threshold=0.01).item() == pytest.approx(3 / 9)


def test_every_idempotent_matrix_has_the_same_gtd_a_shift_two_thirds_and_a_two_hop_funnel_nearly_one():
    uniform = torch.full((128, 128), 1 / 128, dtype=torch.float64)
    identity = torch.eye(128, dtype=torch.float64)
    sink = identity[3].expand(128, 128)
    blocks = torch.block_diag(*[torch.full((16, 16), 1 / 16, dtype=torch.float64)] * 8)
    for attention in (uniform, identity, sink, (sink + uniform) / 2, blocks):
        assert d.idempotence_gap(attention).item() == pytest.approx(0, abs=1e-12)
        assert d.gtd(attention).item() == pytest.approx(IDEMPOTENT, abs=1e-9)
    assert round(IDEMPOTENT, 4) == 0.8561
    powers = 0.9**2 + 0.9**4 + 0.9**6
    assert d.gtd(torch.eye(128).roll(1, 0)).item() == pytest.approx(powers / (1 + powers), abs=1e-6)
    assert round(powers / (1 + powers), 4) == 0.6664
    funnel = torch.zeros(128, 128)
    funnel[12:, 1:12] = 1 / 11
    funnel[:12, 0] = 1
    assert round(d.gtd(funnel).item(), 3) == 0.971


def test_entropy_sparsity_and_mass_at_their_limits_and_of_a_single_token():
    uniform, identity = torch.full((16, 16), 1 / 16), torch.eye(16)
    for diagnostic, of_uniform, of_identity in (
        (d.attention_entropy, math.log(16), 0),
        (d.sparsity, 0, 1 - 1 / 16),
        (d.hoyer, 0, 1),
        (d.effective_rank, 1, 16),
        (d.column_mass_maximum, 1, 1),
    ):
        found = [diagnostic(attention).item() for attention in (uniform, identity)]
        assert found == pytest.approx([of_uniform, of_identity], rel=1e-5, abs=1e-6), (
            diagnostic.__name__
        )
    assert d.attention_entropy(identity).item() == pytest.approx(0, abs=1e-12)
    # uniform attention is not called sparse because of rounding
    for size in (3, 7, 16, 49, 127):
        attention = torch.rand(size, 1).expand(size, size).softmax(-1) * (1 - 1e-6)
        assert d.sparsity(attention).item() == 0
    one = torch.ones(1, 1)
    assert d.hoyer(one).isnan() and d.attention_entropy(one).item() == d.sparsity(one).item() == 0
    assert d.gtd(one).item() == pytest.approx(IDEMPOTENT, abs=1e-6)


def test_measure_agrees_with_the_single_functions_and_all_keep_to_their_signatures_also_for_one_matrix():
    checked = jaxtyped(typechecker=beartype)
    attention = rows(2, 3, 9, 9)
    mask = torch.tensor([[True] * 9, [True] * 5 + [False] * 4])
    attention[1] = attention[1].masked_fill(~mask[1], 0)
    attention[1] /= attention[1].sum(-1, keepdim=True)
    single = {diagnostic.__name__: checked(diagnostic) for diagnostic in MATRIX_DIAGNOSTICS}
    single |= {
        name: partial(single[name], beta=0.8, hops=5) for name in ("gtd", "indirect_entropy")
    }
    single |= {
        "sparsity_fixed": partial(single["sparsity"], threshold=0.01),
        "entropy": single["attention_entropy"],
        "sink_rate": checked(d.sink_rate),
        "rank_one_distance": checked(d.rank_one_distance),
    }
    for maps, real in ((attention, mask), (attention[1, 2], mask[1])):
        expected = {name: diagnostic(maps, mask=real) for name, diagnostic in single.items()}
        for name, values in checked(d.measure)(maps, 0.8, 5, mask=real).items():
            torch.testing.assert_close(values, expected[name])
        assert checked(d.indirect_attention)(maps, mask=real).shape == maps.shape
        assert checked(d.row_entropy)(maps, mask=real).shape == maps.shape[:-1]


@pytest.mark.parametrize("diagnostic", [*MATRIX_DIAGNOSTICS, partial(d.sparsity, threshold=0.05)])
@pytest.mark.parametrize("fill", [0.0, 0.7, math.nan])
def test_padding_is_cut_exactly(diagnostic, fill):
    attention = rows(2, 3, 7, 7)
    frame, mask = padded(attention, 12, fill)
    torch.testing.assert_close(
        diagnostic(frame, mask=mask), diagnostic(attention), rtol=1e-12, atol=1e-12
    )


def test_only_padded_queries_and_matrices_of_nan_or_without_real_tokens_are_undefined():
    frame, mask = padded(rows(2, 5, 5), 8)
    found = d.row_entropy(frame, mask=mask)
    assert found.isnan().equal((~mask).expand(2, 8))
    torch.testing.assert_close(found[:, mask], d.row_entropy(rows(2, 5, 5)))
    attention = rows(3, 6, 6)
    # which stops no other matrix
    attention[0, 0, 0] = math.nan
    mask = torch.tensor([[True] * 6, [True] * 6, [False] * 6])
    for diagnostic in MATRIX_DIAGNOSTICS:
        assert diagnostic(attention, mask=mask).isnan().tolist() == [True, False, True], (
            diagnostic.__name__
        )


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 9),
    st.integers(2, 7),
    st.floats(0.1, 1.0),
    st.integers(0, 99),
    st.floats(0.0, 30.0),
)
def test_gtd_stays_within_its_bounds_and_path_rows_sum_to_s(size, hops, beta, seed, scale):
    attention = rows(size, size, seed=seed, scale=scale)
    total = sum(beta**t for t in range(1, hops))
    value = d.gtd(attention, beta, hops).item()
    assert total**2 / (size + total**2) - 1e-9 <= value < 1
    sums = d.indirect_attention(attention, beta, hops).sum(-1)
    torch.testing.assert_close(sums, torch.full_like(sums, total))
    assert -1e-9 <= d.indirect_entropy(attention, beta, hops).item() <= math.log(size) + 1e-9


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 9), st.integers(0, 99))
def test_renaming_the_tokens_changes_no_diagnostic(size, seed):
    attention = rows(size, size, seed=seed)
    order = torch.randperm(size, generator=torch.Generator().manual_seed(seed))
    for diagnostic in MATRIX_DIAGNOSTICS:
        torch.testing.assert_close(diagnostic(attention[order][:, order]), diagnostic(attention))


@pytest.mark.parametrize("diagnostic", [d.attention_entropy, d.gtd, d.indirect_entropy])
def test_gradients_are_those_of_the_definitions_and_finite_where_the_softmax_is_exactly_zero(
    diagnostic,
):
    assert torch.autograd.gradcheck(
        lambda s: diagnostic(s.softmax(-1)), rows(5, 5).log().requires_grad_()
    )
    scores = torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(1)).requires_grad_()
    causal = torch.ones(6, 6, dtype=torch.bool).triu(1)
    attention = scores.masked_fill(causal, -torch.inf).softmax(-1)
    diagnostic(attention).sum().backward()
    assert scores.grad.isfinite().all() and scores.grad.abs().max() > 0


def test_cross_layer_paths_run_from_the_upper_layer_down_without_padding():
    # equal layers have the GTD of their matrix
    attention = rows(2, 1, 6, 6)
    torch.testing.assert_close(d.cross_layer_gtd([attention] * 5), d.gtd(attention).expand(2, 2))
    low, high = rows(3, 5, 5, seed=1), rows(3, 5, 5, seed=2)
    first, product = low.mean(0), high.mean(0) @ low.mean(0)
    expected = (0.9 * product).square().sum() / (
        first.square().sum() + (0.9 * product).square().sum()
    )
    torch.testing.assert_close(d.cross_layer_gtd([low, high], hops=2), expected.reshape(1))
    layers = [rows(2, 5, 5, seed=seed) for seed in range(4)]
    frames, masks = zip(*(padded(layer, 9) for layer in layers))
    torch.testing.assert_close(d.cross_layer_gtd(frames, mask=masks[0]), d.cross_layer_gtd(layers))


@pytest.mark.parametrize(
    ("argument", "call"),
    [
        ("attention", lambda a: d.gtd(a[:2])),
        ("attention", lambda a: d.gtd(a[0])),
        ("attention", lambda a: d.attention_entropy(3 * a)),
        ("attention", lambda a: d.attention_entropy(a.log())),
        ("attention", lambda a: d.gtd(a.round().long())),
        ("mask", lambda a: d.gtd(a, mask=torch.ones(4))),
        ("mask", lambda a: d.gtd(a, mask=torch.ones(3, dtype=torch.bool))),
        ("mask", lambda a: d.gtd(a.expand(2, 4, 4), mask=torch.ones(3, 4, dtype=torch.bool))),
        ("mask", lambda a: d.gtd(a, mask=torch.ones(1, 4, dtype=torch.bool))),
        ("beta", lambda a: d.gtd(a, beta=0.0)),
        ("beta", lambda a: d.gtd(a, beta=math.nan)),
        ("hops", lambda a: d.gtd(a, hops=1)),
        ("hops", lambda a: d.indirect_entropy(a, hops=2.5)),
        ("threshold", lambda a: d.sparsity(a, threshold=0.0)),
        ("beta", lambda a: d.gtd(a, beta=True)),
        ("threshold", lambda a: d.sparsity(a, threshold="a")),
        ("attention", lambda a: d.gtd(a.to("meta"))),
        ("attention", lambda a: d.gtd(a.to_sparse())),
        ("layers: 3 are fewer", lambda a: d.cross_layer_gtd([a.expand(2, 4, 4)] * 3)),
        ("layers must be", lambda a: d.cross_layer_gtd(iter([a] * 4))),
        ("layers must be", lambda a: d.cross_layer_gtd([a[None]] * 3 + [a[None, :3, :3]])),
        # NaN lets no other matrix pass
        ("attention", lambda a: d.gtd(torch.stack([torch.nan * a, 5 * a]))),
        # of a batch, not of layers
        ("mask", lambda a: d.gtd(a.expand(2, 2, 3, 4, 4), mask=torch.ones(2, 4).bool())),
    ],
)
def test_a_wrong_argument_is_named(argument, call):
    with pytest.raises(ValueError, match=f"^{argument}"):
        call(rows(4, 4))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("length", [3, 7, 13, 48, 100, 257])
def test_bounds_hold_in_half_precision(dtype, length):
    uniform = torch.full((length, length), 1 / length).to(dtype)
    assert d.sparsity(uniform) == d.measure(uniform)["sparsity"] == 0
    exact, slack = rows(length, length, dtype=torch.float32), 2e-5
    for random in (uniform, exact.to(dtype)):
        found = d.measure(random)
        # what is measured in is single precision
        assert found["gtd"].dtype == torch.float32
        assert max(found["entropy"], found["indirect_entropy"]) <= math.log(length) * (1 + slack)
        assert d.row_entropy(random).max() <= math.log(length) * (1 + slack)
        assert 1 - slack <= found["column_mass_maximum"] <= length
        assert -slack <= found["hoyer"] <= 1 and 0 <= found["sparsity"] <= 1 - 1 / length + slack
        paths = d.indirect_attention(random).sum(-1)
        torch.testing.assert_close(
            paths, torch.full_like(paths, 0.9 + 0.81 + 0.729), atol=1e-4, rtol=0
        )
    torch.testing.assert_close(found["gtd"], d.gtd(exact), rtol=0.02, atol=0.0)


def test_autocast_narrows_nothing():
    attention = torch.full((2, 70, 70), 1 / 70)
    layers = [attention[None]] * 4
    plain = [d.gtd(attention), d.indirect_entropy(attention), d.cross_layer_gtd(layers)]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        narrowed = [d.gtd(attention), d.indirect_entropy(attention), d.cross_layer_gtd(layers)]
    assert all(torch.equal(one, two) for one, two in zip(plain, narrowed))


@pytest.mark.parametrize("function", [d.gtd, d.indirect_entropy, d.attention_entropy, d.sparsity])
def test_where_values_cannot_be_looked_at_the_numbers_are_the_same(function):
    maps = torch.rand(3, 2, 5, 5, generator=torch.Generator().manual_seed(0)).softmax(-1)
    assert torch.allclose(torch.func.vmap(function)(maps), function(maps))
    assert torch.allclose(
        torch.compile(function, backend="eager", fullgraph=True)(maps), function(maps)
    )


def test_sink_rate_and_distance_to_rank_one_of_matrices_by_hand():
    uniform, identity = torch.full((4, 4), 0.25), torch.eye(4)
    sink = identity[0].expand(4, 4)
    causal = torch.tensor([[1.0, 0, 0], [0.5, 0.5, 0], [0.4, 0.4, 0.2]])
    for attention, rate in ((uniform, 0), (identity, 0), (sink, 0.25)):
        assert d.sink_rate(attention) == rate
    # received: 1.9 of 3 queries, 0.9 of 2, 0.2 of 1
    assert d.sink_rate(causal).item() == pytest.approx(2 / 3)
    assert d.rank_one_distance(uniform) == 0
    assert d.rank_one_distance(sink) == 0
    # rows are sqrt(3/4) from their mean
    distance = d.rank_one_distance(identity).item()
    assert distance == pytest.approx(0.75**0.5)
    padded = torch.zeros(5, 5)
    padded[:3, :3] = causal
    real = torch.arange(5) < 3
    for measure in (d.sink_rate, d.rank_one_distance):
        assert torch.allclose(measure(padded, mask=real), measure(causal))
