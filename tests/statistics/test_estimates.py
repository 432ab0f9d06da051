import datasets
import example_records as examples
import numpy as np
import pytest
from scipy import stats

from saobp.study.evaluation import metrics
from saobp.study.setup.benchmarks import TASKS
from saobp.study.statistics import Difference, estimates, mean_interval, task_scores


@pytest.mark.parametrize("task", ["race", "cola", "stsb"])
def test_one_seed_has_the_interval_of_its_record(task):
    (run,) = task_scores.scores([examples.finetune()], "mini", "original", task)
    estimate = estimates.score_estimate([run])
    expected = metrics.headline_interval(run.metric, run.value, examples.ITEMS)
    assert (estimate.low, estimate.high) == pytest.approx(expected)


@pytest.mark.parametrize("right", [39, 40])
def test_one_seed_lies_below_chance_where_its_record_says_so(right):
    rows = datasets.Dataset.from_dict({"label": [1] * 100})
    entry = metrics.score_predictions(TASKS["rte"], [1] * right + [0] * (100 - right), rows)
    run = examples.finetune(tasks=("rte",))
    run["metrics"]["tasks"]["rte"] = entry
    estimate = estimates.score_estimate(task_scores.scores([run], "mini", "original", "rte"))
    assert (estimate.low, estimate.high) == pytest.approx(tuple(entry["interval"]))
    assert (estimate.high < 50) == entry["below_chance"] == (right == 39)


def test_a_failed_task_has_no_score():
    run = examples.finetune()
    run["metrics"]["tasks"]["race"] = {"failed": {"reason": "the loss is not a number", "message": ""}}
    assert task_scores.scores([run], "mini", "original", "race") == []


def test_runs_pair_by_seed_whatever_their_order():
    ours = [examples.finetune(algorithm="high", seed=seed) for seed in (3, 1, 2)]
    theirs = [examples.finetune(seed=seed) for seed in (1, 2, 4)]
    sides = [task_scores.scores(side, "mini", name, "race") for side, name in ((ours, "high"), (theirs, "original"))]
    assert set(estimates.seed_differences(*sides)) == {(1, None), (2, None)}
    assert estimates.score_difference(*sides).seeds == 2


def test_pairing_by_item_is_narrower_than_two_separate_intervals():
    ours, theirs = (
        task_scores.scores([examples.finetune(algorithm=name)], "mini", name, "race") for name in ("high", "original")
    )
    gap = estimates.score_difference(ours, theirs)
    separate = np.hypot(*(estimates.score_estimate(side).half_width for side in (ours, theirs)))
    assert (gap.high - gap.low) / 2 < separate


def test_the_glue_average_is_the_mean_of_nine():
    runs = [examples.finetune(seed=seed) for seed in (1, 2)]
    by_task = {task: task_scores.scores(runs, "mini", "original", task) for task in estimates.GLUE}
    expected = np.mean([run.value for scores in by_task.values() for run in scores])
    assert estimates.average_estimate(by_task).value == pytest.approx(expected)


def test_a_missing_task_means_no_glue_average():
    runs = [examples.finetune(tasks=("rte",))]
    by_task = {task: task_scores.scores(runs, "mini", "original", task) for task in estimates.GLUE}
    assert estimates.average_estimate(by_task) is None


def test_tasks_of_one_seed_count_as_moving_together():
    random = np.random.default_rng(0)
    shifts = random.normal(0, 3, 4)  # a seed moves all its tasks alike
    sides = []
    for lift in (0, 1):
        runs = [[task_scores.Score(50 + lift + lift * x, "accuracy", 10**6, (k, None)) for k, x in enumerate(shifts)]]
        sides.append(runs[0])
    gap = estimates.score_difference(sides[1], sides[0])
    by_seed = estimates.seed_differences(sides[1], sides[0])
    one, nine = (estimates.pool([(gap, by_seed)] * count) for count in (1, 9))
    assert nine.half_width > 0.8 * np.std(shifts, ddof=1) / 2
    assert one.value == pytest.approx(nine.value)


def test_nested_means_skip_undefined_values():
    assert estimates.nested_mean([[1.0, None], [3.0, float("nan")]]) == 2.0
    assert estimates.nested_mean([[None]]) is None


def test_plain_attention_serves_for_both_matrices():
    run = examples.attention()
    del run["metrics"]["matrices"]["refined"]
    assert estimates.matrix(run, "refined") == estimates.matrix(run, "raw")


def test_fine_tuning_seeds_of_one_checkpoint_are_not_independent_runs():
    runs = []
    for seed in (1, 2):
        for head in (0, 1, 2):
            run = examples.finetune(seed=seed)
            run["parameters"]["finetune_seed"] = head
            runs.append(run)
    several = task_scores.scores(runs, "mini", "original", "race")
    assert estimates.score_estimate(several).seeds == 2
    assert estimates.score_estimate(several[:3]).seeds == 3  # one checkpoint: fine-tuning seeds are all there is


def acceptability(gain, heads=(0, 1, 2), seeds=(42, 43, 44), **left_out):
    """Runs of CoLA, of three checkpoints with three heads each, that judge the same sentences."""
    random = np.random.default_rng([len(heads), round(100 * gain)])
    items = np.random.default_rng(0)
    gold, hard = (items.random(1043) < 0.69).astype(float), items.normal(size=1043)
    runs = []
    for key in ((seed, head) for seed in seeds for head in heads):
        guess = ((gold - 0.5) * (1.2 + gain) + hard + 0.15 * random.normal(size=1043) > 0).astype(float)
        value = 100 * np.corrcoef(guess, gold)[0, 1]
        given = {"predictions": guess[None], "labels": gold} | left_out
        runs.append(task_scores.Score(value, "matthews", 1043, key, **given))
    return runs


