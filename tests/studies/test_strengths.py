"""Larger models beside the study's own: which runs are compared, with what interval, and what is
said of them.
"""

import json
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from small_models import RECIPE, RandomText, word_tokenizer

from companion import records
from companion.figures.beyond_the_paper import strengths as figure
from companion.setup.recipes import Beyond, Larger
from companion.statistics import holm
from companion.studies.strengths import read as strengths
from companion.studies.strengths import run as strength_training
from companion.training import trainer
from companion.training.watch import Diverged

PLAN = Beyond(
    model="mini-quarter",
    strengths=[0.0, 0.5],
    learned=["head", "layer"],
    pretrain=RECIPE.changed(steps=6, warmup=1, evaluations=3),
)
SHORT = RECIPE.changed(steps=2, warmup=1, evaluations=1)


@pytest.fixture
def inputs(tmp_path):
    return strength_training.Inputs(RandomText(), RandomText(), word_tokenizer(), tmp_path)


def run(model, strength, seed, loss, device="cpu"):
    """A run as `strength_training.run` returns it, at its end; without a loss a failed one."""
    failed = None if loss else {"reason": "the loss is nan", "message": ""}
    curve = [{"step": 50, "loss": loss}] if loss else []
    known = {"model": model, "strength": strength, "seed": seed, "curve": curve, "failed": failed}
    return known | {"device": {"name": device, "threads": 1, "precision": "fp32"}}


RUNS = [
    run("mini", level, seed, 3.0 + seed * level / 2) for level in (0.0, 0.2) for seed in (1, 2, 3)
]
RUNS += [run("small", 0.0, 1, 2.5), run("small", 0.08, 1, 2.4)]


def test_a_size_is_compared_over_its_pairs_of_seeds():
    pairs = strengths.pairs(RUNS)
    assert pairs["seed"].tolist() == [1, 2, 3, 1]
    assert (pairs["refined"] - pairs["plain"]).tolist() == pytest.approx([0.1, 0.2, 0.3, -0.1])
    # what is no pair counts for nothing
    failed = [run("mini", 0.2, 4, None), run("mini", 0.0, 4, 9.0), run("medium", 0.0, 1, 2.0)]
    # kinds of processor
    apart = [run("small", level, 5, 2.0, device=f"{level}") for level in (0.0, 0.08)]
    assert strengths.pairs([*RUNS, *failed, *apart]).equals(pairs)
    named = [end | {"device": {**end["device"], "name": "AMD EPYC, AVX2"}} for end in RUNS[1:]]
    # without its vector set
    early = [RUNS[0] | {"device": {**RUNS[0]["device"], "name": "AMD EPYC"}}]
    columns = ["seed", "plain", "refined"]
    assert strengths.pairs([*early, *named])[columns].equals(pairs[columns])
    two_seeds = [run("mini", 0.0, 1, 3.0), run("mini", 0.2, 2, 3.0)]
    assert strengths.pairs([]).empty and strengths.pairs(two_seeds).empty


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        (
            [{"model": "small"}, {"model": "small", "learning_rate": RECIPE.learning_rate}],
            "small at learning .* twice",
        ),
        (
            [{"model": "small", "precision": RECIPE.precision}, {"model": "small"}],
            "small at learning .* twice",
        ),
        ([{"model": "mini-quarter"}], "larger: mini-quarter is the model of beyond itself"),
        ([{"model": "small", "learning_rate": -1e-3}], "greater than"),
    ],
)
def test_sizes_that_would_be_counted_twice_are_refused(sizes, said):
    with pytest.raises(ValueError, match=said):
        PLAN.changed(larger=[Larger(**size) for size in sizes])


def test_a_size_by_a_recipe_of_its_own_stands_by_itself():
    for key, value, usual in (("learning_rate", 1e-4, np.nan), ("precision", "bf16", "")):
        special = [end | {key: value, "curve": [{"loss": 1.0}]} for end in RUNS[-2:]]
        pairs = strengths.pairs([*RUNS, *special]).iloc[[0, 3, 4]]
        assert pairs["model"].tolist() == ["mini", "small", "small"]
        assert pairs["plain"].tolist() == [3.0, 2.5, 1.0]
        assert pairs[key].tolist() == pytest.approx([usual, usual, value], nan_ok=True)


def test_larger_models_are_trained_at_zero_and_at_their_own_strength_each_by_its_recipe(inputs):
    own = {"learning_rate": RECIPE.learning_rate / 10, "precision": "bf16"}
    sizes = [Larger(model="small-quarter", **recipe) for recipe in ({}, own)]
    runs = strength_training.larger(PLAN.changed(larger=sizes, pretrain=SHORT), inputs)
    found = [(one["model"], one["strength"], one["seed"]) for one in runs]
    assert found == [("small-quarter", level, 42) for level in (0.0, 0.08, 0.0, 0.08)]
    assert [{key: one[key] for key in own} for one in runs[1:3]] == [dict.fromkeys(own), own]
    assert [one["device"]["precision"] for one in runs[1:3]] == ["fp32", "bf16"]
    usual, other, slow, _ = (one["curve"] for one in runs)
    assert usual[-1]["loss"] != other[-1]["loss"] and usual[-1]["loss"] != slow[-1]["loss"]
    assert len(strengths.pairs(runs)) == 2


