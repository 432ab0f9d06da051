"""Every model class of transformers that can be built small: factor "none" is the plain model, High
the literal form, on every path; numbers and gradients.
"""

import every_model
import pytest
from transformers import CONFIG_MAPPING

from saobp.models import refined_attention

# at least one of each way to attend, to mask and to cache
FEW = (
    "albert",
    "bart",
    "bert",
    "bigbird_pegasus",
    "bloom",
    "diffllama",
    "esm",
    "gemma2",
    "gemma3_text",
    "gpt2",
    "gptj",
    "gpt_neox",
    "gpt_oss",
    "layoutlm",
    "llama",
    "mamba",
    "phi",
    "t5",
    "vit",
)
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("kind", FEW)
def test_none_is_the_plain_model_and_high_the_literal_form(kind):
    results = every_model.row(kind)
    assert results["built"] == "yes"
    assert not every_model.faults(results), results


ONE_PASS = [path for path in every_model.PATHS if path != every_model.IN_PARTS]


@pytest.mark.parametrize(
    ("kind", "paths"),
    [
        ("bart", every_model.PATHS),
        ("bert", ONE_PASS),
        ("llama", every_model.PATHS),
        ("vit", ONE_PASS),
    ],
)
def test_gradients_are_compared_on_every_path_that_a_kind_has(kind, paths):
    results = every_model.gradient_checks(*every_model.built(kind))
    compared = {name for name in results if name in every_model.GRADIENTS}
    groups = (every_model.INPUTS, every_model.WEIGHTS, every_model.STRENGTHS)
    expected = {f"gradients of {group}: {path}" for group in groups for path in paths}
    expected.remove(f"gradients of {every_model.STRENGTHS}: {every_model.FIXED}")
    assert compared == expected
    assert not every_model.faults(results), results


def test_a_path_that_drops_a_gradient_fails(monkeypatch):
    """Where attention is shown, of the probabilities; the fused operation has its own."""
    average = refined_attention.apply_to_values
    monkeypatch.setattr(
        refined_attention,
        "apply_to_values",
        lambda weights, value, dropout: average(weights.detach(), value, dropout),
    )
    results = every_model.gradient_checks(*every_model.built("bert"))
    groups = (every_model.INPUTS, every_model.WEIGHTS, every_model.STRENGTHS)
    expected = {f"gradients of {group}: attentions" for group in groups}
    assert {*every_model.faults(results)} == expected


@pytest.mark.parametrize("kind", ["nemotron_asr_streaming_encoder", "paligemma"])
def test_the_oracle_has_the_masks_that_a_model_reads_itself(kind):
    results = every_model.row(kind)
    assert results["plain = literal"] <= every_model.CLOSE
    assert results["High = literal"] <= every_model.CLOSE
    assert not every_model.faults(results), results


@pytest.mark.parametrize("kind", ["axk2", "glm_moe_dsa", "inkling2_text", "mistral_large4"])
def test_a_kind_that_no_call_can_refine_is_refused_before_any(kind):
    model, _ = every_model.built(kind)
    with pytest.raises(ValueError, match="^model: .*; saobp.apply cannot refine it$"):
        every_model.refined_copy(model)


@pytest.mark.parametrize("kind", ["llama", "hrm_text"])
def test_what_a_deep_model_deviates_by_is_the_rounding_of_float32(kind):
    model, given = every_model.built(kind)
    assert every_model.in_float64(model, given) < every_model.EXACT
    refined = every_model.refined_copy(model.double(), "low")
    oracle = every_model.literal(model, every_model.refined_names(refined), every_model.STRENGTH)
    outputs = [
        every_model.first(every_model.run(one, given, use_cache=False)) for one in (refined, oracle)
    ]
    assert every_model.apart(*outputs) > 1e-2


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("ValueError: 62166209 parameters", "over 20 million parameters"),
        ("ImportError: `pip install timm`. Please", "needs a package"),
        ("ValueError: You have to specify bbox", "takes other inputs"),
        ("TypeError: X.forward() missing 1 required positional argument", "takes other inputs"),
        (f"{every_model.NO_INPUT} tokens, pictures or sound alone", "takes other inputs"),
        ("StrictDataclassClassValidationError: ValueError: a", "refuses sizes that do not fit"),
        ("RuntimeError: The size of tensor a (4) must match", "does not run with small sizes"),
    ],
)
def test_the_table_says_why_a_kind_is_not_tried(reason, kind):
    assert every_model.why_not(reason).startswith(kind)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", sorted({*CONFIG_MAPPING} - {*FEW}))
def test_none_is_the_plain_model_and_high_the_literal_form_whatever_the_kind(kind):
    if kind not in every_model.kinds():
        pytest.skip("it is a part of another kind")
    results = every_model.row(kind)
    if results["built"] != "yes":
        pytest.skip(f"{results['why not']}: {results['built']}")
    assert not every_model.faults(results), results
