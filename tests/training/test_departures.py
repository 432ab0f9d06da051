"""Every difference from the paper's training configuration is named, and nothing where there is
none.
"""

from types import SimpleNamespace

import pytest

from companion.records import tracked
from companion.setup.sizes_and_strengths import WITHOUT_STRENGTH
from companion.setup.studies import TRACKED, StudyError, load_study
from companion.training import departures

WHOLE = SimpleNamespace(splits=[{"dataset": "Salesforce/wikitext", "complete": True}])
SMALLER = {
    "Salesforce/wikitext:wikitext-2-v1": 1.0,
    "bookcorpus/bookcorpus": 1.0,
    "Skylion007/openwebtext": 1.0,
}
TEXTS = departures.PAPER_TEXTS
PART = SimpleNamespace(splits=[{"dataset": "saobp/stories", "complete": True}])


def told(found, **of):
    """Matter -> (ours, paper), of the entries with the given part, model or task."""
    return {
        one["matter"]: (one["ours"], one["paper"]) for one in found if of.items() <= one.items()
    }


@pytest.mark.parametrize("size", ["mini", "small", "medium"])
def test_the_paper_study_departs_in_nothing_but_what_the_paper_leaves_open(size):
    found = told(departures.departures(load_study("paper"), size, WHOLE, "high", 42))
    assert found == {
        "weights of the texts": ("0.012 : 0.107 : 0.881", None),
        "precision": ("fp32", None),
        "sequences per batch": (256, None),
    }
    study = load_study("paper")
    assert study.seeds == [42] and study.decoder_recipe(size).steps == study.recipe(size).steps


@pytest.mark.parametrize(
    ("changes", "algorithm", "seed", "said"),
    [
        (
            {"corpus": {"bookcorpus/bookcorpus": 1}},
            "high",
            42,
            ("text", "bookcorpus/bookcorpus", TEXTS),
        ),
        ({"corpus": SMALLER}, "high", 42, ("text", ", ".join(SMALLER), TEXTS)),
        ({"pretrain": {"limit_tokens": 1000}}, "high", 42, ("tokens of text", 1000, "all")),
        ({"strengths": {"mini": 0.5}}, "high", 42, ("strength", 0.5, 0.2)),
        ({"pretrain": {"weight_decay": 0.1}}, "high", 42, ("weight decay", 0.1, 0.01)),
        ({}, "high", 43, ("seed", "43", 42)),
        ({"pretrain": {"penalty": 0.5}}, "entropy_reg", 42, ("penalty coefficient", 0.5, None)),
        ({}, "eigen_reg", 42, ("Eigen-Reg", "reconstructed after Bao et al. 2024", None)),
    ],
)
def test_each_change_of_the_paper_study_is_named_and_nothing_else(changes, algorithm, seed, said):
    study = load_study("paper")
    for key, value in changes.items():
        new = study.pretrain.changed(**value) if key == "pretrain" else value
        study = study.changed(**{key: new})
    found = told(departures.departures(study, "mini", WHOLE, algorithm, seed))
    assert len(found) == (3 if "corpus" in changes else 4) and found[said[0]] == said[1:]


@pytest.mark.parametrize("algorithm", WITHOUT_STRENGTH)
def test_an_algorithm_without_a_strength_departs_in_none(algorithm):
    study = load_study("paper").changed(strengths={"mini": 0.5})
    assert "strength" not in told(departures.departures(study, "mini", WHOLE, algorithm, 42))


def again(record):
    """What the code says today of the run of a tracked record."""
    given, measured = record["parameters"], record["metrics"]
    if record["stage"] == "attention":
        (length,) = [
            one["ours"]
            for one in record["departures"]
            if one["matter"] == "tokens per sample at most"
        ]
        lost = sum(one["ours"] for one in record["departures"] if one["matter"] == "items too long")
        return departures.attention(measured["samples"], length, given["task"], lost)
    if record["stage"] == "alternations":
        setting = (given["sequences"], given["length"], measured["repeats"])
        return departures.cost(given["model"], *setting, departures.VOCABULARY, given["phase"])
    study, splits = load_study(record["study"]), record["data"].get("splits", [])
    text = SimpleNamespace(splits=[split for split in splits if "role" not in split])
    if record["stage"] == "pretrain":
        return departures.departures(study, given["model"], text, given["algorithm"], given["seed"])
    if record["stage"] == "decoder":
        model = given["model"].removeprefix("gpt2-")
        return departures.decoder(study, model, text, given["algorithm"], given["seed"])
    if record["stage"] == "finetune":
        return departures.finetuning(study.finetune, study.pretrain.length, measured["tasks"])
    if record["stage"] == "cost":
        plan = study.cost
        return departures.cost(
            given["model"], plan.batch, plan.length, plan.rounds, plan.vocabulary
        )
    return departures.beyond(study, text)


AGAIN = ("attention", "alternations", "pretrain", "decoder", "finetune", "cost", "beyond")
# told of some runs of `narrow`
BY_HAND = {"encoder", "precision of attention at strength 0"}


@pytest.mark.parametrize("study", TRACKED)
def test_tracked_records_say_what_the_code_says_and_no_training_departs_in_nothing(study):
    for record in tracked.study(study):
        found = record["departures"]
        # whose recipe said less
        if record["stage"] in AGAIN and (study, record["stage"]) != ("narrow", "decoder"):
            # early records chose the precision on the machine
            made = [one for one in again(record) if one["matter"] != "precision"]
            assert all(one in found for one in made)
            others = {one["matter"] for one in found if one not in made}
            assert others <= BY_HAND | {"precision"}
        assert not [one for one in found if one["matter"].endswith(" split") and one["paper"]], (
            "the paper names none"
        )
        named = {one["matter"] for one in found}
        if record["stage"] in ("pretrain", "decoder", "branched", "hops"):
            assert {"steps", "learning rate", "vocabulary"} <= named and any(
                " per batch" in name for name in named
            )


def test_larger_models_are_set_beside_their_own_sizes_and_a_study_without_a_section_says_so():
    found = departures.beyond(load_study("stories"), PART)
    assert "seed" not in told(found, part="sizes", model="medium"), "the paper's own size and seed"
    assert told(found, part="sizes", model="mini-narrow")["seed"] == ("43, 44", 42), (
        "of one size alone"
    )
    assert {entry["part"] for entry in departures.beyond(load_study("narrow"), PART)} == {
        "strengths"
    }
    assert told(departures.cost("mini-quarter", 8, 128, 9, 2048))["model"] == (
        "4 layers, width 64",
        "BERT-Mini",
    )
    assert (
        told(departures.finetuning(load_study("smoke").finetune, 128, []))[
            "training items at most"
        ][1]
        == "all"
    )
    with pytest.raises(StudyError, match="study laptop has no section `beyond`"):
        departures.beyond(load_study("laptop"), PART)
