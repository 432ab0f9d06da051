from dataclasses import replace

import example_records as examples
import numpy as np
import pytest
from scipy import stats

from companion.evaluation import scoring
from companion.setup.tasks_and_metrics import GLUE
from companion.statistics import estimates, task_scores


@pytest.mark.parametrize("task", ["race", "cola", "stsb"])
def test_one_seed_has_the_interval_of_its_record(task):
    (run,) = task_scores.scores([examples.finetune()], "mini", "original", task)
    estimate = estimates.score_estimate([run])
    expected = scoring.headline_interval(run.metric, run.value, examples.ITEMS)
    assert (estimate.low, estimate.high) == pytest.approx(expected)


def test_runs_pair_by_seed_whatever_their_order():
    ours = [examples.finetune(algorithm="high", seed=seed) for seed in (3, 1, 2)]
    theirs = [examples.finetune(seed=seed) for seed in (1, 2, 4)]
    sides = [
        task_scores.scores(side, "mini", name, "race")
        for side, name in ((ours, "high"), (theirs, "original"))
    ]
    assert set(estimates.seed_differences(*sides)) == {(1, None), (2, None)}
    assert estimates.score_difference(*sides).seeds == 2


def test_the_glue_average_is_the_mean_of_nine():
    runs = [examples.finetune(seed=seed) for seed in (1, 2)]
    by_task = {task: task_scores.scores(runs, "mini", "original", task) for task in GLUE}
    expected = np.mean([run.value for scores in by_task.values() for run in scores])
    assert estimates.score_estimate(*by_task.values()).value == pytest.approx(expected)
    assert estimates.score_estimate(*by_task.values(), []) is estimates.score_estimate([]) is None


def test_nested_means_skip_undefined_values_and_plain_attention_serves_for_both_matrices():
    assert estimates.nested_mean([[1.0, None], [3.0, float("nan")]]) == 2.0
    assert estimates.nested_mean([[None]]) is None
    run = examples.attention()
    del run["metrics"]["matrices"]["refined"]
    assert estimates.matrix(run, "refined") == estimates.matrix(run, "raw")


def test_fine_tuning_seeds_of_one_checkpoint_are_not_independent_runs():
    runs = [examples.finetune(seed=seed) for seed in (1, 2) for _ in range(3)]
    for place, run in enumerate(runs):
        run["parameters"]["finetune_seed"] = place % 3
    several = task_scores.scores(runs, "mini", "original", "race")
    # of one checkpoint: fine-tuning seeds are all there is
    one = several[:3]
    assert (estimates.score_estimate(several).seeds, estimates.score_estimate(one).seeds) == (2, 3)
    assert len(task_scores.by_pretraining(several)) == 2 and task_scores.by_pretraining(one) is one


def acceptability(gain, heads=(0, 1, 2), seeds=(42, 43, 44), **left_out):
    """Runs of CoLA, of three checkpoints with three heads each, that judge the same sentences."""
    random = np.random.default_rng([len(heads), round(100 * gain)])
    items = np.random.default_rng(0)
    gold, hard = (items.random(1043) < 0.69).astype(float), items.normal(size=1043)
    runs = []
    for key in ((seed, head) for seed in seeds for head in heads):
        guess = ((gold - 0.5) * (1.2 + gain) + hard + 0.15 * random.normal(size=1043) > 0).astype(
            float
        )
        value = 100 * np.corrcoef(guess, gold)[0, 1]
        given = {"answers": guess[None], "labels": gold} | left_out
        runs.append(task_scores.Score(value, "matthews", 1043, key, **given))
    return runs


def test_a_correlation_of_several_checkpoints_and_heads_is_paired_on_its_items():
    sides = ((acceptability(gain, heads) for gain in (0.15, 0)) for heads in ((0, 1, 2), (0,)))
    many, few = (estimates.score_difference(*both) for both in sides)
    ours, theirs = (np.mean([run.value for run in acceptability(gain)]) for gain in (0.15, 0))
    assert many.seeds == few.seeds == 3 and many.value == pytest.approx(ours - theirs)
    assert many.high - many.low < few.high - few.low
    separate = [estimates.score_estimate(acceptability(gain)).half_width for gain in (0.15, 0)]
    assert (many.high - many.low) / 2 < np.hypot(*separate)
    # runs on other items are not paired or merged
    runs, other = acceptability(0.15), acceptability(0.15, labels=np.zeros(1043))
    assert all(run.answers.shape == (3, 1043) for run in task_scores.by_pretraining(runs))
    assert task_scores.by_pretraining([other[0], *runs[1:]])[0].answers is None
    assert estimates.score_difference(runs, other) is None


