"""Each statement is judged by the parts that its wording names, and by pretraining seeds alone."""

from math import nan

import example_records as examples
import numpy as np
import pytest

from saobp.study.paper import numbers
from saobp.study.statistics import Estimate, trajectories
from saobp.study.tables import evidence_scores
from saobp.study.tables.evidence import NO, OPEN, YES, Part, by_seed, change
from saobp.study.tables.verdicts import evidence

QUANTIFIERS = numbers.load().statements.set_index("id")["quantifier"]
SIZES, SEEDS = ("mini", "small", "medium"), (42, 43, 44)
PLAIN = ("rte", "sst2", "mrpc", "qqp", "mnli", "qnli", "wnli", "hellaswag", "race", "squad")


def judged(id, records):
    return evidence(records, id, QUANTIFIERS[id])


def tuned(lifts, model="mini", algorithm="high", seeds=SEEDS, against="original"):
    """Fine-tuned runs of two algorithms on the tasks of `lifts`: by so much one of them is better."""
    sides = {algorithm: lifts, against: dict.fromkeys(lifts, 0.0)}
    return [
        examples.record(
            "finetune", model, name, seed, {"tasks": {task: examples.scores(task, seed, up) for task, up in by.items()}}
        )
        for name, by in sides.items()
        for seed in seeds
    ]


def columns(lift=0.15, **others):
    return {task: others.get(task, lift) for task in (*examples.GLUE, "hellaswag", "race", "squad")}


def test_one_benchmark_that_falls_at_one_size_ends_a_consistent_gain_whatever_the_mean():
    most = [run for model in ("mini", "small") for run in tuned(columns(), model)]
    assert judged("Q01", [*most, *tuned(columns(), "medium")]).verdict() == YES
    falls = judged("Q01", [*most, *tuned(columns(squad=-0.15), "medium")])
    assert falls.verdict() == NO and "11 for and 1 against" in falls.words
    assert judged("Q01", [*most, *tuned(columns(squad=0.0), "medium")]).verdict() == OPEN
    missing = judged("Q01", most)
    assert missing.verdict() == OPEN and "over 8 cells; 4 without a run; 8 for and 0 against" in missing.words


def test_a_stand_in_fills_the_place_of_no_size():
    sure = [run for model in ("mini", "small", "medium-twin") for run in tuned(columns(), model)]
    assert judged("Q01", sure).verdict() == OPEN
    against = [*tuned(columns(), "mini"), *tuned(columns(-0.15), "small-twin")]
    assert judged("Q01", against).verdict() == OPEN


@pytest.mark.parametrize(
    ("ups", "downs", "expected"), [(6, 1, YES), (5, 2, YES), (2, 5, NO), (4, 3, OPEN), (4, 0, OPEN)]
)
def test_the_majority_of_glue_is_counted_by_task_and_not_by_the_mean(ups, downs, expected):
    tasks = ("rte", "sst2", "mrpc", "qqp", "mnli", "qnli", "wnli")
    lifts = dict(zip(tasks, [0.3] * ups + [-0.1] * downs + [0.0] * 7))  # the mean rises in all but one
    found = judged("Q09", tuned(lifts, seeds=range(8)))
    assert found.verdict() == expected and f"{ups} for and {downs} against" in found.words
    assert "over 7 cells; 2 without a run" in found.words


def test_the_tasks_of_glue_are_means_over_the_papers_sizes_and_say_which():
    found = judged("Q09", [*tuned({"rte": 0.1}), *tuned({"rte": 0.2}, "small"), *tuned({"rte": -0.3}, "medium-twin")])
    assert "mean over the sizes that were run (BERT-Mini and BERT-Small): RTE +1" in found.words


@pytest.mark.parametrize(("mnli", "qqp", "expected"), [(0.1, -0.005, YES), (0.1, -0.3, NO), (0.1, -0.03, OPEN)])
def test_mini_reaches_small_on_both_tasks_within_the_margin_that_table_8_prints(mnli, qqp, expected):
    ours = [
        run for run in tuned({"mnli": mnli, "qqp": qqp}, seeds=range(8)) if run["parameters"]["algorithm"] == "high"
    ]
    theirs = [run for run in tuned({"mnli": 0.0, "qqp": 0.0}, "small", seeds=range(8))]
    theirs = [run for run in theirs if run["parameters"]["algorithm"] == "original"]
    found = judged("Q03", ours + theirs)
    assert found.verdict() == expected and "at most 2.39 below" in found.words
    assert evidence_scores._comparable(["QQP"]) == pytest.approx(85.18 - 82.79)


