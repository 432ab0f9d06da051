"""Each interval covers as often as it says, and each test errs no more often, on simulated data.

A few hundred draws in `make test`, thousands in the nightly run.
"""

from math import inf
from statistics import quantiles

import numpy as np
import pytest

from saobp.study import statistics
from saobp.study.statistics import sequential, skewed

FEW, MANY = 300, 3000
DRAWS = [pytest.param(FEW, id="few"), pytest.param(MANY, id="many", marks=pytest.mark.nightly)]


def slack(draws, level=0.05):
    """Three standard errors of a share of `draws` near `level`."""
    return 3 * np.sqrt(level * (1 - level) / draws)


@pytest.mark.parametrize("draws", DRAWS)
def test_a_cell_of_one_seed_covers_with_the_spread_that_others_lend_it(draws):
    random, inside = np.random.default_rng(1), 0
    for _ in range(draws):
        cells = [random.normal(0, 1, n) + random.normal(0, 0.5) for n in (1, 3, 3, 4)]  # seeds, and items they share
        lent = statistics.borrow(cells, [0.5] * 4)[0]
        inside += lent.low <= 0 <= lent.high
    assert inside / draws > 0.95 - slack(draws)


def test_the_variance_between_seeds_is_that_of_analysis_of_variance_without_items():
    random = np.random.default_rng(2)
    cells = [random.normal(place, 2, n) for place, n in ((0, 3), (5, 4), (9, 6))]
    squares = sum(((cell - cell.mean()) ** 2).sum() for cell in cells)
    variance, freedom = statistics.seed_variance([*cells, [1.0]])
    assert freedom == 10 and variance == pytest.approx(squares / 10)
    with pytest.raises(ValueError, match="none has two seeds"):
        statistics.seed_variance([[1.0], [2.0]])


@pytest.mark.parametrize("draws", DRAWS)
def test_interim_readings_with_o_brien_fleming_bounds_err_in_one_of_twenty(draws):
    random, analyses = np.random.default_rng(3), (10, 20)
    limits = sequential.bounds(analyses)
    assert limits == pytest.approx((2.797, 1.977), abs=2e-3)  # their table for two equal looks
    sums = random.normal(size=(4 * draws, 20)).cumsum(axis=1)
    z = np.abs(sums[:, [9, 19]] / np.sqrt(analyses))
    crossed = (z > limits).any(axis=1).mean()
    assert 0.05 - slack(4 * draws) < crossed < 0.05 + slack(4 * draws)
    assert (z > 1.96).any(axis=1).mean() > 0.06  # what looking twice without them does
    assert statistics.last_level((20,)) == pytest.approx(0.95) and statistics.last_level((5, 13, 21)) > 0.95
    with pytest.raises(ValueError, match="rising"):
        sequential.bounds((5, 5))


@pytest.mark.parametrize("draws", DRAWS)
@pytest.mark.parametrize("shape", ["normal", "heavy"])
def test_sign_flips_cover_a_symmetric_centre_whatever_its_law(draws, shape, monkeypatch):
    monkeypatch.setattr(skewed, "DRAWS", 1000)
    random, inside = np.random.default_rng(4), 0
    for _ in range(draws):
        values = random.normal(size=12) if shape == "normal" else random.standard_t(2, size=12)
        low, high = skewed.sign_flip_interval(values)
        inside += low <= 0 <= high
    assert inside / draws > 0.95 - slack(draws) - 0.01


def test_sign_flips_of_five_values_have_no_interval_of_95_percent():
    assert skewed.sign_flip_interval([1, 2, 3, 4, 5]) == (-inf, inf)


@pytest.mark.parametrize(
    "draws", [pytest.param(100, id="few"), pytest.param(1000, id="many", marks=pytest.mark.nightly)]
)
def test_bca_covers_the_mean_of_skewed_differences_about_as_students_interval_does(draws, monkeypatch):
    monkeypatch.setattr(skewed, "DRAWS", 1000)
    random, inside = np.random.default_rng(5), 0
    for _ in range(draws):
        values = random.exponential(size=21) - 1
        low, high = skewed.bca_interval(values)
        inside += low <= 0 <= high
    assert inside / draws > 0.91 - slack(draws)


@pytest.mark.parametrize("draws", DRAWS)
def test_the_interval_of_a_median_is_read_off_its_quartiles_and_is_not_they(draws):
    random, inside, quartiles = np.random.default_rng(6), 0, 0
    for _ in range(draws):
        low, middle, high = quantiles(random.normal(1, 0.1, 9), n=4)  # as the rounds of a cost record
        found = statistics.median_interval(low, middle, high, 9)
        inside, quartiles = inside + (found.low <= 1 <= found.high), quartiles + (low <= 1 <= high)
    assert 0.95 - slack(draws) < inside / draws
    assert quartiles < inside  # what is taken for an interval when quartiles are


@pytest.mark.parametrize("draws", DRAWS)
def test_a_correlation_over_runs_is_not_made_by_what_algorithms_and_seeds_share(draws):
    random, alarms, careless = np.random.default_rng(7), 0, 0
    algorithms, seeds = np.repeat(range(6), 3), np.tile(range(3), 6)
    for _ in range(draws):
        x, y = (
            random.normal(size=6)[algorithms] * 2 + random.normal(size=3)[seeds] * 2 + random.normal(size=18)
            for _ in "xy"
        )
        alarms += statistics.across_runs(x, y, [algorithms, seeds]).p < 0.05
        careless += statistics.across_runs(x, y, [algorithms]).p < 0.05
    assert alarms / draws < 0.05 + slack(draws)
    assert careless / draws > 0.1  # seeds that all algorithms share make one


@pytest.mark.parametrize("draws", DRAWS)
def test_least_of_four_equal_layers_is_biased_and_layers_by_themselves_are_not(draws):
    means = np.random.default_rng(8).normal(size=(draws, 4))
    assert means.min(axis=1).mean() == pytest.approx(-1.03, abs=0.15)
    assert means[:, 0].mean() == pytest.approx(0, abs=0.15)


def test_the_error_over_items_is_the_closed_form_that_resampling_approaches():
    random = np.random.default_rng(9)
    table = random.random((3, 200)) < random.random(200)
    drawn = [100.0 * table[:, random.integers(200, size=200)].mean(axis=1) for _ in range(4000)]
    covariance = np.cov(np.transpose(drawn))
    shared, mean = statistics.item_errors(100.0 * table)
    assert shared == pytest.approx(np.sqrt((covariance.sum() - np.trace(covariance)) / 6), rel=0.05)
    assert mean == pytest.approx(np.sqrt(covariance.mean()), rel=0.05)
