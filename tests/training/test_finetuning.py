"""Fine-tuning: the epoch is chosen on a slice of train, and what is followed on the reported split
chooses nothing.
"""

import dataclasses
import shutil

import datasets
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

from companion.data import sources
from companion.data.encoding import encode
from companion.data.task_rows import load_task
from companion.evaluation import scoring
from companion.setup.studies import load_study
from companion.training import architectures, checkpoints, finetuning, pretraining

STUDY = load_study("smoke")
# two classes, three, a similarity, a span, a choice
KINDS = ("rte", "mnli", "stsb", "squad", "race")
ASKED = [
    pytest.param(name, marks=[] if name in KINDS else pytest.mark.nightly)
    for names in STUDY.finetune.groups.values()
    for name in names
]
RECIPE = STUDY.finetune.changed(
    curve=0,
    epochs=2,
    epochs_of={},
    learning_rate=5e-4,
    limit_train=40,
    limit_evaluation=24,
    batch=8,
    length=96,
)


@pytest.fixture(scope="module")
def source():
    return sources.resolve("synthetic")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory, source):
    folder = tmp_path_factory.mktemp("checkpoint")
    tokenizer, _, _ = pretraining.texts(STUDY, "mini-quarter", source)
    plain = architectures.encoder("mini-quarter", tokenizer, dropout=0.0, seed=0)
    architectures.refine_with(plain, "high", 0.2).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def finetuned(name, checkpoint, source, folder, **changes):
    recipe = RECIPE.changed(**changes)
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    found, _ = finetuning.finetune_all(
        [name], checkpoint, tokenizer, recipe, source, seed=0, folder=folder
    )
    return found[name]


def test_score_and_gtd_are_followed_and_change_nothing(checkpoint, source, tmp_path):
    few = {"limit_train": 16, "limit_evaluation": 8, "batch": 4, "epochs": 1}
    quiet = finetuned("race", checkpoint, source, tmp_path / "quiet", **few)
    followed = finetuned("race", checkpoint, source, tmp_path / "followed", curve=3, **few)
    assert quiet["curve"] == []
    assert followed["headline"] == quiet["headline"] and followed["outcomes"] == quiet["outcomes"]
    assert [point["step"] for point in followed["curve"]] == [0, 2, 4]
    for point in followed["curve"]:
        assert len(point["gtd"]) == 4 and all(
            0 < value < 1 for value in (*point["gtd"], point["cross_layer_gtd"])
        )


def test_what_is_scored_is_not_rounded_to_the_precision_of_training(
    checkpoint, source, tmp_path, monkeypatch
):
    seen = []

    def score(spec, outputs, *args, **kwargs):
        seen.append(torch.as_tensor(outputs))
        return scoring.score(spec, outputs, *args, **kwargs)

    monkeypatch.setattr(finetuning, "score", score)
    # a processor may have to emulate it
    few = {"limit_train": 8, "limit_evaluation": 8, "batch": 4}
    finetuned("sst2", checkpoint, source, tmp_path, precision="bf16", curve=2, **few)
    # two points followed, two epochs judged, the reported split
    assert len(seen) == 5
    for outputs in seen:
        assert (outputs.bfloat16().to(outputs) != outputs).any()


def test_a_task_may_have_its_own_epochs_and_length_and_others_are_not_followed(
    checkpoint, source, tmp_path, monkeypatch
):
    asked, own = [], {"epochs_of": {"sst2": 3}, "length_of": {"sst2": RECIPE.length + 3}}
    note = lambda spec, *given: asked.append((spec.name, given[-1])) or encode(spec, *given)  # noqa: E731
    monkeypatch.setattr(finetuning, "encode", note)
    few = {"curve": 2, "epochs": 1, "limit_train": 10, "limit_evaluation": 8, "batch": 4}
    sst2, rte = (
        finetuned(name, checkpoint, source, tmp_path, **few, **own) for name in ("sst2", "rte")
    )
    assert sst2["curve"][-1]["step"] == 9 and rte["curve"] == [], "the paper does not correlate RTE"
    assert set(asked) == {("sst2", RECIPE.length + 3), ("rte", RECIPE.length)}
    floor = scoring.floor(finetuning.task_of("rte", RECIPE.changed(**few), source))
    assert rte["floor"] == floor and floor["items"] == rte["items"]


