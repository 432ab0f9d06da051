"""Attention that is seen from query and key is that of the model's own matrices."""

import families
import pytest
import torch

import saobp
from saobp.measure import gtd_and_entropy
from saobp.measure.observed import observed, refinement_of
from saobp.models.supported import self_attention_modules


def statistics_by_layer(model, mask=None):
    """Return what is measured of each layer, in the order of the layers."""
    layers = {}

    def observe(call):
        layers[call.layer] = call.statistics(probes=512, **refinement_of(call.module))

    with torch.no_grad(), observed(model, observe):
        families.called(model, mask=mask)
    return [layers[number] for number in sorted(layers)]


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("refinement", [("none", 0.1, {}), ("high", 0.3, {"spare": "first"})])
@pytest.mark.parametrize("family", families.BUILDERS)
def test_statistics_are_those_of_the_model_s_matrices(family, refinement, padded):
    if family == "vit" and padded:
        pytest.skip("pictures are not padded")
    factor, strength, options = refinement
    model = saobp.apply(families.build(family), factor, strength, **options)
    mask = families.padding_mask() if padded else None
    measured = statistics_by_layer(model, mask)
    with torch.no_grad(), saobp.models.apply.raw_attentions(model) as pairs:
        families.called(model, mask=mask)
    assert len(measured) == len(pairs) == 2
    for statistics, (_, refined) in zip(measured, pairs):
        real = None if mask is None else mask.bool()
        rows = 1.0 if real is None else real[:, None, :, None]
        columns = (refined * rows).sum(-2)
        assert torch.allclose(statistics.column_sum, columns, atol=1e-4), family
        entropy = gtd_and_entropy.attention_entropy(refined, mask=real)
        assert torch.allclose(statistics.row_entropy.nanmean(-1), entropy, atol=1e-4), family
        gtd = gtd_and_entropy.gtd(refined, mask=real)
        assert torch.allclose(statistics.gtd, gtd, atol=1e-4), family


def test_the_interface_and_the_outputs_are_as_before():
    from transformers.modeling_utils import AttentionInterface

    model, before = families.build("llama"), AttentionInterface.get_interface
    plain = families.called(model).logits
    with pytest.raises(RuntimeError, match="stop"), observed(model, lambda call: None):
        assert torch.equal(families.called(model).logits, plain)
        raise RuntimeError("stop")
    assert AttentionInterface.get_interface is before


def test_other_models_are_not_seen():
    model, other, calls = families.build("bert"), families.build("bert", seed=1), []
    with observed(model, calls.append):
        families.called(other)
    assert calls == []


@pytest.mark.parametrize(
    ("factor", "options"),
    [("elemmul", {}), ("high", {"steps": 2})],
)
def test_a_refinement_that_needs_the_matrix_is_refused(factor, options):
    model = saobp.apply(families.build("bert"), factor, **options)
    with pytest.raises(ValueError, match="^model: its refinement needs the L x L matrix"):
        refinement_of(self_attention_modules(model)[0])


@pytest.mark.parametrize("family", ["bert", "llama", "t5"])
def test_scores_and_values_of_an_eager_model_are_those_that_it_attends_by(family):
    model, calls = families.build(family), []
    model.set_attn_implementation("eager")
    with torch.no_grad(), observed(model, calls.append):
        families.called(model, mask=families.padding_mask())
    saobp.apply(model, "none")
    with torch.no_grad(), saobp.models.apply.raw_attentions(model) as pairs:
        families.called(model, mask=families.padding_mask())
    real = families.padding_mask().bool()
    for call, (attention, _) in zip(calls, pairs, strict=True):
        rows = real[:, None, :, None].expand_as(attention)
        assert torch.allclose(call.scores().softmax(-1)[rows], attention[rows], atol=1e-5)
        columns = attention.masked_fill(~rows, 0).sum(-2)
        ratios = call.sink_value_norms(columns)
        heads, groups = attention.shape[1], call.value.shape[1]
        for head in range(heads):
            norms = call.value[0, head * groups // heads].norm(dim=-1)
            ratio = norms[columns[0, head].argmax()] / norms[real[0]].median()
            assert ratios[0, head].item() == pytest.approx(ratio.item(), rel=1e-5)