@pytest.mark.parametrize(
    ("lifts", "expected"),
    [
        ({"qnli": 0.3, "race": 0.3, "rte": 0.02, "squad": 0.02}, YES),
        ({"qnli": 0.1, "race": 0.1, "rte": 0.3, "squad": 0.3}, NO),  # a gain, but others gain more
        ({"qnli": -0.1, "race": -0.1, "rte": -0.3, "squad": -0.3}, NO),  # others lose more, but no gain
        ({"qnli": 0.3, "race": 0.02, "rte": 0.02, "squad": 0.02}, OPEN),
        ({"qnli": 0.3, "race": 0.3}, OPEN),  # nothing to compare with
    ],
)
def test_particularly_evident_is_a_gain_and_more_than_on_other_tasks_for_both(lifts, expected):
    assert judged("Q04", tuned(lifts)).verdict() == expected


def test_each_task_has_to_suit_the_algorithm_that_the_paper_names():
    lifts = {"squad": 0.2, "sst2": 0.2, "race": -0.2, "mnli": -0.2}
    assert judged("Q05", tuned(lifts, algorithm="elemmul", against="high")).verdict() == YES
    mixed = judged("Q05", tuned(lifts | {"mnli": 0.2}, algorithm="elemmul", against="high"))
    assert mixed.verdict() == NO and "3 for and 1 against" in mixed.words
    assert judged("Q05", tuned({"squad": 0.2, "sst2": 0.2}, algorithm="elemmul", against="high")).verdict() == OPEN


def test_both_regularisers_have_to_be_beaten_on_both_tasks():
    def runs(entropy, eigen):
        plain = tuned({"qnli": 0.2, "squad": 0.2}, "small", against="original")
        others = [
            tuned(dict.fromkeys(("qnli", "squad"), up), "small", name, SEEDS)
            for name, up in zip(NAMES, (entropy, eigen))
        ]
        return [*plain, *(run for side in others for run in side if run["parameters"]["algorithm"] in NAMES)]

    NAMES = ("entropy_reg", "eigen_reg")
    assert judged("Q07", runs(0.0, 0.0)).verdict() == YES
    for pair in ((-0.2, 0.4), (0.4, -0.2)):  # as good as both on average
        assert judged("Q07", runs(*pair)).verdict() == NO
    assert judged("Q07", runs(0.0, 0.2)).verdict() == OPEN


@pytest.mark.parametrize(
    ("gaps", "expected"),
    [((0.4, 0.2, 0.0), YES), ((0.4, 0.0, 0.2), NO), ((0.4, 0.2, 0.2), OPEN), ((0.4, 0.2, None), OPEN)],
)
def test_the_gap_has_to_narrow_at_each_step_of_size(gaps, expected):
    runs = [run for model, up in zip(SIZES, gaps) if up is not None for run in tuned({"race": up, "squad": up}, model)]
    found = judged("Q02", runs)
    assert found.verdict() == expected and "Mini − Small (RACE-Middle, SQuAD) +" in found.words


def measured(stage, changes, value, seeds=SEEDS):
    """Runs whose number differs between High and Original by a change a model, each seed and model a little more."""
    return [
        value(examples.record(stage, model, name, seed, {}), 3.0 + (name == "high") * (gap + nth * place / 1000))
        for nth, (model, gap) in enumerate(changes.items(), start=1)
        for name in ("original", "high") for place, seed in enumerate(seeds)
    ]  # fmt: skip


def sparse(run, number):
    return run | {"metrics": {"task": "race", "matrices": {"refined": {"sparsity": [[number]]}}}}


def perplexed(run, number):
    return run | {"metrics": {"perplexity": float(np.exp(number))}}


