"""Spared keys in transformers models: every path, saving, caches and masks."""

import itertools

import pytest
import torch
from families import (
    CACHE,
    CAUSAL,
    CLOSE,
    PAD,
    build,
    generated,
    padding_mask,
    refined_modules,
    run,
    seen,
    tokens,
)
from transformers import DynamicCache

import saobp
from saobp.models import cache as cache_module
from saobp.models.apply import raw_attentions

ENCODERS = ["bert", "roberta", "modernbert", "t5"]
CASES = [
    *itertools.product(ENCODERS, ["first", "edges", 0.2]),
    *((family, "first") for family in CAUSAL),
]
SIDES = {
    "none": None,
    "right": padding_mask(),
    "left": padding_mask().flip(1),
}


def refined(family, spare="first", strength=1.5, **options):
    return saobp.apply(build(family), "high", strength, spare=spare, **options)


def left_padded():
    """Return prompts of three lengths, padded on the left."""
    ids, mask = tokens(3, 9), torch.ones(3, 9, dtype=torch.long)
    for row, padding in enumerate((0, 4, 2)):
        ids[row, :padding], mask[row, :padding] = PAD, 0
    return ids, mask


@pytest.mark.parametrize(("family", "spare"), CASES)
@pytest.mark.parametrize("side", SIDES)
def test_maps_are_those_of_refine_and_the_fused_path_gives_the_same_output(family, spare, side):
    model, mask = refined(family, spare), SIDES[side]
    real = torch.ones(2, 9).bool() if mask is None else mask.bool()
    options = {"causal": family in CAUSAL, "mask": real, "spare": spare}
    fused = run(model, tokens(), mask)
    with raw_attentions(model) as pairs:
        watched = run(model, tokens(), mask)
    torch.testing.assert_close(fused[real], watched[real], **CLOSE)
    for raw, shown in pairs:
        windowed = family in ("modernbert", "mistral") and bool((raw[0, :, -1, 0] == 0).all())
        if not windowed:
            rows = real[:, None].expand(raw.shape[:3])
            visible = raw.masked_fill(~real[:, None, None], 0)
            expected = saobp.refine(visible, "high", 1.5, **options)
            torch.testing.assert_close(shown[rows], expected[rows], **CLOSE)
    plain_high = saobp.apply(build(family), "high", 1.5)
    assert (run(plain_high, tokens(), mask)[real] - fused[real]).abs().max() > 1e-3


