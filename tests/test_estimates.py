import example_records as examples
import numpy as np
import pytest

from saobp.study import estimates
from saobp.study.statistics import wilson


def test_one_seed_of_right_and_wrong_gets_wilsons_interval():
    runs = estimates.scores([examples.finetune()], "mini", "original", "race")
    estimate = estimates.score_estimate(runs)
    low, high = wilson(round(estimate.value / 100 * examples.ITEMS), examples.ITEMS)
    assert (estimate.low, estimate.high) == pytest.approx((100 * low, 100 * high))


def test_a_failed_task_has_no_score():
    run = examples.finetune()
    run["metrics"]["tasks"]["race"] = {"failed": "the loss is not a number"}
    assert estimates.scores([run], "mini", "original", "race") == []


def test_runs_pair_by_seed_whatever_their_order():
    ours = [examples.finetune(algorithm="high", seed=seed) for seed in (3, 1, 2)]
    theirs = [examples.finetune(seed=seed) for seed in (1, 2, 4)]
    sides = [estimates.scores(side, "mini", name, "race") for side, name in ((ours, "high"), (theirs, "original"))]
    assert set(estimates.seed_differences(*sides)) == {(1, None), (2, None)}
    assert estimates.score_difference(*sides).seeds == 2


def test_pairing_by_item_is_narrower_than_two_separate_intervals():
    ours, theirs = (
        estimates.scores([examples.finetune(algorithm=name)], "mini", name, "race") for name in ("high", "original")
    )
    gap = estimates.score_difference(ours, theirs)
    separate = np.hypot(*(estimates.score_estimate(side).half_width for side in (ours, theirs)))
    assert (gap.high - gap.low) / 2 < separate


def test_the_glue_average_is_the_mean_of_nine():
    runs = [examples.finetune(seed=seed) for seed in (1, 2)]
    by_task = {task: estimates.scores(runs, "mini", "original", task) for task in estimates.GLUE}
    expected = np.mean([run.value for scores in by_task.values() for run in scores])
    assert estimates.average_estimate(by_task).value == pytest.approx(expected)


def test_a_missing_task_means_no_glue_average():
    runs = [examples.finetune(tasks=("rte",))]
    by_task = {task: estimates.scores(runs, "mini", "original", task) for task in estimates.GLUE}
    assert estimates.average_estimate(by_task) is None


def test_tasks_of_one_seed_count_as_moving_together():
    random = np.random.default_rng(0)
    shifts = random.normal(0, 3, 4)  # a seed moves all its tasks alike
    sides = []
    for lift in (0, 1):
        runs = [
            [estimates.Score(50 + lift + lift * shift, "accuracy", 10**6, (k, None)) for k, shift in enumerate(shifts)]
        ]
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
    several = estimates.scores(runs, "mini", "original", "race")
    assert estimates.score_estimate(several).seeds == 2
    assert estimates.score_estimate(several[:3]).seeds == 3  # one checkpoint: fine-tuning seeds are all there is
