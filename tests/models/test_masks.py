"""Every form of mask that users pass: refined as `saobp.refine` does on the pairs it shows, or
refused in one line.
"""

import itertools

import pytest
import torch
from families import (
    CACHE,
    CLOSE,
    QUERY_AND_KEY,
    SIZES,
    TOKENS,
    build,
    other_token,
    refined_modules,
    refined_names,
    seen,
    sharpened,
    tokens,
)
from literal_attention import literal
from torch import Tensor, nn
from torch.nn.attention.flex_attention import create_block_mask
from transformers import CLIPTextConfig, CLIPTextModel, DynamicCache
from transformers.masking_utils import create_masks_for_generate

import saobp
from saobp.equations.masks import shown_by
from saobp.measure.inspection import maps
from saobp.models.apply import raw_attentions
from saobp.models.module import home

# tokens, and how many of the second sequence's are no padding
LENGTH, REAL = 9, 6
DECODERS = ("gpt2", "llama")
REFINEMENTS = [("high", 1.5), ("low", 0.4), ("elemmul", 1.0), ("sinkhorn", 1.0)]


def padding(side: str) -> Tensor:
    """Return which tokens are real: all of the first sequence, some of the second."""
    real = torch.ones(2, LENGTH, dtype=torch.bool)
    real[1, REAL:] = False
    return real if side == "right" else real.flip(1)


def packed(*lengths: int) -> Tensor:
    """Return which pairs lie in the same of the sequences packed into one row."""
    number = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    return number[:, None] == number[None]


ALL = torch.ones(LENGTH, LENGTH, dtype=torch.bool)
EARLIER = ALL.tril()
DISTANCE = torch.arange(LENGTH)[:, None] - torch.arange(float(LENGTH))
PREFIX = EARLIER | (torch.arange(LENGTH) < 4)
# which 6 and on pass by
BRANCHED = PREFIX.index_put((torch.arange(6, LENGTH), torch.tensor(5)), torch.tensor(False))
# of the nodes of a tree, each of which sees itself and its ancestors
PARENTS = (0, 0, 1, 1, 2, 2, 3, 0, 7)
TREE = torch.eye(LENGTH, dtype=torch.bool)
for node, parent in enumerate(PARENTS):
    TREE[node] |= TREE[parent]


def with_padding(pairs: Tensor, side: str) -> Tensor:
    """Show a pattern's pairs of real tokens alone, (batch, 1, query, key)."""
    real = padding(side)
    return (pairs & real[:, None, :] & real[:, :, None])[:, None]


SHOWN = {
    "full": ALL.expand(2, 1, -1, -1),
    "padded on the right": with_padding(ALL, "right"),
    "padded on the left": with_padding(ALL, "left"),
    "causal": EARLIER.expand(2, 1, -1, -1),
    "causal, padded on the right": with_padding(EARLIER, "right"),
    "causal, padded on the left": with_padding(EARLIER, "left"),
    "packed": packed(4, 2, 3).expand(2, 1, -1, -1),
    "packed causal": (packed(4, 2, 3) & EARLIER).expand(2, 1, -1, -1),
    "prefix": PREFIX.expand(2, 1, -1, -1),
    "prefix, padded on the right": with_padding(PREFIX, "right"),
    "packed prefix": (packed(6, 3) & PREFIX).expand(2, 1, -1, -1),
    "prefix and branch": BRANCHED.expand(2, 1, -1, -1),
    "tree": TREE.expand(2, 1, -1, -1),
    "one causal, one full": torch.stack([EARLIER, ALL])[:, None],
    "a pattern per head": torch.stack([EARLIER, ALL, PREFIX, TREE]).expand(2, -1, -1, -1),
    "each token alone": torch.eye(LENGTH, dtype=torch.bool).expand(2, 1, -1, -1),
}


