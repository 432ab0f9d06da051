"""The readings of the study `learning`, on records that are made up."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from companion.records import as_text
from companion.statistics import level_at, mean_interval
from companion.studies import plan
from companion.studies.learning import design, read
from companion.studies.learning.design import Learning, Run

PLANNED = plan.section(plan.file(), "learning", Learning)
BEST = {"original": 0.002, "high": 0.001}


def record_of(run, two, three):
    """A record whose two endpoints are reached at these steps; None for never."""
    steps = sorted({0.0, float(PLANNED.steps), *(time for time in (two, three) if time)})
    curve = []
    for step in steps:
        shares = {
            str(hops): 0.9 if time is not None and step >= time else 0.2
            for hops, time in ((2, two), (3, three))
        }
        curve.append({"step": int(step), "loss": 1.0, "accuracy": {"1": 1.0, **shares}})
    recipe = PLANNED.recipe(run)
    return {
        "schema": 3,
        "stage": "learning",
        "study": "learning",
        "name": run.name,
        "parameters": {"width": run.width, "arm": run.arm, "rate": run.rate, "seed": run.seed},
        "metrics": {"recipe": recipe, "curve": curve, "seconds": 0.1, "failed": None},
        "data": {},
        "code": {"version": "0.1.0", "commit": "abc123"},
        "packages": {"torch": "2.13.0"},
        "device": {"name": "cpu", "threads": 1, "precision": "fp32"},
        "started": "2026-11-29T00:00:00+00:00",
        "seconds": 1.0,
        "departures": [],
    }


def study_of(times):
    """A study of made-up runs: run -> the step at which it has learned both hops, or None."""
    return read.Study(PLANNED, {run: record_of(run, time, time) for run, time in times.items()})


def rate_times():
    """Times by which BEST are the best rates at both widths."""
    found = {}
    for run in (*PLANNED.rate_runs(), *PLANNED.wide_rate_runs()):
        found[run] = 1000 if run.rate == BEST[run.arm] else 1500
    return found


def pairs(gap, spread=0.2, seeds=PLANNED.seeds, seed=0):
    """Times of the primary arms whose log ratio is about `gap`."""
    random, found = np.random.default_rng(seed), {}
    for number in seeds:
        base = 1000 * math.exp(random.normal(0, 0.1))
        found[Run(64, "original", BEST["original"], number)] = round(base)
        time = base * math.exp(gap + random.normal(0, spread))
        found[Run(64, "high", BEST["high"], number)] = round(min(time, 3999))
    return found


def test_the_best_rates_need_every_run_that_chooses_them():
    times = rate_times()
    assert study_of(times).best_here() == BEST == study_of(times).best_at(256)
    del times[PLANNED.rate_runs()[7]]
    assert study_of(times).best_here() == {} and read.primary(study_of(times)) == []
    # the wide ones have their own
    assert study_of(times).best_at(128) == BEST


def test_the_primary_contrast_is_read_at_twelve_and_at_twenty_four_seeds_with_their_bounds():
    times = rate_times() | pairs(-0.3)
    early, late = read.primary(study_of(times))
    assert early.row.n == 12 and late.row.n == 24
    assert early.level == level_at([12, 24], 12) > late.level == level_at([12, 24], 24) > 0.95
    for reading, n in ((early, 12), (late, 24)):
        logs = [
            math.log(times[Run(64, "high", 0.001, seed)] / times[Run(64, "original", 0.002, seed)])
            for seed in PLANNED.seeds[:n]
        ]
        found = mean_interval(logs)
        reach = found.error.reach(reading.level)
        assert reading.row.estimate == pytest.approx(math.exp(found.value), rel=1e-3)
        ends = math.exp(found.value - reach), math.exp(found.value + reach)
        assert reading.interval == pytest.approx(ends, rel=1e-3)
        assert (reading.row.low, reading.row.high) == pytest.approx(
            (math.exp(found.low), math.exp(found.high)), rel=1e-3
        )
    assert early.outcome == late.outcome == "supported"


@pytest.mark.parametrize(
    ("gap", "spread", "early", "late"),
    [
        (-0.3, 0.1, "supported", "supported"),
        (0.3, 0.1, "contradicted", "contradicted"),
        # within the margin nothing is decided before the last reading
        (0.0, 0.05, "", "no effect"),
        (0.0, 0.5, "", "imprecise"),
        (-0.17, 0.2, "", "supported"),
    ],
)
def test_each_outcome_of_the_plan_is_read_from_the_interval_and_the_margin(
    gap, spread, early, late
):
    study = study_of(rate_times() | pairs(gap, spread, seed=3))
    assert [reading.outcome for reading in read.primary(study)] == [early, late]


def test_between_two_analyses_only_the_first_is_read():
    study = study_of(rate_times() | pairs(-0.3, seeds=PLANNED.seeds[:17]))
    assert [reading.row.n for reading in read.primary(study)] == [12]
    study = study_of(rate_times() | pairs(-0.3, seeds=PLANNED.seeds[1:20]))
    assert read.primary(study) == []


@pytest.mark.parametrize(
    ("gap", "spread", "n"), [(-0.3, 0.1, 12), (-0.17, 0.2, 24), (0.0, 0.5, 24)]
)
def test_the_first_analysis_with_an_outcome_decides(gap, spread, n):
    study = study_of(rate_times() | pairs(gap, spread, seed=3))
    (reading,) = read.decided(study)
    assert reading.row.n == n
    assert read.decided(study_of(rate_times())) == []


def test_runs_that_never_learn_count_with_the_last_step_and_are_named():
    times = rate_times() | pairs(-0.3)
    never = Run(64, "original", 0.002, 43)
    times[never] = None
    early, _ = read.primary(study_of(times))
    assert early.row.unreached == ("original at its best rate 43",)
    assert design.endpoint(PLANNED, record_of(never, None, None)) == pytest.approx(math.log(4000))


def secondary_times(gaps):
    """Times of arms at Original's best rate, by their log ratio to Original."""
    random, found = np.random.default_rng(5), {}
    for number in PLANNED.seeds:
        base = 1000 * math.exp(random.normal(0, 0.1))
        found[Run(64, "original", BEST["original"], number)] = round(base)
        for arm, (gap, spread) in gaps.items():
            time = base * math.exp(gap + random.normal(0, spread))
            found[Run(64, arm, BEST["original"], number)] = round(time)
    return found


