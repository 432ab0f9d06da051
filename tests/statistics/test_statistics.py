from math import inf, isnan, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import expit

from companion import statistics
from companion.statistics import Error, holm, mean_interval, over_samples, paired_difference
from companion.statistics.intervals import perplexity
from companion.statistics.seeds import seed_gaps
from companion.statistics.trajectories import NEARLY_ONE, across_runs, correlation


def test_mean_interval_of_one_seed_covers_the_items_only_and_what_is_alike_or_alone_has_none():
    estimate = mean_interval([60.0], item_error=2.0, items=500)
    assert estimate.half_width == pytest.approx(1.959964 * 2, rel=1e-6)
    # rather than no width
    assert isnan(mean_interval([60.0]).half_width)
    # more seeds never shrink that share
    many = mean_interval([60.0 + 1e-9 * k for k in range(500)], item_error=2.0)
    assert many.half_width == pytest.approx(1.96 * 2, rel=1e-3)
    for totals in ([2.5], [1 / 3] * 20, [0.0] * 5):
        found = over_samples(totals)
        assert (
            found.value == pytest.approx(totals[0])
            and isnan(found.half_width)
            and found.items == len(totals)
        )
    found = perplexity({"perplexity": 20.0, "perplexity_interval": [None, None], "sequences": 1})
    assert np.isnan([found.low, found.high]).all() and statistics.on_scale(found) is found


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: mean_interval([1.0, float("nan")]), "finite"),
        *(
            (lambda given=given: over_samples(*given), "totals")
            for given in (([1.0, float("nan")],), ([1.0, 2.0], [0, 0]), ([],))
        ),
        *(
            (lambda sides=sides: paired_difference(*sides), "same items")
            for sides in (([[1, 0, 1]], [[1, 0]]), ([[]], [[]]), ([1.0, 0.0], [1.0]))
        ),
        *(
            (lambda series=series: correlation(*series), "x:|y:")
            for series in (([1, 2], [1, 2]), ([1, 2, 3], [1, 2]), ([1, 2, 3], [4, 4, 4]))
        ),
    ],
)
def test_what_has_no_mean_no_pairs_or_no_correlation_is_refused(call, said):
    with pytest.raises(ValueError, match=said):
        call()


def outcomes(seeds, items, lift, random, seed_spread=0.0):
    difficulty = random.random(items)
    level = lift + random.normal(0, seed_spread, (seeds, 1))
    return (difficulty + random.normal(0, 0.3, (seeds, items)) < 0.5 + level).astype(float)


def test_items_that_all_differ_alike_have_no_interval_and_the_p_of_the_sign_test():
    same = outcomes(3, 100, 0, np.random.default_rng(1))
    result = paired_difference(same, same)
    # none of width 0
    assert (result.value, result.p) == (0, 1) and np.isnan([result.low, result.high]).all()
    assert paired_difference([[1]], [[0]]).p == 1
    assert paired_difference([[1] * 10], [[0] * 10]).p == pytest.approx(2 / 1024)
    most, every = (
        paired_difference([[1] * right + [0] * (277 - right)], [[0] * 277]) for right in (276, 277)
    )
    assert max(every.p, most.p) < 1e-9 and np.isnan(every.low)


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_seeds_that_agree_by_chance_do_not_make_a_difference_sure(seeds):
    random, few = np.random.default_rng(seeds), 0
    for _ in range(200):
        hard = random.normal(0, 1.5, 277)
        ours, theirs = (
            100.0 * (random.random((seeds, 277)) < 1 / (1 + np.exp(-hard))) for _ in range(2)
        )
        few += paired_difference(ours, theirs).p < 0.05 / 36
    # 0.3 are to be expected
    assert few <= 2


