"""Statistics without the matrix are those of the matrix, and GTD's error is what it says."""

import subprocess
import sys

import pytest
import torch

import saobp
from saobp.fused.tiled import native, tiles
from saobp.measure import gtd_and_entropy, probes, row_blocks
from saobp.measure.statistics import NAMES, attention_statistics

SCORES = ("logsumexp", "max_logit")


def tensors(length, sharpness=1.0, groups=2, heads=4, batch=2):
    query = sharpness * torch.randn(batch, heads, length, 16)
    return query, torch.randn(batch, groups, length, 16)


def sink(length):
    bias = torch.zeros(1, 1, 1, length)
    bias[..., 2] = 6.0
    return bias


def band(length):
    place = torch.arange(length)
    slopes = torch.tensor([0.1, 0.5, 1.0, 4.0])[:, None, None]
    return -slopes * (place[:, None] - place).abs()[None, None]


def left_padding(length):
    mask = torch.ones(2, length, dtype=torch.bool)
    mask[1, : length // 3] = False
    return mask


def packed(length):
    """Two texts in one sequence, causal, and the last token is padding."""
    part = torch.arange(length) >= length // 2
    pairs = (part[:, None] == part) & torch.ones(length, length, dtype=torch.bool).tril()
    pairs[-1], pairs[:, -1] = False, False
    return pairs[None, None]


CASES = {
    "random": lambda n: (tensors(n), {}),
    "sharp": lambda n: (tensors(n, 6.0), {}),
    "one head per group": lambda n: (tensors(n, groups=4), {}),
    "sink": lambda n: (tensors(n), {"mask": sink(n)}),
    "banded": lambda n: (tensors(n), {"mask": band(n)}),
    "causal": lambda n: (tensors(n, 3.0), {"is_causal": True}),
    "causal sink": lambda n: (tensors(n), {"is_causal": True, "mask": sink(n)}),
    "window": lambda n: (tensors(n), {"window": 7}),
    "causal window": lambda n: (tensors(n), {"is_causal": True, "window": 20}),
    "padded": lambda n: (tensors(n), {"mask": left_padding(n)}),
    "padded causal": lambda n: (tensors(n), {"mask": left_padding(n), "is_causal": True}),
    "padded window": lambda n: (tensors(n), {"mask": left_padding(n), "window": 9}),
    "packed": lambda n: (tensors(n), {"mask": packed(n)}),
    "bfloat16": lambda n: ([x.bfloat16() for x in tensors(n)], {}),
    "identity": lambda n: (2 * [torch.eye(n).expand(2, 4, n, n)], {"scale": 200.0}),
    "scaled": lambda n: (tensors(n), {"scale": 0.7}),
}
REFINEMENTS = {
    "none": {},
    "high": {"factor": "high", "strength": 0.2},
    "low": {"factor": "low", "strength": 0.02},
    "strong": {"factor": "high", "strength": 40.0},
    "own message": {"factor": "high", "strength": 0.2, "exclude_self": False},
    "first spared": {"factor": "high", "strength": 0.3, "spare": "first"},
    "by head": {"factor": "high", "strength": torch.tensor([0.0, 0.1, 0.2, 0.4])},
}


def visible_pairs(shape, mask=None, is_causal=False, window=None, **_):
    """Which pairs of real tokens look at each other, written out."""
    batch, heads, length, _ = shape
    place = torch.arange(length)
    visible = torch.ones(batch, heads, length, length, dtype=torch.bool)
    if is_causal:
        visible = visible & (place <= place[:, None])
    if window is not None:
        visible = visible & ((place[:, None] - place).abs() < window)
    if mask is not None and mask.ndim == 4 and mask.dtype == torch.bool:
        visible = visible & mask
    if mask is not None and mask.ndim == 2:
        visible = visible & (mask[:, None, :, None] & mask[:, None, None])
    return visible


def matrices(query, key, scale=None, mask=None, **options):
    """Return scores, plain and refined attention (batch, head, L, L) in float64, and the pairs."""
    query, key = query.double(), key.double()
    key = key.repeat_interleave(query.shape[1] // key.shape[1], 1)
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    if mask is not None and mask.is_floating_point():
        scores = scores + mask
    visible = visible_pairs(query.shape, mask, **options)
    scores = scores.masked_fill(~visible, -torch.inf)
    plain = scores.softmax(-1).nan_to_num(0)
    names = ("factor", "strength", "exclude_self", "spare")
    step = {name: options[name] for name in names if name in options}
    if not step:
        return scores, plain, plain, visible
    refined = torch.zeros_like(plain)
    ordered = options.get("is_causal") or mask is not None and mask.shape[-2:] == (1, 1)
    ordered = ordered or not visible.triu(1).any()
    strength = step.pop("strength")
    for sequence in range(len(plain)):
        real = visible[sequence, 0].any(-1)
        pair = plain[sequence][:, real][..., real]
        if "spare" in step:
            # a row of a packed sequence that sees none before it is a first one
            step["spare"] = ~visible[sequence, 0][real][:, real].tril(-1).any(-1)
        changed = saobp.refine(pair, strength=strength, causal=bool(ordered), **step)
        grid = real[:, None] & real
        refined[sequence][:, grid] = changed.flatten(1)
    return scores, plain, refined, visible


def from_matrices(query, key, sink=0.3, **options):
    """Return every statistic, as the matrices of each sequence give it."""
    scores, plain, attention, visible = matrices(query, key, **options)
    real = visible.any(-1)
    columns, seen = attention.sum(-2), visible.sum(-2)
    by_token = {
        "logsumexp": scores.logsumexp(-1).masked_fill(~real, torch.nan),
        "row_entropy": torch.special.entr(attention).sum(-1).masked_fill(~real, torch.nan),
        "column_sum": columns,
        "received": columns / seen.clamp_min(1),
    }
    rows = []
    for sequence in range(len(plain)):
        kept = real[sequence, 0]
        one = attention[sequence][:, kept][..., kept]
        even = one.mean(-2, keepdim=True)
        distance = (one - even).norm(dim=(-2, -1)) / one.norm(dim=(-2, -1))
        moved = (one - plain[sequence][:, kept][..., kept]).abs().sum(-1).mean(-1) / 2
        received = by_token["received"][sequence][:, kept]
        rows.append(
            {
                "max_logit": scores[sequence].amax((-2, -1)),
                "sink_rate": (received > sink).double().mean(-1),
                "sparsity": gtd_and_entropy.sparsity(one),
                "rank_one_distance": distance,
                "moved": moved,
                "gtd": gtd_and_entropy.gtd(one),
            }
        )
    return by_token | {name: torch.stack([row[name] for row in rows]) for name in rows[0]}


def assert_equal(statistics, expected):
    for name, value in expected.items():
        found = getattr(statistics, name)
        assert found.dtype == torch.float32 and found.shape == value.shape, name
        assert torch.equal(found.isnan(), value.isnan()), name
        largest = value.nan_to_num(0).abs().max()
        gap = (found - value).nan_to_num(0).abs().max()
        assert gap <= 1e-5 * largest + 2e-7, (name, gap, largest)


@pytest.fixture
def small_blocks(monkeypatch):
    """Cut sequences of more than 40 tokens into blocks of 32 queries."""
    monkeypatch.setattr(tiles, "WHOLE", 40)
    monkeypatch.setattr(tiles, "LONG", 1)
    monkeypatch.setattr(tiles, "QUERIES", 32)


@pytest.mark.parametrize(
    ("case", "refinement", "length"),
    [
        *((case, "none", 110) for case in CASES),
        *((case, "high", length) for case in CASES for length in (24, 110)),
        *((case, kind, 110) for case in ("causal", "padded", "packed") for kind in REFINEMENTS),
        ("identity", "strong", 110),
    ],
)
def test_every_statistic_is_that_of_the_matrix(case, refinement, length, small_blocks):
    (query, key), options = CASES[case](length)
    refined = options | REFINEMENTS[refinement]
    statistics = attention_statistics(query, key, probes=length, **refined)
    assert_equal(statistics, from_matrices(query, key, **refined))
    assert (statistics.gtd_error == 0).all()
    if refinement == "none":
        assert statistics.plain is None
    else:
        assert_equal(statistics.plain, from_matrices(query, key, **options))


@pytest.mark.parametrize("refinement", REFINEMENTS)
@pytest.mark.parametrize("is_causal", [False, True])
def test_without_a_compiler_the_numbers_are_the_same(
    refinement, is_causal, small_blocks, monkeypatch
):
    if native.passes() is None:
        pytest.skip("no C compiler")
    options = {"is_causal": is_causal, "probes": 8, **REFINEMENTS[refinement]}
    query, key = tensors(110, 2.0)
    compiled = attention_statistics(query, key, **options)
    monkeypatch.setattr(native, "passes", lambda: None)
    plain = attention_statistics(query, key, **options)
    for name in NAMES:
        numbers = getattr(compiled, name), getattr(plain, name)
        torch.testing.assert_close(*numbers, rtol=1e-5, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("spare", ["edges", 0.02, torch.arange(110) % 7 == 3])
@pytest.mark.parametrize("masked", [False, True])
def test_spared_keys_are_those_of_refine(spare, masked, small_blocks):
    query, key = tensors(110, 2.0)
    options = {"mask": left_padding(110)} if masked else {}
    _, plain, _, _ = matrices(query, key, **options)
    statistics = attention_statistics(
        query, key, factor="high", strength=0.3, spare=spare, probes=0, **options
    )
    # the rows of padded queries are 0 here, which are no distributions
    plain = plain + (plain.sum(-1, keepdim=True) == 0) / 110
    refined = saobp.refine(plain, "high", 0.3, spare=spare, **options)
    if masked:
        refined = refined.masked_fill(~options["mask"][:, None, :, None], 0)
    assert (statistics.column_sum - refined.sum(-2)).abs().max() < 1e-4
    unspared = attention_statistics(query, key, factor="high", strength=0.3, probes=0, **options)
    assert (statistics.column_sum - unspared.column_sum).abs().max() > 1e-2


@pytest.mark.parametrize("is_causal", [False, True])
def test_long_sequences_are_cut_into_blocks_as_they_are(is_causal):
    query, key = tensors(700, 2.0, batch=1)
    options = {"is_causal": is_causal, "factor": "high", "strength": 0.3}
    expected = from_matrices(query, key, **options)
    statistics = attention_statistics(query, key, **options)
    gap = (statistics.gtd - expected.pop("gtd")).abs()
    assert_equal(statistics, expected)
    assert (gap <= 3 * statistics.gtd_error).all() and (statistics.gtd_error > 0).all()


def test_a_zero_stays_a_zero_where_the_rest_of_its_row_loses_nearly_all(small_blocks):
    """Keys that lose hundreds of nats leave a probability of 1e-40 where it is, as in refine."""
    length = 110
    query, key = tensors(length, batch=1)
    bias = torch.zeros(1, 1, 1, length)
    bias[..., 0], bias[..., 1] = 200.0, 90.0
    options = {"mask": bias, "factor": "high", "strength": 3.0}
    statistics = attention_statistics(query, key, probes=0, **options)
    _, plain, _, _ = matrices(query, key, mask=bias)
    refined = saobp.refine(plain.float(), "high", 3.0)
    assert (statistics.column_sum - refined.sum(-2)).abs().max() < 1e-3
    assert (statistics.column_sum[..., 0] > length - 1e-3).all()


def test_a_bias_of_hundreds_of_nats_costs_no_digits(small_blocks):
    query, key = tensors(700, batch=1)
    bias = torch.zeros(1, 1, 1, 700)
    bias[..., 5:7] = 6.0
    options = {"mask": bias, "factor": "low", "strength": 1.0, "is_causal": True}
    statistics = attention_statistics(query, key, probes=0, **options)
    expected = from_matrices(query, key, **options)["row_entropy"]
    assert (statistics.row_entropy - expected).abs().max() < 5e-6


def test_even_column_sums_leave_no_direction_beside_ones():
    query, key = torch.zeros(2, 1, 1, 100, 8)
    statistics = attention_statistics(query, key)
    assert torch.allclose(statistics.gtd, saobp.gtd(torch.full((100, 100), 0.01)), atol=1e-6)
    assert statistics.gtd_error.item() < 1e-4


def test_a_row_that_sees_nothing_in_one_head_gives_nothing_there():
    query, key = tensors(110, batch=1)
    pairs = torch.ones(1, 4, 110, 110, dtype=torch.bool)
    pairs[0, 1, 7] = False
    pairs[0, 1, 20] = False
    statistics = attention_statistics(query, key, mask=pairs)
    _, attention, _, _ = matrices(query, key, mask=pairs)
    assert torch.equal(statistics.row_entropy[0].isnan(), ~pairs[0].any(-1))
    assert torch.allclose(statistics.column_sum.double(), attention.sum(-2), atol=1e-5)
    assert torch.allclose(statistics.sparsity.double(), gtd_and_entropy.sparsity(attention))
    gap = statistics.gtd - gtd_and_entropy.gtd(attention)
    assert (gap.abs() <= 3 * statistics.gtd_error + 1e-5).all()


KINDS = {
    "random": ({}, 1.0),
    "sharp": ({}, 4.0),
    "sink": ({"mask": sink(96)}, 1.0),
    "band": ({"mask": band(96)[:, 2:3]}, 1.0),
    "causal": ({"is_causal": True}, 1.0),
}


def draws(kind, count, seed):
    """Return how far estimates of the GTD of one matrix by other signs each are off, and their errors."""
    options, sharpness = KINDS[kind]
    torch.manual_seed(seed)
    query, key = tensors(96, sharpness, groups=1, heads=1, batch=1)
    several = [x.expand(count, -1, -1, -1) for x in (query, key)]
    statistics = attention_statistics(*several, seed=seed, **options)
    exact = attention_statistics(query, key, probes=96, **options).gtd.item()
    return statistics.gtd[:, 0] - exact, statistics.gtd_error[:, 0]


# the factor of the error was chosen on draws of seed 5; the others are of matrices and signs of their own
FRESH = [pytest.param(1000, seed, marks=pytest.mark.slow) for seed in (201, 202, 203)]


@pytest.mark.parametrize(("count", "seed"), [(200, 5), *FRESH])
def test_gtd_lies_within_three_standard_errors_and_the_error_says_how_far_it_is_off(count, seed):
    outside = 0
    for kind in KINDS:
        gaps, errors = draws(kind, count, seed)
        outside += (gaps.abs() > 3 * errors).sum().item()
        assert (gaps.abs() <= 1.96 * errors).float().mean() >= 0.95, kind
        spread = gaps.std()
        assert abs(gaps.mean()) < 4 * spread / count**0.5 + 1e-6, kind
        assert errors.mean() < 2 * spread + 2 * probes.LEAST_ERROR, kind
    assert outside <= 0.003 * count * len(KINDS)


def test_two_directions_taken_out_make_the_error_of_spread_attention_thirty_times_smaller(
    monkeypatch,
):
    query, key = tensors(300, batch=1)
    with_directions = attention_statistics(query, key).gtd_error
    ends = torch.zeros(2, 2, 300, 2)
    ends[..., 0, 0], ends[..., -1, 1] = 1, 1
    monkeypatch.setattr(probes, "directions", lambda rows: ends[0, :1].expand(rows.count, -1, -1))
    without = attention_statistics(query, key, mask=torch.zeros(1, 1, 1, 300)).gtd_error
    assert (with_directions * 30 < without).all()


def test_the_signs_depend_on_the_seed_and_the_head_alone():
    query, key = tensors(120, groups=4, batch=1)
    first = attention_statistics(query, key, is_causal=True, seed=1).gtd
    assert torch.equal(first, attention_statistics(query, key, is_causal=True, seed=1).gtd)
    assert (first != attention_statistics(query, key, is_causal=True, seed=2).gtd).all()
    same = query[:, :1].expand(-1, 4, -1, -1), key[:, :1].expand(-1, 4, -1, -1)
    assert len(set(attention_statistics(*same, is_causal=True).gtd[0].tolist())) == 4


def test_several_threads_autocast_and_gradients_change_nothing():
    query, key = tensors(120)
    alone = attention_statistics(query, key)
    torch.set_num_threads(2)
    with torch.autocast("cpu", torch.bfloat16):
        both = attention_statistics(query.requires_grad_(), key)
    for name in NAMES:
        one, other = getattr(alone, name), getattr(both, name)
        assert torch.allclose(one, other, atol=1e-6) and not other.requires_grad, name


def test_one_token_is_the_identity():
    query, key = tensors(1)
    statistics = attention_statistics(query, key, is_causal=True, factor="high")
    score = (query * key.repeat_interleave(2, 1)).sum(-1) / 4
    assert torch.allclose(statistics.logsumexp, score, atol=1e-6)
    assert torch.allclose(statistics.max_logit, score[..., 0], atol=1e-6)
    ones, zeros = torch.ones(2, 4), torch.zeros(2, 4)
    assert torch.allclose(statistics.gtd, saobp.gtd(torch.ones(1, 1)).expand(2, 4))
    assert torch.equal(statistics.column_sum, ones[..., None])
    assert torch.equal(statistics.received, ones[..., None])
    assert torch.equal(statistics.row_entropy, zeros[..., None])
    assert torch.equal(statistics.sink_rate, ones)
    for name in ("sparsity", "rank_one_distance", "moved", "gtd_error"):
        assert torch.equal(getattr(statistics, name), zeros), name


@pytest.mark.parametrize("options", [{}, {"is_causal": True, "factor": "high"}])
def test_nan_stays_in_its_head(options):
    query, key = tensors(30, groups=4)
    clean = attention_statistics(query, key, **options)
    query[1, 2, 4, 3] = torch.nan
    statistics = attention_statistics(query, key, **options)
    for name in NAMES:
        before, after = getattr(clean, name).clone(), getattr(statistics, name)
        if name != "logsumexp":
            assert after[1, 2].isnan().any(), name
        before[1, 2], after[1, 2] = 0, 0
        assert torch.equal(before, after), name
    for name in ("max_logit", "sink_rate", "sparsity", "rank_one_distance", "gtd"):
        assert attention_statistics(query, key, **options).__dict__[name][1, 2].isnan(), name


def test_what_is_padded_may_be_nan_and_a_head_that_sees_nothing_is_undefined():
    query, key = tensors(30)
    mask = left_padding(30)
    clean = attention_statistics(query, key, mask=mask)
    query[1, :, :5], key[1, :, :5] = torch.nan, torch.inf
    dirty = attention_statistics(query, key, mask=mask)
    for name in NAMES:
        one, other = getattr(clean, name), getattr(dirty, name)
        assert torch.equal(one.nan_to_num(-1), other.nan_to_num(-1)), name
    hidden = torch.ones(2, 1, 30, 30, dtype=torch.bool)
    hidden[0] = False
    query, key = tensors(30)
    statistics = attention_statistics(query, key, mask=hidden)
    assert statistics.gtd[0].isnan().all() and statistics.row_entropy[0].isnan().all()
    assert (statistics.column_sum[0] == 0).all() and statistics.gtd[1].isfinite().all()


def test_a_mask_of_keys_is_a_mask_of_padding():
    query, key = tensors(30)
    mask = left_padding(30)
    one = attention_statistics(query, key, mask=mask)
    for form in (mask[:, None, None], torch.where(mask, 0.0, -torch.inf)[:, None, None]):
        other = attention_statistics(query, key, mask=form)
        torch.testing.assert_close(one.column_sum, other.column_sum)
        assert torch.allclose(one.gtd, other.gtd, atol=1e-5)


def test_without_probes_there_is_no_gtd():
    statistics = attention_statistics(*tensors(30), probes=0)
    assert statistics.gtd.isnan().all() and statistics.gtd_error.isnan().all()


SHARE = {"factor": "high", "spare": 0.1, "is_causal": True}
MISSHAPEN = torch.ones(9, dtype=torch.bool)
BLIND = torch.zeros(1, 1, 8, 8)
BLIND[0, 0, 0, 0] = torch.nan
SCATTERED = torch.eye(8, dtype=torch.bool)[None, None].clone()
SCATTERED[..., 0, 5] = True
SCATTERED[..., 6, 2] = True


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mask": MISSHAPEN}, "mask must have shape"),
        ({"mask": torch.ones(2, 1, 8, 7, dtype=torch.bool)}, "mask must have shape"),
        ({"mask": torch.ones(3, 1, 8, 8, dtype=torch.bool)}, "mask must have shape"),
        ({"mask": torch.ones(1, 1, 8, 8, dtype=torch.long)}, "mask must be boolean or added"),
        ({"mask": torch.ones(2, 8)}, "mask must be a boolean tensor"),
        ({"mask": torch.zeros(2, 8, dtype=torch.bool)}, "at least one real token"),
        ({"mask": BLIND}, "mask: holds NaN"),
        ({"mask": SCATTERED, "factor": "high"}, "mask: under it rows hear neither"),
        ({"factor": "elemmul"}, "factor must be one of none, high, low"),
        ({"factor": "high", "strength": -1.0}, "strength must be finite"),
        (SHARE, "cannot be known in a causal model"),
        ({"factor": "high", "spare": MISSHAPEN}, "spare must have shape"),
        ({"probes": 3}, "probes must be 0"),
        ({"probes": -1}, "probes must be a whole number"),
        ({"window": 0}, "window must be a whole number"),
        ({"sink": 1.0}, "sink must be a share"),
        ({"seed": 0.5}, "seed must be a whole number"),
        ({"beta": 0}, "beta must be a number"),
        ({"hops": 1}, "hops must be a whole number"),
        ({"scale": "x"}, "scale must be a number"),
        ({"is_causal": 1}, "is_causal must be True or False"),
        ({"key": torch.ones(2, 2, 9, 16)}, "key has 9 tokens, query 8"),
        ({"key": torch.ones(2, 3, 8, 16)}, "key has 3 groups"),
        ({"query": torch.ones(2, 4, 8)}, "query must be a floating tensor"),
    ],
)
def test_bad_input_is_one_line(options, words):
    query, key = tensors(8)
    given = {"query": query, "key": key} | options
    with pytest.raises(ValueError, match=words) as raised:
        attention_statistics(given.pop("query"), given.pop("key"), **given)
    assert "\n" not in str(raised.value)


MEMORY = """
import re, torch
from saobp import attention_statistics
query, key = torch.randn(2, 1, 1, 8192, 64)
attention_statistics(query, key, probes=0)
print(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1])
"""


def test_a_head_of_8192_tokens_takes_less_than_300_mb_with_torch_itself():
    done = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True)
    assert int(done.stdout) / 1024 < 300, done.stderr


def test_the_blocks_share_their_memory(small_blocks):
    query, key = tensors(110)
    rows = row_blocks.RowBlocks(
        query[0], key[0].repeat_interleave(2, 0), 1.0, visibility(110), None
    )
    places = [rows.plain(block).weights.data_ptr() for block in rows.blocks()]
    assert len(places) > 2 and len(set(places)) == 1


def visibility(length):
    return row_blocks.Visibility(False, None, torch.arange(length), None)
