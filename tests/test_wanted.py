"""What would decide an open statement: as many seeds as its interval needs, if nothing but their number changes."""

import example_records as examples
import numpy as np
import pytest

from saobp.study.statistics import Estimate, mean_interval
from saobp.study.statistics.correlations import across_seeds
from saobp.study.tables import quantifiers, wanted
from saobp.study.tables.evidence import NO, OPEN, YES, Looks, Part
from saobp.study.tables.verdicts import JUDGES, verdicts


def spread(seeds, mean, deviation):
    """So many values with this mean and sample deviation."""
    values = np.linspace(-1, 1, seeds)
    return mean + deviation * values / values.std(ddof=1)


@pytest.mark.parametrize("looks", [1, 4])
@pytest.mark.parametrize("item_error", [0.0, 0.3])
@pytest.mark.parametrize("least", [0.0, -0.2])
def test_from_so_many_seeds_on_the_interval_leaves_the_bound_and_not_before(looks, item_error, least):
    def inside(seeds):
        found = mean_interval(spread(seeds, 1.0, 2.0), item_error=item_error, level=1 - 0.05 / looks)
        return found.low <= least <= found.high

    needed = quantifiers.seeds_needed(mean_interval(spread(3, 1.0, 2.0), item_error=item_error), looks, least=least)
    assert inside(needed - 1) and not inside(needed)


def test_seeds_do_not_shrink_the_error_over_items():
    wide = mean_interval(spread(3, 1.0, 0.1), item_error=0.6)
    assert quantifiers.seeds_needed(wide, 1) is None
    assert quantifiers.seeds_needed(mean_interval(spread(3, 1.0, 0.1), item_error=0.4), 1) == 3  # two: Student's 12.7
    items_alone = Estimate(1.0, -0.2, 2.2, 2, 100)
    assert quantifiers.seeds_needed(items_alone, 1) is None


def test_a_correlation_over_runs_needs_the_seeds_of_fishers_z():
    x = np.linspace(-1, 1, 200)
    r = 0.6
    noise = np.resize([1.0, -1.0], 200)
    noise -= noise.mean() + np.polyval(np.polyfit(x, noise, 1), x)
    y = r * x / x.std() + np.sqrt(1 - r**2) * noise / noise.std()
    needed = quantifiers.seeds_needed(Estimate(r, -1.0, 1.0, 6), 3, correlation=True)
    ends = [across_seeds(x, y, draws=np.arange(200) % n, level=1 - 0.05 / 3).low for n in (needed - 1, needed)]
    assert ends[0] <= 0 < ends[1]


def test_the_words_name_sizes_parts_seeds_and_items():
    sure, wide = mean_interval(spread(3, 1.0, 0.1)), mean_interval(spread(3, 1.0, 2.0))
    few = mean_interval(spread(3, 1.0, 0.1), item_error=0.6, items=90)
    assert wanted.words([Part("sure", sure)]) == ""
    assert wanted.words([Part("a", wide, twin=True)]) == (
        "runs of the paper's own sizes; about 18 seeds if gap and spread stay"
    )
    assert wanted.words([Part("a", sure), Part("b")]) == "runs of 1 more part"
    assert wanted.words([Part("a", Estimate(1.0, np.nan, np.nan, 1))]) == "several seeds"
    assert wanted.words([Part("a", few)]) == "more items of a, where at this gap not even 10,000 seeds would do"
    two = wanted.words([Part("a", wide), Part("b", mean_interval(spread(3, 0.1, 2.0)))])
    assert two == "about 24 to 2,100 seeds, by part, if gap and spread stay"
    none = wanted.words([Part("", mean_interval(spread(3, 0.001, 2.0)))])
    assert none == "more than 10,000 seeds for it"


@pytest.mark.parametrize(("number", "rounded"), [(9, 9), (10, 10), (99, 99), (100, 100), (101, 110), (2013, 2100)])
def test_about_rounds_up_to_two_digits(number, rounded):
    assert wanted.about(number) == rounded


def test_an_open_verdict_ends_with_what_would_decide_it_and_a_decided_one_does_not(monkeypatch):
    def judged(*parts):
        monkeypatch.setitem(JUDGES, "Q10", lambda records: Looks("gap:", parts))  # all parts have to hold
        return next(row for row in verdicts(examples.study(("mini",))).rows if row.id == "Q10")

    wide, sure = Part("a", mean_interval(spread(3, 1.0, 2.0))), Part("b", mean_interval(spread(3, 1.0, 0.1)))
    open_ = judged(wide, sure)
    assert open_.verdict == OPEN and open_.evidence.endswith("; to decide it: about 24 seeds if gap and spread stay")
    decided = judged(wide, Part("b", sure.estimate, -1))
    assert decided.verdict == NO and "to decide" not in decided.evidence
    least = -min(end for end in map(abs, Part("b", sure.estimate, -1).bounds(2)))
    assert decided.evidence.endswith(f"; to change it: a gap smaller by {-least:.2f} at the same spread")
    assert "to change it" not in open_.evidence and wanted.overturning(0.25, 2.0, 2).startswith(
        "a gap smaller by 0.25 "
    )


def test_a_stand_in_or_a_single_seed_is_said_to_count_as_neither():
    sure = mean_interval(spread(3, 1.0, 0.1))
    said = [Looks("gap:", [Part("a", sure, twin=twin)]).evidence("all").words for twin in (False, True)]
    assert "1 for and 0 against after correction; 3 seeds" in said[0]
    assert "0 for and 0 against after correction, stand-ins and single seeds counted as neither; 3 seeds" in said[1]


def test_the_verdicts_are_counted_above_their_table():
    found = verdicts(examples.study(("mini",)))
    yes, no, open_ = (sum(row.verdict == verdict for row in found.rows) for verdict in (YES, NO, OPEN))
    assert found.counts == f"19 statements: {yes} {YES}, {no} {NO} and {open_} {OPEN}."
    assert found.counts in found.to_markdown() and found.counts in found.to_latex()