def added(lowest: float, dtype: torch.dtype = torch.float32):
    """Return how pairs become a mask that is added to the scores."""
    return lambda shown: torch.zeros(shown.shape, dtype=dtype).masked_fill(~shown, lowest)


LOWEST = {
    torch.float32: [float("-inf"), -1e4, -1e9, torch.finfo(torch.float16).min],
    torch.float64: [torch.finfo(torch.float64).min, torch.finfo(torch.float32).min],
    torch.float16: [torch.finfo(torch.float16).min, -1e4],
    torch.bfloat16: [torch.finfo(torch.bfloat16).min, -1e4],
}
FORMS = {"boolean": Tensor.clone, "lowest": added(torch.finfo(torch.float32).min)}
FORMS |= {
    f"{dtype}, {lowest}": added(lowest, dtype) for dtype in LOWEST for lowest in LOWEST[dtype]
}


def oracle(raw: Tensor, shown: Tensor, factor: str, strength: float) -> Tensor:
    """Refine each row among the rows that its query may look at, by `saobp.refine`; other rows as
    they are.
    """
    refined, shown = raw.clone(), shown.expand(len(raw), -1, -1, -1)
    for batch, head, row in torch.cartesian_prod(*map(torch.arange, shown.shape[:3])).tolist():
        keys = shown[batch, head, row].nonzero().flatten()
        heads = slice(None) if shown.shape[1] == 1 else slice(head, head + 1)
        if shown[batch, head, row, row]:
            part = saobp.refine(raw[batch, heads][:, keys][:, :, keys], factor, strength)
            refined[batch, heads, row] = 0.0
            refined[batch, heads, row, keys] = part[:, (keys == row).nonzero().item()]
    return refined


def check(
    family: str, mask: Tensor, shown: Tensor, factor: str = "high", strength: float = 1.5
) -> None:
    """Compare each layer with the oracle on the pairs shown, and the fused operation with the
    matrices.
    """
    model = saobp.apply(build(family), factor, strength)
    with torch.no_grad():
        with raw_attentions(model) as pairs:
            output = model(tokens(2, LENGTH), attention_mask=mask, use_cache=False)[0]
        unseen = model(tokens(2, LENGTH), attention_mask=mask, use_cache=False)[0]
    rows = shown.diagonal(dim1=-2, dim2=-1)
    torch.testing.assert_close(unseen[rows.all(1)], output[rows.all(1)], **CLOSE)
    assert len(pairs) == 2
    for raw, refined in pairs:
        real = rows.expand(raw.shape[:3])
        assert (raw.masked_fill(shown, 0)[real] == 0).all()
        assert not torch.equal(raw, refined) or bool((raw[real].amax(-1) == 1).all())
        torch.testing.assert_close(
            refined[real], oracle(raw, shown, factor, strength)[real], **CLOSE
        )


@pytest.mark.parametrize("shown", SHOWN)
def test_every_form_of_a_mask_shows_the_same_pairs(shown):
    for form in [*FORMS][1:]:
        assert torch.equal(shown_by(FORMS[form](SHOWN[shown])), SHOWN[shown]), form


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "shown", ["causal, padded on the left", "prefix, padded on the right", "a pattern per head"]
)
@pytest.mark.parametrize("family", ["bert", "llama"])
def test_a_mask_of_four_dimensions_is_refined_on_the_pairs_that_it_shows(family, shown, form):
    check(family, FORMS[form](SHOWN[shown]), SHOWN[shown])


@pytest.mark.parametrize(("factor", "strength"), REFINEMENTS)
@pytest.mark.parametrize("shown", SHOWN)
@pytest.mark.parametrize("family", ["bert", "llama"])
def test_every_factor_keeps_to_the_pairs_that_a_mask_shows(family, shown, factor, strength):
    check(family, FORMS["boolean"](SHOWN[shown]), SHOWN[shown], factor, strength)
    other = {"bert": "t5", "llama": "gpt2"}[family]
    if factor in ("high", "elemmul"):
        check(other, FORMS["boolean"](SHOWN[shown]), SHOWN[shown], factor, strength)


