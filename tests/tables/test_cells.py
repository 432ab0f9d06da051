"""What a reader sees of a cell: its digits and signs, and why it is empty or undefined."""

import example_records as examples
import numpy as np
import pandas as pd
import pytest

from saobp.study import tables
from saobp.study.figures import correlations
from saobp.study.statistics import Estimate, trajectories
from saobp.study.tables import gtd, render
from saobp.study.tables.cells import Cell, digits
from saobp.study.tables.render import Table


@pytest.mark.parametrize(("value", "half", "text"), [
    (0.85608868, 0.00000003, "0.8561 ± <0.0001"), (0.85608868, 0.00031, "0.8561 ± 0.0003"),
    (0.0, 0.0004, "0.000 ± <0.001"), (154.1512, 0.0004, "154.15 ± <0.01"),
    (54.321, 7.494, "54.32 ± 7.49"), (54.321, 0.0123, "54.32 ± 0.01"),
])  # fmt: skip
def test_a_number_has_four_significant_digits_and_the_csv_more(value, half, text):
    ours = Estimate(value, value - half, value + half, 1, 9)
    table = Table(4, ("Model",), {"GTD": "GTD"}, {(("BERT-Mini",), "GTD"): Cell(ours=ours)})
    assert Cell(ours=ours).number() == text
    assert f"| {text} | 1×9 |" in examples.narrow(table.to_markdown()) and f",{value:.6g}," in table.to_csv()
    assert text.split("± ")[1].replace("<", "$<$") in table.to_latex()


@pytest.mark.parametrize("number", sorted(tables.TABLES))
def test_a_cell_that_holds_nothing_says_why_and_a_dash_is_explained(number):
    runs = [examples.finetune(tasks=("race",)), examples.pretrain("small"), examples.decoder("gpt2-mini")]
    table = tables.table(number, runs)
    for place, cell in table.cells.items():
        assert cell.ours is not None or cell.reason or cell.published, place
    empty = table.frame().iloc[:, 1:].isin(["", "·"])
    assert (table.frame().iloc[:, 1:] != "").all(axis=None)
    assert empty.any(axis=None) == any(note.startswith("·: ") for note in table.notes())
    assert ("–: not printed" in table.notes()) == any(not cell.published for cell in table.of_models.values())


def test_the_released_models_have_their_glue_scores_and_a_reason_in_all_other_cells():
    record = examples.finetune(tasks=("rte",))
    table = tables.table(8, [record])
    quoted = {key: table.cell("", "public BERT-Mini", column=key).published for key in table.columns}
    assert all(quoted.values()) and (quoted["Avg"], quoted["QQP"], quoted["CoLA"]) == ("65.8", "86.2", "0.0")
    reasons = {cell.reason for (row, _), cell in tables.table(2, [record]).cells.items() if "public" in row[-1]}
    assert "GLUE scores alone are quoted" in reasons and any("not run here" in reason for reason in reasons)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("-0.97", "$-$0.97"),
        ("r from -0.51 to -.3", "r from $-$0.51 to $-$.3"),
        ("[-.5, 0.87]", "[$-$.5, 0.87]"),
        ("BERT-Mini, wikitext-103, 1e-05, 10-tables", "BERT-Mini, wikitext-103, 1e-05, 10-tables"),  # hyphens
        ("table 1 --all, or –", "table 1 -{}-all, or --"),  # an option, and a dash
        ("steps: 20 | 30", "steps: 20 $|$ 30"),  # the old encoding has a dash in a bar's place
    ],
)
def test_a_sign_is_what_it_means_in_latex(text, shown):
    assert render.escape(text) == shown


def test_an_interval_of_a_positive_number_stays_positive_and_one_of_a_share_below_1():
    run = [examples.attention(algorithm="high", seed=seed) for seed in (1, 2, 3)]
    for each, (between, clustering) in zip(run, ((1.0, 0.9), (2.0, 0.99), (40.0, 0.5))):
        levels = {"clustering_barrat": clustering, "betweenness": between, "gtd": 0.8, "indirect_entropy": 2.0}
        each["metrics"]["means"] = {
            key: {"mean": mean, "low": None, "high": None, "samples": 9} for key, mean in levels.items()
        }
    bc, cc = (tables.table(1, run).cell("BERT-Mini", "High", column=key).ours for key in ("BC", "CC"))
    assert 0 < bc.low < bc.value < bc.high and bc.high - bc.value > bc.value - bc.low
    assert 0 < cc.low < cc.value < cc.high < 1


