"""The fused operation against `saobp.refine` of the whole matrix, the equations and finite
differences.
"""

import itertools
from functools import partial

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

import saobp.fused.operation
import saobp.fused.tiled.sweeps
import saobp.fused.tiled.tiles
from saobp.equations.refine import FACTORS, refine
from saobp.fused.attention import saobp_attention, visible_keys

# places, and how many of each sequence are no padding
TOKEN, REAL = torch.arange(13), torch.tensor([[13], [9], [4]])
RIGHT = TOKEN < REAL
MASKS = {
    "none": None,
    "right": RIGHT,
    "left": TOKEN >= 13 - REAL,
    "holes": TOKEN % REAL.clamp(max=5) > 0,
}
SWITCHES = list(itertools.product((False, True), (True, False), MASKS))
CASES = [("high", *x) for x in SWITCHES] + [
    (f, *x) for f in ("low", "elemmul") for x in SWITCHES[::3]
]
UNTILED = [factor for factor in FACTORS if factor not in ("high", "low", "elemmul")]
CASES += itertools.product(UNTILED, (False, True), (True,), ("none", "right"))


@pytest.fixture(params=["one tile", "many tiles"])
def tiles(request, monkeypatch):
    """Work in one tile, or in tiles of a few queries with a short one at the end."""
    small = (
        {"WHOLE": 4, "TILE": 64, "LONG": 64, "QUERIES": 5} if request.param == "many tiles" else {}
    )
    for name, size in small.items():
        monkeypatch.setattr(saobp.fused.tiled.tiles, name, size)


def heads(
    batch=3,
    heads=4,
    groups=2,
    length=13,
    width=5,
    value_width=3,
    sharpness=3.0,
    dtype=torch.float64,
):
    """Return query, key and value of sharp random attention, wanting gradients."""
    shapes = [(heads, length, width), (groups, length, width), (groups, length, value_width)]
    query, key, value = (torch.randn(batch, *shape, dtype=dtype) for shape in shapes)
    return [x.requires_grad_() for x in (query * sharpness, key, value)]


