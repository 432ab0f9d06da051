"""What is read from the records of the studies of sparing and of the dose."""

import example_records
import numpy as np
import pandas as pd
import pytest

from companion.results import spared_keys
from companion.results.study import Study
from companion.studies import plan
from companion.studies.spare import curves, read


def test_a_cell_is_the_ratio_or_the_change_against_the_original_of_its_length():
    passages = curves.measured(example_records.dose(lambda strength, length: strength * length))
    table = curves.cells(passages[passages["model"] == "smollm2"])
    (row,) = table[(table["strength"] == 0.05) & (table["length"] == 64)].to_dict("records")
    amount = 0.05 * 64
    # of two passages, the second with twice the sums
    original = 1.5 * 2 * 64
    expected = {"sink": 1 / (1 + amount), "entropy": amount, "harm": amount / 10}
    expected |= {"tokens": amount, "sums": 0.05 * original}
    assert {name: row[name] for name in expected} == pytest.approx(expected)
    assert len(table) == 30


def test_passages_weigh_in_the_means_as_often_as_they_are_drawn():
    passages = curves.measured(example_records.dose(lambda strength, length: strength * length))
    of_model = passages[passages["model"] == "minilm"].copy()
    of_model.loc[(of_model["passage"] == 1) & (of_model["strength"] > 0), "harm"] = 9.0
    once = curves.cells(of_model, np.array([1, 0]))["harm"].to_numpy()
    several = curves.cells(of_model, np.array([1, 3]))["harm"].to_numpy()
    assert once[0] == pytest.approx(0.01 * 16 / 10)
    assert several == pytest.approx((once + 27) / 4)


@pytest.mark.parametrize(
    ("amount", "axis"),
    [
        (lambda strength, length: strength * length, "λ L"),
        (lambda strength, length: 20 * strength, ""),
        # between both: neither axis
        (lambda strength, length: 4 * strength * length**0.3, ""),
    ],
)
def test_the_axis_that_lengths_fall_on_one_curve_over_is_the_one_that_the_effect_depends_on(
    amount, axis
):
    passages = curves.measured(example_records.dose(amount))
    shares = curves.shares(passages)
    assert len(shares) == 4
    assert curves.answer(shares) == axis
    if axis:
        assert shares[axis].min() > 0.95 > shares["λ"].max()
        intervals = curves.share_intervals(passages, draws=3)
        # passages differ in their sums alone, of which sink is a ratio
        assert np.allclose(intervals["low"], shares[axis])
        assert np.allclose(intervals["high"], shares[axis])


def test_the_axis_of_the_column_sums_is_named_only_where_the_length_is_not_enough():
    table = pd.DataFrame({"λ": [0.1, 0.2], "λ L": [0.95, 0.8], "λ n": [0.95, 0.93]})
    assert curves.answer(table) == "λ n"
    assert curves.answer(table.assign(**{"λ L": 0.9})) == "λ L"
    assert curves.answer(table.assign(**{"λ n": [0.95, 0.89]})) == ""
    # λ alone says more
    assert curves.answer(table.assign(λ=0.99)) == ""


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.1, 0.5, 0.9], 0.02),
        ([0.6, 0.7, 0.8], 0.0),
        ([0.1, 0.2, 0.3], np.inf),
        ([0, 1, 1], 0.02**0.5 / 10),
    ],
)
def test_a_level_is_crossed_between_two_strengths_or_beyond_their_ends(values, expected):
    crossed = curves.crossing([0.01, 0.02, 0.04], values, 0.5)
    assert crossed == pytest.approx(expected)


def test_which_strength_halves_the_sink_and_which_harms():
    passages = curves.measured(example_records.dose(lambda strength, length: strength * length))
    table = curves.which_strength(passages).set_index(["model", "length"])
    # halved at an amount of 1, harmful at one of 0.5
    halves = table["halves"]["minilm"]
    assert halves[16] == pytest.approx(1 / 16, rel=0.05)
    assert halves[64] == pytest.approx(1 / 64, rel=0.05) and halves[512] == 0
    assert table["harms"]["smollm2"][32] == pytest.approx(0.5 / 32, rel=0.1)


def comparison(low, high, low_90, high_90, better=1):
    estimate = (low + high) / 2
    names = ("study", "model", "endpoint", "unit", "contrast")
    rest = {"n": 9, "of_what": "pairs", "margin": 0.3, "planned": "primary", "better": better}
    ends = {"low": low, "high": high, "low_90": low_90, "high_90": high_90}
    return read.Comparison(**dict.fromkeys(names, ""), estimate=estimate, **ends, **rest)


