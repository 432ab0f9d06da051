"""The paper's numbers as it prints them, as the audit looks at them, and the pictures of them."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from saobp.study.figures.of_our_own import gains as pictures
from saobp.study.paper import arithmetic, audit, comparisons, numbers


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


def test_a_mean_over_some_tasks_is_found_among_the_subsets():
    scores = np.random.default_rng(0).uniform(50, 90, size=(4, len(comparisons.GLUE)))
    tasks = pd.DataFrame(scores, columns=list(comparisons.GLUE.values()))
    count, distance = comparisons.nearest_subset(tasks, tasks[["CoLA", "WNLI", "QQP"]].mean(axis=1))
    assert count == 2**9 - 1 and distance == pytest.approx(0)


def test_one_answer_to_everything_scores_the_share_of_its_label(paper):
    shares = comparisons.constant_answers(pd.Series({task: 100 * counts[1] / sum(counts)
                                                 for task, counts in arithmetic.LABEL_COUNTS.items()}))  # fmt: skip
    assert (shares["printed"] == shares["share of one label"]).all()


def test_gains_are_in_their_own_standard_errors(paper):
    cells = comparisons.gains(paper).set_index(["model", "task"])
    assert len(cells) == 30
    qqp = cells.loc[("Mini", "QQP")]
    assert qqp["gain"] == 4.48 and qqp["z"] == pytest.approx(qqp["gain"] / qqp["error"])
    assert qqp["error"] == pytest.approx(((82.79 * 17.21 + 78.31 * 21.69) / 40430) ** 0.5)


def test_a_guess_among_four_is_no_error_from_chance(paper):
    scores = pd.DataFrame({"HellaSwag": [25.0], "RACE_Middle": [27.0]})
    found = comparisons.against_chance(scores).loc[0]
    assert found["HellaSwag"] == 0 and found["RACE_Middle"] == pytest.approx(0.02 / np.sqrt(0.25 * 0.75 / 1436))


def test_views_leave_out_what_they_name(paper):
    views = comparisons.views(comparisons.table(paper, 1))
    assert [len(view) for view in views.values()] == [12, 11, 9, 12, 11]
    assert comparisons.FAILED not in views["without Medium-Low"].index
    assert views["centred by size"].groupby("model").mean().abs().max().max() < 1e-9


def test_operations_have_the_24_cells_of_table_9_and_the_formula_fits_all_but_one(paper):
    cells = comparisons.operations(paper)
    assert len(cells) == 24
    assert ((cells["formula"] - cells["printed"]).abs() < 0.00501).sum() == 23


def test_every_finding_has_a_place_and_only_what_the_paper_prints_is_its_number(paper):
    rows = pd.concat([audit.findings(paper), audit.others(paper)])
    assert list(rows.columns) == audit.FINDING and rows["recomputed"].notna().all()
    assert rows["place"].str.fullmatch(r"(Tables?|Figs?\.|Sec\.|App\.) [\dA-G, ]+").all()
    assert not rows.duplicated(["place", "quantity"]).any()
    table = rows.set_index("quantity")
    assert table.loc["gain of High on GLUE, BERT-Small (points)", "paper"] == pytest.approx(57.61 - 54.03)


def test_a_misprint_moves_the_rows_that_look_at_its_cell(paper):
    frame = paper.tables[9].copy()
    cell = paper.cell(9, model="Mini", algorithm="High", phase="train", metric="FLOPs (GFLOPs)").name
    frame.loc[cell, "value"] += 0.1
    other = dataclasses.replace(paper, tables=paper.tables | {9: frame})
    before, after = (audit.others(one).set_index("quantity")["recomputed"] for one in (paper, other))
    assert after["operations that the architecture gives, of 24"] == 22
    assert before["operations that the architecture gives, of 24"] == 23
    assert audit.findings(other)["paper"].iloc[-1] == pytest.approx(audit.findings(paper)["paper"].iloc[-1] + 0.1)


def test_what_stands_beside_tables_3_7_and_9_is_that_of_their_cells(paper):
    original, three = comparisons.table3(paper)
    assert original.tolist() == [71.68, 30.08] and len(three) == 3 and (three < original).all(axis=None)
    rows = comparisons.zero_shot(paper)
    assert len(rows) == 12 and set(rows["constant answer"].round(2)) == {25.0, 62.17}
    assert comparisons.perplexities(paper).loc["GPT2-Medium", "fall"] == pytest.approx(np.log(67.5 / 6.8))
    added = comparisons.added_operations(paper)
    assert added["by formula"].tolist() == pytest.approx(added["Original's own attention"].tolist())


def test_the_forest_fills_the_cells_beyond_two_standard_errors(paper):
    cells = comparisons.gains(paper)
    axes = pictures.printed_forest(cells).axes
    assert [len(ax.get_yticks()) for ax in axes] == [10, 10, 10]
    marks = [line for ax in axes for line in ax.lines if line.get_marker() == "s"]
    filled = [line for line in marks if line.get_markerfacecolor() != "white"]
    assert len(marks) == 30 and len(filled) == (cells["z"].abs() > pictures.REACH).sum()
