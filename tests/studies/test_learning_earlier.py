"""Time to learn, read from the tracked records of earlier exams."""

import math

import pytest

from companion.records import tracked
from companion.studies.learning import earlier

RECORDS = {name: tracked.study(name) for name in earlier.STUDIES}
ROWS = {(row.study, row.endpoint, row.contrast): row for row in earlier.rows(RECORDS)}
BOTH = "hops and stories"
WHOLE = ", pairs that both get there"
# pairs in which both get there: printed before these rows were, by other code
PRINTED = [
    (BOTH, 64, "two", "high", (0.74, 0.69, 0.79)),
    (BOTH, 64, "three", "high", (0.76, 0.70, 0.81)),
    ("hops", 128, "two", "high", (0.89, 0.87, 0.92)),
    ("hops", 128, "three", "high", (0.85, 0.82, 0.89)),
    (BOTH, 64, "two", "uniform", (1.00, 0.96, 1.04)),
    (BOTH, 64, "three", "uniform", (0.97, 0.90, 1.03)),
    ("stories", 64, "two", "low", (1.33, 1.04, 1.69)),
    ("stories", 64, "three", "low", (1.39, 0.88, 2.21)),
    (BOTH, 64, "two", "sinkhorn", (0.86, 0.73, 1.01)),
    (BOTH, 64, "three", "sinkhorn", (0.99, 0.83, 1.17)),
]


def row_of(study, width, hops, algorithm, end="", layers=4):
    endpoint = f"steps to 90 % of {hops} hops, {layers} layers, width {width}{end}"
    return ROWS[study, endpoint, f"{algorithm} / original"]


@pytest.mark.parametrize(("study", "width", "hops", "algorithm", "numbers"), PRINTED)
def test_the_pairs_that_both_get_there_have_the_ratios_first_printed(
    study, width, hops, algorithm, numbers
):
    found = row_of(study, width, hops, algorithm, WHOLE)
    assert (found.estimate, found.low, found.high) == pytest.approx(numbers, abs=0.0051)
    assert found.unreached == ()


def test_runs_that_never_get_there_are_counted_and_named():
    found = row_of(BOTH, 64, "two", "high")
    assert (found.n, found.sooner, len(found.unreached)) == (31, 31, 1)
    assert found.unreached[0].startswith("original ")
    three = row_of(BOTH, 64, "three", "high")
    assert three.n == 31 and three.n - row_of(BOTH, 64, "three", "high", WHOLE).n > 1
    assert {name.split()[0] for name in three.unreached} == {"high", "original"}


def test_every_width_depth_and_control_has_its_row():
    assert math.isnan(row_of("hops", 32, "two", "high").estimate)
    for algorithm in ("high", "uniform", "sinkhorn", "low", "elemmul", "shuffled"):
        for layers in (2, 4):
            assert row_of("stories", 64, "two", algorithm, layers=layers).n >= 5
    assert row_of(BOTH, 64, "two and three", "high").n == 31
    studies = {study for study, endpoint, _ in ROWS if "width 128" in endpoint}
    assert studies == {"hops"}


def test_runs_that_are_of_another_length_are_not_put_together():
    run = {
        "curve": [{"step": 10, "accuracy": {"2": 1.0, "3": 1.0}}],
        "algorithm": "high",
        "seed": 0,
    }
    group = earlier.Group()
    group.add("hops", run)
    longer = run | {"curve": [{"step": 20, "accuracy": {"2": 1.0, "3": 1.0}}]}
    with pytest.raises(ValueError, match="hops: runs of 10 and of 20 steps"):
        group.add("hops", longer)
