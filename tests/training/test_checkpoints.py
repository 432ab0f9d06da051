"""A checkpoint is trusted only when all of it is there."""

import json
from dataclasses import replace

import example_records as examples
import pytest
from small_models import network, word_tokenizer

from saobp.study.setup import paths
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


def test_a_finished_model_of_another_schedule_or_that_was_cut_is_refused_with_its_remedy(tmp_path, monkeypatch):
    """A row within a budget leaves weights of few steps where the whole study looks for its own."""
    monkeypatch.setattr(paths, "build", lambda profile: tmp_path)
    named = ("smoke", "mini-quarter", "high", 42)
    folder = checkpoints.publish(network(), word_tokenizer(), *named)
    steps = load_study("smoke").recipe("mini-quarter").steps
    path = tmp_path / "records" / "04-pretrain-mini-quarter-high-42.json"

    def trained(made):
        paths.write_text(path, json.dumps(examples.record("pretrain", *named[1:], {"steps": made})))

    trained(steps)
    assert checkpoints.pretrained(*named) == folder
    trained(steps - 1)
    with pytest.raises(ValueError, match=f"trained for {steps - 1} steps, and smoke asks for {steps}: name the file"):
        checkpoints.pretrained(*named)
    trained(steps)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])
    with pytest.raises(ValueError, match="model.safetensors is damaged; delete the folder"):
        checkpoints.pretrained(*named)
