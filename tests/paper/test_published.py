import pandas as pd
import pytest

from saobp.study.paper import numbers


@pytest.fixture(scope="module")
def paper():
    return numbers.load()


def test_every_table_has_as_many_cells_as_the_paper_prints(paper):
    counts = {number: len(frame) for number, frame in paper.tables.items()}
    assert counts == {1: 60, 2: 48, 3: 9, 4: 15, 5: 15, 6: 8, 7: 18, 8: 120, 9: 84}


def test_cells_spot_checked_against_the_page(paper):
    assert paper.value(2, model="Mini", algorithm="High", metric="SQuAD") == 24.07
    assert paper.value(1, model="Medium", algorithm="Low", metric="CC") == 0.77
    assert paper.value(7, model="GPT2-Medium", algorithm="High", metric="PPL_WikiText") == 6.8
    assert paper.value(8, model="Small", algorithm="Low", metric="WNLI") == 30.99
    keys = {"model": "Mini", "algorithm": "Low", "phase": "train", "metric": "step_per_s (ms)"}
    assert paper.value(9, **keys) == 48.54
    assert paper.claim("C15") == 0.05
    assert paper.printed(4, model="Mini", metric="params") == "~11M"
    assert paper.printed(2, model="Medium", algorithm="ElemMul", metric="GLUE") == "67.40"


def test_a_number_is_what_its_printed_characters_say_and_no_cell_is_listed_twice(paper):
    for number, frame in paper.tables.items():
        assert not frame.drop(columns=["printed", "value"]).duplicated().any(), f"Table {number}"
        if number not in (4, 5):  # "~11M", "cosine"
            assert (pd.to_numeric(frame["printed"]) == frame["value"]).all(), f"Table {number}"


def test_a_cell_the_paper_does_not_print_is_none_and_empty(paper):
    assert paper.value(2, model="Mini", algorithm="Sinkhorn", metric="GLUE") is None
    assert paper.printed(2, model="Mini", algorithm="Sinkhorn", metric="GLUE") == ""
    assert paper.value(5, model="Mini", metric="lr_scheduler_type") is None


def test_keys_that_fit_several_cells_are_refused(paper):
    with pytest.raises(ValueError, match="fit 16 cells"):
        paper.cell(2, model="Mini")