def test_a_side_of_one_seed_is_given_the_spread_of_the_other_and_of_two_sides_the_smaller_says_how_sure_it_is():
    random, alarms = np.random.default_rng(4), 0
    for _ in range(200):
        one, many = (outcomes(seeds, 400, 0, random, seed_spread=0.15) for seeds in (1, 5))
        alarms += paired_difference(one, many).p < 0.05
    assert alarms / 200 < 0.1
    spreads = [
        np.var([row.mean() for row in side], ddof=1) / len(side) for side in (many, many[:2])
    ]
    (error, freedom), *_ = paired_difference(many, many[:2]).error.parts
    assert (error, freedom) == (pytest.approx(sqrt(sum(spreads))), 1), (
        "of both sides, as sure as the smaller"
    )


def test_paired_correlations_agree_with_pearson_and_find_the_better_predictor():
    random = np.random.default_rng(11)
    labels = random.normal(size=400)
    ours, theirs = (labels + random.normal(size=400) * noise for noise in (0.8, 1.2))
    result = paired_difference(ours, theirs, labels)
    expected = stats.pearsonr(ours, labels).statistic - stats.pearsonr(theirs, labels).statistic
    assert result.value == pytest.approx(100 * expected) and result.p < 0.01
    assert result.low < result.value < result.high
    # runs of two checkpoints
    several = [labels + random.normal(size=(heads, 400)) for heads in (3, 2)]
    result = paired_difference(several, [np.ones(400)] * 2, labels)
    expected = [
        np.mean([stats.pearsonr(row, labels).statistic for row in runs]) for runs in several
    ]
    assert result.value == pytest.approx(100 * np.mean(expected)) and result.seeds == 2


def test_the_error_that_seeds_share_is_that_of_the_items_alone():
    random = np.random.default_rng(13)
    # an item's part for all seeds, for each
    shared, own = random.normal(0, 2, 400), random.normal(0, 5, (3, 400))
    gap = paired_difference(shared + own, np.zeros((3, 400)))
    pairs = np.cov(shared + own)[np.triu_indices(3, 1)]
    assert gap.over_items[0] == pytest.approx(sqrt(pairs.mean() / 400), rel=0.01)
    assert gap.over_items[0] < 0.6 * (shared + own).std() / 20
    assert paired_difference(own[0], np.zeros(400)).over_items[0] == pytest.approx(
        own[0].std() / 20, rel=0.06
    )
    # other seeds, the same items
    unpaired = paired_difference(shared + own, np.zeros((2, 400)))
    assert unpaired.over_items[0] == pytest.approx(gap.over_items[0], rel=1e-6)
    assert statistics.item_errors(shared + own)[0] == pytest.approx(gap.over_items[0], rel=1e-6)


def _answers(random, difficulty, spread):
    """100 or 0: right or wrong of three seeds that differ in skill by `spread`, on items of a
    difficulty.
    """
    return 100.0 * (
        random.random((3, len(difficulty)))
        < expit(0.5 + difficulty + random.normal(0, spread, (3, 1)))
    )


@pytest.mark.parametrize("spread", [0.0, 0.5])
def test_a_cell_and_a_difference_of_three_seeds_cover_the_truth_as_often_as_they_say(spread):
    drawn = np.random.default_rng(1).normal(0, np.hypot(2, spread), 400_000)
    # over all items and seeds that could have been drawn
    true = 100 * expit(0.5 + drawn).mean()
    random, cells, gaps = np.random.default_rng(23), [], []
    for _ in range(300):
        difficulty = random.normal(0, 2, 200)
        ours, theirs = (_answers(random, difficulty, spread) for _ in range(2))
        shared, _ = statistics.item_errors(ours)
        cell = statistics.mean_interval(ours.mean(1), item_error=shared)
        gap = paired_difference(ours, theirs)
        cells.append(cell.low <= true <= cell.high)
        gaps.append(gap.low <= 0 <= gap.high)
    # at least the 0.95 they say, but for the draw of 300
    assert 0.94 <= np.mean(cells) <= 0.99
    assert 0.94 <= np.mean(gaps) <= 0.99