@pytest.mark.parametrize("name", ASKED)
def test_a_model_with_random_weights_answers_variously_and_is_at_chance(
    name, checkpoint, source, tmp_path
):
    recipe = RECIPE.changed(limit_train=16, limit_evaluation=100)
    task, tokenizer = (
        finetuning.task_of(name, recipe, source),
        AutoTokenizer.from_pretrained(checkpoint),
    )
    features = encode(task.spec, task.evaluation, tokenizer, recipe.length)
    model = random_weights(finetuning.with_head(task, checkpoint, recipe, 0))
    assert model.config.saobp["factor"] == "high", "the refinement stays on"
    trainer = finetuning.trainer_of(model, task, features, tokenizer, recipe, 0, tmp_path)
    # or it would name one class: texts differ less than the classes' biases
    if task.spec.kind == "classification":
        mean = trainer.predict(features).predictions.mean(0)
        trainer.model.classifier.bias.data -= torch.as_tensor(mean)
    found = finetuning.scored(trainer, task, "evaluation", features)
    low, high = found["interval"]
    assert not found["constant"]
    # a span may hit by luck
    assert low <= found["chance"] <= high or (name == "squad" and high < 10), found["scores"]


def test_a_finished_task_of_other_rows_is_made_again(checkpoint, source, tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(
        finetuning, "finetune", lambda *args, **kwargs: made.append(1) or {"headline": 50.0}
    )
    monkeypatch.setattr(finetuning, "floor", lambda task: {})
    for bytes_of_a_split, runs in (("a", 1), ("a", 1), ("b", 2)):
        monkeypatch.setattr(
            type(source), "fingerprint", lambda *args, found=bytes_of_a_split: found
        )
        finetuned("rte", checkpoint, source, tmp_path)
        assert len(made) == runs


def random_weights(model, scale=5.0):
    """Draw a model's weights so wide that its outputs follow the text."""
    torch.manual_seed(0)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=scale * model.config.initializer_range)
    return model


def marked(source, **labels):
    """A task whose label is a word in front of a story's sentence; `labels` replaces those of a
    part.
    """
    task = load_task("sst2", source, limits=(150, 100))

    def part(name):
        rows = getattr(task, name)
        answers = np.random.default_rng(len(rows)).permutation(np.arange(len(rows)) % 2)
        said = labels.get(name, lambda values: values)(answers)
        told = {
            "sentence": [
                f"{('yes', 'no')[n]} {text}" for n, text in zip(answers, rows["sentence"][:])
            ]
        }
        return datasets.Dataset.from_dict(told | {"label": said})

    return dataclasses.replace(
        task, **{name: part(name) for name in ("train", "development", "evaluation")}
    )


def trained(task, checkpoint, folder):
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    recipe = RECIPE.changed(epochs=3, length=24, learning_rate=1e-3)
    return finetuning.finetune(task, checkpoint, tokenizer, recipe, seed=0, folder=folder)


@pytest.fixture(scope="module")
def honest(checkpoint, source, tmp_path_factory):
    return trained(marked(source), checkpoint, tmp_path_factory.mktemp("honest"))


def test_true_labels_are_learned_and_permuted_ones_leave_chance(
    honest, checkpoint, source, tmp_path
):
    permuted = marked(source, train=np.random.default_rng(1).permutation)
    assert honest["interval"][0] > 50 and scoring.floor(marked(source))["interval"][0] > 50
    for found in (trained(permuted, checkpoint, tmp_path), scoring.floor(permuted)):
        assert found["interval"][0] < 50 < found["interval"][1], found["scores"]


def test_the_epoch_is_the_development_slice_s_best_and_reported_labels_change_no_answer(
    honest, checkpoint, source, tmp_path
):
    opposed = trained(marked(source, development=lambda labels: 1 - labels), checkpoint, tmp_path)
    assert honest["epoch"] > opposed["epoch"]
    # there the best epoch is the one that knows least
    assert honest["headline"] > 90 and opposed["headline"] < 70
    poisoned = trained(marked(source, evaluation=lambda labels: 1 - labels), checkpoint, tmp_path)
    assert poisoned["outcomes"] == [1 - right for right in honest["outcomes"]]
    assert poisoned["epoch"] == honest["epoch"]


def test_a_loss_that_is_no_number_is_a_failed_task_and_not_a_score(checkpoint, source, tmp_path):
    broken = shutil.copytree(checkpoint, tmp_path / "broken")
    weights = load_file(broken / "model.safetensors")
    nothing = {name: torch.full_like(values, torch.nan) for name, values in weights.items()}
    save_file(nothing, broken / "model.safetensors", {"format": "pt"})
    found = finetuned("rte", broken, source, tmp_path / "work")
    assert "the run has diverged" in found["failed"]["message"] and "headline" not in found


def test_the_folder_of_a_run_follows_recipe_and_weights(checkpoint, source, tmp_path):
    def folder(study=STUDY, weights=checkpoint):
        return checkpoints.finetune_folder(study, weights, "all", 0, source)

    other_recipe = STUDY.changed(finetune=STUDY.finetune.changed(epochs=7))
    other_weights = shutil.copytree(checkpoint, tmp_path / checkpoint.name)
    assert folder() == folder(weights=other_weights) != folder(other_recipe)
    (other_weights / "model.safetensors").write_bytes(b"other")
    assert folder() != folder(weights=other_weights)
