"""Spared keys in the fused operation, against `saobp.refine` of the whole matrix and its loops."""

import itertools

import pytest
import torch
from attending import attended
from reference import equation_11

import saobp.fused.tiled.tiles
from saobp.equations.refine import refine
from saobp.fused.attention import saobp_attention, visible_keys
from saobp.fused.spared import column_sums
from saobp.fused.tiled import native

LENGTH = 13
TOKEN, REAL = torch.arange(LENGTH), torch.tensor([[13], [9], [4]])
MASKS = {"none": None, "right": TOKEN < REAL, "left": TOKEN >= LENGTH - REAL}
KEYS = {"(L,)": TOKEN % 3 == 0, "(batch, L)": TOKEN % REAL == 1}
SPARED = {"first": "first", "edges": "edges", "share": 0.15, **KEYS}
LOOKING_BACK = ["first", *KEYS]
CASES = [(spare, False) for spare in SPARED] + [(spare, True) for spare in LOOKING_BACK]


@pytest.fixture(params=["one tile", "many tiles"])
def tiles(request, monkeypatch):
    """Work in one tile, or in tiles of a few queries with a short one at the end."""
    if request.param == "many tiles":
        for name, size in {"WHOLE": 4, "TILE": 64, "LONG": 64, "QUERIES": 5}.items():
            monkeypatch.setattr(saobp.fused.tiled.tiles, name, size)


def heads(dtype=torch.float64, length=LENGTH, batch=3):
    """Return query, key and value of sharp attention with a sink, wanting gradients."""
    query, key = torch.randn(2, batch, 4, length, 5, dtype=dtype)
    value = torch.randn(batch, 4, length, 3, dtype=dtype)
    # every query looks at the first key
    query[..., 0], key[..., 0, 0] = 2, 2
    return [x.requires_grad_() for x in (query, key, value)]


def attention_of(query, key, mask, causal):
    """Return plain attention, 0 where a pair is not visible."""
    scores = query @ key.mT / query.shape[-1] ** 0.5
    real = torch.ones(query.shape[0], query.shape[2], dtype=torch.bool) if mask is None else mask
    visible = visible_keys(real, causal)
    blind = ~visible.any(-1, keepdim=True)
    scores = scores.masked_fill(~(visible | blind), -torch.inf)
    return scores.softmax(-1).masked_fill(~visible, 0)


def agree(inputs, strength, *, mask, is_causal, spare, exclude_self, factor):
    """Assert that output and gradients are those of `saobp.refine` of the whole matrix."""
    options = {"exclude_self": exclude_self, "spare": spare, "mask": mask}
    fused = saobp_attention(
        *inputs, factor=factor, strength=strength, is_causal=is_causal, **options
    )
    query, key, value = inputs
    attention = attention_of(query, key, mask, is_causal)
    expected = refine(attention, factor, strength, causal=is_causal, **options) @ value
    torch.testing.assert_close(fused, expected, rtol=1e-9, atol=1e-12)
    wanted = [*inputs, strength] if isinstance(strength, torch.Tensor) else inputs
    upstream = torch.randn_like(expected)
    gradients = (torch.autograd.grad(output, wanted, upstream) for output in (fused, expected))
    for gradient, exact in zip(*gradients):
        bound = 1e-9 * float(exact.abs().max()) + 1e-13
        torch.testing.assert_close(gradient, exact, rtol=1e-9, atol=bound)


@pytest.mark.parametrize(("spare", "is_causal"), CASES)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("exclude_self", [True, False])
@pytest.mark.parametrize("factor", ["high", "low"])
def test_output_and_gradients_are_those_of_refine(
    spare, is_causal, mask, exclude_self, factor, tiles
):
    options = {
        "mask": MASKS[mask],
        "is_causal": is_causal,
        "spare": SPARED[spare],
        "exclude_self": exclude_self,
        "factor": factor,
    }
    agree(heads(), 0.2, **options)
    # loads too far apart for products
    agree(heads(), 20.0, **options)
    strengths = torch.rand((3, 1) if is_causal else (4,), dtype=torch.float64) + 0.1
    agree(heads(), strengths.requires_grad_(), **options)


