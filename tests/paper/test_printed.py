"""The paper's numbers as it prints them, as the audit looks at them, and the pictures of them."""

import dataclasses
from decimal import ROUND_HALF_UP, Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from companion.figures.beyond_the_paper import gains as pictures
from companion.paper import arithmetic, audit, comparisons, numbers


@pytest.fixture(scope="module")
def paper():
    return numbers.load()


def test_every_cell_of_the_page_is_there_once_and_is_what_its_printed_characters_say(paper):
    counts = {number: len(frame) for number, frame in paper.tables.items()}
    assert counts == {1: 60, 2: 48, 3: 9, 4: 15, 5: 15, 6: 8, 7: 18, 8: 120, 9: 84}
    for number, frame in paper.tables.items():
        assert not frame.drop(columns=["printed", "value"]).duplicated().any(), f"Table {number}"
        # "~11M", "cosine"
        if number not in (4, 5):
            assert (pd.to_numeric(frame["printed"]) == frame["value"]).all(), f"Table {number}"
    assert paper.value(7, model="GPT2-Medium", algorithm="High", metric="PPL_WikiText") == 6.8
    keys = {"model": "Mini", "algorithm": "Low", "phase": "train", "metric": "step_per_s (ms)"}
    assert (paper.value(9, **keys), paper.claim("C15")) == (48.54, 0.05)
    assert paper.printed(2, model="Medium", algorithm="ElemMul", metric="GLUE") == "67.40"


def test_a_cell_the_paper_does_not_print_is_none_and_empty_and_keys_of_several_are_refused(paper):
    keys = {"model": "Mini", "algorithm": "Sinkhorn", "metric": "GLUE"}
    assert paper.value(2, **keys) is None and paper.printed(2, **keys) == ""
    assert paper.value(5, model="Mini", metric="lr_scheduler_type") is None
    with pytest.raises(ValueError, match="fit 16 cells"):
        paper.cell(2, model="Mini")


def test_grim_worked_by_hand_and_no_items_are_refused():
    assert arithmetic.grim(47.29, 277) == [131]
    # 429 gives 29.87, 430 gives 29.94
    assert arithmetic.grim(29.89, 1436) == []
    with pytest.raises(ValueError, match="items"):
        arithmetic.grim(50, 0)


@given(st.integers(1, 3000), st.data())
def test_every_count_passes_its_own_grim_test(items, data):
    count = data.draw(st.integers(0, items))
    exact = Decimal(100 * count) / Decimal(items)
    assert count in arithmetic.grim(float(exact.quantize(Decimal("0.01"), ROUND_HALF_UP)), items)


def test_label_counts_add_up_and_one_answer_to_everything_scores_the_share_of_its_label():
    counts = arithmetic.LABEL_COUNTS
    assert {task: sum(own) for task, own in counts.items()} == {
        task: arithmetic.ITEMS[task] for task in counts
    }
    shares = pd.Series({task: 100 * own[1] / sum(own) for task, own in counts.items()})
    found = comparisons.constant_answers(shares)
    assert (found["printed"] == found["share of one label"]).all()


def test_the_critical_correlation_has_the_p_value_that_was_asked_for_and_unrelated_walks_pass_it_more_often():
    r = arithmetic.critical_correlation(20, 0.02)
    t = r * ((20 - 2) / (1 - r * r)) ** 0.5
    assert 2 * stats.t.sf(t, 18) == pytest.approx(0.02)
    # points would: 0.02
    assert arithmetic.walks_above(20, r) > 0.2
    assert arithmetic.walks_above(20, 1.0) == 0 and arithmetic.bound_for(1) == pytest.approx(
        1.96, abs=1e-3
    )


def test_the_points_needed_are_the_first_that_suffice_and_a_correlation_that_is_none_is_refused():
    for r in (0.61, -0.97):
        points = arithmetic.points_needed(r, 0.015)
        p = [
            2 * stats.t.sf(abs(r) * ((n - 2) / (1 - r * r)) ** 0.5, n - 2)
            for n in (points - 1, points)
        ]
        assert p[0] > 0.015 > p[1]
    for r in (0, 1, -1.2):
        with pytest.raises(ValueError, match="r:"):
            arithmetic.points_needed(r, 0.02)


