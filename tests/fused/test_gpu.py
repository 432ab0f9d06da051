"""Attention on a GPU: Triton's kernels, and what they leave to torch, against float64.

With TRITON_INTERPRET=1 and Triton (3.9), its interpreter runs them without a GPU: short cases, and
no bfloat16, whose products it takes for those of integers.
"""

import os

import pytest
import torch
from attending import attended, padding

import saobp
from saobp.fused import gpu

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETED else "cuda"
# of what is interpreted, which takes seconds already
LONGEST = 200
runs = INTERPRETED or torch.cuda.is_available()
pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not runs, reason="needs a GPU, or TRITON_INTERPRET=1"),
    # of the interpreter's numpy, where a GPU says nothing
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]

BOUNDS = {torch.float32: 2e-5, torch.float16: 3e-3, torch.bfloat16: 2e-2}
"""Largest error of output and gradients, over the size of what is exact, in norm."""


@pytest.fixture(autouse=True)
def device(request, monkeypatch):
    """The device of the kernels; the interpreter's, as if it were a GPU, leaves out what is long or
    in bfloat16.
    """
    if not INTERPRETED:
        return
    given = getattr(getattr(request.node, "callspec", None), "params", {})
    if given.get("length", 0) > LONGEST or given.get("dtype") is torch.bfloat16:
        pytest.skip("not interpreted")
    monkeypatch.setattr(gpu, "DEVICE", DEVICE)
    monkeypatch.setattr(gpu, "processors", lambda device: 1)


def worst(inputs: list[torch.Tensor], given: torch.Tensor, dtype: torch.dtype, **options) -> float:
    """Return the largest error of output and gradients in a type beside the same numbers in
    float64.

    Rows of padding are left out: they are plain attention, whose dropout torch draws otherwise in
    each type.
    """
    *inputs, given = (x.to(DEVICE, dtype) for x in (*inputs, given))
    mask = options.get("mask")
    real = given.new_ones(()) if mask is None else mask[:, None, :, None].to(dtype)
    given = given * real
    exact = attended([x.double() for x in inputs], given.double(), **options)
    found = attended(inputs, given, **options)
    assert all(x.dtype is dtype for x in found)
    exact[0], found[0] = exact[0] * real, found[0] * real
    return max(
        float((one.double() - other).norm() / other.norm()) for one, other in zip(found, exact)
    )


@pytest.fixture(params=["kernels", "torch"])
def way(request, monkeypatch):
    """A name, after the kernels have been switched off for the second."""
    if request.param == "torch":
        monkeypatch.setattr(gpu, "kernels", lambda: None)
    else:
        assert gpu.kernels() is not None
    return request.param


@pytest.mark.parametrize(
    ("batch", "length"), [(1, 1), (2, 7), (3, 100), (2, 128), (1, 129), (3, 500), (1, 1100)]
)
@pytest.mark.parametrize(
    ("factor", "strength", "exclude_self"), [("high", 0.2, True), ("low", 0.5, False)]
)
@pytest.mark.parametrize(("padded", "dropout"), [(False, 0.0), (True, 0.2)])
@pytest.mark.parametrize("dtype", [*BOUNDS])
def test_it_agrees_with_float64(
    way, batch, length, factor, strength, exclude_self, padded, dropout, dtype
):
    """Output and gradients are those in float64, for rows and heads apart or interleaved in
    memory.
    """
    options = {
        "factor": factor,
        "strength": strength,
        "exclude_self": exclude_self,
        "dropout_p": dropout,
    }
    options["mask"] = padding(batch, length).to(DEVICE) if padded else None
    inputs = [
        torch.randn(batch, 4, length, 24),
        *torch.randn(2, batch, length, 4, 24).transpose(2, 3),
    ]
    given = torch.randn(batch, length, 4, 24).transpose(1, 2)
    assert worst(inputs, given, dtype, **options) < BOUNDS[dtype]


@pytest.mark.parametrize(("batch", "length"), [(2, 7), (3, 100), (2, 128), (2, 129), (1, 500)])
@pytest.mark.parametrize(
    ("factor", "strength", "exclude_self"), [("high", 0.3, True), ("low", 0.5, False)]
)
@pytest.mark.parametrize(("padded", "dropout"), [(False, 0.0), (True, 0.2)])
@pytest.mark.parametrize("spare", ["first", "edges", "share", "mask"])
@pytest.mark.parametrize("dtype", [*BOUNDS])
def test_spared_keys_agree_with_float64(
    way, batch, length, factor, strength, exclude_self, padded, dropout, spare, dtype
):
    """Keys without a bias, by every way of sparing; a share lies far from those of the keys."""
    options = {"factor": factor, "strength": strength, "exclude_self": exclude_self}
    options["mask"] = padding(batch, length).to(DEVICE) if padded else None
    ways = {"share": 1.5 / length, "mask": torch.arange(length, device=DEVICE) % 3 == 1}
    options |= {"dropout_p": dropout, "spare": ways.get(spare, spare)}
    inputs = [*torch.randn(3, batch, 4, length, 24)]
    given = torch.randn(batch, length, 4, 24).transpose(1, 2)
    if spare == "share":
        # half the keys are looked at three times as much as the others
        inputs[0][..., 0] = 24**0.5
        inputs[1] *= 0.1
        inputs[1][..., ::2, 0] = 1.1
    assert worst(inputs, given, dtype, **options) < BOUNDS[dtype]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("length", [40, 200])
