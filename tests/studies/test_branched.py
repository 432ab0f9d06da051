"""Branches of one trunk: the same start for every arm, and a plain branch is the trunk
continued.
"""

import dataclasses

import pytest
import torch
from small_models import RECIPE, RandomText, word_tokenizer

from companion.data.masking import SeededMasking
from companion.evaluation import heldout
from companion.evaluation.heldout import HeldOut
from companion.setup.studies import load_study
from companion.studies import plan
from companion.studies.branched import run as branched

CHOSEN = plan.section(plan.file(), "branched", branched.Branched).model_copy(
    update={"arms": ["original", "high"], "trunks": [1], "below": 0.0, "every": 4, "steps": 4}
)
SMOKE = load_study("smoke")
STUDY = SMOKE.changed(
    # longer than the steps between two looks
    pretrain=RECIPE.changed(steps=8, batch=4, warmup=6),
    attention=SMOKE.attention.changed(length=RECIPE.length),
    decoder=None,
    beyond=None,
    schedules={},
)


@pytest.fixture(scope="module")
def trunk(tmp_path_factory):
    tokenizer, text = word_tokenizer(), RandomText()
    measure = HeldOut(text, SeededMasking(tokenizer, 0.15, 0), 8, 8)
    folder = tmp_path_factory.mktemp("branched")
    return branched.Trunk(STUDY, "mini-quarter", 1, CHOSEN, folder, tokenizer, text, measure)


@pytest.fixture(scope="module")
def grown(trunk):
    return trunk.grow()


@pytest.fixture(scope="module")
def plain(trunk, grown):
    return trunk.branch("original", grown[0])


def below(trunk, loss, **others):
    return dataclasses.replace(trunk, chosen=CHOSEN.model_copy(update={"below": loss}), **others)


def test_a_trunk_ends_with_its_recipe_or_as_soon_as_it_has_learned_and_one_that_is_there_where_it_ended(
    trunk, grown, tmp_path
):
    start, log = grown
    steps, losses = zip(
        *((entry["step"], entry["heldout"]["loss"]) for entry in log if "heldout" in entry)
    )
    assert (start, steps) == (8, (0, 4, 8)) and below(trunk, 1e9, folder=tmp_path).grow()[0] == 4
    _, early, late = losses
    assert late < early and below(trunk, (early + late) / 2).grow()[0] == trunk.grow()[0] == 8
    assert below(trunk, early + 1e-3).grow()[0] == 4, "and not what other runs have grown to"


def test_a_trunk_grown_in_parts_has_the_rates_and_the_losses_of_one_run(trunk, grown, tmp_path):
    recipe = STUDY.recipe("mini-quarter").changed(scheduler="constant_with_warmup", save_every=4)
    parts, once = (
        heldout.summary(log) for log in (grown[1], trunk.train("original", recipe, tmp_path)[1])
    )
    rates = [[point["learning_rate"] for point in one["training"]] for one in (parts, once)]
    assert rates[0] == rates[1] and len(set(rates[1])) > 3
    assert parts["curve"][-1]["loss"] == pytest.approx(once["curve"][-1]["loss"], rel=1e-6)


def test_the_rate_of_a_branch_falls_over_its_own_last_fifth(trunk, grown):
    """Of the branch's steps, wherever its trunk ended; before that it is whole."""
    long = dataclasses.replace(trunk, chosen=CHOSEN.model_copy(update={"steps": 20}))
    start, _ = grown
    rates = {
        point["step"]: point["learning_rate"]
        for point in long.branch("original", start)["training"]
    }
    whole = STUDY.pretrain.learning_rate
    falls = [step for step, rate in rates.items() if step > 6 and rate < 0.999 * whole]
    # the rate of a step is that after the one before it
    assert falls == [start + 18, start + 19, start + 20]


def test_every_branch_starts_from_the_trunk_and_its_losses_are_kept_by_sequence(
    trunk, grown, plain
):
    start, log = grown
    before = [entry["heldout"]["loss"] for entry in log if "heldout" in entry]
    for found in (plain, high := trunk.branch("high", start)):
        assert [point["loss"] for point in found["curve"][:3]] == before and found[
            "steps"
        ] == start + CHOSEN.steps
        assert len(found["nats"]) == len(found["tokens"]) == 8
        assert found["held_out"] == pytest.approx(found["curve"][-1]["loss"], rel=1e-5)
    assert plain["held_out"] != high["held_out"] and plain["nats"] != pytest.approx(
        high["nats"], rel=1e-6
    )
    assert trunk.branch("high", 4)["steps"] == 8, "from another step in a folder of its own"


def test_another_recipe_or_strength_is_another_trunk_or_branch(trunk):
    quick = STUDY.changed(pretrain=STUDY.pretrain.changed(learning_rate=0.5))
    strong = STUDY.changed(strengths={"mini-quarter": 5.0})
    homes = {
        dataclasses.replace(trunk, study=study).home(*part)
        for study in (STUDY, quick, strong)
        for part in (("trunk",), ("high", 4, study.strengths.get("mini-quarter")))
    }
    # a trunk has no strength
    assert len(homes) == 5


def test_a_plain_branch_is_the_trunk_continued(trunk, grown, plain, tmp_path):
    steps = {"steps": grown[0] + CHOSEN.steps, "save_every": CHOSEN.every, "falling": 1}
    recipe = STUDY.recipe("mini-quarter").changed(scheduler="warmup_stable_decay", **steps)
    # what was drawn before does not matter
    torch.manual_seed(7)
    network, _ = trunk.train("original", recipe, tmp_path / "whole")
    assert trunk.measure.by_sequence(network)[0] == pytest.approx(plain["nats"], rel=1e-6)


def test_trunks_of_two_seeds_see_other_masks(tmp_path, monkeypatch):
    recipe, seen = STUDY.recipe("mini-quarter"), []
    monkeypatch.setattr(
        branched.trainer, "pretrain", lambda *a, **k: seen.append((a[2].seed, k["seed"]))
    )
    monkeypatch.setattr(branched.pretraining, "untrained", lambda *_: None)
    for seed in (1, 2):
        one = branched.Trunk(
            STUDY, "mini-quarter", seed, CHOSEN, tmp_path, word_tokenizer(), RandomText(), None
        )
        one.train("original", recipe, tmp_path)
    assert seen == [(1, 1), (2, 2)]
