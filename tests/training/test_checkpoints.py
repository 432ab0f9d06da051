"""A checkpoint is trusted only when all of it is there."""

import pytest
from small_models import network, word_tokenizer

from companion.setup import paths, recipes
from companion.setup.studies import load_study
from companion.training import checkpoints


@pytest.mark.parametrize(
    "damage, said",
    [
        (
            lambda folder: (folder / "model.safetensors").write_bytes(bytes(range(50))),
            "model.safetensors is damaged",
        ),
        (lambda folder: (folder / "trainer_state.json").unlink(), "trainer_state.json is missing"),
        (lambda folder: (folder / paths.SEAL).unlink(), "not written to its end"),
        (lambda folder: (folder / paths.SEAL).write_text("{"), "not written to its end"),
        (lambda folder: (folder / paths.SEAL).write_text("[1]"), "whole.json is damaged"),
        (lambda folder: (folder / paths.SEAL).write_text("{}"), "whole.json is damaged"),
        (
            lambda folder: (folder / paths.SEAL).write_text('{"../trainer_state.json": "0"}'),
            "whole.json is damaged",
        ),
    ],
)
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
    studies = (
        study.changed(strengths=strengths)
        for strengths in ({}, {"mini-quarter": 0.2}, {"mini-quarter": 5.0})
    )
    assert len({checkpoints.work_folder(one, model, "high", 42, "text") for one in studies}) == 3


def test_what_older_runs_had_alike_is_no_other_recipe():
    """A run that was killed before the recipe had these keys goes on; one measured on other
    sequences does not.
    """
    recipe = load_study("narrow").recipe("mini-narrow")
    assert not {"falling", "held_out"} & recipes.identity(recipe).keys()
    assert {"held_out", "falling"} <= recipes.identity(
        recipe.changed(held_out="even", falling=5)
    ).keys()


def test_a_run_that_an_earlier_version_began_is_found_by_its_folder_s_name():
    recipe = recipes.Pretraining(
        length=8, batch=2, steps=5, learning_rate=1e-3, warmup=1, precision="auto"
    )
    plain = {
        "attention": recipes.AttentionCapture(tasks=["rte"], length=8),
        "decoder": None,
        "beyond": None,
    }
    study = load_study("smoke").changed(pretrain=recipe, strengths={"mini": 0.5}, **plain)
    assert (
        checkpoints.work_folder(study, "mini", "high", 42, "text").name == "mini-high-42-fb41806c"
    )


MODEL = ("mini-quarter", "high", 42)


@pytest.fixture
def trained(tmp_path, monkeypatch):
    """Leave a finished model of the smoke study."""
    monkeypatch.setattr(paths, "build", lambda study_name: tmp_path)
    return checkpoints.save(network(), word_tokenizer(), load_study("smoke"), *MODEL)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("strengths: {}", "strengths: {mini-quarter: 0.9}", "strength 0.2, and {} asks for 0.9"),
        ("steps: 90", "steps: 91", "steps 90, and {} asks for 91"),
        (
            "learning_rate: 2.0e-3",
            "learning_rate: 1.0e-4",
            "learning_rate 0.002, and {} asks for 0.0001",
        ),
        ("masking: 0.3", "masking: 0.15", "masking 0.3, and {} asks for 0.15"),
        ("vocabulary: 2048", "vocabulary: 1024", "vocabulary 2048, and {} asks for 1024"),
        ("data: synthetic", "data: hub", "data synthetic, and {} asks for hub"),
    ],
)
def test_weights_of_the_study_before_it_was_edited_are_refused(trained, tmp_path, old, new, said):
    edited = tmp_path / "smoke.yaml"
    text = "strengths: {}\n" + (paths.root() / "notebooks" / "studies" / "smoke.yaml").read_text()
    edited.write_text(text)
    assert checkpoints.pretrained(str(edited), *MODEL) == trained
    edited.write_text(text.replace(old, new, 1))
    remedy = "SAOBP_DATA" if old.startswith("data") else "file of the study"
    with pytest.raises(
        ValueError, match=f"^{trained}: .*{said.format(edited)}: .*{remedy}.*delete[^\n]*$"
    ):
        checkpoints.pretrained(str(edited), *MODEL)


def test_a_decoder_s_folder_tells_the_recipe_and_the_tokenizer_of_the_decoders():
    study = load_study("smoke")
    said = checkpoints.made_of(study, "gpt2-mini-quarter", "high", 42)
    recipe = study.decoder_recipe("mini-quarter").model_dump()
    assert all(
        said[key] == value for key, value in recipe.items() if key not in checkpoints.MEASURING
    )
    assert (said["tokenizer"], said["vocabulary"], said["strength"]) == (
        "bpe",
        study.decoder.vocabulary,
        0.2,
    )


def test_data_are_recorded_as_they_are_found_whatever_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.delenv("SAOBP_DATA", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "hub").mkdir()
    root, study, said = paths.root(), load_study("smoke"), []
    for folder in (root, tmp_path):
        monkeypatch.chdir(folder)
        given = (study.changed(data=name) for name in ("data", "hub", "~/hub"))
        said.append([checkpoints.made_of(one, *MODEL)["data"] for one in given])
    assert said == [[str(root / "data"), "hub", str(tmp_path / "hub")]] * 2


def test_a_finished_model_that_was_cut_or_does_not_say_how_it_was_trained_is_named_with_its_remedy(
    trained,
):
    assert checkpoints.pretrained("smoke", *MODEL) == trained
    (trained / checkpoints.TRAINING).unlink()
    paths.seal(trained)
    with pytest.raises(ValueError, match="^.*mini-quarter-high-42: .*trained: delete it.*$"):
        checkpoints.pretrained("smoke", *MODEL)
    weights = trained / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])
    with pytest.raises(
        ValueError, match="model.safetensors is damaged; delete the folder and give"
    ):
        checkpoints.pretrained("smoke", *MODEL)
