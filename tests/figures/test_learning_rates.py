"""The figure of the learning rates, on records that are made up."""

import numpy as np
import pytest

from companion.figures import drawing, style
from companion.figures.beyond_the_paper import learning_rates
from companion.studies.learning.design import Run
from tests.studies.test_learning_read import BEST, PLANNED, rate_times, record_of


def records_of(times):
    return [record_of(run, time, time) for run, time in times.items()]


def primary_times(seeds):
    times = {}
    for seed in seeds:
        times[Run(PLANNED.width, "original", BEST["original"], seed)] = 1000 + 4 * seed
        times[Run(PLANNED.width, "high", BEST["high"], seed)] = 800 + 3 * seed
    return times


def test_nothing_is_drawn_before_every_rate_has_run():
    times = rate_times()
    times.popitem()
    some = [record for record in records_of(times) if record["parameters"]["width"] == 64][1:]
    with pytest.raises(drawing.FigureError, match="Steps to learn"):
        drawing.data("rates", some)


def test_each_panel_holds_the_numbers_of_its_records():
    seeds = PLANNED.seeds[:12]
    frame = drawing.data("rates", records_of(rate_times() | primary_times(seeds)))
    rates = frame[frame["panel"] == "rate"]
    best = rates[rates["outcome"] == "best"].set_index("arm")["place"].to_dict()
    assert best == BEST
    assert rates[rates["arm"] == "high"]["value"].min() == pytest.approx(1000)
    ratio = frame[frame["panel"] == "ratio"].iloc[0]
    logs = [np.log((800 + 3 * seed) / (1000 + 4 * seed)) for seed in seeds]
    assert ratio["value"] == pytest.approx(np.exp(np.mean(logs)))
    assert ratio["n"] == 12
    curve = frame[(frame["panel"] == "curve") & (frame["arm"] == "high")]
    # not one of the runs has learned at step 900, all have at the end
    assert curve.set_index("place")["value"][900] < 90
    assert curve["value"].iloc[-1] == pytest.approx(90)


@pytest.mark.parametrize("width", [style.PAGE, style.COLUMN])
def test_it_is_drawn_with_and_without_the_compared_runs(width):
    for times in (rate_times(), rate_times() | primary_times(PLANNED.seeds[:12])):
        frame = drawing.data("rates", records_of(times))
        with style.paper():
            figure = learning_rates.plot(frame, width)
            figure.draw_without_rendering()
        assert len(figure.axes) == frame["panel"].nunique()
