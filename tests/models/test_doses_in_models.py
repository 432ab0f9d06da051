"""A dose in transformers models: saved, under padding and masks, and with a cache."""

import pytest
import torch
from families import (
    CAUSAL,
    CLOSE,
    PAD,
    build,
    generated,
    padding_mask,
    refined_modules,
    run,
    tokens,
)

import saobp
from saobp.models.apply import raw_attentions

AMOUNT = 4.0


def refined(family, **options):
    return saobp.apply(build(family), "high", saobp.dose(AMOUNT), **options)


@pytest.mark.parametrize("family", ["bert", "roberta", "t5", "gpt2", "llama"])
@pytest.mark.parametrize("mask", [None, padding_mask(), padding_mask().flip(1)])
def test_maps_are_those_of_refine_and_the_fused_path_gives_the_same_output(family, mask):
    model = refined(family)
    real = torch.ones(2, 9).bool() if mask is None else mask.bool()
    fused = run(model, tokens(), mask)
    with raw_attentions(model) as pairs:
        watched = run(model, tokens(), mask)
    torch.testing.assert_close(fused[real], watched[real], **CLOSE)
    for raw, shown in pairs:
        options = {"causal": family in CAUSAL, "mask": real}
        visible = raw.masked_fill(~real[:, None, None], 0)
        expected = saobp.refine(visible, "high", saobp.dose(AMOUNT), **options)
        rows = real[:, None].expand(raw.shape[:3])
        torch.testing.assert_close(shown[rows], expected[rows], **CLOSE)


@pytest.mark.parametrize("family", ["bert", "roberta", "modernbert", "t5"])
def test_neither_padding_nor_the_rest_of_a_batch_changes_a_sequence(family):
    model, mask = refined(family), padding_mask()
    alone = run(model, tokens()[1:, :6])
    torch.testing.assert_close(run(model, tokens(), mask)[1:, :6], alone, **CLOSE)


@pytest.mark.parametrize("family", CAUSAL)
@pytest.mark.parametrize("spare", [None, "first"])
@pytest.mark.parametrize("way", [{}, {"num_beams": 3}, {"prefill_chunk_size": 4}], ids=str)
def test_generation_from_a_left_padded_batch_is_the_same_with_and_without_a_cache(
    family, spare, way
):
    model = refined(family, spare=spare)
    ids, mask = tokens(3, 9), torch.ones(3, 9, dtype=torch.long)
    for row, padding in enumerate((0, 4, 2)):
        ids[row, :padding], mask[row, :padding] = PAD, 0
    call = {"output_logits": True, "return_dict_in_generate": True, "attention_mask": mask, **way}
    cached = generated(model, ids, **call)
    full = generated(model, ids, use_cache=False, **{**call, "prefill_chunk_size": None})
    assert torch.equal(cached.sequences, full.sequences)
    torch.testing.assert_close(torch.stack(cached.logits), torch.stack(full.logits), **CLOSE)


def test_it_is_saved_and_loaded(tmp_path):
    model = refined("bert")
    model.save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path).eval()
    assert loaded.config.saobp["strength"] == {"dose": AMOUNT}
    assert refined_modules(loaded)[0].saobp.options.strength == saobp.dose(AMOUNT)
    torch.testing.assert_close(run(loaded), run(model), **CLOSE)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strength": saobp.dose(2), "learn": "head"}, "learn: a dose is fixed"),
        ({"strength": [saobp.dose(2), 0.1]}, "strength must be a number"),
        ({"strength": {"doses": 2}}, "strength must be a number"),
        ({"strength": {"dose": 0}}, "dose must be finite and above 0"),
    ],
)
def test_what_is_no_dose_for_a_model_is_refused_in_one_line(options, message):
    with pytest.raises(ValueError, match=f"^{message}") as refusal:
        saobp.apply(build("bert"), **options)
    assert "\n" not in str(refusal.value)


def test_a_sequence_that_is_all_padding_is_refused_in_one_line():
    mask = padding_mask()
    mask[1] = 0
    with pytest.raises(ValueError, match=r"^strength: saobp\.dose\(4\) is divided") as refusal:
        run(refined("bert"), tokens(), mask)
    assert "\n" not in str(refusal.value)
