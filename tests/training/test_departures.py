"""Every difference from the paper's training configuration is named, and nothing where there is none."""

import dataclasses
from types import SimpleNamespace

import pytest

from saobp.study.paper import numbers
from saobp.study.setup import tracked
from saobp.study.setup.sizes_and_strengths import SIZES, WITHOUT_STRENGTH
from saobp.study.setup.studies import StudyError, available, load_study
from saobp.study.texts.runs import STUDIES
from saobp.study.training import departures

WHOLE = SimpleNamespace(splits=[{"dataset": "Salesforce/wikitext", "complete": True}])
SMALLER = {"Salesforce/wikitext:wikitext-2-v1": 1.0, "bookcorpus/bookcorpus": 1.0, "Skylion007/openwebtext": 1.0}
TEXTS = departures.PAPER_TEXTS
PART = SimpleNamespace(splits=[{"dataset": "saobp/stories", "complete": True}])


def told(found, **of):
    """Matter -> (ours, paper), of the entries with the given part, model or task."""
    return {one["matter"]: (one["ours"], one["paper"]) for one in found if of.items() <= one.items()}


@pytest.mark.parametrize("size", ["mini", "small", "medium"])
def test_the_paper_profile_departs_in_nothing_but_what_the_paper_leaves_open(size):
    found = told(departures.departures(load_study("paper"), size, WHOLE, "high", 42))
    assert found == {
        "weights of the texts": ("0.012 : 0.107 : 0.881", None),
        "precision": ("auto", None), "sequences per batch": (256, None),
    }  # fmt: skip
    study = load_study("paper")
    assert study.seeds == [42] and study.decoder_recipe(size).steps == study.recipe(size).steps


def test_smoke_names_its_text_its_size_its_words_and_its_schedule():
    found = told(departures.departures(load_study("smoke"), "mini-quarter", PART, "high", 42))
    assert found["text"] == ("saobp/stories", TEXTS)
    assert found["tokens of text"] == (400_000, "all")
    assert found["model"] == ("4 layers, width 64", "BERT-Mini: 4 layers, width 256")
    assert found["vocabulary"] == ("wordpiece, at most 2048 words", 30522)
    assert found["steps"] == (90, 60000) and found["masking"] == (0.3, 0.15)


@pytest.mark.parametrize("name", [name for name in available() if load_study(name).decoder])
def test_a_decoder_s_departures_take_nothing_from_the_paper_s_encoders(name):
    study = load_study(name)
    found = told(departures.decoder(study, study.decoder.models[0], PART, "high", 42))
    assert "masking" not in found
    for matter in ("model", "steps", "learning rate", "warm-up steps", "dropout", "tokens per sequence"):
        assert found[matter][1] is None, f"{matter}: Table 5 is of encoders"


@pytest.mark.parametrize("name", available())
def test_what_the_paper_does_not_print_names_whose_it_is(name):
    study, printed = load_study(name), numbers.load()
    for model in study.models:
        size = (SIZES[model].scaled_from or model).title()
        of_table5 = {printed.value(5, model=size, metric=metric) for metric in ("max_steps", "learning_rate")}
        for entry in departures.departures(study, model, PART, "original", 42):
            if entry["matter"] in ("tokens per sequence", "masking", "dropout", "weight decay", "vocabulary"):
                assert entry["paper"] is None or entry["basis"], entry
            if entry["matter"] in ("steps", "learning rate"):
                assert "basis" not in entry and entry["paper"] in of_table5


def test_the_open_questions_name_the_configuration_of_each_part_and_a_profile_without_them_says_so():
    found = departures.beyond(load_study("stories"), PART)
    strengths, hops = told(found, part="strengths"), told(found, part="hops")
    assert strengths["model"] == ("4 layers, width 64", "BERT-Mini: 4 layers, width 256")
    assert strengths["seed"] == ("43, 44", 42) and strengths["steps"] == (2000, 60000)
    assert hops["layers"] == ("2, 4", None) and hops["width"] == (64, None) and hops["seeds"] == ("0 to 20", None)
    assert hops["stories per batch"] == (32, None) and hops["sentences per story"] == (18, None)
    medium, small = (told(found, part="sizes", model=model) for model in ("medium", "small"))
    assert medium["steps"] == (2000, 245000) and small["steps"] == (2000, 150000), "beside their own size's schedule"
    assert medium["learning rate"] == (0.0005, 0.0003) and medium["precision"] == ("fp32", None)
    assert "model" not in medium and "seed" not in medium, "the paper's own size and seed"
    assert told(found, part="sizes", model="mini-narrow")["seed"] == ("43, 44", 42), "of one size alone"
    of_narrow = departures.beyond(load_study("narrow"), PART)
    assert {entry["part"] for entry in of_narrow} == {"strengths"}, "it has no larger ones, no hops"
    with pytest.raises(StudyError, match="study laptop has no section `beyond`"):
        departures.beyond(load_study("laptop"), PART)


