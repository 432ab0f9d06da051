"""What a reader sees of a cell: its digits and signs, and why it is empty or undefined."""

import example_records as examples
import pandas as pd
import pytest

from saobp.study import tables
from saobp.study.figures import correlations
from saobp.study.statistics import Estimate, trajectories
from saobp.study.tables import render
from saobp.study.tables.cells import Cell, Row, Table


@pytest.mark.parametrize(
    ("value", "half", "text"),
    [
        (0.85608868, 0.00000003, "0.8561 ± <0.0001"),
        (0.85608868, 0.00031, "0.8561 ± 0.0003"),
        (0.0, 0.0004, "0.000 ± <0.001"),
        (154.1512, 0.0004, "154.15 ± <0.01"),
    ],
)
def test_a_number_has_four_significant_digits_and_the_csv_more(value, half, text):
    ours = Estimate(value, value - half, value + half, 1, 9)
    table = Table(1, "", ("Model",), {"GTD": "GTD"}, (Row(("BERT-Mini",), {"GTD": Cell(ours=ours)}),))
    assert Cell(ours=ours).number() == text
    assert f"| **{text}** | 1×9 |" in table.to_markdown() and f",{value:.6g}," in table.to_csv()
    assert text.split("± ")[1].replace("<", "{<}") in table.to_latex()


@pytest.mark.parametrize("number", sorted(tables.TABLES))
def test_a_cell_that_holds_nothing_says_why_and_a_dash_is_explained(number):
    runs = [examples.finetune(tasks=("race",)), examples.pretrain("small"), examples.decoder("gpt2-mini")]
    table = tables.table(number, runs)
    for row in table.rows:
        for key in table.columns:
            cell = row.cells[key]
            assert cell.ours is not None or cell.reason or cell.published, (row.labels, key)
    explained = "–: the paper prints no number there." in table.to_markdown()
    assert explained == any(not cell.published for row in table.rows for cell in row.cells.values())


def test_the_released_models_have_their_glue_scores_and_a_reason_in_all_other_cells():
    record = examples.finetune(tasks=("rte",))
    table = tables.table(8, [record])
    quoted = {key: table.cell("", "public BERT-Mini", column=key).published for key in table.columns}
    assert all(quoted.values()) and (quoted["Avg"], quoted["QQP"], quoted["CoLA"]) == ("65.8", "86.2", "0.0")
    for text in (tables.table(2, [record]).to_markdown(), tables.table(2, [record]).to_latex()):
        assert "of the released models the GLUE scores alone are quoted: public BERT-Mini (HellaSwag, " in text


@pytest.mark.parametrize("text", ["-0.97", "r from -0.51 to -.3", "[-.5, 0.87]", "3 and -2"])
def test_the_sign_of_a_number_is_a_minus_in_latex(text):
    assert "-" not in render.escape(text).replace("$-$", "")


def test_a_hyphen_stays_one_in_latex():
    assert render.escape("BERT-Mini, wikitext-103, 1e-05, 10-tables") == "BERT-Mini, wikitext-103, 1e-05, 10-tables"


def test_a_bar_is_set_in_mathematics_for_the_old_encoding_has_a_dash_in_its_place():
    assert render.escape("steps: 20 | 30") == "steps: 20 $|$ 30"


@pytest.mark.parametrize(("clustering", "between", "said"), [(1.0, 0.0, True), (1.0, 0.5, False), (0.9, 0.0, False)])
def test_complete_graphs_are_named_and_no_others(clustering, between, said):
    run = examples.attention(algorithm="high")
    levels = {"clustering_barrat": clustering, "betweenness": between, "gtd": 0.8, "indirect_entropy": 2.0}
    run["metrics"]["means"] = {
        key: {"mean": mean, "low": None, "high": None, "samples": 9} for key, mean in levels.items()
    }
    notes = " ".join(tables.table(1, [run]).notes)
    assert ("CC 1 and BC 0, in 1 row: every graph is complete." in notes) == said


def points(scores, gtd=(0.1, 0.2, 0.3, 0.4), steps=(0, 1, 2, 3)):
    frame = pd.DataFrame({"gtd": gtd, "cross_gtd": gtd, "score": scores, "step": steps})
    return frame.assign(algorithm="high", run="one")


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (points([50.0] * 4), "the score never moves"),
        (points([50.0, 50.0, 60.0, 70.0], gtd=(0.1, 0.1, 0.2, 0.3)), "fewer than 4 different points a run"),
        (points([50.0, 55.0, 60.0, 70.0], gtd=(0.1,) * 4), "the GTD never moves"),
        (points([50.0, 55.0, 60.0, 70.0], steps=(None,) * 4)[:3], "fewer than 4 runs that share an algorithm"),
    ],
)
def test_a_correlation_that_is_none_is_undefined_in_the_figure_and_says_why_in_the_table(frame, why, monkeypatch):
    assert correlations.describe(correlations.correlation(frame), 0.9) == "r undefined"
    monkeypatch.setattr(trajectories, "checkpoints", lambda *_: frame)
    table = tables.table(6, [examples.pretrain("mini")])
    cell = table.cell("BERT-Mini", "Single GTD, checkpoints", column="sst2")
    if frame["step"].notna().all():
        assert (cell.ours, cell.reason) == ("undefined (1×4)", f"undefined, {why}")
        assert f"\nUndefined, {why}: BERT-Mini Single GTD" in table.to_markdown()