@pytest.mark.parametrize("side", ["left", "right"])
def test_rows_of_padding_are_plain_attention_or_nothing(side, length, causal):
    """A padded query attends to the real keys that it may look at, or gets 0 where there is none."""
    query, key, value = torch.randn(3, 2, 4, length, 16, device=DEVICE)
    place = torch.arange(length, device=DEVICE)
    real = torch.stack([place >= 0, place >= 9 if side == "left" else place < length - 9])
    shown = real[:, None, None, :].expand(2, 1, length, length)
    shown = shown.tril() if causal else shown
    scores = (query @ key.mT / 4).double().masked_fill(~shown, -torch.inf)
    plain = scores.softmax(-1).nan_to_num(0) @ value.double()
    found = saobp.saobp_attention(query, key, value, mask=real, is_causal=causal)
    padded = ~real[:, None, :].expand(2, 4, length)
    torch.testing.assert_close(found[padded].double(), plain[padded], atol=1e-5, rtol=0)
    assert (found[padded] == 0).all() == (causal and side == "left")


@pytest.mark.parametrize(("width", "depth"), [(16, 64), (64, 64), (128, 128), (160, 32), (64, 5)])
@pytest.mark.parametrize("length", [128, 300])
@pytest.mark.parametrize("dtype", [*BOUNDS])
def test_keys_and_values_have_any_width(width, depth, length, dtype):
    """Heads that are too wide for a tile go the other way."""
    inputs = [*torch.randn(2, 2, 4, length, width), torch.randn(2, 4, length, depth)]
    assert worst(inputs, torch.randn(2, 4, length, depth), dtype) < BOUNDS[dtype]


@pytest.mark.parametrize(
    "options",
    [
        {"is_causal": True},
        {"factor": "elemmul"},
        {"strength": 2.0},
        {"strength": torch.tensor([0.1, 0.2, 0.3, 0.0])},
    ],
)
@pytest.mark.parametrize("length", [40, 700])
def test_what_the_kernels_leave_out_agrees_too(options, length):
    """Causal attention, A A^T, great strengths and one for each head."""
    inputs, given = torch.randn(3, 2, 4, length, 16), torch.randn(2, 4, length, 16)
    assert worst([*inputs], given, torch.float32, **options) < 1e-4


@pytest.mark.parametrize("length", [128, 512])
def test_one_key_for_all_needs_logarithms(length):
    """Where every query looks at one key, the loads have a range too wide for float32, and the
    numbers still hold.
    """
    query, key = (
        torch.ones(1, 1, length, 16, device=DEVICE),
        torch.zeros(1, 1, length, 16, device=DEVICE),
    )
    key[..., 0, :] = 100
    value = torch.randn(1, 1, length, 16, device=DEVICE)
    found = saobp.saobp_attention(query, key, value, strength=0.5)
    exact = saobp.saobp_attention(query.double(), key.double(), value.double(), strength=0.5)
    torch.testing.assert_close(found.double(), exact, atol=1e-5, rtol=0)


@pytest.mark.parametrize("length", [40, 200])
def test_what_is_not_a_number_stays_none(length):
    """A query that is not a number gives no number to any row, since it says none about any key."""
    query, key, value = torch.randn(3, 1, 1, length, 16, device=DEVICE)
    query[0, 0, 3] = torch.nan
    assert saobp.saobp_attention(query, key, value).isnan().all()


@pytest.mark.parametrize("length", [128, 1000])
def test_the_same_bits_come_again(length):
    """No sum depends on which program is first."""
    inputs, given = (
        [*torch.randn(3, 2, 4, length, 32, device=DEVICE)],
        torch.randn(2, 4, length, 32, device=DEVICE),
    )
    assert all(
        map(
            torch.equal,
            attended(inputs, given, dropout_p=0.1),
            attended(inputs, given, dropout_p=0.1),
        )
    )


@pytest.mark.skipif(INTERPRETED, reason="measures a GPU's memory")
def test_no_matrix_is_kept_or_made():
    """Forward and backward together need less memory than half a matrix of one head."""
    length = 8192
    *inputs, given = torch.randn(4, 1, 4, length, 64, device=DEVICE, dtype=torch.bfloat16)
    attended(inputs, given)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    attended(inputs, given)
    assert torch.cuda.max_memory_allocated() - before < length**2
