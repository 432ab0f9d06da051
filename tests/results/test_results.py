"""The table of results: one row per comparison, one rule per row, the same numbers under any name."""

from dataclasses import replace
from math import inf, isnan, nan

import example_records as examples
import numpy as np
import pandas as pd
import pytest

from companion.records import tracked
from companion.results import attention_measures, inserted_step, losses, table, task_gains
from companion.results import study as reading
from companion.results.row import (
    COLUMNS,
    CONTRADICTED,
    NO_EFFECT,
    OPEN,
    OUTCOMES,
    SUPPORTED,
    Endpoint,
    Rule,
    ends,
    slug,
)
from companion.results.study import Study
from companion.setup import paths, studies
from companion.statistics import Error, Estimate, mean_interval
from companion.statistics.seeds import metric, seed_gap

RISE = Endpoint("score", "points", 1)
RATIO = Endpoint("time", "ratio", 0, reference=1.0)


def known(value, error=0.1, n=3):
    return Estimate.of(value, Error(((error, inf),)), n)


def both(make=examples.attention, seeds=(1, 2, 3), model="mini"):
    return [make(model, name, seed) for name in ("original", "high") for seed in seeds]


@pytest.mark.parametrize(
    ("endpoint", "margin", "value", "error", "outcome"),
    [
        (RISE, 1.0, 0.5, 0.1, SUPPORTED),
        (RISE, 1.0, -0.5, 0.1, CONTRADICTED),
        (RISE, 1.0, 0.1, 0.1, NO_EFFECT),
        (RISE, 1.0, 0.5, 1.0, OPEN),
        (RISE, nan, 0.1, 0.1, OPEN),
        (RATIO, 0.1, 1.01, 0.02, SUPPORTED),
        (RATIO, 0.1, 1.3, 0.02, CONTRADICTED),
        (RATIO, 0.1, 0.7, 0.02, CONTRADICTED),
        (RATIO, 0.1, 1.1, 0.02, OPEN),
        # a claim of "no more than the margin" says nothing without one
        (RATIO, nan, 1.01, 0.02, ""),
        # nothing is claimed
        (replace(RISE, expected=None), 1.0, 0.5, 0.1, ""),
    ],
)
@pytest.mark.parametrize("planned", [True, False])
def test_interval_margin_and_claim_decide_one_outcome(
    endpoint, margin, value, error, outcome, planned
):
    rule = Rule(endpoint, margin, planned)
    assert rule.outcome(known(value, error)) == outcome
    assert bool(rule.words(known(value, error))) == bool(outcome)
    # the sign that is claimed turns the outcome
    if endpoint.expected:
        opposite = Rule(replace(endpoint, expected=-1), margin, planned)
        assert opposite.outcome(known(-value, error)) == outcome


def test_a_plan_puts_its_whole_interval_within_the_margin_and_two_tests_the_90_percent_one():
    """1.96 standard errors reach beyond the margin, 1.64 do not."""
    near = known(0.0, 0.55)
    assert ends(near, 0.95)[1] > 1 > ends(near, 0.90)[1]
    assert Rule(RISE, 1.0, planned=True).outcome(near) == OPEN
    assert Rule(RISE, 1.0, planned=False).outcome(near) == NO_EFFECT


def test_a_study_that_was_read_more_than_once_is_decided_at_its_bound_which_its_rule_names():
    barely = known(2.0, 1.0)
    plain = Rule(RISE, 1.0, planned=True)
    bound = Rule(RISE, 1.0, planned=True, level=0.99, readings=(5, 10))
    assert (plain.outcome(barely), bound.outcome(barely)) == (SUPPORTED, OPEN)
    assert "99 % interval [-0.5758, 4.576] (readings at 5, 10) above 0" in bound.words(barely)


def test_an_interval_without_an_error_is_stretched_by_the_normal_law_each_side_for_itself():
    low, high = ends(Estimate(1.0, 0.0, 3.0, 100), 0.90)
    assert (1 - low) * 2 == pytest.approx(high - 1) == pytest.approx(2 * 1.6449 / 1.96, abs=1e-3)


