"""The fifteen claims: one row of the table of results each, one word, and what readers get."""

import numpy as np
import pandas as pd
import pytest

from companion.paper import numbers
from companion.publication import cli
from companion.results import claims, claims_file, table
from companion.results.row import OUTCOMES
from companion.setup import paths
from companion.statistics import holm

FILE = claims_file.file()


@pytest.fixture(scope="module")
def decided():
    return claims.decided().set_index("claim")


def test_there_are_fifteen_claims_and_the_word_of_each_is_the_outcome_of_its_row(decided):
    assert len(decided) == len(claims_file.read(FILE)) == 15
    for name, claim in claims_file.read(FILE).items():
        row = table.find(claim.row)
        assert decided.loc[name, "estimate"] == pytest.approx(row["estimate"], abs=1e-8)
        assert decided.loc[name, "word"] == (claim.word or row["outcome"])
        assert decided.loc[name, "word"] in OUTCOMES, "no claim is undecided"
        assert bool(claim.word) != bool(row["outcome"])


def test_a_claims_margin_has_one_home(decided):
    """Either the plan of its row has it, or data/claims.yaml."""
    assert decided["margin"].notna().all()
    for claim in claims_file.read(FILE).values():
        planned = table.find(claim.row)["planned"] != ""
        assert not (planned and claim.margin) or claim.row.startswith("scratch/start-of-learning/")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("  place:", "  plce:", r"claims.yaml: column-sum.(place|plce): "),
        (
            "  margin: 1.0\n  note: Measured",
            "  word: true\n  note: Measured",
            "claims.yaml: column-sum.word: ",
        ),
        ("  margin: 1.0", "  margin: -1.0", "claims.yaml: column-sum.margin: "),
    ],
)
def test_a_wrong_entry_is_refused_in_one_line_that_names_file_and_key(tmp_path, old, new, said):
    text = FILE.read_text(encoding="utf-8").replace(old, new, 1)
    with pytest.raises(ValueError, match=f"{said}[^\n]*$"):
        claims_file.read(paths.write_text(tmp_path / "claims.yaml", text))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("row: scratch/sparsity/high-original", "row: scratch/sparsity/high", ""),
        ("row: scratch/sparsity/high-original", "row: x/y/z", "sparsity: .* has no row 'x/y/z'"),
        ("paper: printed/sparsity/high-original", "paper: a/b/c", "sparsity: .* no row 'a/b/c'"),
        (
            "  row: branched/",
            "  margin: 0.5\n  row: branched/",
            "loss.margin: the plan of branched",
        ),
    ],
)
def test_a_row_that_there_is_not_and_a_margin_that_the_plan_has_are_refused(
    tmp_path, monkeypatch, old, new, said
):
    text = FILE.read_text(encoding="utf-8").replace(old, new, 1)
    changed = paths.write_text(tmp_path / "claims.yaml", text)
    monkeypatch.setattr(claims_file, "file", lambda: changed)
    monkeypatch.setattr(claims, "decided", claims.decided.__wrapped__)
    if said:
        with pytest.raises(ValueError, match=said):
            claims.decided()
    else:
        assert claims.decided().set_index("claim").loc["sparsity", "word"] == ""


def test_numbers_in_margins_lie_above_zero_where_they_are_as_claimed(decided):
    loss = decided.loc["loss"]
    assert loss["toward"] == pytest.approx(-loss["estimate"] / 0.02)
    assert loss["toward_low"] == pytest.approx(-loss["high"] / 0.02)
    assert loss["toward_low"] < loss["toward_high"]
    cost = decided.loc["cost"]
    assert cost["toward"] == pytest.approx((1 - cost["estimate"]) / 0.1)
    assert cost["toward"] > 0
    supported = decided[decided["word"] == "supported"]
    assert (supported["toward"] > 0).all()
    assert (decided[decided["word"] == "contradicted"]["toward"] < 0).all()


def test_holms_correction_is_over_the_claims_that_an_interval_decides(decided):
    tested = decided["p"].notna()
    # a claim that something stays within the margin
    assert set(decided.index[~tested]) == {"cost"}
    assert decided["p_holm"][tested].tolist() == pytest.approx(holm(decided["p"][tested]))
    away = (decided["low"] > 0) | (decided["high"] < 0)
    ratio = decided["unit"].str.startswith("ratio")
    assert ((decided["p"] < 0.05) == away)[tested & ~ratio].all()


def test_the_papers_numbers_stand_beside_ours(decided):
    paper = numbers.load()
    high, plain = (
        paper.value(1, model="Mini", algorithm=name, metric="GTD") for name in ("High", "Original")
    )
    assert decided.loc["gtd", "paper"] == pytest.approx(high - plain)
    assert decided.loc["gtd-models", "paper"] == -0.97
    assert np.isnan(decided.loc["loss", "paper"])


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("decoder", ["−0.014 nats [−0.017, −0.011], 4 seeds", "prints −1.455", "supported (plan"]),
        ("fine-tuned", ["it is necessary to pretrain", "readings at 7, 8, 10", "open"]),
        ("column-sum", ["supported", "Measured, and no law."]),
    ],
)
def test_one_claim_is_printed_with_its_words_and_its_row(capsys, name, parts):
    assert cli.main(["claim", name]) == 0
    told = capsys.readouterr().out
    claim = claims_file.read(FILE)[name]
    for part in (*parts, claim.row, claim.sentence, claim.advice):
        assert part in told


def test_an_unknown_claim_is_answered_by_the_known_ones(capsys):
    assert cli.main(["claim", "gains"]) == 2
    assert "no claim 'gains'; choose one of column-sum, sparsity" in capsys.readouterr().err


def test_a_claim_that_was_not_run_has_no_number(tmp_path, monkeypatch):
    text = FILE.read_text(encoding="utf-8").replace(
        "  margin: 1.0\n  note: Measured", "  word: not run\n  note: Measured"
    )
    changed = paths.write_text(tmp_path / "claims.yaml", text)
    monkeypatch.setattr(claims_file, "file", lambda: changed)
    frame = claims.decided.__wrapped__()
    assert pd.isna(frame["estimate"][0]) and frame["word"][0] == "not run"
    assert claims.shown(frame).iloc[0].tolist()[1:] == ["–", "–", "–", "not run", "–"]