@pytest.mark.parametrize(("spare", "is_causal"), CASES)
@pytest.mark.parametrize("mask", MASKS)
def test_the_output_is_that_of_the_loops(spare, is_causal, mask):
    query, key, value = (x.detach() for x in heads())
    options = {"mask": MASKS[mask], "is_causal": is_causal, "spare": SPARED[spare]}
    output = saobp_attention(query, key, value, strength=0.5, **options)
    attention = attention_of(query, key, MASKS[mask], is_causal)
    for sequence, head in itertools.product(range(3), range(4)):
        real = None if MASKS[mask] is None else MASKS[mask][sequence]
        keys = SPARED[spare][sequence] if spare == "(batch, L)" else SPARED[spare]
        refined = equation_11(
            attention[sequence, head], 0.5, causal=is_causal, mask=real, spare=keys
        )
        rows = slice(None) if real is None else real
        expected = refined @ value[sequence, head]
        torch.testing.assert_close(output[sequence, head][rows], expected[rows])


@pytest.mark.parametrize("length", [13, 700])
@pytest.mark.parametrize("exclude_self", [True, False])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("spare", ["first", "edges", "share"])
@pytest.mark.parametrize("compiled", [True, False])
def test_the_compiled_passes_agree_with_float64(
    length, exclude_self, padded, spare, compiled, monkeypatch
):
    if not compiled:
        monkeypatch.setattr(native, "passes", lambda: None)
    elif native.passes() is None:
        pytest.skip("no C compiler")
    mask = torch.arange(length) < torch.tensor([[length], [length // 2]]) if padded else None
    options = {"exclude_self": exclude_self, "mask": mask, "strength": 0.3}
    options["spare"] = 3 / length if spare == "share" else spare
    inputs = [x.detach() for x in heads(torch.float32, length, 2)]
    given = torch.randn_like(inputs[2])
    exact = attended([x.double() for x in inputs], given.double(), **options)
    unspared = attended(inputs, given, **options | {"spare": None})
    for number, (single, double) in enumerate(zip(attended(inputs, given, **options), exact)):
        bound = 1e-5 * max(1, double.abs().max())
        torch.testing.assert_close(single.double(), double, atol=bound, rtol=0)
        assert (unspared[number] - single).abs().max() > 10 * bound


@pytest.mark.parametrize("exclude_self", [True, False])
@pytest.mark.parametrize("factor", ["high", "low"])
@pytest.mark.parametrize("strength", [1e-4, 0.02, 0.5])
@pytest.mark.parametrize("compiled", [True, False])
def test_a_share_spares_the_keys_above_it_however_near(
    exclude_self, factor, strength, compiled, monkeypatch
):
    """The shares lie beside each key's own, on both sides; of padding nothing is counted."""
    if not compiled:
        monkeypatch.setattr(native, "passes", lambda: None)
    elif native.passes() is None:
        pytest.skip("no C compiler")
    query, key, value = (x.detach() for x in heads(torch.float32, 40, 2))
    for mask in (None, torch.arange(40) < torch.tensor([[40], [25]])):
        sums = column_sums(query.double(), key.double(), mask, query.shape[-1] ** -0.5)
        rows = 40 if mask is None else mask.sum(-1)[:, None, None]
        ordered = (sums / rows).flatten().sort().values
        for place in (-1, -3, len(ordered) // 2):
            for side in (0.9999, 1.0001):
                share = float(ordered[place]) * side
                options = {"factor": factor, "strength": strength, "mask": mask}
                options["exclude_self"] = exclude_self
                spare = sums > share * rows
                ours = saobp_attention(query, key, value, spare=share, **options)
                exact = [x.double() for x in (query, key, value)]
                exact = saobp_attention(*exact, spare=spare, **options)
                torch.testing.assert_close(ours.double(), exact, rtol=0, atol=2e-6)


def test_column_sums_are_worked_out_some_queries_at_a_time(monkeypatch):
    query, key, _ = (x.detach() for x in heads())
    for mask in MASKS.values():
        expected = attention_of(query, key, mask, False).sum(-2)
        if mask is not None:
            expected = (attention_of(query, key, mask, False) * mask[:, None, :, None]).sum(-2)
        for entries in (1, 2**22):
            monkeypatch.setattr(saobp.fused.spared, "ENTRIES", entries)
            sums = column_sums(query, key, mask, query.shape[-1] ** -0.5)
            torch.testing.assert_close(sums, expected)


@pytest.mark.parametrize(
    "options",
    [
        {"spare": "middle"},
        {"spare": 2},
        {"spare": torch.ones(5, dtype=torch.bool)},
        {"spare": torch.ones(4, LENGTH, dtype=torch.bool)},
        {"spare": "first", "factor": "elemmul"},
        {"spare": "edges", "is_causal": True},
        {"spare": 0.3, "is_causal": True, "strength": 0},
    ],
)
def test_a_way_of_sparing_that_cannot_be_followed_is_refused_in_one_line(options):
    with pytest.raises(ValueError, match="^spare") as refusal:
        saobp_attention(*heads(), **options)
    assert "\n" not in str(refusal.value)