@pytest.mark.parametrize("seeds", [1, 3])
def test_one_seed_has_no_interval_and_no_outcome(seeds):
    runs = [*both(seeds=range(seeds)), *both(examples.finetune, range(seeds))]
    study = Study("own", runs)
    # the scores of one seed have an error over items, which decides nothing
    rows = [*attention_measures.rows(study), *task_gains.rows(study)]
    assert {"GTD", "score on RTE"} <= {row.endpoint for row in rows}
    for row in rows:
        if "−" not in row.contrast:
            continue
        assert isnan(row.low) == isnan(row.high) == isnan(row.p) == (seeds == 1)
        assert bool(row.outcome) == (seeds > 1)


def test_swapped_sides_change_the_sign_and_nothing_else():
    runs = both(examples.pretrain)
    for run in runs:
        run["metrics"]["perplexity"] *= 1 + (run["parameters"]["algorithm"] == "high")
    there = seed_gap(runs, metric("perplexity"), ("high", "original"), log=True)
    back = seed_gap(runs, metric("perplexity"), ("original", "high"), log=True)
    assert (there.value, there.low, there.high) == pytest.approx(
        (-back.value, -back.high, -back.low)
    )
    swapped = {"high": "original", "original": "high"}
    turned = [
        run | {"parameters": run["parameters"] | {"algorithm": swapped[name]}}
        for run in runs
        if (name := run["parameters"]["algorithm"])
    ]
    one, other = (
        {row.key: row for row in losses.rows(Study("own", records))} for records in (runs, turned)
    )
    key = "own/held-out-loss/high-original"
    assert one[key].estimate == pytest.approx(-other[key].estimate)
    # twice Original's perplexity
    assert one[key].estimate > 0
    assert {one[key].outcome, other[key].outcome} == {SUPPORTED, CONTRADICTED}


def test_seeds_and_records_in_another_order_change_nothing():
    runs = [*both(), *both(examples.pretrain), *both(examples.finetune)]
    shuffled = [runs[place] for place in np.random.default_rng(0).permutation(len(runs))]
    one, other = (table.frame(table.of([Study("own", own)])) for own in (runs, shuffled))
    pd.testing.assert_frame_equal(one, other)
    renumbered = [
        run | {"parameters": run["parameters"] | {"seed": 10 - run["parameters"]["seed"]}}
        for run in runs
    ]
    other = table.frame(table.of([Study("own", renumbered)]))
    pd.testing.assert_frame_equal(one, other)


def copied(name, copy, tmp_path, monkeypatch):
    """A study's records, its file and its section of the plan under another name."""
    file = paths.root() / "notebooks" / "studies" / f"{name}.yaml"
    if file.is_file():
        text = file.read_text(encoding="utf-8").replace(f"name: {name}", f"name: {copy}")
        own = paths.write_text(tmp_path / "notebooks" / "studies" / f"{copy}.yaml", text)
        monkeypatch.setattr(studies, "find", lambda asked: own)
        monkeypatch.setattr(studies, "available", lambda: [copy])
    plans = reading.planned_studies()
    plans = {
        part.replace(name, copy): plan for part, plan in plans.items() if part.startswith(name)
    }
    monkeypatch.setattr(reading, "planned_studies", lambda: plans)
    runs = [run | {"study": copy} for run in tracked.study(name)]
    repeats = tracked.repeats().replace({"study": {name: copy}})
    monkeypatch.setattr(tracked, "study", lambda asked: runs)
    monkeypatch.setattr(tracked, "repeats", lambda: repeats)
    return reading.load(copy)


@pytest.mark.parametrize("name", ["stories", "scratch", "retrofit", "cost", "laptop"])
def test_a_study_under_another_name_gives_the_same_rows(name, tmp_path, monkeypatch):
    before = table.frame(table.of(reading.load(name)))
    after = table.frame(table.of(copied(name, "copy", tmp_path, monkeypatch)))
    assert len(before) and set(after["study"]) <= {"copy", "copy-untrained"}
    for column in ("key", "study"):
        after[column] = after[column].str.replace("copy", name, 1)
    pd.testing.assert_frame_equal(before, after)


