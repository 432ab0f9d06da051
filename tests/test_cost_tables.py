"""What a cost run found, in tables, sentences and pictures."""

import numpy as np
import pytest

from saobp.study import cost, cost_tables, published
from saobp.study.figures import costs


def phase(milliseconds, kept, kernel=""):
    ratio = {"median": milliseconds / 10, "low": milliseconds / 11, "high": milliseconds / 9}
    time = {"median": milliseconds, "low": milliseconds - 1, "high": milliseconds + 1}
    eager = {name: value / 2 for name, value in ratio.items()}
    rates = {"milliseconds": time, "ratio": ratio, "ratio_to_eager": eager}
    return rates | {"peak_mib": 2 * kept, "kept_mib": kept, "kernel": kernel}


@pytest.fixture
def ways():
    times = dict(zip(cost.WAYS, (10, 20, 15, 14, 30)))
    return {
        way: {
            "train": phase(ms, ms) | {"tokens_per_second": {"median": 1000 / ms}},
            "train_no_dropout": phase(ms, ms / 2, "flash"),
            "inference": phase(ms, 0) | {"samples_per_second": {"median": 500 / ms}},
            "parameters": 77,
        }
        for way, ms in times.items()
    }


def test_ways_stand_beside_each_other_with_both_ratios(ways):
    table = cost_tables.beside(ways)
    assert len(table) == len(cost.WAYS) * len(cost.PHASES)
    row = table.loc[("training", "High")]
    assert (row["÷ Original"], row["÷ Original, eager"], row["kept (MiB)"]) == (1.5, 0.75, 15)
    assert (row["milliseconds"], row["lower quartile"], row["upper quartile"]) == (15, 14, 16)
    assert (row["tokens/s"], row["parameters"]) == (66.67, 77) and np.isnan(row["samples/s"])
    assert table.loc[("inference", "High"), "samples/s"] == 33.33


def test_the_kernel_is_named_or_said_to_be_missing(ways):
    with_dropout, without = cost_tables.kernels(ways)
    assert "without a fused kernel" in with_dropout and "keeps 10.0 MiB" in with_dropout
    assert "fused kernel flash" in without and "High 7.5" in without


def test_times_are_said_against_both_originals(ways):
    assert "1.50 times (1.36 to 1.67) the time of Original and 0.75 times" in cost_tables.times(ways)[0]


def test_the_sentence_on_length_is_about_the_longest_that_all_ways_ran():
    rows = [
        {"length": length, "way": way, "median_ms": ms * length, "peak_mib": ms}
        for length in (64, 128)
        for way, ms in (("sdpa", 1.0), ("high", 2.0), ("materialised", 8.0))
    ]
    said = cost_tables.against_length(rows[:-1])  # the matrix was held at 64 tokens only
    assert "at 64 tokens" in said and "2.00 times the time" in said and "0.25 times the peak memory" in said


def test_what_high_counts_above_original_are_originals_own_products():
    above = cost_tables.surplus(cost_tables.operations(published.load()))
    assert len(above) == 6 and above.iloc[0, 0] > 0
    np.testing.assert_allclose(above.iloc[:, 0], above.iloc[:, 1], atol=1e-6)


def test_the_picture_of_times_names_every_way_and_has_a_panel_a_phase(ways):
    axes = costs.times(ways).axes
    assert [ax.get_title("left") for ax in axes] == list(cost_tables.PHASES.values())
    assert [text.get_text() for text in axes[0].get_yticklabels()][1] == "Original, eager"


def test_the_picture_of_lengths_has_plain_names_outside_its_panels_and_several_ticks():
    rows = [
        {
            "length": length, "way": way, "peak_mib": ms * length / 100,
            "median_ms": ms * length**2 / 1e4, "quartiles_ms": [0.9 * ms * length**2 / 1e4, 1.3 * ms * length**2 / 1e4],
        }
        for length in (128, 256)
        for way, ms in (("sdpa", 1.0), ("high", 2.0), ("materialised", 8.0))
    ]  # fmt: skip
    figure = costs.against_length(rows)
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == list(cost_tables.LENGTH_WAYS.values())
    figure.canvas.draw()
    bars = [path.vertices[:, 1].tolist() for bar in figure.axes[0].collections for path in bar.get_paths()]
    assert bars == [row["quartiles_ms"] for way in cost_tables.LENGTH_WAYS for row in rows if row["way"] == way]
    for ax in figure.axes:
        low, high = ax.get_ylim()
        assert ax.get_legend() is None and sum(low <= tick <= high for tick in ax.get_yticks()) >= 3