def curved(run, number):
    points = [{"step": step, "perplexity": float(np.exp(number))} for step in (0, 5, 100)]
    return run | {"metrics": {"curve": points}}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [((-0.1, -0.1, -0.1), YES), ((-0.5, -0.5, 0.1), NO), ((-0.1, -0.1, -0.001), OPEN), ((-0.1, -0.1), OPEN)],
)
@pytest.mark.parametrize(
    ("id", "stage", "prefix", "value"), [("Q10", "attention", "", sparse), ("Q13", "decoder", "gpt2-", perplexed)]
)
def test_sparsity_and_gpt2s_perplexity_have_to_fall_at_every_size(id, stage, prefix, value, changes, expected):
    names = {prefix + size: gap for size, gap in zip(SIZES, changes)}
    assert judged(id, measured(stage, names, value)).verdict() == expected
    one = judged(id, measured(stage, names, value, seeds=(42,)))  # so many sizes are no seeds
    assert one.verdict() == OPEN and one.words.endswith("one seed and so no interval")


def test_fine_tunings_of_one_checkpoint_are_one_draw():
    runs = measured("attention", dict.fromkeys(SIZES, -0.1), sparse)
    for run in runs:
        run["parameters"] |= {"finetune_seed": run["parameters"]["seed"], "seed": 42}
    assert judged("Q10", runs).verdict() == OPEN


@pytest.mark.parametrize(
    ("changes", "expected"), [((-0.3, -0.1), YES), ((-0.1, -0.3), NO), ((-0.1, -0.1), OPEN), ((-0.3,), OPEN)]
)
def test_the_loss_has_to_fall_faster_and_more_so_in_the_smallest_size(changes, expected):
    assert judged("Q12", measured("pretrain", dict(zip(SIZES, changes)), curved)).verdict() == expected


def test_a_check_of_the_loss_counts_by_the_steps_it_stands_for():
    runs = measured("pretrain", {"mini": 0.0}, curved)
    for run in runs:  # many early checks, where High is far below; none of them lasts
        points = run["metrics"]["curve"] = [{"step": step, "perplexity": 20.0} for step in (0, 1, 2, 3, 4, 100)]
        if run["parameters"]["algorithm"] == "high":
            points[2]["perplexity"] = 20.0 * float(np.exp(-1 - run["parameters"]["seed"] / 1000))
    assert "Mini -0.010 [-0.010, -0.010]" in judged("Q12", runs).words


def graphed(clustering, betweenness, seeds, algorithms=("original", "high", "low")):
    """Attention whose heads have about these correlations of GTD, a little other noise a run."""
    runs = []
    for seed in seeds:
        for place, name in enumerate(algorithms):
            random = np.random.default_rng([seed, place])
            gtd = random.normal(size=200)
            graph = {"gtd": gtd.tolist()}
            for measure, r in (("clustering", clustering), ("betweenness", betweenness)):
                graph[measure] = (r * gtd + np.sqrt(1 - r * r) * random.normal(size=200)).tolist()
            runs.append(examples.record("attention", "mini", name, seed, {"task": "race", "graph": graph}))
    return runs


def test_gtd_has_to_follow_both_graph_measures_over_several_seeds():
    assert judged("Q16", graphed(0.7, -0.4, range(5))).verdict() == YES
    assert judged("Q16", graphed(0.7, 0.4, range(5))).verdict() == NO
    assert judged("Q16", graphed(0.7, 0.0, range(5))).verdict() == OPEN
    one = judged("Q16", graphed(0.7, -0.4, [42], ("original", "high", "low", "elemmul", "uniform")))
    assert one.verdict() == OPEN and one.words.endswith("one seed and so no interval")
    assert "with Original, High, Low, ElemMul and Uniform: r(GTD, CC)" in one.words


def heads(high, others, seeds=SEEDS):
    """Attention of all four algorithms at every size: GTD by layer of High, and of each other one."""
    noise = {(high, seed): high * seed % 3 / 1e3 for high in (False, True) for seed in seeds}
    levels = {"high": high} | dict(zip(("original", "low", "elemmul"), others))
    return [
        examples.record(
            "attention", size, name, seed,
            {"task": "race", "matrices": {"refined": {"gtd": [[gtd + noise[name == "high", seed]] for gtd in layers]}}},
        )
        for size in SIZES for name, layers in levels.items() for seed in seeds
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        (([0.9, 0.1], [0.5, 0.5], [0.5, 0.9]), YES),  # one above High in each layer
        (([0.9, 0.1], [0.5, 0.8], [0.5, 0.9]), NO),  # two above it in the second layer
        (([0.9, 0.1], [0.5, 0.6], [0.5, 0.9]), OPEN),  # level with the second
    ],
)
def test_high_has_to_be_second_at_least_in_every_layer(others, expected):
    runs = heads([0.6, 0.6], others)
    assert judged("Q19", runs[1:] + runs[:1]).verdict() == expected
    assert judged("Q19", heads([0.6, 0.6], others, seeds=(42,))).verdict() == OPEN
    assert judged("Q19", [run for run in runs if run["parameters"]["algorithm"] != "low"]) is None