@pytest.mark.parametrize("seeds", [2, 3])
# of the seeds' error and the items'
@pytest.mark.parametrize("ratio", [0.2, 1.0, 5.0])
@pytest.mark.parametrize("looks", [1, 12])
def test_intervals_of_few_seeds_hold_together_as_often_as_they_say(seeds, ratio, looks):
    random, trials = np.random.default_rng(17), 1000
    means = random.normal(size=(trials, seeds)) * ratio * sqrt(seeds) + random.normal(
        size=(trials, 1)
    )
    errors = (Error.of(row.std(ddof=1) / sqrt(seeds), seeds - 1, 1.0) for row in means)
    outside = sum(
        abs(row.mean()) > error.reach(1 - 0.05 / looks) for row, error in zip(means, errors)
    )
    assert outside <= stats.binom.ppf(0.999, trials, 0.05 / looks)


def test_an_error_is_students_of_one_part_and_never_surer_than_any_of_several():
    seeds, items = Error(((2.0, 3),)), Error(((1.5, inf),))
    assert seeds.reach() == pytest.approx(
        2 * stats.t.isf(0.025, 3)
    ) and items.reach() == pytest.approx(1.5 * 1.959964)
    both = Error(seeds.parts + items.parts)
    assert both.reach(0.99) > max(part.reach(0.99) for part in (seeds, items)) and both.size == 2.5
    for value in (0.0, 1.0, 5.0, -80.0):
        assert seeds.p(value) == pytest.approx(2 * stats.t.sf(abs(value) / 2, 3))
        assert both.reach(1 - both.p(value)) == pytest.approx(abs(value), abs=1e-6)
    assert items.p(1e4) < 1e-299
    # at least what the items do to the mean
    for own in (0.0, 1e-3):
        assert Error.of(own, 1, 0.5, least=2.0).size == pytest.approx(2.0)
    assert Error.of(3.0, 1, 0.5, least=2.0).size == pytest.approx(np.hypot(3, 0.5))


def test_holm_worked_by_hand_leaves_comparisons_that_were_not_made_out_of_the_count():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.01, float("nan"), 0.02]) == pytest.approx(
        [0.02, float("nan"), 0.02], nan_ok=True
    )


@given(st.lists(st.floats(0, 1), max_size=20))
def test_holm_never_lowers_a_p_value_and_keeps_their_order(p_values):
    adjusted = holm(p_values)
    assert all(0 <= p <= a <= 1 for p, a in zip(p_values, adjusted, strict=True))
    order = np.argsort(p_values, kind="stable")
    assert np.all(np.diff(np.asarray(adjusted)[order]) >= 0)


def test_unrelated_random_walks_rarely_count_as_correlated_and_white_noise_counts_whole():
    random, naive, aware = np.random.default_rng(7), 0, 0
    for _ in range(300):
        x, y = random.normal(size=(2, 20)).cumsum(axis=1)
        naive += stats.pearsonr(x, y).pvalue < 0.02
        found = correlation(x, y)
        r, high = np.arctanh(np.clip([found.r, found.high], -NEARLY_ONE, NEARLY_ONE))
        aware += 2 * stats.norm.sf(stats.norm.isf(0.025) * abs(r) / (high - r)) < 0.02
    assert naive / 300 > 0.25 and aware / 300 < 0.06
    assert correlation(*random.normal(size=(2, 400))).effective > 300


def test_across_runs_takes_out_what_a_factor_explains():
    x, y, factor = (
        [1.0, 2.0, 3.0, 11.0, 12.0, 13.0],
        [3.0, 2.0, 1.0, 13.0, 12.0, 11.0],
        ["a"] * 3 + ["b"] * 3,
    )
    assert across_runs(x, y).r > 0.9
    centred = across_runs(x, y, [factor])
    assert centred.r == pytest.approx(-1) and centred.effective == 5
    assert across_runs(x, y, [factor, range(6)]) == centred, (
        "a level of its own for every run takes out nothing"
    )


def test_two_runs_of_one_seed_and_task_on_a_side_are_refused():
    """Of two models, say: the last would stand for both."""
    runs = [
        {"parameters": {"seed": 1, "algorithm": side}, "value": 1.0}
        for side in ("high", "original", "high")
    ]
    assert seed_gaps(runs[:2], lambda run: run["value"]) == {1: 0.0}
    with pytest.raises(ValueError, match="two of one seed and task"):
        seed_gaps(runs, lambda run: run["value"])