@pytest.fixture(scope="module")
def rows():
    return table.frame(table.rows()).set_index("key")


def test_the_committed_table_is_that_of_the_tracked_records(rows, tmp_path):
    written = table.write(tmp_path)
    assert written.read_bytes() == (paths.figures() / table.FILE).read_bytes(), "run `make figures`"
    assert [*pd.read_csv(written)] == [*COLUMNS]
    assert rows.index.is_unique


def test_every_row_is_whole(rows):
    """A comparison has an interval, an n that says what it counts, and one outcome of four."""
    assert set(rows["outcome"]) == {*OUTCOMES, ""}
    decided = rows[rows["outcome"] != ""]
    assert decided[["low", "high", "n", "of_what", "rule"]].notna().all(axis=None)
    assert (decided["n"] > 1).all() and (decided["rule"] != "").all()
    assert (decided["low"] <= decided["estimate"]).all()
    assert (decided["estimate"] <= decided["high"]).all()
    assert (rows["scope"] != "").all()
    assert rows["estimate"].notna().all()


def test_scopes_come_from_the_plan_or_the_studys_own_file(rows):
    scopes = rows["scope"]
    assert scopes["stories/held-out-loss/high-original"] == "story world, 4 layers, width 64"
    assert scopes["laptop/held-out-loss/high-original"] == "real text, 4 layers, width 256"
    assert scopes["branched/held-out-loss/high-original"].startswith("scaled-down model")


def test_planned_comparisons_are_found_by_the_words_of_the_plan(rows):
    """Every planned study has its primary row, with the plan's margin; `spare` has a reader and
    words of its own, and of `ladder` only the times of models without training are at hand.
    """
    primary = rows[rows["planned"] == "primary"].reset_index().set_index("study")
    for name, plan in reading.planned_studies().items():
        if name in set(rows["study"]) - {"spare", "ladder"}:
            own = primary.loc[[name]]
            contrast = own["contrast"].str.lower().str.replace("−", "-")
            assert plan.primary.contrast in set(contrast), name
            assert set(own["margin"]) == {plan.primary.margin}, name
            assert own["rule"].str.startswith("plan: ").all()


def test_two_rows_of_one_key_are_refused_by_it():
    runs = both()
    with pytest.raises(ValueError, match="two rows have the key own/sparsity/high-original"):
        table.of([Study("own", runs), Study("own", runs)])


def test_a_key_that_there_is_not_is_answered_by_the_nearest():
    with pytest.raises(ValueError, match="no row 'branched/loss/high'.*branched/held-out-loss/hi"):
        table.find("branched/loss/high")
    assert table.find("branched/held-out-loss/high-original")["n"] == 5


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("High − Original", "high-original"),
        ("High / Original (fused)", "high-over-original-fused"),
        ("sparsity below 0.01", "sparsity-below-0.01"),
        ("Hoyer's sparsity", "hoyers-sparsity"),
    ],
)
def test_a_key_is_made_of_the_words_of_its_columns(text, part):
    assert slug(text) == part


def test_a_pair_of_two_machines_is_left_out_of_its_own_row_and_its_seed_stays():
    runs = [
        examples.attention("mini", name, seed, task)
        for name in ("original", "high")
        for seed in (1, 2)
        for task in ("race", "sst2")
    ]
    runs[-1]["device"] = runs[-1]["device"] | {"name": "another"}
    assert attention_measures.pairs_of_two_machines(runs) == {(2, "sst2")}
    found = {row.key: row for row in attention_measures.rows(Study("own", runs))}
    gaps = {
        (seed, task): np.mean(sides["high"]) - np.mean(sides["original"])
        for seed in (1, 2)
        for task in ("race", "sst2")
        if (
            sides := {
                run["parameters"]["algorithm"]: run["metrics"]["matrices"]["refined"]["gtd"]
                for run in runs
                if (run["parameters"]["seed"], run["parameters"]["task"]) == (seed, task)
            }
        )
    }
    row = found["own/gtd-without-pairs-of-two-machines/high-original"]
    expected = np.mean([np.mean([gaps[1, "race"], gaps[1, "sst2"]]), gaps[2, "race"]])
    assert row.estimate == pytest.approx(expected)
    assert found["own/gtd/high-original"].estimate == pytest.approx(np.mean([*gaps.values()]))


