"""The paper's tables as the audit looks at them, and the pictures of them."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from saobp.study.figures import printed as pictures
from saobp.study.paper import arithmetic, frames, numbers


@pytest.fixture(scope="module")
def paper():
    return numbers.load()


def test_a_table_lists_small_models_first_and_the_algorithms_in_the_papers_order(paper):
    rows = frames.table(paper, 8)
    assert list(rows.index[:4]) == [("Mini", name) for name in frames.ALGORITHMS]
    assert rows.loc[("Small", "Low"), "RTE"] == paper.value(8, model="Small", algorithm="Low", metric="RTE")
    assert set(frames.TASKS) < set(rows.columns) and not rows.isna().any().any()


def test_over_original_is_a_difference_by_size():
    index = pd.MultiIndex.from_product([["Mini"], ["Original", "High"]], names=["model", "algorithm"])
    rows = pd.DataFrame({"RTE": [50.0, 52.5]}, index=index)
    assert frames.over_original(rows).loc["Mini", "RTE"] == 2.5


def test_a_mean_over_some_tasks_is_found_among_the_subsets():
    scores = np.random.default_rng(0).uniform(50, 90, size=(4, len(frames.TASKS)))
    tasks = pd.DataFrame(scores, columns=list(frames.TASKS))
    count, distance = frames.nearest_subset(tasks, tasks[["CoLA", "WNLI", "QQP"]].mean(axis=1))
    assert count == 2**9 - 1 and distance == pytest.approx(0)


def test_one_answer_to_everything_scores_the_share_of_its_label(paper):
    shares = frames.constant_answers(pd.Series({task: 100 * counts[1] / sum(counts)
                                                 for task, counts in arithmetic.LABEL_COUNTS.items()}))  # fmt: skip
    assert (shares["printed"] == shares["share of one label"]).all()


def test_gains_are_in_their_own_standard_errors(paper):
    cells = frames.gains(paper).set_index(["model", "task"])
    assert len(cells) == 30
    qqp = cells.loc[("Mini", "QQP")]
    assert qqp["gain"] == 4.48 and qqp["z"] == pytest.approx(qqp["gain"] / qqp["error"])
    assert qqp["z"] == pytest.approx(arithmetic.z_of_difference(82.79, 78.31, 40430))


def test_the_error_of_a_mean_over_glue_is_a_ninth_of_the_root_of_the_summed_squares(paper):
    rows = frames.table(paper, 8)
    found = frames.average_gains(rows)
    assert list(found.index[:3]) == [("Mini", "High"), ("Mini", "Low"), ("Mini", "ElemMul")] and len(found) == 9
    cells = frames.gains(paper).query("model == 'Mini' and task in @arithmetic.LABEL_COUNTS")
    mini = found.loc[("Mini", "High")]
    assert mini["error"] == pytest.approx(np.sqrt((cells["error"] ** 2).sum()) / 9)
    assert mini["gain"] == pytest.approx(11.53 / 9, abs=1e-6) and mini["z"] == mini["gain"] / mini["error"]
    assert mini["WNLI alone"] == pytest.approx(cells.set_index("task")["error"]["WNLI"] / 9)


def test_a_guess_among_four_is_no_error_from_chance(paper):
    scores = pd.DataFrame({"HellaSwag": [25.0], "RACE_Middle": [27.0]})
    found = frames.against_chance(scores).loc[0]
    assert found["HellaSwag"] == 0 and found["RACE_Middle"] == pytest.approx(0.02 / np.sqrt(0.25 * 0.75 / 1436))


def test_token_graphs_keep_the_printed_columns_beside_what_they_imply(paper):
    rows = frames.table(paper, 1)
    found = frames.token_graphs(rows, 40)
    assert found["BC"].equals(rows["BC"]) and found["CC"].equals(rows["CC"])
    assert found["mean hops"].loc[("Mini", "Original")] == pytest.approx(1 + 2 * 6.82 / 39)


def test_sparsities_are_those_of_appendix_e(paper):
    found = frames.sparsities(paper)
    assert found.loc["Medium", ["Original", "High"]].tolist() == [0.918, 0.868]
    assert found.loc["Medium", "change"] == pytest.approx(-0.05)
    assert found.loc["Mini", "keys, Original"] == pytest.approx(120 * 0.094)


def test_text_seen_grows_with_the_steps_and_a_pass_takes_all_words(paper):
    found = frames.text_seen(paper)
    assert found["tokens"].tolist() == [7.68, 19.2, 31.36]
    once = found["sequences for BookCorpus"] * found["steps"] * arithmetic.LENGTH
    assert once.tolist() == pytest.approx([arithmetic.CORPUS_WORDS["BookCorpus"]] * 3)


def test_epochs_of_fine_tuning_are_made_whole_by_the_named_numbers_of_questions(paper):
    found = frames.fine_tuning_epochs(paper, (16, 32, 64))
    assert found.loc[16, "epochs"] == pytest.approx(3116 / 1589)
    for batch in (16, 32):
        for questions in found.loc[batch, ["fewest", "most"]]:
            assert np.ceil(questions / batch) * found.loc[batch, "nearest"] == 3116
    assert found.loc[64, ["fewest", "most"]].isna().all()


def test_cells_are_named_largest_first():
    cells = pd.DataFrame({"model": ["Mini", "Small"], "task": ["RTE", "QQP"], "gain": [1.0, -2.0], "z": [0.5, -3.0]})
    assert frames.named(cells) == "Small QQP -2.00 (z -3.0), Mini RTE +1.00 (z 0.5)"


def test_views_leave_out_what_they_name(paper):
    views = frames.views(frames.table(paper, 1))
    assert [len(view) for view in views.values()] == [12, 11, 9, 12]
    assert frames.FAILED not in views["without Medium-Low"].index
    assert views["centred by size"].groupby("model").mean().abs().max().max() < 1e-9


def test_correlations_of_a_column_with_a_line_are_one():
    rows = pd.DataFrame({"GTD": [0.1, 0.2, 0.4, 0.5], "accuracy": [1.0, 2.0, 4.0, 5.0]})
    r, p = frames.correlations(rows, ["GTD"], "accuracy")["GTD"]
    assert r == pytest.approx(1) and p < 1e-6


def test_a_mean_taken_off_each_size_costs_a_degree_of_freedom(paper):
    rows = frames.views(frames.table(paper, 1))["centred by size"]
    r, p = frames.correlations(rows, ["GTD"], "accuracy")["GTD"]
    x, y = (np.asarray(rows[name]) for name in ("GTD", "accuracy"))
    sizes = np.unique(rows.index.get_level_values("model"), return_inverse=True)[1]
    full = np.column_stack([np.eye(3)[sizes], x])  # the same test as a regression with a mean a size
    slope, left, *_ = np.linalg.lstsq(full, y, rcond=None)
    error = (left[0] / (12 - 4) * np.linalg.inv(full.T @ full)[3, 3]) ** 0.5
    assert p == pytest.approx(2 * stats.t(8).sf(abs(slope[3] / error))) and p > 0.05


def test_operations_have_the_24_cells_of_table_9_and_the_formula_fits_all_but_one(paper):
    cells = frames.operations(paper)
    assert len(cells) == 24
    assert ((cells["formula"] - cells["printed"]).abs() < 0.00501).sum() == 23


def test_times_are_those_of_table_9(paper):
    found = frames.times(paper).loc[("Mini", "Original"), ("train", "step_per_s (ms)")]
    assert found == paper.value(9, model="Mini", algorithm="Original", phase="train", metric="step_per_s (ms)")


def test_speeds_are_operations_over_time(paper):
    found = frames.speeds(paper).loc[("Mini", "Original")]
    assert found["training"] == pytest.approx(6 * 1.41e9 / 28.03e-3 / 1e12)
    assert found["inference"] == pytest.approx(2 * 0.40e9 * 4353.7 / 1e12)
    assert found["ratio"] == found["inference"] / found["training"]


def test_the_forest_fills_the_cells_beyond_two_standard_errors(paper):
    cells = frames.gains(paper)
    axes = pictures.forest(cells).axes
    assert [len(ax.get_yticks()) for ax in axes] == [10, 10, 10]
    marks = [line for ax in axes for line in ax.lines if line.get_marker() == "s"]
    filled = [line for line in marks if line.get_markerfacecolor() != "white"]
    assert len(marks) == 30 and len(filled) == (cells["z"].abs() > pictures.REACH).sum()


def test_the_failed_run_is_ringed_and_both_correlations_are_said(paper):
    table1 = frames.table(paper, 1)
    axes = pictures.failed_run(table1).axes
    for ax in axes:
        rings = [line for line in ax.lines if line.get_markerfacecolor() == "none"]
        assert [float(ring.get_xdata()[0]) for ring in rings] == [table1.loc[frames.FAILED, "GTD"]]
    assert "= −0.28" in axes[0].get_title("left") and "= +0.08" in axes[0].get_title("left")


def test_the_bound_on_clustering_is_drawn_through_its_own_points(paper):
    rows = frames.token_graphs(frames.table(paper, 1), 40)
    ax = pictures.clustering_bound(rows).axes[0]
    line = next(line for line in ax.lines if line.get_linestyle() == "--")
    assert np.interp(rows["BC"], line.get_xdata(), line.get_ydata()) == pytest.approx(rows["least CC"].to_numpy())
    marks = [line for line in ax.lines if line.get_linestyle() == "None"]
    drawn = sorted((float(mark.get_xdata()[0]), float(mark.get_ydata()[0])) for mark in marks)
    assert drawn == sorted(zip(rows["BC"], rows["CC"]))
