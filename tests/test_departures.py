"""Every difference from the paper's recipe is named, and nothing where there is none."""

from types import SimpleNamespace

import pytest

from saobp.study import departures
from saobp.study.profile import available, load_profile

WHOLE = SimpleNamespace(description="text", splits=[{"dataset": "Salesforce/wikitext", "complete": True}])
PART = SimpleNamespace(description="stories", splits=[{"dataset": "saobp/stories", "complete": True}])


@pytest.mark.parametrize("size", ["mini", "small", "medium"])
def test_the_paper_profile_departs_in_nothing_but_what_the_paper_leaves_open(size):
    found = departures.departures(load_profile("paper"), size, WHOLE)
    assert found == ["batch: 256 sequences; the paper gives none"]


def test_smoke_names_its_text_its_twin_its_words_and_its_schedule():
    found = " ".join(departures.departures(load_profile("smoke"), "mini-twin", PART))
    for said in (
        "stories",
        "a twin of BERT-Mini",
        "wordpiece of 2048",
        "steps: 300, not 60000",
        "masking: 0.3, not BERT's 0.15",
    ):
        assert said in found


@pytest.mark.parametrize("name", [name for name in available() if load_profile(name).decoder])
def test_a_decoder_says_that_its_size_is_ours_and_nothing_of_masks(name):
    study = load_profile(name)
    found = departures.decoder(study, study.decoder.models[0], PART)
    assert any("the paper gives no sizes for its decoders" in line for line in found)
    assert not any(line.startswith("masking") for line in found)
