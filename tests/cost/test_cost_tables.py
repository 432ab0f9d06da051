"""What a cost run found, in tables, sentences and pictures."""

import numpy as np
import pytest

from saobp.study.cost import cost_tables, whole_model
from saobp.study.figures import costs
from saobp.study.paper import numbers


def phase(milliseconds, kept, kernel=""):
    ratio = {"median": milliseconds / 10, "low": milliseconds / 11, "high": milliseconds / 9}
    time = {"median": milliseconds, "low": milliseconds - 1, "high": milliseconds + 1}
    eager = {name: value / 2 for name, value in ratio.items()}
    rates = {"milliseconds": time, "ratio": ratio, "ratio_to_eager": eager}
    peak = {"median": 2 * kept + 1, "low": 2 * kept, "high": 2 * kept + 3}
    return rates | {"peak_mib": peak, "kept_mib": kept, "kernel": kernel}


@pytest.fixture
def ways():
    times = dict(zip(whole_model.WAYS, (10, 20, 15, 14, 30)))
    made = {
        way: {
            "train": phase(ms, ms) | {"tokens_per_second": {"median": 1000 / ms}},
            "train_no_dropout": phase(ms, ms / 2, "flash"),
            "inference": phase(ms, 0, "flash") | {"samples_per_second": {"median": 500 / ms}},
            "parameters": 2**18,
        }
        for way, ms in times.items()
    }
    for found in made.values():
        del found["inference"]["kept_mib"]  # there is no backward pass
    return made


def test_ways_stand_beside_each_other_with_both_ratios(ways):
    table = cost_tables.beside(ways)
    assert len(table) == len(whole_model.WAYS) * len(whole_model.PHASES)
    row = table.loc[("training, dropout", "High")]
    assert (row["÷ Original"], row["÷ Original, eager"], row["kept (MiB)"]) == (1.5, 0.75, 15)
    assert (row["milliseconds"], row["lower quartile"], row["upper quartile"]) == (15, 14, 16)
    assert (row["peak (MiB)"], row["lowest"], row["highest"]) == (31, 30, 33)
    assert (row["tokens/s"], row["parameters"]) == (66.67, 2**18) and np.isnan(row["samples/s"])
    assert table.loc[("inference", "High"), "samples/s"] == 33.33


@pytest.mark.parametrize("given", [12.5, None])
def test_a_peak_of_an_older_record_is_read_as_one_measurement(ways, given):
    for found in ways.values():
        found["train"]["peak_mib"] = given
    row = cost_tables.beside(ways).loc[("training, dropout", "High")]
    assert np.isnan(row["lowest"]) and (np.isnan(row["peak (MiB)"]) if given is None else row["peak (MiB)"] == given)


def by_length(lengths, **more):
    """Rows as `lengths.by_length` makes them: High takes twice the time of Original and a quarter of the matrix's."""
    return [
        {
            "length": length, "way": way, "median_ms": ms * length,
            "quartiles_ms": [0.9 * ms * length, 1.3 * ms * length],
            "kernel": "flash" if way == "sdpa" else "", "peak_mib": {"median": ms, "low": 0.8 * ms, "high": 1.6 * ms},
            "ratio_to_sdpa": {"median": ms, "low": ms - 0.25, "high": ms + 0.5},
            "ratio_to_materialised": {"median": ms / 8, "low": ms / 10, "high": ms / 5}, **more,
        }
        for length in lengths
        for way, ms in (("sdpa", 1.0), ("high", 2.0), ("materialised", 8.0))
    ]  # fmt: skip


@pytest.fixture(scope="module")
def counted():
    return cost_tables.operations(numbers.load())


def test_what_high_counts_above_original_are_originals_own_products(counted):
    above = cost_tables.surplus(counted)
    assert len(above) == 6 and above.iloc[0, 0] > 0
    np.testing.assert_allclose(above.iloc[:, 0], above.iloc[:, 1], atol=1e-6)


def test_the_picture_of_times_names_every_way_and_has_a_panel_a_phase(ways):
    axes = costs.times(ways).axes
    assert [ax.get_title("left") for ax in axes] == list(cost_tables.PHASES.values())
    assert [text.get_text() for text in axes[0].get_yticklabels()][1] == "Original, eager"


def bars(ax):
    return [path.vertices[:, 1].tolist() for bar in ax.collections for path in bar.get_paths()]


def test_the_picture_of_lengths_has_plain_names_outside_its_panels_and_several_ticks():
    rows = by_length([128, 256])
    figure = costs.against_length(rows)
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == list(cost_tables.LENGTH_WAYS.values())
    figure.canvas.draw()
    of_ways = [row for way in cost_tables.LENGTH_WAYS for row in rows if row["way"] == way]
    assert bars(figure.axes[0]) == [row["quartiles_ms"] for row in of_ways]
    assert bars(figure.axes[1]) == [[row["peak_mib"]["low"], row["peak_mib"]["high"]] for row in of_ways]
    for ax in figure.axes:
        low, high = ax.get_ylim()
        assert ax.get_legend() is None and sum(low <= tick <= high for tick in ax.get_yticks()) >= 3


def test_the_picture_of_lengths_reads_a_peak_of_one_measurement():
    memory = costs.against_length(by_length([128, 256], peak_mib=3.0)).axes[1]
    assert all(np.isnan(ends).all() for ends in bars(memory))
    assert memory.lines[0].get_ydata().tolist() == [3, 3]