def test_a_mean_over_some_tasks_is_found_among_the_subsets():
    scores = np.random.default_rng(0).uniform(50, 90, size=(4, len(comparisons.GLUE)))
    tasks = pd.DataFrame(scores, columns=list(comparisons.GLUE.values()))
    count, distance = comparisons.nearest_subset(tasks, tasks[["CoLA", "WNLI", "QQP"]].mean(axis=1))
    assert count == 2**9 - 1 and distance == pytest.approx(0)


def test_gains_are_in_their_own_standard_errors_and_the_forest_fills_those_beyond_two(paper):
    cells = comparisons.gains(paper)
    qqp = cells.set_index(["model", "task"]).loc[("Mini", "QQP")]
    assert qqp["gain"] == 4.48 and qqp["z"] == pytest.approx(qqp["gain"] / qqp["error"])
    assert qqp["error"] == pytest.approx(((82.79 * 17.21 + 78.31 * 21.69) / 40430) ** 0.5)
    axes = pictures.printed_forest(cells).axes
    assert [len(ax.get_yticks()) for ax in axes] == [10, 10, 10]
    assert axes[0].get_title("left") == "BERT-Mini:\n4 of 10 exclude 0"
    marks = [line for ax in axes for line in ax.lines if line.get_marker() == "s"]
    filled = [line for line in marks if line.get_markerfacecolor() != "white"]
    assert (
        len(marks) == len(cells) == 30 and len(filled) == (cells["z"].abs() > pictures.REACH).sum()
    )


def test_views_leave_out_what_they_name(paper):
    views = comparisons.views(comparisons.table(paper, 1))
    assert [len(view) for view in views.values()] == [12, 11, 9, 12, 11] and [*views] == [
        *comparisons.VIEWS
    ]
    assert comparisons.FAILED not in views["without_failed"].index
    assert views["centred"].groupby("model").mean().abs().max().max() < 1e-9


def test_every_finding_has_a_place_and_only_what_the_paper_prints_is_its_number(paper):
    rows = pd.concat([audit.findings(paper), audit.others(paper)])
    assert list(rows.columns) == audit.FINDING and rows["recomputed"].notna().all()
    assert rows["place"].str.fullmatch(r"(Tables?|Figs?\.|Sec\.|App\.) [\dA-G, ]+").all()
    assert not rows.duplicated(["place", "quantity"]).any()
    table = rows.set_index("quantity")
    assert table.loc["gain of High on GLUE, BERT-Small (points)", "paper"] == pytest.approx(
        57.61 - 54.03
    )


def test_a_misprint_moves_the_rows_that_look_at_its_cell(paper):
    frame = paper.tables[9].copy()
    cell = paper.cell(
        9, model="Mini", algorithm="High", phase="train", metric="FLOPs (GFLOPs)"
    ).name
    frame.loc[cell, "value"] += 0.1
    other = dataclasses.replace(paper, tables=paper.tables | {9: frame})
    before, after = (
        audit.others(one).set_index("quantity").loc["operations that the architecture gives, of 24"]
        for one in (paper, other)
    )
    assert (before.tolist()[1:], after.tolist()[1:]) == ([24, 23], [24, 22])
    assert audit.findings(other)["paper"].iloc[-1] == pytest.approx(
        audit.findings(paper)["paper"].iloc[-1] + 0.1
    )


def test_what_stands_beside_tables_2_3_7_and_9_is_that_of_their_cells(paper):
    chance = comparisons.against_chance(
        pd.DataFrame({"HellaSwag": [25.0], "RACE_Middle": [27.0]})
    ).loc[0]
    assert chance.tolist() == pytest.approx([0, 0.02 / np.sqrt(0.25 * 0.75 / 1436)])
    original, three = comparisons.table3(paper)
    assert (
        original.tolist() == [71.68, 30.08]
        and len(three) == 3
        and (three < original).all(axis=None)
    )
    rows = comparisons.zero_shot(paper)
    assert len(rows) == 12 and set(rows["constant"].round(2)) == {25.0, 62.17}
    assert comparisons.perplexities(paper).loc["GPT2-Medium", "fall"] == pytest.approx(
        np.log(67.5 / 6.8)
    )
    added = comparisons.added_operations(paper)
    assert added["formula"].tolist() == pytest.approx(added["attention"].tolist())