def test_fine_tuned_rows_are_of_the_seeds_that_have_all_planned_tasks(rows):
    """Computed anew from the records, without the functions of the table."""
    runs = pd.json_normalize(tracked.select("retrofit", "retrofit"), sep="_")
    tasks = reading.planned_studies()["retrofit"].model_extra["tasks"]
    own = runs[runs["parameters_task"].isin(tasks)]
    keys = ["parameters_seed", "parameters_arm"]
    wide = own.pivot(index=keys, columns="parameters_task", values="metrics_headline").dropna()
    means = wide.mean(axis=1).unstack()
    for arm, key in (("high", "high-original"), ("low", "low-original")):
        gaps = (means[arm] - means["original"]).dropna()
        expected = mean_interval(gaps.tolist())
        row = rows.loc[f"retrofit/mean-score/{key}"]
        assert row["n"] == len(gaps)
        assert (row["estimate"], row["low"], row["high"]) == pytest.approx(
            (expected.value, expected.low, expected.high)
        )


def test_a_seed_lacking_a_task_is_in_no_mean_over_tasks():
    runs = [
        examples.record("retrofit", "minilm", None, seed, score(seed), arm=arm, task=task)
        for arm in ("original", "high")
        for seed in (1, 2, 3)
        for task in ("rte", "sst2")
        if (arm, seed, task) != ("high", 3, "sst2")
    ]
    frame = inserted_step.scores(Study("own", runs))
    found = inserted_step.over_tasks(
        inserted_step.gaps(frame, ("high", "original")), ["rte", "sst2"]
    )
    assert found.seeds == 2


def score(value):
    epochs = [{"scores": {"accuracy": 1.0 * value}}]
    return {"headline": 1.0 * value, "epochs": epochs, "floor": {"headline": 50.0}}


def test_the_mean_of_glue_leaves_out_a_task_without_an_answer_and_needs_every_other():
    runs = both(lambda model, name, seed: examples.finetune(model, name, seed))
    for run in runs:
        run["metrics"]["tasks"]["cola"]["constant"] = True
    del runs[-1]["metrics"]["tasks"]["rte"]
    (row,) = [
        row
        for row in task_gains.rows(Study("own", runs))
        if row.key == "own/mean-of-glue-tasks/high-original"
    ]
    assert "CoLA" not in row.note and "RTE" not in row.note and row.n == 3


def test_the_multi_hop_gain_is_that_of_the_answers_themselves(rows):
    (record,) = tracked.select("stories", "beyond")
    means = {}
    for run in record["metrics"]["multihop"]:
        right = [np.mean(answers) for hops, answers in run["outcomes"].items() if int(hops) > 1]
        means.setdefault((run["algorithm"], run["seed"]), []).append(100 * np.mean(right))
    gaps = [np.mean(means["high", seed]) - np.mean(means["original", seed]) for seed in range(21)]
    row = rows.loc["stories/accuracy-at-the-last-step/high-original"]
    assert (row["estimate"], row["n"]) == (pytest.approx(np.mean(gaps)), 21)


def test_a_change_per_doubling_is_the_slope_over_all_widths_of_a_seed():
    from companion.results import answers_by_hops

    gaps = pd.DataFrame(
        {32: [1.0, 3.0, 2.0, 5.0], 64: [4.0, 0.0, np.nan, np.nan], 128: [2.0, 9.0, 1.0, 1.0]}
    )
    expected = np.polyfit([5, 6, 7], gaps[:2].T, 1)[0].mean()
    assert answers_by_hops.slope(gaps[:2]).value == pytest.approx(expected)
    assert (answers_by_hops.slope(gaps).value, answers_by_hops.slope(gaps).seeds) == (0.25, 4)