def test_the_secondary_contrasts_are_corrected_together_and_those_without_runs_count():
    gaps = {"high": (-0.3, 0.1), "detached": (0.0, 0.05), "rolled": (0.3, 0.1)}
    gaps |= {"uniform": (-0.15, 0.25), "settled": (-0.3, 0.1)}
    readings = read.secondaries(study_of(rate_times() | secondary_times(gaps)))
    named = {reading.row.contrast: reading for reading in readings}
    assert len(readings) == 11 and named["damped / high"].row.n == 0
    assert named["damped / high"].outcome == "" and named["damped / high"].adjusted == 1
    assert named["high / original"].outcome == "sooner"
    assert named["detached / original"].outcome == "within the margin"
    assert named["rolled / original"].outcome == "later"
    assert named["settled / high"].outcome == "within the margin"
    # alone it would be sooner
    uniform = named["uniform / original"]
    assert uniform.p < 0.05 < uniform.adjusted and uniform.outcome == "open"
    order = sorted(readings, key=lambda reading: reading.p)
    assert order[0].adjusted == pytest.approx(11 * order[0].p)
    assert order[1].adjusted == pytest.approx(max(order[0].adjusted, 10 * order[1].p))


def wide_times(per_doubling, at_64=-0.4, bend=0.0):
    random, found = np.random.default_rng(7), {}
    for seed in PLANNED.scale.seeds:
        own = random.normal(0, 0.05)
        for n, width in enumerate((64, 128, 256)):
            gap = at_64 + per_doubling * n + own * n + bend * (n == 1)
            found[Run(width, "original", BEST["original"], seed)] = 1000
            found[Run(width, "high", BEST["high"], seed)] = round(1000 * math.exp(gap))
    return found


