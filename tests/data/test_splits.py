import pytest

from saobp.study.data import splits
from saobp.study.data.splits import DataError

ROWS = {"train": 100, "validation": 11}.__getitem__


def test_percent_slices_that_meet_share_no_row_and_lose_none():
    (first,) = splits.intervals("validation[:80%]", ROWS)
    (second,) = splits.intervals("validation[80%:]", ROWS)
    assert (first[1], first[2], second[2]) == (0, second[1], 11)
    assert not splits.overlap([first], [second])


@pytest.mark.parametrize("split", ["", "../train", "train[", "train[:200%]", "train[5", "a b", "train[:x]"])
def test_what_is_no_split_is_refused_by_name(split):
    with pytest.raises(DataError, match="is no (split|slice)") as caught:
        splits.intervals(split, {"train": 100, "a": 1}.__getitem__)
    assert "\n" not in str(caught.value)


def test_a_slice_is_never_complete_and_says_what_it_is_of():
    found = splits.completeness(("d", "c", "train[:10]"), [("train", 0, 10)], [100], True, [""])
    assert found["complete"] is False
    assert found["note"] == "10 rows of train"
    assert (found["rows"], found["published_rows"]) == (10, 100)


def test_two_slices_of_a_split_count_its_published_rows_once():
    pieces = [("validation", 0, 10), ("validation", 50, 100), ("test", 0, 5)]
    split = "validation[:10%]+validation[50%:]+test"
    found = splits.completeness(("d", "c", split), pieces, [100, 100, 5], True, [""])
    assert (found["rows"], found["published_rows"]) == (65, 105)


def test_unknown_published_rows_stay_unknown():
    pieces = [("train", 0, 5), ("validation", 0, 5)]
    found = splits.completeness(("d", None, "train+validation"), pieces, [5, None], False, ["a", "a"])
    assert found["published_rows"] is None
    assert found["note"] == "a"