def spelled_out(
    query, key, value, factor="high", strength=0.2, mask=None, is_causal=False, **options
):
    """Return refine(softmax(query key^T / sqrt(D))) @ value."""
    key, value = (x.repeat_interleave(query.shape[1] // x.shape[1], 1) for x in (key, value))
    scores = query @ key.mT / query.shape[-1] ** 0.5
    real = torch.ones(len(query), query.shape[2], dtype=torch.bool) if mask is None else mask
    visible = visible_keys(real, is_causal)
    scores = scores.masked_fill(~visible, -torch.inf).masked_fill(~visible.any(-1, keepdim=True), 0)
    attention = scores.softmax(-1).masked_fill(~visible, 0)
    return refine(attention, factor, strength, mask=mask, causal=is_causal, **options) @ value


def agree(inputs, strength, tolerance=1e-9, **options):
    """Assert that both ways give the same output and gradients."""
    found = saobp_attention(*inputs, strength=strength, **options)
    expected = spelled_out(*inputs, strength=strength, **options)
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance / 1e3)
    wanted = [*inputs, strength] if isinstance(strength, torch.Tensor) else inputs
    upstream = torch.randn_like(expected)
    gradients = (torch.autograd.grad(output, wanted, upstream) for output in (found, expected))
    for mine, theirs in zip(*gradients):
        torch.testing.assert_close(
            mine, theirs, rtol=tolerance, atol=tolerance * theirs.abs().max().item()
        )


@pytest.mark.parametrize("factor, causal, exclude_self, mask", CASES)
def test_output_and_gradients_are_those_of_refine(factor, causal, exclude_self, mask, tiles):
    options = {
        "factor": factor,
        "is_causal": causal,
        "exclude_self": exclude_self,
        "mask": MASKS[mask],
    }
    agree(heads(), 0.2, **options)
    if factor in ("high", "low"):
        shape = (3, 1) if causal else (4,)
        agree(heads(), torch.rand(shape, dtype=torch.float64, requires_grad=True), **options)


@pytest.mark.parametrize("exclude_self", [True, False])
@pytest.mark.parametrize("factor", ["high", "low"])
def test_loads_too_wide_for_products_are_summed_in_logarithms(
    factor, exclude_self, tiles, monkeypatch
):
    narrow = []
    inner = saobp.fused.tiled.sweeps.key_loads
    monkeypatch.setattr(
        saobp.fused.tiled.sweeps, "key_loads", lambda *a: narrow.append(inner(*a)) or narrow[-1]
    )
    options = {"factor": factor, "exclude_self": exclude_self}
    # 1 - A at e^-30 costs digits
    agree(heads(sharpness=8), 30.0, tolerance=1e-6, **options, mask=RIGHT)
    learned = torch.tensor(30.0, dtype=torch.float64, requires_grad=True)
    agree(heads(sharpness=8), learned, tolerance=1e-6, **options)
    assert not all(is_factor for _, is_factor in narrow)


@pytest.mark.parametrize("causal", [False, True])
def test_gradients_equal_finite_differences_under_dropout_and_tiles(causal, tiles):
    inputs = heads(batch=1, heads=2, groups=1, length=11, width=2, value_width=2, sharpness=1.0)
    attend = partial(saobp_attention, strength=0.5, is_causal=causal, dropout_p=0.4)
    assert torch.autograd.gradcheck(
        lambda *given: (torch.manual_seed(3), attend(*given))[1], inputs, fast_mode=True
    )


@pytest.mark.parametrize("causal", [False, True])
def test_strength_zero_and_factor_none_are_plain_attention_exactly(causal):
    query, key, value = (x.repeat_interleave(4 // x.shape[1], 1) for x in heads())
    plain = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=causal)
    for options in ({"strength": 0}, {"factor": "low", "strength": 0.0}, {"factor": "none"}):
        assert torch.equal(saobp_attention(query, key, value, is_causal=causal, **options), plain)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_strength_zero_trains_as_in_float32_rounded_once_like_the_others_so_that_it_is_a_fair_baseline(
    causal, padded
):
    *drawn, upstream = (torch.randn(2, 4, 64, 16, dtype=torch.bfloat16) for _ in range(4))
    mask = torch.ones(2, 64, dtype=torch.bool)
    mask[1, 40:] = not padded
    found = []
    for dtype, strength in ((torch.bfloat16, 0.0), (torch.float32, 0.0), (torch.bfloat16, 1e-6)):
        inputs = [x.to(dtype).requires_grad_() for x in drawn]
        output = saobp_attention(*inputs, strength=strength, mask=mask, is_causal=causal)
        assert output.dtype is dtype
        found.append(
            [
                x.bfloat16()
                for x in (output, *torch.autograd.grad(output, inputs, upstream.to(dtype)))
            ]
        )
    assert all(map(torch.equal, *found[:2]))
    apart = [(a - b).float().abs().mean() / a.float().abs().mean() for a, b in zip(*found[::2])]
    assert max(apart) < (2e-3 if causal or padded else 1e-4)


@pytest.mark.parametrize("factor", FACTORS)
def test_future_tokens_never_change_earlier_outputs_and_hear_nothing_of_their_gradient(
    factor, tiles
):
    inputs = heads(groups=4)
    changed = [x.detach().clone() for x in inputs]
    for x in changed:
        x[:, :, 8:] += torch.randn_like(x[:, :, 8:])
    options = {"factor": factor, "strength": 0.7, "is_causal": True}
    before, after = (saobp_attention(*x, **options) for x in (inputs, changed))
    assert torch.equal(before[:, :, :8], after[:, :, :8]) and not torch.equal(before, after)
    before[:, :, :8].sum().backward()
    assert all(torch.equal(x.grad[:, :, 8:], torch.zeros_like(x.grad[:, :, 8:])) for x in inputs)
    assert all(x.grad[:, :, :8].abs().max() > 0 for x in inputs)


@pytest.mark.parametrize("factor", ["none", "high", "low", "uniform", "elemmul", "sinkhorn"])
def test_a_query_of_padding_that_is_no_number_stays_in_its_own_row(factor):
    inputs, real = [x.detach() for x in heads(groups=4)], torch.ones(3, 13, dtype=torch.bool)
    real[1, 9:] = False
    expected = saobp_attention(*inputs, factor=factor, mask=real)
    inputs[0][1, :, 9:] = torch.nan
    found = saobp_attention(*inputs, factor=factor, mask=real)
    assert torch.equal(found[::2], expected[::2]) and torch.equal(
        found[1, :, :9], expected[1, :, :9]
    )


def test_nothing_of_size_length_squared_lives_between_forward_and_backward(tiles):
    for factor, causal in [*itertools.product(("high", "low"), (False, True)), ("elemmul", False)]:
        sizes = []
        note = lambda tensor: sizes.append(tensor.numel()) or tensor  # noqa: B023, E731
        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            saobp_attention(*heads(length=90, groups=4), factor=factor, is_causal=causal)
        assert max(sizes) <= 3 * 4 * 90 * 5 and len(sizes) <= 10


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("factor", ["high", "low", "elemmul"])
def test_one_hot_rows_stay_finite_at_any_strength(factor, causal):
    for strength, sharpness in itertools.product((0.2, 5.0, 60.0, 1e4), (1e2, 1e4)):
        inputs = heads(dtype=torch.float32, sharpness=sharpness)
        found = saobp_attention(*inputs, factor=factor, strength=strength, is_causal=causal)
        found.square().sum().backward()
        assert found.isfinite().all() and all(x.grad.isfinite().all() for x in inputs)


def test_a_row_that_attracts_a_lightly_loaded_key_keeps_its_weight():
    query, key = (
        torch.tensor(x)[None, None, :, None] for x in ([2.0, -2.0, -1.0], [-11.0, 35.0, -22.0])
    )
    # row 0 alone looks at key 1: e^-60 of its own message, e^-60 of the load
    query.requires_grad_()
    value = torch.eye(3)[None, None]
    output = saobp_attention(query, key, value, factor="low", strength=60.0, scale=1.0)
    torch.testing.assert_close(output, refine((query @ key.mT).softmax(-1), "low", 60.0))
    output.square().sum().backward()
    assert query.grad.isfinite().all()


@pytest.mark.parametrize("causal", [False, True])
def test_half_precision_inputs_have_statistics_in_float32_which_autocast_does_not_reach(causal):
    halves = [x.detach().to(torch.bfloat16).requires_grad_() for x in heads(sharpness=1)]
    wide = [x.detach().float().requires_grad_() for x in halves]
    found, expected = (saobp_attention(*x, strength=0.5, is_causal=causal) for x in (halves, wide))
    # one rounding, at the end
    assert torch.equal(found, expected.bfloat16())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(saobp_attention(*wide, strength=0.5, is_causal=causal), expected)
        gradients = [
            torch.autograd.grad(x.sum(), given) for x, given in ((found, halves), (expected, wide))
        ]
    assert all(torch.allclose(x.float(), y, rtol=0.05, atol=0.02) for x, y in zip(*gradients))


def test_dropout_keeps_the_mean_and_drops_its_share():
    for factor, dtype in (
        ("high", torch.float32),
        ("high", torch.float64),
        ("sinkhorn", torch.float32),
    ):
        # in float64 no compiled pass drops anything
        query = key = torch.zeros(1, 2, 40, 3, dtype=dtype)
        # the output is the dropped-out matrix, entries 1/40
        value = torch.eye(40, dtype=dtype).expand(1, 2, 40, 40)
        options = {"factor": factor, "dropout_p": 0.3}
        kept = torch.stack([saobp_attention(query, key, value, **options) for _ in range(50)])
        torch.testing.assert_close(kept[kept > 0], torch.full_like(kept[kept > 0], 1 / 40 / 0.7))
        share = (kept == 0).float()
        # six standard errors
        assert abs(share.mean() - 0.3) < 0.005
        # no run, head, query or key is dropped more than others, nor with its neighbour
        for axis in (0, 2, 3, 4):
            assert (share.mean([a for a in range(5) if a != axis]) - 0.3).abs().max() < 0.05
            both = share.narrow(axis, 1, share.shape[axis] - 1) * share.narrow(
                axis, 0, share.shape[axis] - 1
            )
            assert abs(both.mean() - 0.09) < 0.006
    ones = torch.ones(1, 1, 600, 8)
    # nearly all are dropped
    assert saobp_attention(ones, ones, ones, dropout_p=1 - 1e-11).abs().max() < 1


def test_dropout_is_repeated_by_seed_and_by_gradient_checkpointing():
    inputs, runs = heads(dtype=torch.float32), []
    dropped = partial(saobp_attention, dropout_p=0.3)
    for attend in (dropped, partial(checkpoint, dropped, use_reentrant=False)):
        torch.manual_seed(5)
        output = attend(*inputs)
        runs.append([output, *torch.autograd.grad(output.square().sum(), inputs)])
    assert all(torch.equal(x, y) for x, y in zip(*runs))


def test_a_query_that_is_no_number_is_forgotten_by_the_next_call():
    """Scratch memory is kept for the next call of the same shape; columns beyond the values hold
    what was there.
    """
    query, key, value = (torch.randn(1, 2, 16, 8) for _ in "qkv")

    def gradients(query, dropout):
        given = [x.clone().requires_grad_() for x in (query, key, value)]
        torch.manual_seed(0)
        return torch.autograd.grad(
            saobp_attention(*given, strength=1.0, dropout_p=dropout).square().sum(), given
        )

    before = gradients(query, 0.3)
    gradients(query.index_fill(2, torch.tensor([3]), torch.nan), 0.0)
    for mine, theirs in zip(gradients(query, 0.3), before):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize(
    "options", [{}, {"is_causal": True}, {"factor": "elemmul"}, {"strength": torch.rand(6)}]
)
def test_attention_and_gradients_do_not_depend_on_the_number_of_threads(options, tiles):
    inputs = [torch.randn(2, 6, 33, 8, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    runs = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        output = saobp_attention(*inputs, **options)
        runs.append([output, *torch.autograd.grad(output.square().sum(), inputs)])
    for other in runs[1:]:
        torch.testing.assert_close(runs[0], other, rtol=1e-10, atol=1e-12)


# one sequence, two of its heads, one
@pytest.mark.parametrize("tile", [4 * 13 * 13, 2 * 13 * 13, 1])
@pytest.mark.parametrize("exclude_self", [True, False])
def test_sequences_that_lie_between_others_in_memory_are_worked_on_where_they_are(
    tile, exclude_self, monkeypatch
):
    monkeypatch.setattr(saobp.fused.tiled.tiles, "TILE", tile)
    between = [
        torch.randn(3, 13, 4, width, dtype=torch.float64).transpose(1, 2) for width in (5, 5, 3)
    ]
    for mask in (None, RIGHT):
        inputs = [x.detach().requires_grad_() for x in between]
        agree(inputs, 0.2, mask=mask, exclude_self=exclude_self)
        assert saobp_attention(*inputs).stride() == inputs[2].stride()


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("exclude_self", [True, False])
def test_a_sink_of_a_plain_call_is_summed_in_logarithms(exclude_self, compiled, monkeypatch):
    if not compiled:
        monkeypatch.setattr(saobp.fused.tiled.native, "passes", lambda: None)
    query, key, value = (x.detach() for x in heads(2, 2, 2, length=300, width=4, value_width=4))
    # 150 nats about one key of the first sequence
    key[0, :, 7], query[..., 0] = 6.0, query[..., 0].abs() + 4
    plainly, inner = [], saobp.fused.operation.attend_plainly
    monkeypatch.setattr(
        saobp.fused.operation, "attend_plainly", lambda *a: plainly.append(inner(*a)) or plainly[-1]
    )
    options = {"strength": 0.5, "exclude_self": exclude_self}
    for rows, fits in ((slice(None), False), (slice(1, 2), True)):
        exact, single = (
            [x[rows].to(dtype).requires_grad_() for x in (query, key, value)]
            for dtype in (torch.float64, torch.float32)
        )
        found, expected = saobp_attention(*single, **options), spelled_out(*exact, **options)
        assert (plainly.pop() is not None) is fits
        torch.testing.assert_close(found.double(), expected, rtol=1e-3, atol=1e-4)
        for one, other in zip(single, exact):
            one, other = torch.autograd.grad(
                (found, expected), (one, other), (2 * found, 2 * expected), True
            )
            torch.testing.assert_close(one.double(), other, rtol=1e-2, atol=1e-3)


GOOD = {
    "query": torch.zeros(2, 4, 6, 8),
    "key": torch.zeros(2, 2, 6, 8),
    "value": torch.zeros(2, 2, 6, 8),
}


@pytest.mark.parametrize(
    "argument, value",
    [
        ("query", torch.zeros(4, 6, 8)),
        ("query", torch.zeros(2, 4, 6, 8, dtype=torch.long)),
        ("query", [[0.0]]),
        ("query", torch.zeros(2, 4, 6, 8).to(torch.float8_e4m3fn)),
        ("key", torch.zeros(2, 3, 6, 8)),
        ("key", torch.zeros(1, 2, 6, 8)),
        ("key", torch.zeros(2, 2, 7, 8)),
        ("key", torch.zeros(2, 2, 6, 9)),
        ("value", torch.zeros(2, 2, 5, 8)),
        ("value", torch.zeros(2, 2, 6, 8).double()),
        ("factor", "High"),
        ("strength", -0.1),
        ("strength", torch.ones(3)),
        ("mask", torch.ones(2, 6)),
        ("mask", torch.ones(3, 6, dtype=torch.bool)),
        ("mask", torch.zeros(2, 6, dtype=torch.bool)),
        ("is_causal", 1),
        ("exclude_self", None),
        ("scale", float("nan")),
        ("scale", 1e300),
        ("scale", True),
        ("dropout_p", 1.0),
        ("dropout_p", -0.1),
        *((name, GOOD[name].to_sparse()) for name in GOOD),
        *((name, GOOD[name].to("meta")) for name in ("key", "value")),
    ],
)
def test_a_wrong_argument_is_named(argument, value):
    with pytest.raises(ValueError, match=argument):
        saobp_attention(**{**GOOD, argument: value})


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"factor": "low", "is_causal": True},
        {"factor": "elemmul"},
        {"factor": "sinkhorn"},
        {"mask": RIGHT},
        {"mask": RIGHT, "spare": "first"},
        {"spare": 0.15},
    ],
)
def test_transforms_of_torch_func_and_torch_compile_see_the_same_numbers(options):
    query, key, value = (x.detach() for x in heads(groups=4))
    attend = partial(saobp_attention, key=key, value=value, **options)
    found = torch.func.grad(lambda x: attend(x).square().sum())(query)
    query.requires_grad_()
    torch.testing.assert_close(found, torch.autograd.grad(attend(query).square().sum(), query)[0])
    many = torch.func.vmap(attend)(torch.stack([query, 2 * query]).detach())
    torch.testing.assert_close(many, torch.stack([attend(query), attend(2 * query)]).detach())
    compiled = torch.compile(saobp_attention, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(query, key, value, **options), attend(query))


@pytest.mark.parametrize("factor", ["high", "low", "elemmul"])
def test_second_derivatives_are_refused_and_never_wrong(factor):
    query, key, value = heads(groups=4)
    output = saobp_attention(query, key, value, factor=factor)
    with pytest.raises(RuntimeError, match="no second derivatives; .* use saobp.refine"):
        torch.autograd.grad(output.sum(), query, create_graph=True)
    assert torch.autograd.grad(output.sum(), query, retain_graph=True)[0].isfinite().all()


def test_a_huge_strength_is_the_largest_that_counts():
    query, key, value = torch.randn(3, 1, 2, 9, 4)
    for factor in ("high", "low"):
        heads_of = [{"factor": factor, "strength": torch.full((2,), size)} for size in (60.0, 1e4)]
        most, more = (saobp_attention(query, key, value, **options) for options in heads_of)
        assert more.isfinite().all() and torch.equal(most, more)


# of torch's own forward mode
@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_what_looks_at_every_operation_sees_the_refinement():
    query = torch.randn(1, 2, 4, 8)

    def output(x):
        return saobp_attention(x, query, query).sum()

    with FakeTensorMode():
        fake = torch.randn(1, 2, 4, 8)
        assert saobp_attention(fake, fake, fake, mask=torch.ones(1, 4, dtype=torch.bool)).shape == (
            1,
            2,
            4,
            8,
        )
    jacobian = torch.autograd.functional.jacobian
    forward = jacobian(output, query, strategy="forward-mode", vectorize=True)
    torch.testing.assert_close(forward, jacobian(output, query))
    traced, other = make_fx(lambda x: saobp_attention(x, x, x))(query), torch.randn(1, 2, 4, 8)
    torch.testing.assert_close(traced(other), saobp_attention(other, other, other))
    with FlopCounterMode(display=False) as counted:
        saobp_attention(query, query, query)
    assert counted.get_total_flops() > 0


def test_rows_that_overlap_in_memory_give_the_same_numbers_and_gradients():
    query, key = torch.randn(2, 1, 2, 4, 16)
    value, long = (torch.randn(1, 2, 19).unfold(-1, 16, 1).requires_grad_() for _ in "ab")
    torch.testing.assert_close(
        saobp_attention(query, key, value), saobp_attention(query, key, value.contiguous())
    )
    apart = long.detach().contiguous().requires_grad_()
    for one in (long, apart):
        saobp_attention(one, key, query).square().sum().backward()
    torch.testing.assert_close(long.grad, apart.grad)


@pytest.mark.parametrize("options", [{"is_causal": True}, {"factor": "elemmul"}, {"strength": 2.0}])
def test_threads_work_in_inference_mode_too_and_train_in_the_same_scratch_memory_afterwards(
    options,
):
    query = torch.randn(2, 4, 600, 8)
    torch.set_num_threads(2)
    with torch.no_grad():
        expected = saobp_attention(query, query, query, **options)
    with torch.inference_mode():
        found = saobp_attention(query, query, query, **options)
        saobp_attention(query[..., :9, :], query[..., :9, :], query[..., :9, :], **options)
    assert torch.equal(found.clone(), expected)
    # by threads, and by this one
    for trained in (query, query[..., :9, :].clone()):
        saobp_attention(trained.requires_grad_(), trained, trained, **options).sum().backward()
        assert trained.grad.isfinite().all()