def test_table_1_gives_differences_from_original_over_the_seeds_of_both():
    runs = [examples.attention(algorithm=name, seed=seed) for name in ("original", "high") for seed in (1, 2, 3)]
    table = tables.table(1, [*runs, examples.attention(algorithm="low", seed=9)])
    gap = table.cell("BERT-Mini", "High", column="GTD").difference
    means = [np.mean(run["metrics"]["matrices"]["refined"]["gtd"]) for run in runs]
    assert (gap.value, gap.seeds) == (pytest.approx(np.mean(means[3:]) - np.mean(means[:3])), 3)
    assert gap.low < gap.value < gap.high
    assert table.cell("BERT-Mini", "Low", column="GTD").difference is None, "no seed of both"


@pytest.mark.parametrize(("r", "seeds", "printed", "flags"), [
    ((0.65, 0.1, 0.9), 18, "-0.97", ("opposite sign",)), ((0.65, 0.1, 0.9), 18, "0.97", ()),
    ((0.65, 0.1, 0.9), 2, "-0.97", ("says nothing",)), ((0.65, -1.0, 1.0), 18, "0.97", ("says nothing",)),
])  # fmt: skip
def test_a_correlation_of_too_few_runs_and_one_of_the_opposite_sign_are_marked(r, seeds, printed, flags):
    assert gtd._flags(Estimate(*r, seeds), printed) == flags


def points(scores, gtd=(0.1, 0.2, 0.3, 0.4), steps=(0, 1, 2, 3)):
    frame = pd.DataFrame({"gtd": gtd, "cross_gtd": gtd, "score": scores, "step": steps})
    return frame.assign(algorithm="high", run="one")


@pytest.mark.parametrize(("frame", "why"), [
    (points([50.0] * 4), "the score never moves"),
    (points([50.0, 50.0, 60.0, 70.0], gtd=(0.1, 0.1, 0.2, 0.3)), "fewer than 4 different points a run"),
    (points([50.0, 55.0, 60.0, 70.0], gtd=(0.1,) * 4), "the GTD never moves"),
    (points([50.0, 55.0, 60.0, 70.0], steps=(None,) * 4)[:3], "fewer than 4 runs that share an algorithm"),
])  # fmt: skip
def test_a_correlation_that_is_none_is_undefined_in_the_figure_and_says_why_in_the_table(frame, why, monkeypatch):
    assert correlations.heading(correlations.correlation(frame), 0.9) == "r undefined"
    monkeypatch.setattr(trajectories, "checkpoints", lambda *_: frame)
    table = tables.table(6, [examples.pretrain("mini")])
    cell = table.cell("BERT-Mini", "Single GTD, checkpoints", column="sst2")
    if frame["step"].notna().all():
        assert (cell.ours, cell.reason) == (None, f"undefined, {why}")


def test_a_perplexity_has_its_difference_from_original_over_the_seeds_of_both():
    runs = [examples.pretrain("mini", name, seed) for name in ("original", "high") for seed in (1, 2, 3)]
    for run, perplexity in zip(runs, (20.0, 24.0, 28.0, 21.0, 26.0, 31.0)):
        run["metrics"].pop("wikitext", None)
        run["metrics"] |= {"perplexity": perplexity, "perplexity_interval": [perplexity - 1, perplexity + 1]}
    table = tables.table(3, [*runs, examples.pretrain("mini", "eigen_reg", 9)])
    found = {name: table.cell("BERT-Mini", name, column="PPL_WikiText").difference for name in ("Original", "High")}
    assert (found["High"].value, found["High"].seeds, found["Original"]) == (pytest.approx(2), 3, None)
    assert table.cell("BERT-Mini", "Eigen-Reg", column="PPL_WikiText").difference is None, "no seed of both"


@pytest.mark.parametrize(
    ("ends", "expected"),
    [((-0.001, 0.066), 3), ((0.0, 0.0), 2), ((0.0004, 0.07), 4), ((1e-9, 1.0), 4), ((np.nan,) * 2, 2)],
)
def test_an_end_that_is_not_zero_is_not_shown_as_zero_in_two_more_digits(ends, expected):
    assert digits(2, *ends) == expected
    gap = Estimate(0.0325, *ends, 3)
    apart = Cell(ours=Estimate(0.7, 0.6, 0.8, 3), difference=gap).texts()["Ours − Original"]
    assert apart.startswith(f"{0.0325:+.{expected}f}")
