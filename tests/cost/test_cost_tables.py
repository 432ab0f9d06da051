"""What a cost run found, in tables, sentences and pictures."""

import example_records as examples
import numpy as np
import pytest

from saobp.study.cost import cost_tables, whole_model
from saobp.study.figures.of_our_own import costs
from saobp.study.paper import comparisons, numbers


def phase(milliseconds):
    ratio = {"median": milliseconds / 10, "low": milliseconds / 11, "high": milliseconds / 9}
    eager = {name: value / 2 for name, value in ratio.items()}
    time, peak = {"median": milliseconds}, {"median": 2 * milliseconds + 1}
    return {"milliseconds": time, "ratio": ratio, "ratio_to_eager": eager, "peak_mib": peak}


@pytest.fixture
def ways():
    times = zip(whole_model.WAYS, (10, 20, 15, 14, 30))
    training = ("train", "train_no_dropout")  # there is no backward pass in inference
    return {
        way: {name: phase(ms) | {"kept_mib": ms} for name in training} | {"inference": phase(ms)} for way, ms in times
    }


def test_ways_stand_beside_each_other_with_both_ratios(ways):
    table = cost_tables.beside(ways)
    assert len(table) == len(whole_model.WAYS) * len(whole_model.PHASES)
    assert table.loc[("training, dropout", "High")].tolist() == [15, 1.5, 0.75, 15, 31]
    assert table.loc[("inference", "Original, eager"), "kept (MiB)"] == 0


def test_what_high_counts_above_original_are_originals_own_products(monkeypatch):
    every = comparisons.operations(numbers.load())  # of which the smallest size is counted here
    monkeypatch.setattr(cost_tables.comparisons, "operations", lambda paper: every[every["model"] == "Mini"].copy())
    above = cost_tables.surplus(cost_tables.operations(None))
    assert len(above) == 2 and above.iloc[0, 0] > 0
    np.testing.assert_allclose(above.iloc[:, 0], above.iloc[:, 1], atol=1e-6)


def test_the_pictures_have_a_panel_a_phase_and_the_quartiles_and_ends_of_every_way(ways):
    assert len(costs.times(ways).axes) == len(cost_tables.PHASES)
    rows = examples.lengths((128, 256), held=256)
    of_ways = [row for way in cost_tables.LENGTH_WAYS for row in rows if row["way"] == way]
    figure = costs.length_figure(costs.measured(rows))
    times, peaks = ([path.vertices[:, 1].tolist() for bar in ax.collections for path in bar.get_paths()]
                    for ax in figure.axes)  # fmt: skip
    assert times == [row["quartiles_ms"] for row in of_ways]
    assert peaks == [[row["peak_mib"]["low"], row["peak_mib"]["high"]] for row in of_ways]
    figure.canvas.draw()
    for ax in figure.axes:
        low, high = ax.get_ylim()
        assert sum(low <= tick <= high for tick in ax.get_yticks()) >= 3