def test_the_slope_is_over_the_seeds_and_the_middle_width_is_beside_the_line():
    study = study_of(rate_times() | wide_times(0.15, bend=0.1))
    named = {one.endpoint: one for one in read.scale(study)}
    slope = named["change per doubling of the width"]
    assert slope.estimate == pytest.approx(math.exp(0.15), rel=0.05) and slope.n == 8
    assert slope.low < slope.estimate < slope.high
    bend = named["middle width over the line between the others"]
    assert bend.estimate == pytest.approx(math.exp(0.1), rel=0.02)
    for n, width in enumerate((64, 128, 256)):
        endpoint = f"steps to 90 % of two and three hops, width {width}"
        expected = math.exp(-0.4 + 0.15 * n + 0.1 * (n == 1))
        assert named[endpoint].estimate == pytest.approx(expected, rel=0.1)
    alone = study_of(rate_times() | {r: t for r, t in wide_times(0.1).items() if r.width < 256})
    assert not any("doubling" in one.endpoint for one in read.scale(alone))


@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(-1, 1), st.floats(-1, 1)), min_size=1))
def test_slopes_and_bends_are_those_of_a_fitted_line(values):
    logs = {
        width: {str(seed): gaps[n] for seed, gaps in enumerate(values)}
        for n, width in enumerate((64, 128, 256))
    }
    order = sorted(range(len(values)), key=str)
    fitted = [np.polyfit([6, 7, 8], values[seed], 1)[0] for seed in order]
    assert read.slopes(logs) == pytest.approx(fitted, abs=1e-9)
    bends = [values[seed][1] - (values[seed][0] + values[seed][2]) / 2 for seed in order]
    assert read.bends(logs) == pytest.approx(bends, abs=1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"parameters": {"rate": 0.003}}, "rate 0.003 is none of the plan's"),
        ({"parameters": {"arm": "low"}}, "arm low is none of the plan's"),
        ({"parameters": {"seed": 7}}, "seed 7 is none of the plan's"),
        ({"parameters": {"width": 32}}, "width 32 is none of the plan's"),
        ({"recipe": {"exam": "other"}}, r"\(exam: other, not exam-learning-2026-11\)"),
        ({"recipe": {"steps": 400}}, r"\(steps: 400, not 4000\)"),
        ({"text": "{"}, "not a readable record"),
        ({"stage": "hops"}, "not a run record, metrics"),
    ],
)
def test_a_record_that_is_not_the_plan_s_is_refused_in_one_line(tmp_path, change, message):
    run = Run(64, "high", 0.001, 41)
    made = record_of(run, 100, 200)
    made["parameters"] |= change.get("parameters", {})
    made["metrics"]["recipe"] |= change.get("recipe", {})
    made["stage"] = change.get("stage", made["stage"])
    (tmp_path / f"{run.name}.json").write_text(change.get("text") or as_text(made))
    with pytest.raises(ValueError, match=message) as error:
        read.load(PLANNED, tmp_path)
    assert "\n" not in str(error.value) and run.name in str(error.value)


def test_the_rate_alone_and_high_at_each_rate_are_compared_on_the_seeds_that_choose():
    compared = {(row.endpoint, row.contrast): row for row in read.at_rates(study_of(rate_times()))}
    at = f"{read.PLANNED_ENDPOINT} at a learning rate of"
    # Original learns at 1000 at its best rate, 0.002, and at 1500 at the others; High at 0.001
    assert compared[f"{at} 0.001", "high / original"].estimate == pytest.approx(1000 / 1500)
    assert compared[f"{at} 0.002", "high / original"].estimate == pytest.approx(1500 / 1000)
    alone = compared[f"{at} 0.001", "original at its best rate / original at this rate"]
    assert alone.estimate == pytest.approx(1000 / 1500)
    assert alone.n == len(PLANNED.rates.seeds)
    few = rate_times()
    few.popitem()
    few.pop(PLANNED.rate_runs()[0])
    assert read.at_rates(study_of(few)) == []