@pytest.mark.parametrize(
    ("family", "spare"), [("bert", 0.2), ("bert", "edges"), ("llama", "first")]
)
def test_learned_strengths_train_alike_fused_and_materialised(family, spare):
    model = refined(family, spare, learn="head")
    gradients = []
    for watch in (False, True):
        model.zero_grad()
        if watch:
            with raw_attentions(model):
                run(model, tokens(), padding_mask()).square().sum().backward()
        else:
            run(model, tokens(), padding_mask()).square().sum().backward()
        gradients.append([module.saobp.offset.grad.clone() for module in refined_modules(model)])
    for fused, materialised in zip(*gradients):
        assert fused.abs().max() > 0
        torch.testing.assert_close(fused, materialised, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("family", CAUSAL)
@pytest.mark.parametrize("way", [{}, {"num_beams": 3}, {"prefill_chunk_size": 4}], ids=str)
def test_generation_from_a_left_padded_batch_is_the_same_with_and_without_a_cache(family, way):
    model, (ids, mask) = refined(family, strength=[0.5, 1.0, 1.5, 2.0], learn="head"), left_padded()
    call = {"output_logits": True, "return_dict_in_generate": True, "attention_mask": mask, **way}
    cached = generated(model, ids, **call)
    full = generated(model, ids, use_cache=False, **{**call, "prefill_chunk_size": None})
    assert torch.equal(cached.sequences, full.sequences)
    torch.testing.assert_close(torch.stack(cached.logits), torch.stack(full.logits), **CLOSE)


@pytest.mark.parametrize("family", CAUSAL)
@pytest.mark.parametrize("tile", [2, 128])
def test_a_cache_in_parts_cropped_and_reordered_equals_the_full_forward(family, tile, monkeypatch):
    monkeypatch.setattr(cache_module, "TILE", tile)
    model, ids = refined(family), tokens(2, 14)
    order = torch.tensor([1, 0, 1])
    with torch.no_grad():
        expected = model(ids[order], use_cache=False).logits
        cache = DynamicCache(config=model.config)
        for part in ids[:, :11].split((6, 1, 3, 1), dim=1):
            model(part, **{CACHE: cache})
        cache.crop(-2)
        cache.reorder_cache(order)
        onward = model(ids[order, 9:], **{CACHE: cache}).logits
    torch.testing.assert_close(onward, expected[:, 9:], **CLOSE)


@pytest.mark.parametrize(
    ("family", "spare"), [("bert", "first"), ("bert", 0.25), ("llama", "first")]
)
def test_each_of_two_sequences_packed_into_one_spares_its_own_keys(family, spare):
    model = refined(family, spare)
    first, second = tokens(1, 5), tokens(1, 4, seed=7)
    place = torch.arange(9)
    together = (place[:, None] < 5) == (place < 5)
    if family == "llama":
        together = together.tril()
    call = {"attention_mask": together[None, None]}
    positions = torch.cat([torch.arange(5), torch.arange(4)])[None]
    if family == "llama":
        call["use_cache"] = False
    with torch.no_grad():
        packed = model(torch.cat([first, second], 1), position_ids=positions, **call).logits
        alone = [model(ids).logits for ids in (first, second)]
    torch.testing.assert_close(packed, torch.cat(alone, 1), **CLOSE)


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_the_way_of_sparing_is_saved_loaded_and_kept_with_learned_strengths(family, tmp_path):
    spare = 0.2 if family == "bert" else "first"
    model = refined(family, spare, learn="layer")
    with torch.no_grad():
        for module in refined_modules(model):
            module.saobp.offset += 0.3
    model.save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path)
    assert loaded.config.saobp["spare"] == spare
    torch.testing.assert_close(run(loaded.eval()), run(model), **CLOSE)
    # a checkpoint of before, without the field
    del loaded.config.saobp["spare"]
    again = saobp.models.apply.apply_saved
    again(loaded, loaded.config.saobp)
    assert refined_modules(loaded)[0].saobp.options.spare is None


def test_an_encoder_that_is_handed_a_causal_mask_spares_the_first_token_alone():
    ids, causal = tokens(), torch.ones(9, 9).bool().tril()[None, None]
    for raw, shown in seen(refined("bert"), ids, attention_mask=causal):
        expected = saobp.refine(raw, "high", 1.5, causal=True, spare="first")
        torch.testing.assert_close(shown, expected, **CLOSE)
    for spare in ("edges", 0.3):
        with pytest.raises(ValueError, match="^attention_mask: .*spare"):
            refined("bert", spare)(ids, attention_mask=causal)


@pytest.mark.parametrize(
    ("family", "options", "message"),
    [
        ("bert", {"spare": "last"}, "spare must be"),
        ("bert", {"spare": 0.0}, "spare must be"),
        ("bert", {"spare": 1.5}, "spare must be"),
        ("bert", {"spare": torch.ones(9).bool()}, "spare: a mask of keys cannot be saved"),
        ("bert", {"spare": "first", "factor": "elemmul"}, "spare does not apply"),
        ("gpt2", {"spare": "edges"}, "spare='edges' cannot be known in a causal model"),
        ("llama", {"spare": 0.3}, "spare=0.3 cannot be known in a causal model"),
    ],
)
def test_what_a_model_cannot_spare_is_refused_in_one_line_and_changes_nothing(
    family, options, message
):
    model = build(family)
    before = run(model)
    with pytest.raises(ValueError, match=f"^{message}") as refusal:
        saobp.apply(model, **options)
    assert "\n" not in str(refusal.value)
    assert torch.equal(run(model), before)
    assert not hasattr(model.config, "saobp")