@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.uint8, torch.int32, torch.int64, torch.float32, torch.bfloat16]
)
@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("family", ["bert", "t5", "gpt2", "llama"])
def test_padding_of_any_type_is_refined_on_the_real_tokens(family, side, dtype):
    check(
        family, padding(side).to(dtype), with_padding(EARLIER if family in DECODERS else ALL, side)
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("family", ["bert", "llama"])
def test_a_mask_of_keys_shows_them_to_every_query_and_a_padded_row_that_sees_all_keys_tells_nothing(
    family, form
):
    check(family, FORMS[form](padding("right")[:, None, None, :]), SHOWN["padded on the right"])
    real, pairs = padding("left"), SHOWN["causal, padded on the left"]
    # as where a row without any key would be undefined
    open_rows = pairs | ~real[:, None, :, None]
    model = saobp.apply(build(family), "high", 1.5)
    for raw, refined in seen(
        model, tokens(2, LENGTH), attention_mask=FORMS[form](open_rows), use_cache=False
    ):
        rows = real[:, None].expand(raw.shape[:3])
        torch.testing.assert_close(refined[rows], oracle(raw, pairs, "high", 1.5)[rows], **CLOSE)


@pytest.mark.parametrize(("shown", "place"), [("causal", 6), ("prefix and branch", LENGTH - 1)])
@pytest.mark.parametrize("factor", ["high", "uniform"])
@pytest.mark.parametrize("family", ["bert", "modernbert", "t5"])
def test_an_encoder_under_a_causal_mask_does_not_see_the_future(family, factor, shown, place):
    model, ids = saobp.apply(build(family), factor, 1.5), tokens(2, LENGTH)
    mask = FORMS["lowest"](SHOWN[shown])
    with torch.no_grad():
        first, second = (
            model(given, attention_mask=mask)[0] for given in (ids, other_token(ids, place))
        )
    torch.testing.assert_close(first[:, :place], second[:, :place], atol=1e-5, rtol=0)
    assert (first[:, place:] - second[:, place:]).abs().max() > 1e-3


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_a_window_is_refined_by_all_rows_or_by_the_earlier_ones(family):
    near, causal = DISTANCE.abs() <= 2, family in DECODERS
    shown = (near & EARLIER if causal else near).expand(2, 1, -1, -1)
    model = saobp.apply(build(family), "high", 1.5)
    for raw, refined in seen(
        model, tokens(2, LENGTH), attention_mask=shown.clone(), use_cache=False
    ):
        torch.testing.assert_close(refined, saobp.refine(raw, "high", 1.5, causal=causal), **CLOSE)


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_a_bias_between_nothing_and_hidden_stays_a_bias(family):
    mask = (-3.0 * DISTANCE.abs()).masked_fill(DISTANCE < 0, float("-inf"))[None, None]
    check(family, mask, SHOWN["causal"])


@pytest.mark.parametrize("hidden", [float("-inf"), -1e4])
@pytest.mark.parametrize("slope", [0.5, 1.0, 5.0])
def test_a_bias_that_falls_off_gradually_hides_nothing_however_low(slope, hidden):
    distance = torch.arange(70)[:, None] - torch.arange(70.0)
    for bias in (-slope * distance.abs(), -slope * (69 - torch.arange(70.0)).expand(70, -1)):
        mask = bias.masked_fill(distance < 0, hidden)[None, None]
        assert torch.equal(shown_by(mask)[0, 0], distance >= 0)
        assert shown_by(bias[None, None]).all()


LOW = {
    "one number": lambda low: torch.where(DISTANCE > 2, low, 0.0),
    "one key": lambda low: torch.where(torch.arange(LENGTH) == 3, low, 0.0).expand(LENGTH, -1),
    "whole rows": lambda low: (
        torch.where(torch.arange(LENGTH) < 3, low, 0.0)[:, None] + 0 * DISTANCE
    ),
    "beside another": lambda low: low * (DISTANCE > 3) + low / 2 * (DISTANCE < -1),
}
"""Biases by the pairs that they lower."""
NUMBERS = [-29.0, -31.0, -40.0, -100.0, -999.0, -1001.0, -4000.0]


def large_scores(family: str) -> nn.Module:
    """Build a model whose scores are so large that a key with a low number is still looked at."""
    model = build(family).double()
    for name, parameter in model.named_parameters():
        if name.endswith(QUERY_AND_KEY):
            parameter.data *= 3
    return model


def biased(family: str, pairs: str, low: float) -> Tensor:
    """Return a mask that adds a low number to some pairs, and hides the future from a decoder."""
    mask = LOW[pairs](low)[None, None].double()
    return mask.masked_fill(~EARLIER, float("-inf")) if family == "llama" else mask


@pytest.mark.parametrize("low", NUMBERS)
@pytest.mark.parametrize("family", ["bert", "llama"])
def test_a_low_number_that_hides_nothing_is_a_bias_on_every_path(family, low):
    model, ids = saobp.apply(large_scores(family), "high", 0.5), tokens(2, LENGTH)
    oracle = literal(large_scores(family), refined_names(model), 0.5)
    calls = [{"use_cache": False}, {"use_cache": False, "output_attentions": True}, {}]
    for pairs in LOW:
        mask = biased(family, pairs, low)
        expected = oracle(ids, attention_mask=mask, use_cache=False).logits
        for grad, call in itertools.product((False, True), calls):
            with torch.set_grad_enabled(grad):
                found = model(ids, attention_mask=mask.clone(), **call).logits
            torch.testing.assert_close(found, expected, atol=1e-8, rtol=1e-8, msg=pairs)


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_a_low_number_that_hides_nothing_is_a_bias_compiled(family):
    model, ids = saobp.apply(large_scores(family), "high", 0.5), tokens(2, LENGTH)
    oracle = literal(large_scores(family), refined_names(model), 0.5)
    mask = biased(family, "whole rows", -40.0)
    torch.compiler.reset()
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    with torch.no_grad():
        logits = [
            one(ids, attention_mask=mask, use_cache=False).logits for one in (compiled, oracle)
        ]
    torch.testing.assert_close(*logits, atol=1e-8, rtol=1e-8)


@pytest.mark.parametrize("shown", ["causal, padded on the left", "prefix, padded on the right"])
@pytest.mark.parametrize("family", ["bert", "llama"])
def test_what_masks_are_filled_with_hides_as_minus_infinity_does(family, shown):
    model, ids, real = saobp.apply(build(family), "high", 0.5), tokens(2, LENGTH), SHOWN[shown]
    own = real.diagonal(dim1=-2, dim2=-1)[:, 0]
    found = []
    for fill in (float("-inf"), torch.finfo(torch.float32).min, -1e4, -1e9, -65504.0):
        mask = added(fill)(real)
        with torch.no_grad():
            found.append(model(ids, attention_mask=mask, use_cache=False).logits[own])
    for logits in found[1:]:
        torch.testing.assert_close(logits, found[0], atol=0, rtol=0)


def test_masks_made_beforehand_also_by_kind_of_layer_are_refined_as_the_model_makes_them():
    ids, real = tokens(2, LENGTH), padding("right")
    layered, decoder = (
        saobp.apply(build(family), "high", 1.5) for family in ("modernbert", "llama")
    )
    near = DISTANCE.abs() <= layered.config.local_attention // 2
    kinds = {"full_attention": ALL, "sliding_attention": near}
    by_layer = {
        name: FORMS["lowest"](with_padding(pairs, "right")) for name, pairs in kinds.items()
    }
    embedded = decoder.get_input_embeddings()(ids)
    causal = create_masks_for_generate(decoder.config, embedded, real, **{CACHE: None})
    for model, made, more in ((layered, by_layer, {}), (decoder, causal, {"use_cache": False})):
        expected, found = (
            model(ids, attention_mask=mask, **more).logits[real] for mask in (real, made)
        )
        torch.testing.assert_close(found, expected, **CLOSE)


@pytest.mark.parametrize(("factor", "strength"), REFINEMENTS)
def test_a_causal_tower_whose_modules_do_not_say_so_is_refined_causally(factor, strength):
    sizes = {**SIZES, **TOKENS, "projection_dim": 16}
    model = sharpened(CLIPTextModel(CLIPTextConfig(**sizes)))
    assert not any(module.is_causal for module in model.modules() if hasattr(module, "is_causal"))
    for raw, refined in seen(saobp.apply(model, factor, strength), tokens(2, LENGTH)):
        assert (raw.triu(1) == 0).all()
        torch.testing.assert_close(
            refined, saobp.refine(raw, factor, strength, causal=True), **CLOSE
        )


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_a_sequence_that_is_all_padding_harms_no_other(family):
    model, real = saobp.apply(build(family), "high", 1.5), padding("right")
    real[1] = False
    output = model(tokens(2, LENGTH), attention_mask=real, use_cache=False)[0]
    assert output.isfinite().all()
    torch.testing.assert_close(
        output[:1], model(tokens(2, LENGTH)[:1], use_cache=False)[0], **CLOSE
    )


@pytest.mark.parametrize("learn", [None, "head"])
@pytest.mark.parametrize("shown", ["causal", "prefix", "tree"])
def test_gradients_keep_to_the_pairs_that_a_mask_shows(shown, learn):
    model = saobp.apply(build("bert"), "high", 1.5, learn=learn)
    embeddings = model.get_input_embeddings()(tokens(1, LENGTH)).detach().requires_grad_()
    output = model.bert(
        inputs_embeds=embeddings, attention_mask=SHOWN[shown][:1].clone()
    ).last_hidden_state
    for row in range(LENGTH):
        (gradient,) = torch.autograd.grad(
            output[0, row].square().sum(), embeddings, retain_graph=True
        )
        told = gradient[0].abs().sum(-1) > 0
        assert told[row] and not (told & ~SHOWN[shown][0, 0, row]).any()


REFUSED = {
    "three dimensions": (torch.ones(2, LENGTH, LENGTH, dtype=torch.long), "attention_mask"),
    "one dimension": (torch.ones(LENGTH, dtype=torch.long), "attention_mask"),
    "whole numbers": (
        torch.ones(2, 1, LENGTH, LENGTH, dtype=torch.long),
        "torch.int64 in four dimensions",
    ),
    "too few keys": (torch.zeros(2, 1, LENGTH, LENGTH - 1), "must broadcast"),
    "too many keys": (torch.zeros(2, 1, LENGTH, LENGTH + 3), "must broadcast"),
    "too many queries": (torch.zeros(2, 1, LENGTH + 1, LENGTH), "must broadcast"),
    "another batch": (torch.zeros(3, 1, LENGTH, LENGTH), "must broadcast"),
    "heads that are not there": (torch.zeros(2, 3, LENGTH, LENGTH), "must broadcast"),
    "NaN": (torch.zeros(2, 1, LENGTH, LENGTH).masked_fill(~EARLIER, float("nan")), "holds NaN"),
    "infinity": (
        torch.zeros(2, 1, LENGTH, LENGTH).masked_fill(~EARLIER, float("inf")),
        "holds NaN or .inf",
    ),
    "earlier tokens without oneself": (
        EARLIER.tril(-1).expand(2, 1, -1, -1).clone(),
        "hides a token from itself",
    ),
    "others without oneself": (
        ~torch.eye(LENGTH, dtype=torch.bool)[None, None],
        "hides a token from itself",
    ),
}


@pytest.mark.parametrize("which", REFUSED)
@pytest.mark.parametrize("family", ["bert", "llama"])
def test_masks_that_cannot_be_served_are_refused_in_one_line(family, which):
    model = saobp.apply(build(family), "high", 1.5)
    mask, message = REFUSED[which]
    with pytest.raises(ValueError, match=message) as error:
        model(tokens(2, LENGTH), attention_mask=mask, use_cache=False)
    assert "\n" not in str(error.value) and "attention_mask" in str(error.value)


@pytest.mark.parametrize("use_cache", [False, True])
def test_masks_of_three_dimensions_or_of_blocks_for_a_decoder_are_refused_in_one_line(use_cache):
    blocks = create_block_mask(
        lambda batch, head, query, key: query >= key, None, None, 128, 128, device="cpu"
    )
    for family, mask, message in (
        ("gpt2", EARLIER.expand(2, -1, -1).clone(), "^attention_mask: "),
        ("llama", blocks, "attention_mask: LlamaAttention was handed BlockMask"),
    ):
        with pytest.raises(ValueError, match=message) as error:
            model = saobp.apply(build(family), "high", 1.5)
            model(
                tokens(2, LENGTH if family == "gpt2" else 128),
                attention_mask=mask,
                use_cache=use_cache,
            )
        assert "\n" not in str(error.value)


def then_two_more(shown: Tensor) -> Tensor:
    """Return which pairs a pattern shows once two tokens follow that see all tokens before them."""
    rows = torch.ones(*shown.shape[:2], 2, LENGTH + 2, dtype=torch.bool).tril(LENGTH)
    rows[..., :LENGTH] &= shown.diagonal(dim1=-2, dim2=-1)[..., None, :]
    return torch.cat([nn.functional.pad(shown, (0, 2)), rows], -2)


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("shown", SHOWN)
def test_a_cache_goes_on_from_any_mask(shown, grad):
    model = saobp.apply(build("llama"), "high", 1.5)
    ids, mask = tokens(2, LENGTH + 2), then_two_more(SHOWN[shown])
    oracle = literal(build("llama"), refined_names(model), 1.5)
    with torch.set_grad_enabled(grad):
        cache, calls = DynamicCache(), ((0, LENGTH), (LENGTH, LENGTH + 1), (LENGTH + 1, LENGTH + 2))
        parts = [
            model(ids[:, start:end], attention_mask=mask[:, :, start:end, :end], **{CACHE: cache})
            for start, end in calls
        ]
        expected = oracle(ids, attention_mask=mask, use_cache=False).logits
    real = mask.diagonal(dim1=-2, dim2=-1).all(1)
    logits = torch.cat([part.logits for part in parts], 1)
    torch.testing.assert_close(logits[real], expected[real], **CLOSE)


@pytest.mark.parametrize("start", [1, 4])
def test_a_block_of_tokens_that_see_each_other_may_follow_in_a_cache(start):
    """As pictures in Gemma 3, whose tokens come in a later turn."""
    model, ids = saobp.apply(build("llama"), "high", 1.5), tokens(2, LENGTH + 2)
    oracle = literal(build("llama"), refined_names(model), 1.5)
    mask = torch.ones(2, 1, LENGTH + 2, LENGTH + 2, dtype=torch.bool).tril()
    mask[:, :, start : start + 3, start : start + 3] = True
    with torch.no_grad():
        cache, calls = DynamicCache(), ((0, start), (start, LENGTH), (LENGTH, LENGTH + 2))
        parts = [
            model(ids[:, first:end], attention_mask=mask[:, :, first:end, :end], **{CACHE: cache})
            for first, end in calls
        ]
        expected = oracle(ids, attention_mask=mask, use_cache=False).logits
    torch.testing.assert_close(torch.cat([part.logits for part in parts], 1), expected, **CLOSE)


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("change", ["hidden", "shown"])
def test_a_cache_refuses_padding_that_changes_on_the_way(change, grad):
    model, cache, ids = saobp.apply(build("llama"), "high", 1.5), DynamicCache(), tokens(2, LENGTH)
    before, after = (
        torch.ones(2, LENGTH - 2, dtype=torch.long),
        torch.ones(2, LENGTH, dtype=torch.long),
    )
    (after if change == "hidden" else before)[1, 3] = 0
    with torch.set_grad_enabled(grad):
        model(ids[:, :-2], attention_mask=before, **{CACHE: cache})
        with pytest.raises(ValueError, match=r"past_key_values.*attention_mask"):
            model(ids[:, -2:], attention_mask=after, **{CACHE: cache})


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("shown", ["causal", "packed causal", "causal, padded on the left"])
def test_a_cache_goes_on_under_masks_of_four_dimensions(shown, grad):
    model, cache, ids = saobp.apply(build("llama"), "high", 1.5), DynamicCache(), tokens(2, LENGTH)
    mask = FORMS["boolean"](SHOWN[shown])
    places = torch.arange(LENGTH)[None]
    real = mask.diagonal(dim1=-2, dim2=-1)[:, 0]
    with torch.set_grad_enabled(grad):
        whole = model(ids, attention_mask=mask, position_ids=places, use_cache=False).logits
        parts = [
            model(
                ids[:, rows],
                attention_mask=mask[:, :, rows, : rows.stop],
                position_ids=places[:, rows],
                **{CACHE: cache},
            ).logits
            for rows in (slice(0, 5), slice(5, 6), slice(6, LENGTH))
        ]
    torch.testing.assert_close(torch.cat(parts, 1)[real], whole[real], **CLOSE)


def test_a_mask_that_a_control_cannot_read_is_refused():
    mask = SHOWN["prefix and branch"].clone()
    with pytest.raises(ValueError, match="shuffled"):
        saobp.apply(build("bert"), "shuffled")(tokens(2, LENGTH), attention_mask=mask)
    # what other tests had traced in this process counts against the limit of traces
    torch.compiler.reset()
    traced = torch.compile(saobp.apply(build("bert"), "uniform"), backend="eager", fullgraph=True)
    with pytest.raises(Exception, match='mask: factor "uniform" reads it .*, which a trace cannot'):
        traced(tokens(2, LENGTH), attention_mask=mask)


def test_a_decoder_whose_configuration_says_that_it_is_not_causal_is_refined_as_it_attends():
    model = build("llama")
    model.config.is_causal = False
    saobp.apply(model, "high", 1.5)
    assert not maps.is_causal(model)
    with torch.no_grad():
        torch.testing.assert_close(model(tokens()).logits, model(tokens(), use_cache=False).logits)


def test_strengths_beside_packed_weights_are_of_a_type_to_train_in_and_a_loaded_one_is_kept():
    module = torch.nn.Module()
    module.packed = torch.nn.Parameter(torch.zeros(2, dtype=torch.int8), requires_grad=False)
    module.bias = torch.nn.Parameter(torch.zeros(2, dtype=torch.bfloat16))
    assert home(module) == (torch.device("cpu"), torch.bfloat16)
    del module.bias
    assert home(module) == (torch.device("cpu"), torch.float32)
    one = refined_modules(saobp.apply(build("bert"), learn="head"))[0].saobp
    one.offset.data += 1
    one.offset._is_hf_initialized = True
    one.reset_unless_loaded()
    assert (one.offset == 1).all()


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_a_bias_that_starts_at_nothing_is_learned(family):
    model, bias = saobp.apply(build(family), "high", 0.5), torch.zeros(1, 1, LENGTH, LENGTH)
    shown = bias.masked_fill(~EARLIER, -torch.inf) if family == "llama" else bias
    shown.requires_grad_()
    model(tokens(2, LENGTH), attention_mask=shown, use_cache=False).logits.square().sum().backward()
    assert shown.grad.abs().sum() > 0