@pytest.mark.parametrize(
    ("changes", "algorithm", "seed", "said"),
    [
        ({"corpus": {"bookcorpus/bookcorpus": 1}}, "high", 42, ("text", "bookcorpus/bookcorpus", TEXTS)),
        ({"corpus": SMALLER}, "high", 42, ("text", ", ".join(SMALLER), TEXTS)),
        ({"pretrain": {"limit_tokens": 1000}}, "high", 42, ("tokens of text", 1000, "all")),
        ({"strengths": {"mini": 0.5}}, "high", 42, ("strength", 0.5, 0.2)),
        ({"pretrain": {"weight_decay": 0.1}}, "high", 42, ("weight decay", 0.1, 0.01)),
        ({}, "high", 43, ("seed", "43", 42)),
        ({"pretrain": {"penalty": 0.5}}, "entropy_reg", 42, ("penalty coefficient", 0.5, None)),
        ({}, "eigen_reg", 42, ("Eigen-Reg", "reconstructed after Bao et al. 2024", None)),
    ],
)  # fmt: skip
def test_each_change_of_the_paper_profile_is_named_and_nothing_else(changes, algorithm, seed, said):
    study = load_study("paper")
    for key, value in changes.items():
        new = dataclasses.replace(study.pretrain, **value) if key == "pretrain" else value
        study = dataclasses.replace(study, **{key: new})
    found = told(departures.departures(study, "mini", WHOLE, algorithm, seed))
    assert len(found) == (3 if "corpus" in changes else 4) and found[said[0]] == said[1:]


@pytest.mark.parametrize("algorithm", WITHOUT_STRENGTH)
def test_an_algorithm_without_a_strength_departs_in_none(algorithm):
    study = dataclasses.replace(load_study("paper"), strengths={"mini": 0.5})
    assert "strength" not in told(departures.departures(study, "mini", WHOLE, algorithm, 42))


def test_fine_tuning_names_its_settings_and_a_task_s_own_of_which_the_paper_gives_none():
    study = dataclasses.replace(
        load_study("paper").finetune, batch=16, epochs=3, epochs_of={"sst2": 30}, length=64, length_of={"race": 160},
        learning_rate=7e-4, dropout=0.3, splits={"race": ["validation", "test"]},
    )  # fmt: skip
    settings = {
        "tokens per sequence": 64,
        "sequences per batch": 16,
        "epochs": 3,
        "learning rate": 7e-4,
        "dropout": 0.3,
    }
    assert told(departures.finetuning(study, 64, ["rte"])) == {name: (ours, None) for name, ours in settings.items()}
    found = departures.finetuning(study, 128, ["rte", "sst2", "race"])
    assert told(found, task="sst2") == {"epochs": (30, None)}
    assert told(found, task="race") == {
        "tokens per sequence": (160, None), "training split": ("validation", None), "reported split": ("test", None),
    }  # fmt: skip
    assert told(departures.finetuning(study, 63, ["rte"]))["positions known from pretraining"] == (63, None)


def test_cost_names_how_it_was_measured_beside_the_paper_s_phase():
    assert told(departures.cost("mini-quarter", 8, 128, 9, 2048))["model"] == ("4 layers, width 64", "BERT-Mini")
    assert {"model", "vocabulary"} & told(departures.cost("mini", 8, 128, 9, 2048)).keys() == {"vocabulary"}
    assert told(departures.cost("mini", 8, 128, 9, 30522)).keys() == {"sequences per batch", "rounds", "logits"}
    rounds = {"rounds": (300, "an average over 200 steps")}
    assert told(departures.cost("mini", 32, 128, 300, 30522, "inference"), part="inference") == rounds
    longer = told(departures.cost("mini", 1, 512, 300, 30522, "inference"), part="inference")
    assert longer == rounds | {"sequences per batch": (1, 32), "tokens per sequence": (512, 128)}
    step = told(departures.cost("mini", 32, 128, 300, 30522, "train_no_dropout"), part="training")
    assert step["sequences per batch"] == (32, 1) and step["dropout"] == (0.0, 0.1)
    assert "dropout" not in told(departures.cost("mini", 32, 128, 300, 30522, "train"))


@pytest.mark.parametrize(
    ("task", "samples", "length", "beside"),
    [
        ("race", 1024, 64, {"tokens per sample at most": (64, None)}),
        ("race", 500, 64, {"samples": (500, 1024), "tokens per sample at most": (64, None)}),
        ("squad", 238, 64, {"samples": (238, None), "tokens per sample at most": (64, 120)}),
        ("squad", 238, 120, {"samples": (238, None)}),
        ("sst2", 872, 64, {"samples": (872, None), "tokens per sample at most": (64, None)}),
    ],
)
def test_attention_is_set_beside_what_the_captions_of_table_1_and_figure_6_say(task, samples, length, beside):
    found = departures.attention(samples, length, task)
    assert told(found, task=task) == beside | {"weights": ("pretrained, not fine-tuned", None)}
    assert all(bool(entry.get("basis")) == (entry["paper"] is not None) for entry in found)
    assert told(departures.attention(samples, length, task, 2))["items too long"] == (2, None)


@pytest.mark.parametrize("study", STUDIES)
def test_tracked_records_say_of_attention_and_splits_what_the_code_says_and_no_training_departs_in_nothing(study):
    for record in tracked.study(study):
        found, parameters = record["departures"], record["parameters"]
        if record["stage"] == "attention":
            (length,) = [one["ours"] for one in found if one["matter"] == "tokens per sample at most"]
            lost = sum(one["ours"] for one in found if one["matter"] == "items too long")
            assert found == departures.attention(record["metrics"]["samples"], length, parameters["task"], lost)
        if record["stage"] == "alternations":
            setting = [parameters[key] for key in ("sequences", "length")]
            given = (*setting, record["metrics"]["repeats"], departures.VOCABULARY, parameters["phase"])
            assert found == departures.cost(parameters["model"], *given)
        assert not [one for one in found if one["matter"].endswith(" split") and one["paper"]], "the paper names none"
        named = {one["matter"] for one in found}
        if record["stage"] in ("pretrain", "decoder", "branched", "hops"):
            assert {"steps", "learning rate", "vocabulary"} <= named and any(" per batch" in name for name in named)
