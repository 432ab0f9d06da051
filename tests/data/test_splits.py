import pytest

from saobp.study.data import splits
from saobp.study.data.splits import DataError

ROWS = {"train": 100, "validation": 11}.__getitem__


def test_a_name_means_the_whole_split():
    assert splits.intervals("train", ROWS) == [("train", 0, 100)]


def test_percent_slices_that_meet_share_no_row_and_lose_none():
    (first,) = splits.intervals("validation[:80%]", ROWS)
    (second,) = splits.intervals("validation[80%:]", ROWS)
    assert (first[1], first[2], second[2]) == (0, second[1], 11)
    assert not splits.overlap([first], [second])


def test_a_sum_of_slices_keeps_its_order():
    assert splits.intervals("validation[:2]+train[-3:]", ROWS) == [("validation", 0, 2), ("train", 97, 100)]


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        ("train", "train", True),
        ("train", "validation", False),
        ("train[:10]", "train[9:20]", True),
        ("train[:10]", "train[10:20]", False),
        ("validation[:3]+train[:1]", "train", True),
    ],
)
def test_overlap_is_seen_exactly_where_rows_are_shared(one, other, shared):
    assert splits.overlap(splits.intervals(one, ROWS), splits.intervals(other, ROWS)) is shared


@pytest.mark.parametrize("split", ["", "../train", "train[", "train[:200%]", "train[5", "a b", "train[:x]"])
def test_what_is_no_split_is_refused_by_name(split):
    with pytest.raises(DataError, match="is no (split|slice)") as caught:
        splits.intervals(split, {"train": 100, "a": 1}.__getitem__)
    assert "\n" not in str(caught.value)


def test_a_slice_is_never_complete_and_says_what_it_is_of():
    found = splits.completeness("d", "c", "train[:10]", [("train", 0, 10)], [100], True, [""])
    assert found["complete"] is False
    assert found["note"] == "10 rows of train"
    assert (found["rows"], found["published_rows"]) == (10, 100)


def test_unknown_published_rows_stay_unknown():
    pieces = [("train", 0, 5), ("validation", 0, 5)]
    found = splits.completeness("d", None, "train+validation", pieces, [5, None], False, ["a", "a"])
    assert found["published_rows"] is None
    assert found["note"] == "a"
