"""Larger models beside the study's own: which runs are compared, with what interval, and what is said of them."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from small_models import RECIPE, RandomText, word_tokenizer

from saobp.study.beyond import strength_training, strengths
from saobp.study.figures.of_our_own import strengths as figure
from saobp.study.setup.recipes import Beyond, Larger

PLAN = Beyond(
    model="mini-quarter", strengths=[], pretrain=replace(RECIPE, steps=12, warmup=2),
    larger=[Larger(model="small-quarter")], learned=["layer"],
)  # fmt: skip
NAN = {"reason": "the loss is nan", "message": ""}


def device(name):
    return {"name": name, "threads": 1, "precision": "fp32"}


def run(model, strength, seed, loss, before=4.0, after=2.0, failed=None):
    """A run as `strengths.run` returns it, at its end."""
    side = {"entropy": 2.5, "gtd": 0.7}
    end = {
        "step": 50, "loss": loss, "accuracy": 0.4, "strengths": [[strength]], "seconds": 3600.0,
        "raw": side | {"largest_column": before}, "refined": side | {"largest_column": after},
    }  # fmt: skip
    return {"model": model, "strength": strength, "seed": seed, "curve": [] if failed else [end], "failed": failed} | {
        "device": device("cpu")
    }


RUNS = [
    *(run("mini", 0.0, seed, 3.0) for seed in (1, 2, 3)),
    *(run("mini", 0.2, seed, 3.0 + seed / 10, before=seed, after=seed / 2) for seed in (1, 2, 3)),
    run("small", 0.0, 1, 2.5),
    run("small", 0.08, 1, 2.4),
]


def test_a_size_is_compared_seed_by_seed_with_the_interval_of_students_t():
    found = strengths.gaps(RUNS).set_index("model")
    reach = 4.302653 * 0.1 / 3**0.5
    mini = found.loc["mini"]
    assert mini[["difference", "low", "high"]].tolist() == pytest.approx([0.2, 0.2 - reach, 0.2 + reach])
    assert mini[["plain", "refined"]].tolist() == pytest.approx([3.0, 3.2])
    assert (mini["layers"], mini["hidden"], mini["strength"], mini["seeds"]) == (4, 256, 0.2, 3)
    assert found.loc["small", ["low", "high"]].isna().all() and found.loc["small", "difference"] == pytest.approx(-0.1)


def test_a_seed_that_failed_one_way_counts_neither_way_and_a_size_without_a_pair_is_left_out():
    failed = [run("mini", 0.2, 4, 9.0, failed=NAN), run("mini", 0.0, 4, 9.0), run("medium", 0.0, 1, 2.0)]
    assert strengths.gaps([*RUNS, *failed]).equals(strengths.gaps(RUNS))
    assert strengths.gaps([]).empty
    assert strengths.gaps([run("mini", 0.0, 1, 3.0), run("mini", 0.2, 2, 3.0)]).empty, "seeds that are no pair"


def test_runs_of_two_processors_are_no_pair():
    apart = [run("small", level, 5, 2.0) | {"device": device(f"{level}")} for level in (0.0, 0.08)]
    assert strengths.gaps([*RUNS, *apart]).equals(strengths.gaps(RUNS))


@pytest.mark.parametrize(("sizes", "said"), [
    ([{"model": "small"}, {"model": "small", "learning_rate": RECIPE.learning_rate}], "small at learning .* twice"),
    ([{"model": "small", "precision": RECIPE.precision}, {"model": "small"}], "small at learning .* twice"),
    ([{"model": "mini-quarter"}], "larger: mini-quarter is the model of beyond itself"),
    ([{"model": "small", "learning_rate": -1e-3}], "greater than"),
])  # fmt: skip
def test_sizes_that_would_be_counted_twice_are_refused(sizes, said):
    with pytest.raises(ValueError, match=said):
        replace(PLAN, larger=[Larger(**size) for size in sizes])


@pytest.mark.parametrize(("key", "own", "usual", "columns"), [
    ("learning_rate", RECIPE.learning_rate / 10, None, (None, None)),
    ("precision", "bf16", "fp32", ("", "")),
])  # fmt: skip
def test_a_size_by_a_recipe_of_its_own_is_trained_by_it_and_stands_by_itself(tmp_path, key, own, usual, columns):
    other = [one | {key: own, "curve": [one["curve"][0] | {"loss": 1.0}]} for one in RUNS[-2:]]
    found = strengths.gaps([*RUNS, *other])
    assert found["model"].tolist() == ["mini", "small", "small"] and found["plain"].tolist() == [3.0, 2.5, 1.0]
    assert found[key].replace({np.nan: None}).tolist() == [*columns, own]
    given = {"text": RandomText(), "held_out": RandomText(), "tokenizer": word_tokenizer(), "folder": tmp_path}
    sizes = [Larger(model="mini-narrow", **({key: usual} if usual else {})), Larger(model="mini-narrow", **{key: own})]
    short = replace(RECIPE, steps=2, warmup=1, evaluations=1)
    runs = strength_training.larger(replace(PLAN, larger=sizes, pretrain=short), **given)
    assert [one[key] for one in runs] == [usual] * 2 + [own] * 2
    first, last = ([one["curve"][end]["loss"] for one in (runs[0], runs[2])] for end in (0, -1))
    assert first[0] == first[1] and last[0] != last[1], "from one start, each by its own recipe"


def test_the_studys_own_model_comes_first_at_zero_and_at_its_own_strength():
    swept = [run("", level, 1, 3.0) for level in (0.0, 0.1, 0.2, strengths.BY_HEAD)]
    for one in swept:
        one.pop("model")
    record = {"metrics": {"larger": RUNS, "strengths": swept}, "parameters": {"model": "mini-quarter"}}
    own = strengths.by_size(record)
    assert [(one["model"], one["strength"]) for one in own[:2]] == [("mini-quarter", 0.0), ("mini-quarter", 0.2)]
    assert own[2:] == RUNS


def test_larger_models_are_trained_by_the_same_recipe_and_strengths_learned_by_layer(tmp_path):
    given = {"text": RandomText(), "held_out": RandomText(), "tokenizer": word_tokenizer(), "folder": tmp_path}
    runs = strength_training.larger(PLAN, **given)
    assert [(one["model"], one["strength"], one["seed"]) for one in runs] == [
        ("small-quarter", 0.0, 42),
        ("small-quarter", 0.08, 42),
    ]
    assert {len(one["curve"][-1]["strengths"]) for one in runs} == {4} and runs[0]["curve"] != runs[1]["curve"]
    assert strengths.gaps(runs)["seeds"].tolist() == [1]
    (taught,) = strength_training.study(PLAN, **given)
    went = strengths.learned([taught], strengths.BY_LAYER)
    assert taught["strength"] == strengths.BY_LAYER and set(went["head"]) == {1} and set(went["layer"]) == {1, 2, 3, 4}
    assert went[went["step"] == went["step"].max()]["strength"].nunique() > 1, "each layer has its own"
    assert strengths.learned([taught]).empty
    drawn = figure.of([taught])
    assert drawn["learned"].tolist() == ["layer"]
    assert drawn["strength"].tolist() == pytest.approx([went[went["step"] == 12]["strength"].mean()])
    axes = figure.plot(pd.concat([drawn, drawn.assign(learned="", strength=0.1)]), 8).axes
    assert [line.get_marker() for line in axes[0].lines].count("D") == 1
    assert axes[-1].get_legend().get_texts()[-1].get_text().startswith("λ learned by each layer")
