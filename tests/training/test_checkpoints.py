"""A checkpoint is trusted only when all of it is there."""

import json
from dataclasses import asdict, replace

import example_records as examples
import pytest
from small_models import network, word_tokenizer

from saobp.study.setup import paths, recipes
from saobp.study.setup.studies import load_study
from saobp.study.training import checkpoints


@pytest.mark.parametrize("damage, said", [
    (lambda folder: (folder / "model.safetensors").write_bytes(bytes(range(50))), "model.safetensors is damaged"),
    (lambda folder: (folder / "trainer_state.json").unlink(), "trainer_state.json is missing"),
    (lambda folder: (folder / paths.SEAL).unlink(), "not written to its end"),
    (lambda folder: (folder / paths.SEAL).write_text("{"), "not written to its end"),
    (lambda folder: (folder / paths.SEAL).write_text("[1]"), "whole.json is damaged"),
    (lambda folder: (folder / paths.SEAL).write_text("{}"), "whole.json is damaged"),
    (lambda folder: (folder / paths.SEAL).write_text('{"../trainer_state.json": "0"}'), "whole.json is damaged"),
])  # fmt: skip
def test_a_damaged_newest_falls_back_to_the_one_before_and_says_so(tmp_path, damage, said):
    for step in (5, 10, 100):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(bytes(range(100)))
        (folder / "trainer_state.json").write_text("{}")
        paths.seal(folder)
    damage(folder)
    words = []
    assert checkpoints.newest_whole(tmp_path, words.append).name == "checkpoint-10"
    assert len(words) == 1 and said in words[0] and "checkpoint-100" in words[0]


@pytest.mark.parametrize("model", ["mini-quarter", "gpt2-mini-quarter"])
def test_another_strength_works_in_another_folder(model):
    study = load_study("smoke")
    folders = {
        checkpoints.work_folder(replace(study, strengths=strengths), model, "high", 42, "text", study.pretrain)
        for strengths in ({}, {"mini-quarter": 0.2}, {"mini-quarter": 5.0})
    }
    assert len(folders) == 3


def test_what_older_runs_had_alike_is_no_other_recipe():
    """A run that was killed before the recipe had these keys goes on; one measured on other sequences does not."""
    recipe = load_study("narrow").recipe("mini-narrow")
    assert not {"falling", "held_out"} & recipes.identity(recipe).keys()
    assert {"held_out", "falling"} <= recipes.identity(replace(recipe, held_out="even", falling=5)).keys()


MODEL = ("mini-quarter", "high", 42)


@pytest.fixture
def trained(tmp_path, monkeypatch):
    """Leave a finished model of the smoke study, and where the workflow `recorded` so many steps, its record."""
    monkeypatch.setattr(paths, "build", lambda profile: tmp_path)

    def leave(recorded=None):
        folder = checkpoints.publish(network(), word_tokenizer(), load_study("smoke"), *MODEL)
        if recorded:
            record = json.dumps(examples.record("pretrain", *MODEL, {"steps": recorded}))
            paths.write_text(tmp_path / "records" / "04-pretrain-mini-quarter-high-42.json", record)
        return folder

    return leave


STEPS = load_study("smoke").recipe("mini-quarter").steps


@pytest.mark.parametrize("recorded", [None, STEPS], ids=["by hand", "by the workflow"])
@pytest.mark.parametrize(("old", "new", "said"), [
    ("strengths: {}", "strengths: {mini-quarter: 0.9}", "strength 0.2, and {} asks for 0.9"),
    ("steps: 90", "steps: 91", "steps 90, and {} asks for 91"),
    ("learning_rate: 2.0e-3", "learning_rate: 1.0e-4", "learning_rate 0.002, and {} asks for 0.0001"),
    ("masking: 0.3", "masking: 0.15", "masking 0.3, and {} asks for 0.15"),
    ("vocabulary: 2048", "vocabulary: 1024", "vocabulary 2048, and {} asks for 1024"),
    ("data: synthetic", "data: hub", "data synthetic, and {} asks for hub"),
])  # fmt: skip
def test_weights_of_the_study_before_it_was_edited_are_refused(trained, tmp_path, recorded, old, new, said):
    folder, edited = trained(recorded), tmp_path / "smoke.yaml"
    text = "strengths: {}\n" + (paths.root() / "notebooks" / "studies" / "smoke.yaml").read_text()
    edited.write_text(text)
    assert checkpoints.pretrained(str(edited), *MODEL) == folder
    edited.write_text(text.replace(old, new, 1))
    with pytest.raises(ValueError) as refused:
        checkpoints.pretrained(str(edited), *MODEL)
    remedy = "name the file of the study that trained it, or delete the folder"
    assert str(refused.value) == f"{folder}: trained with {said.format(edited)}: {remedy}"


def test_a_decoder_s_folder_tells_the_recipe_and_the_tokenizer_of_the_decoders():
    study = load_study("smoke")
    said = checkpoints.made_of(study, "gpt2-mini-quarter", "high", 42)
    recipe = asdict(study.decoder_recipe("mini-quarter"))
    assert all(said[key] == value for key, value in recipe.items() if key not in checkpoints.MEASURING)
    assert (said["tokenizer"], said["vocabulary"], said["strength"]) == ("bpe", study.decoder.vocabulary, 0.2)


def test_weights_of_an_older_build_are_refused_by_the_steps_of_their_record(trained):
    """A row within a budget leaves weights of few steps where the whole study looks for its own."""

    def without_training(recorded):
        folder = trained(recorded)
        (folder / checkpoints.TRAINING).unlink()
        paths.seal(folder)
        return folder

    for recorded in (None, STEPS):
        folder = without_training(recorded)
        assert checkpoints.pretrained("smoke", *MODEL) == folder
    without_training(STEPS - 1)
    with pytest.raises(ValueError, match=f"trained with steps {STEPS - 1}, and smoke asks for {STEPS}: name the file"):
        checkpoints.pretrained("smoke", *MODEL)


def test_a_finished_model_that_was_cut_is_named_with_its_remedy(trained):
    folder = trained()
    assert checkpoints.pretrained("smoke", *MODEL) == folder
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])
    with pytest.raises(ValueError, match="model.safetensors is damaged; delete the folder and give"):
        checkpoints.pretrained("smoke", *MODEL)
