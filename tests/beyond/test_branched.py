"""Branches of one trunk: the same start for every arm, and a plain branch is the trunk continued."""

import dataclasses
from types import SimpleNamespace

import pytest
import torch
from small_models import RECIPE, RandomText, word_tokenizer

from saobp.study.beyond import branched, plan
from saobp.study.data.masking import SeededMasking
from saobp.study.evaluation.heldout import HeldOut
from saobp.study.setup.studies import load_study

CHOSEN = plan.section(plan.file(), "branched", branched.Branched).model_copy(
    update={"arms": ["original", "high"], "trunks": [1], "below": 0.0, "every": 4, "steps": 4}
)
SMOKE = load_study("smoke")
STUDY = dataclasses.replace(
    SMOKE,
    pretrain=dataclasses.replace(RECIPE, steps=8, batch=4, warmup=2),
    attention=dataclasses.replace(SMOKE.attention, length=RECIPE.length),
    decoder=None,
    schedules={},
)


@pytest.fixture(scope="module")
def text():
    tokenizer, blocks = word_tokenizer(), RandomText()
    return SimpleNamespace(
        tokenizer=tokenizer, text=blocks, measure=HeldOut(blocks, SeededMasking(tokenizer, 0.15, 0), 8, 8)
    )


@pytest.fixture(scope="module")
def grown(text, tmp_path_factory):
    folder = tmp_path_factory.mktemp("branched")
    return folder, *branched.grow(STUDY, "mini-quarter", 1, CHOSEN, text, folder / "trunk")


def test_a_trunk_that_never_learns_ends_with_its_recipe_and_one_that_has_learned_stops(grown, text, tmp_path):
    _, step, log = grown
    assert step == 8 and [entry["step"] for entry in log if "heldout" in entry] == [0, 4, 8]
    early, _ = branched.grow(
        STUDY, "mini-quarter", 1, CHOSEN.model_copy(update={"below": 1e9}), text, tmp_path / "trunk"
    )
    assert early == 4


def test_a_trunk_that_is_there_already_ends_where_it_ended(grown, text):
    folder, start, log = grown
    early, late = (entry["heldout"]["loss"] for entry in log if entry.get("step") in (4, 8) and "heldout" in entry)
    chosen = CHOSEN.model_copy(update={"below": (early + late) / 2})
    assert late < early and branched.grow(STUDY, "mini-quarter", 1, chosen, text, folder / "trunk")[0] == start == 8


def test_every_branch_starts_from_the_trunk_and_its_losses_are_kept_by_sequence(grown, text):
    folder, start, log = grown
    trunk = [entry["heldout"]["loss"] for entry in log if "heldout" in entry]
    ends = {}
    for arm in CHOSEN.arms:
        found = branched.branch(STUDY, "mini-quarter", arm, 1, start, CHOSEN, text, folder)
        assert [point["loss"] for point in found["curve"][:3]] == trunk and found["steps"] == start + CHOSEN.steps
        assert len(found["nats"]) == len(found["tokens"]) == 8
        assert found["held_out"] == pytest.approx(found["curve"][-1]["loss"], rel=1e-5)
        ends[arm] = found["held_out"]
    assert ends["original"] != ends["high"]


def test_a_plain_branch_is_the_trunk_continued(grown, text, tmp_path):
    folder, start, _ = grown
    once = branched.branch(STUDY, "mini-quarter", "original", 1, start, CHOSEN, text, folder)
    recipe = dataclasses.replace(
        STUDY.recipe("mini-quarter"),
        scheduler="warmup_stable_decay",
        steps=start + CHOSEN.steps,
        save_every=CHOSEN.every,
    )
    torch.manual_seed(7)  # what was drawn before does not matter
    network, _ = branched.train(STUDY, "mini-quarter", "original", 1, recipe, text, tmp_path / "whole")
    assert text.measure.by_sequence(network)[0] == pytest.approx(once["nats"], rel=1e-6)
    other = branched.branch(STUDY, "mini-quarter", "high", 1, start, CHOSEN, text, folder)
    assert other["nats"] != pytest.approx(once["nats"], rel=1e-6)
