from decimal import ROUND_HALF_UP, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from saobp.study.paper import arithmetic


def test_grim_worked_by_hand():
    assert arithmetic.grim(47.29, 277) == [131]
    assert arithmetic.grim(29.89, 1436) == []  # 429 gives 29.87, 430 gives 29.94


@given(st.integers(1, 3000), st.data())
def test_every_count_passes_its_own_grim_test(items, data):
    count = data.draw(st.integers(0, items))
    exact = Decimal(100 * count) / Decimal(items)
    printed = float(exact.quantize(Decimal("0.01"), ROUND_HALF_UP))
    assert count in arithmetic.grim(printed, items)


def test_label_counts_add_up_to_the_items_of_their_split():
    for task, counts in arithmetic.LABEL_COUNTS.items():
        assert sum(counts) == arithmetic.ITEMS[task], task


def test_the_critical_correlation_has_the_p_value_that_was_asked_for_and_unrelated_walks_pass_it_more_often():
    r = arithmetic.critical_correlation(20, 0.02)
    t = r * ((20 - 2) / (1 - r * r)) ** 0.5
    assert 2 * stats.t.sf(t, 18) == pytest.approx(0.02)
    assert arithmetic.walks_above(20, r) > 0.2  # points would: 0.02
    assert arithmetic.walks_above(20, 1.0) == 0 and arithmetic.bound_for(1) == pytest.approx(1.96, abs=1e-3)


@pytest.mark.parametrize("r", [0.61, -0.97])
def test_the_points_needed_are_the_first_that_suffice(r):
    points = arithmetic.points_needed(r, 0.015)
    p = [2 * stats.t.sf(abs(r) * ((n - 2) / (1 - r * r)) ** 0.5, n - 2) for n in (points - 1, points)]
    assert p[0] > 0.015 > p[1]


def test_no_items_and_a_correlation_that_is_none_are_refused():
    with pytest.raises(ValueError, match="items"):
        arithmetic.grim(50, 0)
    for r in (0, 1, -1.2):
        with pytest.raises(ValueError, match="r:"):
            arithmetic.points_needed(r, 0.02)