def test_runs_that_all_predict_one_class_keep_an_interval():
    gold, one = np.array([0.0, 1.0] * 200), np.ones((1, 400))
    runs = [
        task_scores.Score(0.0, "matthews", 400, (42, head), answers=one, labels=gold)
        for head in (0, 1, 2)
    ]
    found = estimates.score_estimate(runs)
    assert found.value == 0 and found.high == pytest.approx(1.96 * 100 / np.sqrt(399), rel=1e-3)


def equals(random, seeds, items, shift, noise=0.8):
    """Two algorithms that are alike, a task: the same items, a shift of each seed, noise of each
    answer.
    """
    hard = random.normal(size=items)
    answers = 100.0 * (hard + shift[:, None] + noise * random.normal(size=(2, seeds, items)) < 0.3)
    return [
        [
            task_scores.Score(right.mean(), "accuracy", items, (seed, 0), right)
            for seed, right in enumerate(side)
        ]
        for side in answers
    ]


def averaged(tasks):
    """The difference of two averages over tasks, each of which is a pair of sides."""
    return estimates.average_difference(
        *({str(n): task[side] for n, task in enumerate(tasks)} for side in (0, 1))
    )


def test_the_average_of_one_seed_has_that_seeds_errors_whatever_other_seeds_some_tasks_have():
    random = np.random.default_rng(0)
    tasks = [equals(random, 3, 80, random.normal(0, 0.1, 3)) for _ in range(3)]
    alone = [tuple(side[:1] for side in task) for task in tasks]
    some = averaged([*tasks[:2], alone[2]])
    assert some.seeds == 1 and (some.low, some.high) == pytest.approx(
        (averaged(alone).low, averaged(alone).high)
    )


def test_seeds_that_share_no_error_over_items_have_none_and_not_a_whole_runs():
    random = np.random.default_rng(0)
    for _ in range(100):
        answers = 100.0 * (random.random((3, 400)) < 0.3)
        runs = [
            task_scores.Score(one.mean(), "accuracy", 400, (seed, 0), one)
            for seed, one in enumerate(answers)
        ]
        shared, least = estimates.errors_over_items(runs)
        if shared == 0:
            break
    assert shared == 0 < least < runs[0].item_error


def test_the_interval_of_an_average_covers_the_truth_as_often_as_it_says_and_p_agrees_with_it():
    random, trials, hits = np.random.default_rng(7), 100, 0
    for _ in range(trials):
        found = averaged([equals(random, 3, 80, random.normal(0, 0.1, 3)) for _ in range(3)])
        hits += found.low <= 0 <= found.high
        assert (found.p < 0.05) == (found.low > 0 or found.high < 0) and found.seeds == 3
    low, high = stats.binom.interval(0.998, trials, 0.95)
    assert low <= hits <= high


def test_tasks_of_one_seed_count_as_moving_together_and_heads_of_one_checkpoint_as_one_run():
    random, answers = np.random.default_rng(0), np.tile([100.0, 0.0], 5000)
    # a seed moves all its tasks alike
    shifts = random.normal(0, 3, 4)
    sides = [
        [
            task_scores.Score(50 + x, "accuracy", 10**4, (k, 0), answers + x)
            for k, x in enumerate(lift * shifts)
        ]
        for lift in (1, 0)
    ]
    one, nine = averaged([sides]), averaged([sides] * 9)
    assert (
        one.value == pytest.approx(nine.value)
        and nine.high - nine.low > 1.6 * np.std(shifts, ddof=1) / 2
    )
    heads = averaged([[[replace(run, key=(42, run.key[0])) for run in side] for side in sides]])
    assert heads.seeds == 1 and heads.high - heads.low == pytest.approx(one.high - one.low)
    assert (
        averaged([sides, [[replace(run, key=(9, 9)) for run in side[:1]] for side in sides]])
        is None
    )
