"""Every difference from the paper's recipe is named, and nothing where there is none."""

import dataclasses
from types import SimpleNamespace

import pytest

from saobp.study.setup.studies import ProfileError, available, load_profile
from saobp.study.training import architectures, departures

WHOLE = SimpleNamespace(description="text", splits=[{"dataset": "Salesforce/wikitext", "complete": True}])
SMALLER = {"Salesforce/wikitext:wikitext-2-v1": 1.0, "bookcorpus/bookcorpus": 1.0, "Skylion007/openwebtext": 1.0}
PART = SimpleNamespace(description="stories", splits=[{"dataset": "saobp/stories", "complete": True}])


@pytest.mark.parametrize("size", ["mini", "small", "medium"])
def test_the_paper_profile_departs_in_nothing_but_what_the_paper_leaves_open(size):
    found = departures.departures(load_profile("paper"), size, WHOLE, "high", 42)
    text = "text: text; the paper gives no weights and no rule"
    precision = "precision: bfloat16 autocast or float32, whichever is faster on the processor; the paper gives none"
    assert found == [text, precision, "batch: 256 sequences; the paper gives none"]


def test_smoke_names_its_text_its_twin_its_words_and_its_schedule():
    found = " ".join(departures.departures(load_profile("smoke"), "mini-twin", PART, "high", 42))
    for said in (
        "stories",
        "a twin of BERT-Mini",
        "wordpiece of at most 2048",
        "steps: 120, not 60000",
        "masking: 0.3, not BERT's 0.15",
        "at most 400000 tokens",
    ):
        assert said in found


@pytest.mark.parametrize("name", [name for name in available() if load_profile(name).decoder])
def test_a_decoder_says_that_its_size_is_ours_and_nothing_of_masks(name):
    study = load_profile(name)
    found = departures.decoder(study, study.decoder.models[0], PART, "high", 42)
    assert any("the paper gives no sizes for its decoders" in line for line in found)
    assert not any(line.startswith("masking") for line in found)


def test_the_open_questions_name_the_recipe_of_each_part_and_a_profile_without_them_says_so():
    said = departures.beyond(load_profile("stories"), PART)
    assert said[0] == "beyond the paper: it has no such experiments"
    for matter in (
        "text: stories; the paper: WikiText, BookCorpus and OpenWebText",
        "model: a twin of BERT-Mini, 4 layers, 64 wide",
        "vocabulary: wordpiece of at most 2048",
        "seed: 43 and 44; the paper's only one is 42",
        "steps: 2000, not 60000",
        "learning rate: 0.002, not 5e-05",
        "warm-up steps: 300, not 3000",
        "dropout: 0.0, not BERT's 0.1",
    ):
        assert sum(words.startswith(f"other strengths, {matter}") for words in said) == 1, matter
    assert said[-1].startswith("questions of known hops: no pretraining, encoders of 2 and 4 layers")
    assert "4,000 steps of 32 stories of 18 sentences, learning rate 0.001 (warmup_stable_decay, 200" in said[-1]
    assert said[-1].endswith("precision fp32, seeds 0 to 4, to 20 of Original, High and Uniform")
    of_narrow = departures.beyond(load_profile("narrow"), PART)
    assert {words.partition(",")[0] for words in of_narrow[1:]} == {"other strengths"}, "it has no larger ones, no hops"
    assert not any("seed" in words for words in of_narrow), "the paper's own"
    with pytest.raises(ProfileError, match="profile laptop asks no open questions: it has no section `beyond`"):
        departures.beyond(load_profile("laptop"), PART)


def test_larger_models_are_set_beside_their_own_size_s_recipe_and_named_where_they_differ():
    said = [words.removeprefix("larger models, ") for words in departures.beyond(load_profile("stories"), PART)]
    twins = "BERT-Mini, BERT-Mini (narrow twin)"
    steps = ("2000, not 150000 (BERT-Small)", "2000, not 245000 (BERT-Medium, BERT-Medium (twin))", "2000, not 60000")
    assert f"steps: {' | '.join(steps)} ({twins})" in said
    slow, fast = "0.0005, not 0.0003 (BERT-Medium, BERT-Small)", "0.002, not 0.0003 (BERT-Medium (twin), BERT-Small)"
    assert f"learning rate: {slow} | {fast} | 0.002, not 5e-05 ({twins})" in said
    assert "seed: 43 and 44; the paper's only one is 42 (BERT-Mini (narrow twin))" in said, "of one size alone"
    assert any(words.endswith("| fp32; the paper gives none (BERT-Medium)") for words in said)
    assert "masking: 0.3, not BERT's 0.15" in said, "alike in all"
    assert "text: that of the other strengths" in said


