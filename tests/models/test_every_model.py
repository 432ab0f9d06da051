"""Every model class of transformers that can be built small: factor "none" is the plain model, High
the literal form, on every path; numbers and gradients.
"""

import every_model
import pytest
from transformers import CONFIG_MAPPING

# at least one of each way to attend, to mask and to cache
FEW = (
    "albert",
    "bart",
    "bert",
    "bigbird_pegasus",
    "bloom",
    "diffllama",
    "gemma2",
    "gemma3_text",
    "gpt2",
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


@pytest.mark.nightly
@pytest.mark.parametrize("kind", sorted({*CONFIG_MAPPING} - {*FEW}))
def test_none_is_the_plain_model_and_high_the_literal_form_whatever_the_kind(kind):
    if kind not in every_model.kinds():
        pytest.skip("it is a part of another kind")
    results = every_model.row(kind)
    if results["built"] != "yes":
        pytest.skip(f"cannot be built small: {results['built']}")
    assert not every_model.faults(results), results
