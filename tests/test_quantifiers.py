"""All, both, most, mean: a verdict is never stronger than the intervals of a statement's parts allow."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from saobp.study.paper import numbers
from saobp.study.statistics import Estimate, mean_interval
from saobp.study.tables import quantifiers
from saobp.study.tables.evidence import NO, OPEN, YES, Evidence, Looks, Part
from saobp.study.tables.verdicts import JUDGES

UP, DOWN, WIDE, NONE = (0.5, 2.0), (-2.0, -0.5), (-1.0, 1.0), quantifiers.UNKNOWN
HOLDS = {  # what each quantifier says of parts that are known, counted and not sorted
    "all": lambda values: all(value > 0 for value in values),
    "both": lambda values: values[0] > 0 and values[1] > 0,
    "most": lambda values: sum(value > 0 for value in values) > len(values) / 2,
    "mean": lambda values: values[0] > 0,
    "one": lambda values: values[0] > 0,
}


def verdict(quantifier, intervals):
    return Evidence("", *quantifiers.reach(quantifier, intervals)).verdict()


@pytest.mark.parametrize(
    ("quantifier", "intervals", "expected"),
    [
        ("all", [UP, UP, UP], YES),
        ("all", [UP, UP, DOWN], NO),
        ("all", [UP, NONE, DOWN], NO),
        ("all", [UP, UP, WIDE], OPEN),
        ("all", [UP, UP, NONE], OPEN),
        ("both", [UP, UP], YES),
        ("both", [UP, DOWN], NO),
        ("both", [UP, WIDE], OPEN),
        ("most", [UP, UP, UP, DOWN, DOWN], YES),
        ("most", [UP, UP, UP, NONE, NONE], YES),
        ("most", [UP, UP, DOWN, DOWN, DOWN], NO),
        ("most", [UP, UP, WIDE, DOWN, DOWN], OPEN),
        ("most", [UP, UP, DOWN, DOWN], NO),  # half is no majority
        ("most", [UP, UP, UP, DOWN, NONE, NONE, NONE, NONE, NONE], OPEN),
        ("mean", [UP], YES),
        ("mean", [DOWN], NO),
        ("mean", [WIDE], OPEN),
        ("one", [UP], YES),
        ("one", [DOWN], NO),
        ("one", [NONE], OPEN),
    ],
)
def test_each_quantifier_reproduces_contradicts_and_leaves_open(quantifier, intervals, expected):
    assert verdict(quantifier, intervals) == expected


def parts(quantifier, element):
    size = quantifiers.WHOLE.get(quantifier)
    return st.lists(element, min_size=size or 1, max_size=size or 9)


ENDS = st.tuples(st.floats(-5, 5), st.floats(-5, 5)).map(sorted)


@pytest.mark.parametrize("quantifier", HOLDS)
@given(data=st.data())
def test_whatever_the_truth_inside_the_intervals_a_verdict_agrees_with_it(quantifier, data):
    intervals = data.draw(parts(quantifier, st.one_of(ENDS, st.sampled_from([UP, DOWN, NONE]))))
    inside = [data.draw(st.floats(max(low, -9), min(high, 9))) for low, high in intervals]
    found = verdict(quantifier, intervals)
    assert found == OPEN or found == (YES if HOLDS[quantifier](inside) else NO)


@pytest.mark.parametrize("quantifier", HOLDS)
@given(data=st.data())
def test_what_all_ends_of_the_intervals_agree_on_is_not_left_open(quantifier, data):
    intervals = data.draw(parts(quantifier, ENDS.filter(lambda ends: 0 not in ends)))
    lows, highs = zip(*intervals)
    expected = YES if HOLDS[quantifier](lows) else OPEN if HOLDS[quantifier](highs) else NO
    assert verdict(quantifier, intervals) == expected


def test_a_quantifier_that_is_unknown_or_speaks_of_another_number_of_parts_is_refused():
    for quantifier, intervals in (("some", [UP]), ("both", [UP]), ("mean", [UP, UP]), ("all", [])):
        with pytest.raises(ValueError, match="quantifier:|intervals:"):
            quantifiers.reach(quantifier, intervals)


def test_every_statement_has_a_quantifier_its_parts_and_a_judge_that_gives_as_many():
    statements = numbers.load().statements
    assert set(statements["quantifier"]) <= set(quantifiers.NEEDED) and statements["parts"].str.len().min() > 0
    assert set(statements["id"]) == set(JUDGES)
    expected = {"Q01": 12, "Q02": 2, "Q03": 2, "Q09": 9, "Q10": 3, "Q13": 3, "Q15": 6, "Q16": 2, "Q17": 11}
    counted = {id: len(JUDGES[id]([]).parts) for id in expected}
    assert counted == expected


@given(values=st.lists(st.floats(-3, 3), min_size=2, max_size=6, unique=True), looks=st.integers(1, 30))
def test_more_looks_only_widen_an_interval_and_one_look_leaves_it(values, looks):
    found = mean_interval(values)
    assert quantifiers.simultaneous(found, 1) == pytest.approx((found.low, found.high))
    narrow, wide = (quantifiers.simultaneous(found, count) for count in (looks, looks + 1))
    assert wide[0] < narrow[0] < found.value < narrow[1] < wide[1]
    assert wide == pytest.approx((lambda e: (e.low, e.high))(mean_interval(values, level=1 - 0.05 / (looks + 1))))


def test_a_correlation_is_widened_within_its_range():
    low, high = quantifiers.simultaneous(Estimate(0.9, 0.2, 0.99, 8), 12, correlation=True)
    assert -1 < low < 0.2 and 0.99 < high < 1
    assert quantifiers.simultaneous(Estimate(0.5, -1.0, 1.0, 4), 3, correlation=True) == pytest.approx((-1, 1))


def test_twelve_parts_without_an_effect_are_decided_in_one_study_of_twenty_at_most():
    random, trials, hits = np.random.default_rng(3), 300, 0
    for _ in range(trials):
        found = [Part("", mean_interval(random.normal(size=5).tolist())) for _ in range(12)]
        hits += any(low > 0 or high < 0 for low, high in (part.bounds(12) for part in found))
    assert hits <= stats.binom.ppf(0.999, trials, 0.05)


SURE, SINGLE = Estimate(1.0, 0.9, 1.1, 3), Estimate(1.0, 0.9, 1.1, 1, 300)


@pytest.mark.parametrize(
    "part", [Part("a"), Part("a", SINGLE), Part("a", SURE, twin=True), Part("a", Estimate(1.0, np.nan, np.nan, 3))]
)
def test_no_run_one_seed_a_stand_in_or_equal_answers_say_nothing(part):
    assert Part("a", SURE).bounds(1) == pytest.approx((0.9, 1.1))
    assert part.bounds(1) == quantifiers.UNKNOWN
    for quantifier, others in (("mean", 0), ("all", 2), ("most", 1)):
        found = Looks("x", [part, *[Part("b", SURE)] * others]).evidence(quantifier)
        assert found is None or found.verdict() == OPEN


def test_a_part_counts_in_the_direction_that_the_paper_states_and_beyond_its_margin():
    assert Part("a", SURE, sign=-1).bounds(1) == pytest.approx((-1.1, -0.9))
    assert Part("a", SURE, least=2).bounds(1) == pytest.approx((-1.1, -0.9))
    assert Part("a", SURE, least=-2).bounds(1) == pytest.approx((2.9, 3.1))


def test_the_words_say_what_was_run_what_was_not_and_of_how_many_draws():
    looks = Looks("gain:", [Part("A", SURE), Part("B", Estimate(0.0, np.nan, np.nan, 5)), Part("C")])
    low, high = quantifiers.simultaneous(SURE, 2)
    words = f"gain: A +1.00 [{low:.2f}, {high:.2f}], B +0.00 (alike); over 2 cells; 1 without a run; "
    words += "1 for and 0 against after correction; alike: equal answers, and so no interval; 3 to 5 seeds"
    assert looks.evidence("all").words == words
    assert Looks("gain:", [Part("", SINGLE)]).evidence("mean").words.endswith("; one seed, so of these models alone")
    assert Looks("gain:", [Part("A")]).evidence("mean") is None