@pytest.mark.parametrize(
    ("changes", "algorithm", "seed", "said"),
    [
        ({"corpus": {"Salesforce/wikitext:wikitext-103-v1": 1.0}}, "high", 42, "text: text; the paper: WikiText"),
        ({"corpus": SMALLER}, "high", 42, "text: text; the paper: WikiText"),
        ({"pretrain": {"limit_tokens": 1000}}, "high", 42, "text: at most 1000 tokens of it"),
        ({"strengths": {"mini": 0.5}}, "high", 42, "strength: 0.5, not 0.2 (Sec. 6)"),
        ({"pretrain": {"weight_decay": 0.1}}, "high", 42, "weight decay: 0.1, not BERT's 0.01"),
        ({}, "high", 43, "seed: 43; the paper's only one is 42"),
        ({"pretrain": {"penalty": 0.5}}, "entropy_reg", 42, "penalty: coefficient 0.5, not the usual of entropy_reg"),
        ({}, "eigen_reg", 42, "Eigen-Reg: a reconstruction"),
    ],
)
def test_each_change_of_the_paper_profile_is_named_and_nothing_else(changes, algorithm, seed, said):
    study = load_profile("paper")
    for key, value in changes.items():
        new = dataclasses.replace(study.pretrain, **value) if key == "pretrain" else value
        study = dataclasses.replace(study, **{key: new})
    found = departures.departures(study, "mini", WHOLE, algorithm, seed)
    assert len(found) == (3 if "corpus" in changes else 4) and any(line.startswith(said) for line in found)


def test_an_algorithm_without_a_strength_departs_in_none():
    study = dataclasses.replace(load_profile("paper"), strengths={"mini": 0.5})
    for algorithm in architectures.WITHOUT_STRENGTH:
        assert not any("strength" in line for line in departures.departures(study, "mini", WHOLE, algorithm, 42))


@pytest.mark.parametrize(("epochs", "said"), [(1, "batch 16, 1 epoch, learning"), (3, "batch 16, 3 epochs, learning")])
def test_fine_tuning_counts_its_epochs(epochs, said):
    study = dataclasses.replace(load_profile("paper").finetune, batch=16, epochs=epochs)
    assert said in departures.finetuning(study, study.length, ["rte"])[-1]
    ends = "learning rate 0.0007, dropout 0.3: the paper gives none of these"
    changed = dataclasses.replace(study, learning_rate=7e-4, dropout=0.3)
    assert departures.finetuning(changed, study.length, ["rte"])[-1].endswith(ends)


def test_fine_tuning_names_a_task_that_has_its_own_number_of_epochs():
    study = dataclasses.replace(load_profile("paper").finetune, epochs=3, epochs_of={"sst2": 30})
    assert "sst2: 30 epochs, the others 3" in departures.finetuning(study, study.length, ["rte", "sst2"])
    assert not any(line.startswith("sst2") for line in departures.finetuning(study, study.length, ["rte"]))


def test_fine_tuning_names_a_task_that_has_its_own_length():
    study = dataclasses.replace(load_profile("paper").finetune, length=64, length_of={"race": 160})
    named = departures.finetuning(study, 128, ["rte", "race"])
    assert "race: length 160, the others 64" in named and named[0].startswith("positions past 128")
    alone = departures.finetuning(study, 128, ["rte"])
    assert not any(line.startswith(("race", "positions")) for line in alone)


def test_fine_tuning_names_the_substitute_splits_of_its_own_tasks():
    study = dataclasses.replace(load_profile("paper").finetune, splits={"race": ["validation", "test"]})
    assert "race: trained on validation, reported on test" in departures.finetuning(study, 512, ["race"])
    assert not any(line.startswith("race") for line in departures.finetuning(study, 512, ["rte", "squad"]))


def test_fine_tuning_names_positions_that_pretraining_never_reached():
    study = load_profile("paper").finetune
    assert study.length == 128
    assert not any("positions" in line for line in departures.finetuning(study, 128, ["rte"]))
    assert "positions past 127 are trained in fine-tuning alone" in departures.finetuning(study, 127, ["rte"])
