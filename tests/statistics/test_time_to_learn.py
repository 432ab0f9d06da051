"""Times to learn, and their ratios over paired seeds."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from companion.statistics.time_to_learn import first_step, log_differences, ratio, row

LAST = 4000.0
TIME = st.one_of(st.none(), st.floats(1, LAST))
PAIRS = st.lists(st.tuples(TIME, TIME), min_size=2, max_size=12)


@pytest.mark.parametrize(
    ("steps", "shares", "known", "expected"),
    [
        ([0, 50, 100], [0.3, 0.8, 1.0], 0.9, 75.0),
        ([0, 50, 100], [0.3, 0.9, 1.0], 0.9, 50.0),
        ([0, 50, 100], [0.95, 0.2, 1.0], 0.9, 0.0),
        # it is the first time that counts
        ([0, 50, 100, 150], [0.3, 1.0, 0.5, 1.0], 0.65, 25.0),
        ([0, 50], [0.3, 0.89], 0.9, None),
        ([], [], 0.9, None),
    ],
)
def test_the_first_step_is_linear_between_checks(steps, shares, known, expected):
    step = first_step(steps, shares, known)
    assert step is None if expected is None else step == pytest.approx(expected)


def sides_of(pairs):
    names = [f"seed {n}" for n in range(len(pairs))]
    treated = dict(zip(names, (first for first, _ in pairs)))
    return treated, dict(zip(names, (second for _, second in pairs)))


@given(PAIRS)
def test_swapped_sides_invert_the_ratio(pairs):
    treated, baseline = sides_of(pairs)
    first = ratio([treated], [baseline], LAST)
    second = ratio([baseline], [treated], LAST)
    assume(first is not None)
    assert first.value == pytest.approx(1 / second.value)
    if first.logs.error is not None:
        low, high = second.interval
        assert first.interval == pytest.approx((1 / high, 1 / low))
    assert first.unreached == second.unreached[::-1]


@given(PAIRS, st.randoms())
def test_the_order_of_the_seeds_changes_nothing(pairs, random):
    treated, baseline = sides_of(pairs)
    names = list(treated)
    random.shuffle(names)
    moved = [{name: side[name] for name in names} for side in (treated, baseline)]
    first, second = ratio([treated], [baseline], LAST), ratio([moved[0]], [moved[1]], LAST)
    assert first == second


@given(PAIRS, st.floats(0.1, 10))
def test_times_of_another_unit_have_the_same_ratio(pairs, scale):
    treated, baseline = sides_of(pairs)
    assume(ratio([treated], [baseline], LAST) is not None)
    scaled = [
        {name: None if time is None else scale * time for name, time in side.items()}
        for side in (treated, baseline)
    ]
    first = ratio([treated], [baseline], LAST)
    second = ratio([scaled[0]], [scaled[1]], scale * LAST)
    assert first.value == pytest.approx(second.value)


def test_the_interval_is_student_s_on_the_logarithms_of_both_endpoints():
    two = {"a": 100.0, "b": 300.0, "c": 500.0}
    three = {"a": 200.0, "b": 400.0, "c": None}
    plain_two = {"a": 150.0, "b": 300.0, "c": 900.0}
    plain_three = {"a": 400.0, "b": 700.0, "c": None}
    compared = ratio([two, three], [plain_two, plain_three], LAST)
    logs = [
        (math.log(100 / 150) + math.log(200 / 400)) / 2,
        (math.log(300 / 300) + math.log(400 / 700)) / 2,
        (math.log(500 / 900) + math.log(4000 / 4000)) / 2,
    ]
    half = stats.t.ppf(0.975, 2) * np.std(logs, ddof=1) / math.sqrt(3)
    assert compared.value == pytest.approx(math.exp(np.mean(logs)))
    ends = math.exp(np.mean(logs) - half), math.exp(np.mean(logs) + half)
    assert compared.interval == pytest.approx(ends)
    assert compared.n == compared.sooner == 3
    assert compared.unreached == (("c",), ("c",))


def test_a_run_that_never_gets_there_counts_with_the_last_step_or_its_pair_is_left_out():
    treated, baseline = {"a": 100.0, "b": 1000.0}, {"a": 200.0, "b": None}
    assert log_differences([treated], [baseline], LAST) == {
        "a": pytest.approx(math.log(0.5)),
        "b": pytest.approx(math.log(0.25)),
    }
    kept = ratio([treated], [baseline], LAST, reached=True)
    assert kept.value == pytest.approx(0.5) and kept.n == 1 and kept.unreached == ((), ())
    assert ratio([{"a": None}], [{"a": None}], LAST) is None


def test_one_seed_has_a_ratio_and_no_interval_and_no_shared_seed_has_neither():
    alone = ratio([{"a": 100.0, "b": 7.0}], [{"a": 200.0, "c": 9.0}], LAST)
    assert alone.value == pytest.approx(0.5) and alone.n == 1
    assert all(math.isnan(end) for end in alone.interval)
    assert ratio([{"a": 100.0}], [{"b": 200.0}], LAST) is None


def test_a_row_names_the_runs_that_never_got_there():
    compared = ratio([{"7": None, "8": 10.0}], [{"7": 20.0, "8": None}], LAST)
    made = row("learning", "steps to 90 %", ("high", "original"), compared)
    assert made.contrast == "high / original" and made.n == 2
    assert made.unreached == ("high 7", "original 8")
    empty = row("learning", "steps to 90 %", ("high", "original"), None)
    assert empty.n == 0 and math.isnan(empty.estimate)
