"""Each interval covers as often as it says, and each test errs no more often, on simulated data.

A hundred and fifty draws in `make test`, thousands in the nightly run.
"""

from math import log
from statistics import quantiles

import numpy as np
import pytest
from scipy import stats

from companion import statistics
from companion.statistics import seeds
from companion.statistics.trajectories import across_runs


@pytest.fixture(
    params=[pytest.param(150, id="few"), pytest.param(3000, id="many", marks=pytest.mark.nightly)]
)
def draws(request):
    return request.param


def slack(draws, level=0.05):
    """Three standard errors of a share of `draws` near `level`."""
    return 3 * np.sqrt(level * (1 - level) / draws)


def test_interim_readings_with_o_brien_fleming_bounds_err_in_one_of_twenty(draws):
    random, analyses = np.random.default_rng(3), (10, 20)
    limits = seeds.bounds(analyses)
    # their table for two equal looks
    assert limits == pytest.approx((2.797, 1.977), abs=2e-3)
    sums = random.normal(size=(4 * draws, 20)).cumsum(axis=1)
    z = np.abs(sums[:, [9, 19]] / np.sqrt(analyses))
    crossed = (z > limits).any(axis=1).mean()
    assert 0.05 - slack(4 * draws) < crossed < 0.05 + slack(4 * draws)
    # what looking twice without them does
    assert (z > 1.96).any(axis=1).mean() > 0.06
    assert statistics.level_at((20,), 20) == pytest.approx(0.95)
    levels = [statistics.level_at(analyses, count) for count in analyses]
    assert levels == pytest.approx(2 * stats.norm.cdf([2.797, 1.977]) - 1, abs=2e-4)
    assert statistics.level_at(analyses, 13) is None
    with pytest.raises(ValueError, match="rising"):
        seeds.bounds((5, 5))


def test_the_interval_of_a_median_is_read_off_its_quartiles_and_is_not_they(draws):
    random, inside, quartiles = np.random.default_rng(6), 0, 0
    for _ in range(draws):
        # as the rounds of a cost record
        low, middle, high = quantiles(random.normal(1, 0.1, 9), n=4)
        found = statistics.median_interval(low, middle, high, 9)
        inside, quartiles = inside + (found.low <= 1 <= found.high), quartiles + (low <= 1 <= high)
    assert found.error.parts == ((pytest.approx(np.sqrt(np.pi / 2) * (high - low) / 1.349 / 3), 8),)
    assert 0.95 - slack(draws) < inside / draws
    # what is taken for an interval when quartiles are
    assert quartiles < inside


def test_a_correlation_over_runs_is_not_made_by_what_algorithms_and_seeds_share(draws):
    random, alarms, careless = np.random.default_rng(7), 0, 0
    algorithms, seeds = np.repeat(range(6), 3), np.tile(range(3), 6)
    for _ in range(draws):
        x, y = (
            random.normal(size=6)[algorithms] * 2
            + random.normal(size=3)[seeds] * 2
            + random.normal(size=18)
            for _ in "xy"
        )
        both, one = across_runs(x, y, [algorithms, seeds]), across_runs(x, y, [algorithms])
        alarms, careless = alarms + (both.low * both.high > 0), careless + (one.low * one.high > 0)
    assert alarms / draws < 0.05 + slack(draws)
    # seeds that all algorithms share make one
    assert careless / draws > 0.1


@pytest.mark.parametrize("samples", [8, 100])
def test_a_mean_over_samples_and_a_ratio_of_sums_cover(draws, samples):
    random, mean, ratio = np.random.default_rng(12), 0, 0
    for _ in range(draws):
        sizes = random.integers(20, 60, samples)
        values = random.normal(3, 1, samples)
        found, over = (
            statistics.over_samples(values),
            statistics.over_samples(values * sizes, sizes),
        )
        ends = stats.t.interval(0.95, samples - 1, found.value, stats.sem(values))
        assert (found.low, found.high) == pytest.approx(ends)
        assert (found.seeds, found.items) == (1, samples)
        mean, ratio = mean + (found.low <= 3 <= found.high), ratio + (over.low <= 3 <= over.high)
    even = statistics.over_samples(4 * sizes + random.normal(0, 0.1, samples), sizes)
    assert even.half_width < 0.02, "a long sequence has more nats and more tokens"
    assert 0.95 - slack(draws) < mean / draws < 0.95 + slack(draws)
    assert ratio / draws < 0.95 + slack(draws)
    # of a ratio the closed form is for many
    assert ratio / draws > 0.95 - slack(draws) - 0.02 * (samples < 20)


def test_perplexities_are_compared_on_the_log_scale(draws):
    """High has nine tenths of Original's perplexity; levels differ by seed tenfold."""
    random, inside = np.random.default_rng(14), 0
    for _ in range(draws):
        levels = random.normal(3, 1, 3)
        runs = [
            {
                "metrics": {"perplexity": perplexity},
                "parameters": {"algorithm": name, "seed": seed},
            }
            for name, factor in (("high", 0.9), ("original", 1.0))
            for seed, perplexity in enumerate(factor * np.exp(levels + random.normal(0, 0.02, 3)))
        ]
        found = seeds.seed_gap(runs, seeds.metric("perplexity"), log=True)
        inside += found.low <= log(0.9) <= found.high
    assert 0.95 - slack(draws) < inside / draws < 0.95 + slack(draws)