def test_a_small_number_is_shown_and_no_zero_has_a_sign():
    small = Estimate(-0.0004, -0.0011, 0.0003, 5)
    assert Part("", small).shown(1, 2) == "+0.000 [-0.001, 0.000]"
    assert Part("", Estimate(0.0, -0.3, 0.3, 5)).shown(1, 2) == "+0.00 [-0.30, 0.30]"
    assert Part("loss", Estimate(0.00002, nan, nan, 1)).shown(1, 3) == "loss +0.00002"
    assert Part("", Estimate(0.0, nan, nan, 1)).shown(1, 3) == "+0.000"


def test_every_task_at_every_size_has_to_correlate_with_gtd(monkeypatch):
    strong, weak = Estimate(-0.95, -0.99, -0.9, 60), Estimate(0.2, 0.1, 0.3, 900)
    runs = [examples.pretrain(model) for model in SIZES]
    monkeypatch.setattr(trajectories, "runs", lambda records, model, task: (model, task))
    monkeypatch.setattr(trajectories, "over_runs", lambda place: weak if place == ("small", "hellaswag") else strong)
    assert judged("Q17", runs).verdict() == YES  # but for the one that App. B excepts
    monkeypatch.setattr(trajectories, "over_runs", lambda place: weak if place == ("mini", "race") else strong)
    assert judged("Q17", runs).verdict() == NO
    monkeypatch.setattr(trajectories, "over_runs", lambda place: None if place == ("mini", "race") else strong)
    assert judged("Q17", runs).verdict() == OPEN


def test_the_negative_correlation_has_to_be_there_and_to_be_one_of_depth(monkeypatch):
    runs = [examples.finetune(model, tasks=("hellaswag",)) for model in SIZES]
    monkeypatch.setattr(trajectories, "runs", lambda records, model, task: model)
    negative, positive = Estimate(-0.8, -0.9, -0.6, 20), Estimate(0.8, 0.6, 0.9, 20)
    weak = Estimate(-0.1, -0.6, 0.5, 20)
    for shallow, deep, expected in (
        (negative, positive, YES), (positive, positive, NO), (negative, Estimate(-0.99, -0.995, -0.98, 20), NO),
        (weak, positive, OPEN), (negative, None, OPEN), (positive, None, NO),
    ):  # fmt: skip
        found = {"small": shallow, "medium": deep}
        monkeypatch.setattr(trajectories, "over_runs", found.get)
        assert judged("Q08", runs).verdict() == expected


def test_more_accurate_runs_have_to_differ_in_all_three_measures(monkeypatch):
    up, down = Estimate(0.8, 0.6, 0.9, 20), Estimate(-0.8, -0.9, -0.6, 20)
    wide = Estimate(0.1, -0.5, 0.6, 20)
    for signs, expected in (
        ((up, up, down), YES),
        ((up, up, up), NO),
        ((up, wide, down), OPEN),
        ((up, None, down), OPEN),
    ):
        found = dict(zip(("GTD", "IE", "BC"), signs))
        monkeypatch.setattr(trajectories, "over_runs", lambda points, key, found=found: found[key])
        assert judged("Q06", examples.study(("mini",))).verdict() == expected


def test_seeds_that_lack_a_task_do_not_count_and_sizes_share_their_seeds():
    def runs(task, seeds, gap):
        return [
            run | {"metrics": run["metrics"] | {"task": task}}
            for run in measured("attention", {"mini": gap}, sparse, seeds)
        ]

    def number(run):
        return run["metrics"]["matrices"]["refined"]["sparsity"][0][0]

    found = by_seed([*runs("race", (1, 2, 3), 1.0), *runs("squad", (2, 3), 3.0)], number, "attention", "mini")
    assert found.index.tolist() == [2, 3] and found.tolist() == pytest.approx([2.0005, 2.0015])
    both = change({"mini": found, "small": found.iloc[:1] + 2})
    assert (both.value, both.seeds) == (pytest.approx(3.0005), 1) and Part("", both).bounds(1) == (-np.inf, np.inf)