@pytest.mark.parametrize(
    ("ends", "outcome"),
    [
        # within the margin first, on whichever side of 0
        ((0.05, 0.31, 0.07, 0.29), "no effect"),
        ((-0.29, -0.05, -0.28, -0.06), "no effect"),
        ((0.1, 0.4, 0.12, 0.38), "supported"),
        ((-0.4, -0.1, -0.38, -0.12), "contradicted"),
        ((-0.1, 0.5, -0.05, 0.45), "open"),
    ],
)
def test_the_outcome_is_by_two_tests_first_and_by_the_side_of_0_then(ends, outcome):
    assert comparison(*ends).outcome == outcome
    opposite = {"supported": "contradicted", "contradicted": "supported"}
    assert comparison(*ends, better=-1).outcome == opposite.get(outcome, outcome)


def spare_record(model, task, arm, strength, metrics):
    record = example_records.record("spare", model, "high", 0, metrics, task=task, arm=arm)
    record["parameters"]["strength"] = strength
    return record


def spare_records():
    sources = ["wikitext"] * 3 + ["novels"] * 3
    plain = np.arange(6.0)
    change = np.array([0.01, 0.02, 0.03, 0.02, 0.02, 0.02])

    def blocks(losses):
        return {"blocks": {"512": {"losses": list(losses), "sources": sources}}}

    ends = {"interval": [0.1, 0.4], "interval_90": [0.15, 0.35]}
    sets = {name: {"difference": 0.25} | ends for name in ("stsb", "mean")}
    changes = [{"arm": arm, "strength": 0.1, "sets": sets} for arm in ("first", "damped")]
    scores = {"stsb": {"score": 80.0, "pairs": 7, "cosines": [0.0] * 7}}
    return [
        spare_record("minilm", "similarity", "original", 0.0, {"sets": scores}),
        spare_record("minilm", "intervals", "all", 0.0, {"changes": changes}),
        spare_record("smollm2", "loss", "high", 0.1, blocks(plain + 2)),
        spare_record("smollm2", "loss", "original", 0.0, blocks(plain)),
        spare_record("smollm2", "loss", "first", 0.1, blocks(plain + change)),
    ]


def test_every_change_is_against_plain_attention_and_the_primary_ones_come_first():
    rows = read.comparisons(spare_records())
    assert [(row.model, row.endpoint, row.contrast) for row in rows[:2]] == [
        ("minilm", "mean of three sets", "first at 0.1 - original"),
        ("smollm2", "loss on blocks of 512 tokens", "first at 0.1 - original"),
    ]
    assert [row.planned for row in rows].count("primary") == 2
    assert {row.planned for row in rows if "damped" in row.contrast} == {"exploratory"}
    encoder, decoder = rows[:2]
    assert (encoder.estimate, encoder.low, encoder.high_90, encoder.n) == (0.25, 0.1, 0.35, 7)
    assert decoder.estimate == pytest.approx(0.02) and decoder.n == 6
    assert 0.01 < decoder.low <= decoder.low_90 < 0.02 < decoder.high_90 <= decoder.high < 0.03
    assert decoder.outcome == "no effect"
    (high,) = [row for row in rows if row.contrast == "high at 0.1 - original"]
    assert (high.low, high.estimate, high.high) == pytest.approx((2, 2, 2))
    assert high.outcome == "contradicted"


def test_blocks_are_drawn_within_their_source():
    # the sources differ by 1, their own blocks not at all: no draw of blocks moves the mean
    change = np.array([0.0] * 3 + [1.0] * 3)
    sources = ["wikitext"] * 3 + ["novels"] * 3
    assert read._interval(change, sources, 0.05) == (0.5, 0.5)


def test_the_table_of_results_has_every_change_and_what_the_dose_came_to():
    amounts = example_records.dose(lambda strength, length: strength * length)
    study = Study("spare", [*spare_records(), *amounts], plan.studies()["spare"])
    by_key = {row.key: row for row in spared_keys.rows(study)}
    key = "spare/minilm-mean-of-three-sets/high-without-the-first-token-at-0.1-original"
    primary = by_key[key]
    assert (primary.estimate, primary.low, primary.high) == (0.25, 0.1, 0.4)
    assert (primary.planned, primary.margin, primary.outcome) == ("primary", 0.3, "supported")
    exploratory = by_key["spare/minilm-score-on-sts-b/damped-step-at-0.1-original"]
    assert (exploratory.planned, exploratory.outcome, exploratory.note) == ("", "", "exploratory")
    answer = by_key["spare/least-r²-by-dose/high"]
    assert (answer.planned, answer.outcome) == ("primary", "supported")
    assert answer.estimate == by_key["spare/minilm-r²-of-the-sink-by-dose/high"].estimate
    halves = by_key["spare/minilm-strength-that-halves-at-64-tokens/high"].estimate
    assert halves == pytest.approx(1 / 64, rel=0.05)