def test_a_correlation_of_several_checkpoints_and_heads_is_paired_on_its_items():
    many, few = (
        estimates.score_difference(acceptability(0.15, heads), acceptability(0, heads)) for heads in ((0, 1, 2), (0,))
    )
    assert many.seeds == few.seeds == 3
    assert many.value == pytest.approx(
        np.mean([run.value for run in acceptability(0.15)]) - np.mean([run.value for run in acceptability(0)])
    )
    assert many.high - many.low < few.high - few.low
    bare = [acceptability(gain, predictions=None, labels=None) for gain in (0.15, 0)]
    apart = estimates.score_difference(*bare)
    assert many.high - many.low < (apart.high - apart.low) / 2
    assert many.value == pytest.approx(apart.value)


def test_runs_that_all_predict_one_class_keep_an_interval():
    gold, one = np.array([0.0, 1.0] * 200), np.ones((1, 400))
    runs = [task_scores.Score(0.0, "matthews", 400, (42, head), predictions=one, labels=gold) for head in (0, 1, 2)]
    found = estimates.score_estimate(runs)
    assert found.value == 0 and found.high == pytest.approx(1.96 * 100 / np.sqrt(399), rel=1e-3)


def test_a_correlation_whose_runs_have_different_labels_is_not_merged_as_if_paired():
    runs = acceptability(0.15)
    other = acceptability(0.15, labels=np.zeros(1043))[0]
    assert all(run.predictions.shape == (3, 1043) for run in task_scores.by_pretraining(runs))
    assert task_scores.by_pretraining([other, *runs[1:]])[0].predictions is None


def test_a_difference_without_predictions_is_no_surer_than_welchs():
    levels = [50.0, 52.0, 55.0], [49.0, 50.0, 50.5]
    ours, theirs = (
        [task_scores.Score(x, "matthews", 10**9, (k, 0)) for k, x in enumerate(values)] for values in levels
    )  # so many items that their error is nothing
    gap, welch = estimates.score_difference(ours, theirs), stats.ttest_ind(*levels, equal_var=False)
    low, high = welch.confidence_interval(0.95)
    assert welch.pvalue < gap.p < 1.2 * welch.pvalue
    assert (gap.low + gap.high) / 2 == pytest.approx((low + high) / 2) and high < gap.high < high + 0.1 * (high - low)


def test_p_of_a_difference_of_averages_is_below_the_level_where_its_interval_leaves_zero_out():
    spread = {"one": (0.3, 0.9, 1.9), "two": (0.4, 1.1, 1.8)}
    for lift in (0, 1, 1.6, 3):
        ours, theirs = (
            {
                task: [task_scores.Score(50 + x, "accuracy", 10**6, (k, 0)) for k, x in enumerate(level)]
                for task, level in sides.items()
            }
            for sides in (
                {name: np.add(values, lift - 1) for name, values in spread.items()},
                dict.fromkeys(spread, [0, 0, 0]),
            )
        )
        gap = estimates.average_difference(ours, theirs)
        assert (gap.p < 0.05) == (gap.low > 0 or gap.high < 0)
        assert gap.p > 1e-3  # three seeds: the normal law would give much less


def equals(random, seeds, items, shift, noise=0.8):
    """Two algorithms that are alike, a task: the same items, a shift of each seed, noise of each answer."""
    hard = random.normal(size=items)
    return [
        [
            task_scores.Score(right.mean(), "accuracy", items, (seed, 0), right)
            for seed in range(seeds)
            for right in [100.0 * (hard + shift * random.normal() + noise * random.normal(size=items) < 0.3)]
        ]
        for _ in range(2)
    ]


def test_the_pooled_interval_covers_the_truth_as_often_as_it_says():
    random, trials, hits = np.random.default_rng(7), 200, 0
    for _ in range(trials):
        tasks = [equals(random, 3, 80, 0.1) for _ in range(3)]
        found = estimates.pool([(estimates.score_difference(*t), estimates.seed_differences(*t)) for t in tasks])
        hits += found.low <= 0 <= found.high
    low, high = stats.binom.interval(0.998, trials, 0.95)
    assert low <= hits <= high


def test_a_weighted_sum_of_gaps_adds_errors_straight_over_the_same_items_and_in_squares_over_others():
    gap, by_seed = Difference(2.0, 0, 4, 0.05, 2, 100, 3.0), {(1, 0): 1.0, (2, 0): 3.0}
    pairs = [(gap, by_seed), (gap, {(1, 0): 1.0, (2, 0): 1.0})]
    found = estimates.pool(pairs, [1, -1])
    assert (found.value, found.seeds, found.items) == (1.0, 2, 200)
    for items, error in ((["rte", "squad"], 3 * np.sqrt(2)), (["rte", "rte"], 6.0)):
        expected = mean_interval([0.0, 2.0], item_error=error)
        assert estimates.pool(pairs, [1, -1], items).half_width == pytest.approx(expected.half_width)


def test_heads_of_one_checkpoint_pool_as_one_run_with_their_spread():
    tasks = [
        [[run for run in side if run.key[0] == 42] for side in (acceptability(g), acceptability(0))] for g in (0.1, 0.2)
    ]
    gaps = [(estimates.score_difference(*sides), estimates.seed_differences(*sides)) for sides in tasks]
    found = estimates.pool(gaps)
    assert found.seeds == 1
    assert found.half_width > 1.96 * np.linalg.norm([gap.item_error for gap, _ in gaps]) / 2