def test_the_studys_own_model_comes_first_at_zero_and_at_its_own_strength():
    levels = (0.0, 0.1, 0.2, strengths.BY_HEAD)
    swept = [
        {key: value for key, value in run("", level, 1, 3.0).items() if key != "model"}
        for level in levels
    ]
    record = {
        "metrics": {"larger": RUNS, "strengths": swept},
        "parameters": {"model": "mini-quarter"},
    }
    own = strengths.by_size(record)
    assert [(one["model"], one["strength"]) for one in own[:2]] == [
        ("mini-quarter", 0.0),
        ("mini-quarter", 0.2),
    ]
    assert own[2:] == RUNS


def test_strengths_are_trained_followed_and_read_back(inputs):
    runs = strength_training.study(PLAN, inputs)
    swept = strengths.sweep(runs)
    assert swept["strength"].tolist() == [0.0, 0.5, strengths.BY_HEAD, strengths.BY_LAYER]
    plain, other = (swept[swept["strength"] == strength].iloc[0] for strength in (0.0, 0.5))
    assert plain["raw_entropy"] == plain["refined_entropy"]
    assert other["refined_largest_column"] < other["raw_largest_column"]
    # each has its own, from the size's own
    for name, heads in ((strengths.BY_HEAD, 4), (strengths.BY_LAYER, 1)):
        went = strengths.learned(runs, name)
        assert went[went["step"] == 0]["strength"].tolist() == pytest.approx([0.2] * 4 * heads)
        assert len(went) == 3 * 4 * heads and went[went["step"] == 6]["strength"].nunique() > 1
        assert set(went["head"]) == {*range(1, heads + 1)} and set(went["layer"]) == {1, 2, 3, 4}
    drawn = figure.of(runs)
    assert drawn["learned"].tolist() == ["", "", "head", "layer"]
    assert drawn["strength"].iloc[-1] == pytest.approx(went[went["step"] == 6]["strength"].mean())
    next(inputs.folder.glob("mini-quarter-0.5-42-*.json")).write_text(
        json.dumps(runs[1] | {"seed": 7})
    )
    # finished runs are not run again
    assert strength_training.study(PLAN, inputs)[1]["seed"] == 7


def test_the_text_that_is_looked_at_makes_no_other_run(inputs, monkeypatch):
    made, ended = [], {"curve": [], "failed": None, "device": None}
    monkeypatch.setattr(trainer, "attempt", lambda *_, folder, **__: made.append(folder) or ended)
    for plan in (PLAN, PLAN.changed(sequences=PLAN.sequences + 1)):
        strength_training.run(plan, 0.5, 1, inputs)
    assert len(made) == 1


def test_a_strength_that_diverges_is_marked_failed_and_has_no_row(inputs, monkeypatch):
    monkeypatch.setattr(
        trainer, "pretrain", Mock(side_effect=Diverged("the loss is nan at step 3"))
    )
    run = strength_training.run(PLAN, 0.5, 0, inputs)
    assert (run["curve"], run["failed"]["reason"]) == ([], "the loss is nan at step 3")
    assert run["device"] == records.device()
    assert strengths.sweep([run]).empty and strength_training.run(PLAN, 0.5, 0, inputs) == run
    assert strengths.learned([run | {"strength": strengths.BY_HEAD}]).empty


def test_strengths_are_held_against_none_seed_by_seed():
    starts, gaps = (
        (2.5, 2.9, 2.7),
        {0.0: (0, 0, 0), 0.2: (-0.1, -0.11, -0.09), "learned": (0.1, -0.1, 0.02)},
    )
    rows = [
        (name, seed, starts[seed] + gap)
        for name, each in gaps.items()
        for seed, gap in enumerate(each)
    ]
    swept = pd.DataFrame(rows, columns=["strength", "seed", "loss"]).assign(processor="one")
    p = [stats.ttest_1samp(gaps[strength], 0).pvalue for strength in (0.2, "learned")]
    found = strengths.against_plain(swept)
    assert found["strength"].tolist() == [0.2, "learned"] and found[
        "p_holm"
    ].tolist() == pytest.approx(holm(p))
    one_seed = swept.drop(swept[(swept["strength"] == 0.2) & (swept["seed"] > 0)].index)
    apart = swept[(swept["strength"] == 0.2) == (swept["seed"] > 0)]
    assert all(
        strengths.against_plain(frame).empty for frame in (one_seed, apart, strengths.sweep([]))
    )
    elsewhere = swept.assign(processor=np.where(swept["strength"] == 0.2, "another", "one"))
    assert strengths.against_plain(elsewhere)["strength"].tolist() == ["learned"], (
        "of another processor: not compared"
    )
