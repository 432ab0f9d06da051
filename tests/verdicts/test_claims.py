"""The outcome of a claim follows from its measurements: the five outcomes, their error rates, and
what readers get.
"""

import re
from dataclasses import replace
from itertools import product
from math import inf

import example_records as examples
import numpy as np
import pytest
from scipy import stats

from companion import verdicts
from companion.paper import numbers
from companion.publication import cli
from companion.records import tracked
from companion.setup import paths
from companion.setup.tasks_and_metrics import GLUE
from companion.statistics import Error, Estimate, mean_interval, trajectories
from companion.verdicts import attention, gtd, outcomes, planned, scores
from companion.verdicts import studies as reading
from companion.verdicts.claims_and_measurements import Claim, measured
from companion.verdicts.outcomes import CONTRADICTED, IMPRECISE, NO_EFFECT, NOT_RUN, SUPPORTED

GAIN = Claim(
    id="gain",
    title="A gain",
    sentence="A gains.",
    place="Sec. 1",
    endpoint="score",
    unit="points",
    direction=1,
    margin=1.0,
    rule="one",
)
ALL, MOST = (GAIN.model_copy(update={"rule": rule}) for rule in ("all", "most"))
NINE = MOST.model_copy(update={"parts": 9})
WITHIN = GAIN.model_copy(update={"direction": 0, "reference": 1.0, "margin": 0.1})


def known(value, error=0.1, n=3, freedom=inf):
    return measured("", "", Estimate.of(value, Error(((error, freedom),)), n), f"{value}")


# 1.7 standard errors: one-sided 4.5 %
BARELY, UP, DOWN = known(1.7, 1.0), known(1.0), known(-1.0)


def over(values):
    return measured("", "", mean_interval(values))


def studies_of(**records):
    return verdicts.Studies(records, numbers.load())


def both(algorithms=("original", "high"), seeds=(1, 2, 3), make=examples.attention, model="mini"):
    """Runs of each algorithm and seed."""
    return [make(model, name, seed) for name in algorithms for seed in seeds]


@pytest.fixture(scope="module")
def studies():
    return verdicts.tracked()


@pytest.fixture(scope="module")
def rows():
    return {(row.claim.id, row.study): row for row in verdicts.decided()}


@pytest.mark.parametrize(
    ("claim", "value", "error", "expected"),
    [
        (GAIN, 0.5, 0.1, SUPPORTED),
        (GAIN, -0.5, 0.1, CONTRADICTED),
        (GAIN, 0.1, 0.1, NO_EFFECT),
        (GAIN, 0.5, 1.0, IMPRECISE),
        (GAIN, 3.0, 1.0, SUPPORTED),
        (WITHIN, 1.01, 0.02, SUPPORTED),
        (WITHIN, 1.3, 0.02, CONTRADICTED),
        (WITHIN, 0.7, 0.02, CONTRADICTED),
        (WITHIN, 1.1, 0.02, IMPRECISE),
    ],
)
def test_one_measurement_is_decided_by_its_interval_and_the_margin(claim, value, error, expected):
    assert (
        outcomes.decide(claim, [known(value, error)]) == expected
        and outcomes.decide(claim, []) == NOT_RUN
    )
    if claim.direction:
        opposite = claim.model_copy(update={"direction": -1})
        assert outcomes.decide(opposite, [known(-value, error)]) == expected


@pytest.mark.parametrize(
    ("claim", "parts", "outcome"),
    [
        # no correction
        (ALL, [BARELY] * 5, SUPPORTED),
        (ALL, [BARELY] * 4 + [known(1.0, 1.0)], IMPRECISE),
        # 2.3 %: not after the five that could fail
        (ALL, [known(5.0)] * 4 + [known(-2.0, 1.0)], IMPRECISE),
        (ALL, [known(5.0)] * 4 + [known(-3.0, 1.0)], CONTRADICTED),
        (NINE, [UP] * 5 + [DOWN] * 4, SUPPORTED),
        (NINE, [UP] * 4 + [DOWN] * 5, CONTRADICTED),
        # fewer than most of nine were run
        (NINE, [UP] * 4, IMPRECISE),
        # five of nine at 5 % each would be found by chance
        (NINE, [BARELY] * 9, IMPRECISE),
    ],
)
def test_all_is_an_intersection_union_test_and_most_a_partial_conjunction_of_the_named_parts(
    claim, parts, outcome
):
    assert outcomes.decide(claim, parts) == outcome


def test_where_one_of_all_parts_was_measured_it_is_tested_as_one(monkeypatch):
    three = ALL.model_copy(update={"parts": 3})
    for rows, outcome in (
        ([BARELY], IMPRECISE),
        ([known(2.1, 1.0)], SUPPORTED),
        ([BARELY, known(5.0)], SUPPORTED),
    ):
        monkeypatch.setattr(outcomes, "measurements", lambda claim, studies, rows=rows: rows)
        (found,) = outcomes.of_claim(three, studies_of())
        assert (found.outcome, outcomes.of_part(found.claim, BARELY) == SUPPORTED) == (
            outcome,
            len(rows) > 1,
        )


def test_the_part_that_is_shown_holds_its_claim_back_most():
    bare = [
        measured("", "", Estimate(value, np.nan, np.nan, 1), f"{value}")
        for value in (0.8, -0.5, 1.0)
    ]
    assert verdicts.Verdict(ALL, "", "", IMPRECISE, tuple(bare)).weakest.estimate == -0.5
    # 0.93 lies nearer to the margin of 0.1
    near = known(0.93, 0.01), known(1.02, 0.01)
    assert verdicts.Verdict(WITHIN, "", "", SUPPORTED, near).weakest.estimate == 0.93


def rates(claim, truths, trials, seeds=5):
    """How often each outcome comes out for parts with these true values and a spread of 1."""
    random = np.random.default_rng(7)
    found = [
        outcomes.decide(claim, [over(random.normal(truth, 1, seeds)) for truth in truths])
        for _ in range(trials)
    ]
    return {name: found.count(name) / trials for name in outcomes.OUTCOMES}


@pytest.mark.parametrize("trials", [200, pytest.param(2000, marks=pytest.mark.nightly)])
def test_outcomes_are_wrong_no_more_often_than_they_say(trials):
    wide = 0.05 + 3 * np.sqrt(0.05 * 0.95 / trials)
    none = rates(GAIN, [0.0], trials)
    assert none[SUPPORTED] + none[CONTRADICTED] < wide
    # the part without an effect decides
    assert rates(ALL, [0.0, 5.0, 5.0], trials)[SUPPORTED] < wide
    # not even one of three fails by chance
    assert rates(ALL, [0.0, 0.0, 0.0], trials)[CONTRADICTED] < wide
    assert rates(MOST, [0.0, 0.0, 5.0], trials)[SUPPORTED] < wide
    assert rates(MOST, [0.0, 0.0, 0.0], trials)[CONTRADICTED] < wide
    # at the margin itself
    assert rates(GAIN, [1.0], trials, seeds=20)[NO_EFFECT] < wide
    # and where there is none it is found
    assert rates(GAIN, [0.0], trials, seeds=20)[NO_EFFECT] > 0.9


@pytest.mark.parametrize(
    ("claim", "value", "error", "outcome", "sign"),
    [
        (GAIN, 0.5, 0.1, SUPPORTED, -1),
        (GAIN, 0.5, 1.0, IMPRECISE, 1),
        (WITHIN, 1.1, 0.02, IMPRECISE, -1),
    ],
)
def test_a_move_of_the_estimate_gives_another_outcome(claim, value, error, outcome, sign):
    part = known(value, error)
    moves = (sign * (outcomes.change_to_open(claim, part) + step) for step in (-1e-6, 1e-6))
    near, far = (known(value + move, error) for move in moves)
    assert (
        outcomes.of_part(claim, part)
        == outcomes.of_part(claim, near)
        == outcome
        != outcomes.of_part(claim, far)
    )


def test_no_two_measurements_of_a_claim_have_one_place_and_what_they_are_without_is_named_for_readers(
    studies,
):
    for claim in verdicts.claims().values():
        places = [row.place for row in outcomes.measurements(claim, studies)]
        assert len(places) == len(set(places)), claim.id
    models = ["Mini (4 × 64)", "Mini (4 × 128)", "Medium (8 × 128)", "Mini", "Small", "Medium"]
    named = {
        "convergence": [f"BERT-{model}" for model in models],
        "low-gtd": ["seeds with a pair of two machines"],
    }
    for claim, expected in (named | {"gtd-good-range": ["ElemMul"]}).items():
        decided = outcomes.of_claim(verdicts.claims()[claim], studies)
        assert verdicts.sensitivity(decided)["left out"]["Left out"].tolist() == expected


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "study: scratch}",
            "study: nothing}",
            "sparsity-share.margin: the plan has none of 'nothing'",
        ),
        ("GTD of each layer", "GTD", "gtd-mean.margin: the plan has none of 'scratch GTD'"),
        ("  margin:", "  margn:", "claims.yaml: gains.margn: Extra inputs"),
    ],
)
def test_a_misspelt_key_and_a_margin_that_the_plan_does_not_have_are_refused_in_one_line(
    tmp_path, old, new, said
):
    text = (paths.root() / "data" / "claims.yaml").read_text(encoding="utf-8")
    with pytest.raises(ValueError, match=f"{said}[^\n]*$"):
        verdicts.claims(paths.write_text(tmp_path / "claims.yaml", text.replace(old, new, 1)))


@pytest.mark.parametrize(
    ("measure", "said"),
    [
        (
            {"by": "attention.nothing"},
            "gain: measure: no function 'attention.nothing' in companion/verdicts",
        ),
        ({"by": "attention.step", "numbr": "gtd"}, "gain: measure: .*numb"),
        ({"number": "gtd"}, "measure: no function None"),
    ],
)
def test_a_measurement_that_there_is_not_or_takes_no_such_argument_is_refused(measure, said):
    with pytest.raises(ValueError, match=said):
        outcomes.measurements(GAIN.model_copy(update={"measure": measure}), studies_of())


def test_the_multi_hop_gain_is_that_of_the_answers_themselves(studies, rows):
    (record,) = [run for run in studies.records["stories"] if run["stage"] == "beyond"]
    means = {}
    for run in record["metrics"]["multihop"]:
        right = [np.mean(answers) for hops, answers in run["outcomes"].items() if int(hops) > 1]
        means.setdefault((run["algorithm"], run["seed"]), []).append(100 * np.mean(right))
    gaps = [np.mean(means["high", seed]) - np.mean(means["original", seed]) for seed in range(21)]
    row = rows["multihop-gain", "stories"]
    assert row.parts[0].estimate == pytest.approx(np.mean(gaps)) and row.outcome == SUPPORTED
    # looked at three times
    assert row.parts[0].low < np.mean(gaps) - 2.086 * np.std(gaps, ddof=1) / np.sqrt(21)


@pytest.mark.parametrize("study", ["narrow", "scratch"])
def test_the_step_is_measured_over_seeds_on_every_task(studies, rows, study):
    found = {}
    for run in studies.of("attention", algorithm="high")[study]:
        found.setdefault(run["parameters"]["task"], []).append(
            run["metrics"]["changes"]["gtd"]["change"]
        )
    own = {one.value: one for one in map(mean_interval, found.values())}
    for part, value in zip(
        sorted(rows["step-gtd", study].parts, key=lambda part: part.estimate), sorted(own)
    ):
        assert (part.estimate, part.n) == (pytest.approx(value), own[value].seeds)
        assert (part.low, part.high) == pytest.approx((own[value].low, own[value].high))


def test_a_record_whose_change_is_no_number_is_left_out_of_the_step():
    half, runs = {"softmax": 2.0, "refined": 1.0, "change": -1.0}, both(("high",), range(3))
    for run, change in zip(runs, (half, half, dict.fromkeys(half))):
        run["metrics"]["changes"] = {"column_mass_maximum": change}
    (row,) = verdicts.attention.step(studies_of(own=runs), "column_mass_maximum", ratio=True)
    assert row.n == 2 and row.estimate == pytest.approx(0.5)


def test_heads_of_one_run_are_no_draws_of_their_own():
    """None of 288 heads of 18 runs is undefined: less than 18.5 % of a next run's, and not less
    than 1.3 %.
    """
    runs = both(("original",), range(18))
    (none,) = verdicts.gtd.undefined(studies_of(own=runs))
    assert (none.estimate, none.low, none.n) == (0, 0, 18) and none.high == pytest.approx(
        1 - 0.025 ** (1 / 18)
    )
    for run in runs[:9]:
        run["metrics"]["nan"] = {"refined": {"clustering_barrat": 10**6}}
    (half,) = verdicts.gtd.undefined(studies_of(own=runs))
    assert half.estimate == 0.5 and (half.low, half.high) == pytest.approx(
        stats.binomtest(9, 18).proportion_ci()
    )


def test_one_decoder_borrows_its_spread_from_encoders_of_one_size_at_a_time():
    runs = [
        examples.pretrain(*run)
        for run in product(("mini", "small"), ("original", "high"), (42, 43))
    ]
    # the sizes lie far apart, the algorithms do not
    for run in runs:
        seed = run["parameters"]["seed"]
        run["metrics"]["perplexity"] = {"mini": 100.0, "small": 5.0}[run["parameters"]["model"]]
        run["metrics"]["perplexity"] *= 1 + 0.01 * (
            seed == 42 and run["parameters"]["algorithm"] == "high"
        )
    decoders = both(seeds=[42], make=examples.decoder, model="gpt2-mini")
    # all, and without one of small's
    for kept in (runs, runs[:4] + runs[5:]):
        (part,) = verdicts.training.decoders(studies_of(own=[*kept, *decoders]))
        assert 0 < part.high - part.low < 0.2 and "encoders" in part.method
    apart = both(seeds=(43, 44, 45), make=examples.decoder, model="gpt2-mini")
    # where another study has such decoders, theirs is nearer
    for run in apart:
        high, seed = run["parameters"]["algorithm"] == "high", run["parameters"]["seed"]
        run["metrics"]["perplexity"] = 50.0 + 0.001 * seed * high
    own, _ = verdicts.training.decoders(studies_of(own=[*runs, *decoders], others=apart))
    assert (
        (own.study, own.n) == ("own", 1)
        and 0 < own.high - own.low < 0.001
        and "decoders" in own.method
    )


def test_the_loss_of_a_run_that_was_repeated_takes_its_place_in_all_that_read_it(studies):
    every = [
        (row.claim.id, part)
        for row in verdicts.decided()
        for part in (*row.parts, *row.aside)
        if part.again
    ]
    # read such a loss
    entering = {"convergence", "regularizers-perplexity", "gtd-good-range", "gtd-bad-range"}
    # borrow the spread of such losses
    entering |= {"decoder-perplexity", "decoder-perplexity-size"}
    assert {claim for claim, _ in every} == entering | {"convergence-branched"}
    found = {(claim, *part.place): part for claim, part in every}
    part = found["convergence", "stories", "", "pairs_end", ""]
    # High at 0.2, seeds 42 to 44
    changes = [3.093483 - 3.093013, 3.329763 - 3.321521, 3.520078 - 3.523949]
    assert part.again.estimate == pytest.approx(part.estimate + sum(changes) / part.n, abs=1e-5)
    part = found["gtd-bad-range", "narrow", "mini-narrow", "", ""]
    runs, points = {run["name"]: run for run in studies.records["narrow"]}, []
    second = tracked.repeats().query("study == 'narrow'").set_index("run")["second"]
    for run in (runs[name] for name in part.records if name.startswith("06-attention")):
        own, matrices = run["parameters"], run["metrics"]["matrices"]
        pretrained = f"04-pretrain-{own['model']}-{own['algorithm']}-{own['seed']}"
        gtd = np.ravel((matrices.get("refined") or matrices["raw"])["gtd"])
        loss = second.get(pretrained, np.log(runs[pretrained]["metrics"]["perplexity"]))
        points.append((loss, np.mean((gtd < 0.5) | (gtd > 0.85)), own["algorithm"], own["seed"]))
    losses, shares, *factors = zip(*points)
    assert part.again.estimate == pytest.approx(
        trajectories.across_runs(losses, shares, factors).r, abs=1e-6
    )


@pytest.mark.parametrize(
    ("claim", "value", "error", "seeds"),
    [
        (WITHIN, 1.118, 0.0266, 9),
        (WITHIN, 1.05, 0.04, 9),
        (WITHIN, 1.15, 0.0344, 9),
        (WITHIN, 0.93, 0.05, 9),
        (ALL.model_copy(update={"margin": 0.1}), 1.0, 0.9, 4),
    ],
)
def test_the_first_number_of_seeds_that_decides_a_part_is_named(claim, value, error, seeds):
    part, more = known(value, error, seeds, seeds - 1), range(seeds + 1, 1000)
    # decided one by one
    shrunk = (known(value, error * (seeds / n) ** 0.5, n, n - 1) for n in more)
    first = next((part.n for part in shrunk if outcomes.of_part(claim, part) != IMPRECISE), np.nan)
    assert outcomes.of_part(claim, part) == IMPRECISE
    assert outcomes.seeds_to_decide(claim, part) == pytest.approx(first, nan_ok=True)


def test_without_an_algorithm_a_number_is_that_of_the_others(studies, rows):
    (without,) = rows["clustering-barrat", "narrow"].without_one
    by_seed = {}
    for run in studies.of("attention", task="race")["narrow"]:
        if run["parameters"]["algorithm"] in ("original", "high", "low"):
            matrix = run["metrics"]["matrices"].get("refined") or run["metrics"]["matrices"]["raw"]
            pair = [np.ravel(matrix[key]) for key in ("gtd", "clustering_barrat")]
            by_seed.setdefault(run["parameters"]["seed"], []).append(
                np.arctanh(np.corrcoef(pair)[0, 1])
            )
    assert without.without == "elemmul"
    assert without.estimate == pytest.approx(
        np.tanh(np.mean([np.mean(each) for each in by_seed.values()]))
    )


def test_one_seed_borrows_a_spread_or_has_no_interval():
    runs = both(model="mini-narrow")
    one = [run for run in runs if run["parameters"]["seed"] == 1]
    claim = verdicts.claims()["sparsity-share"]
    (lent,) = [
        part
        for part in outcomes.measurements(claim, studies_of(a=runs, b=one))
        if part.study == "b"
    ]
    (open_,) = outcomes.measurements(claim, studies_of(b=one))
    assert np.isfinite([lent.low, lent.high]).all() and re.search(r"\ba\b", lent.method)
    assert (open_.low, open_.high) == (-inf, inf)


@pytest.mark.parametrize(("seeds", "found"), [(0, [(10, 2.45)]), (8, [(2, 2.85)]), (10, [])])
def test_a_planned_mean_over_tasks_takes_the_seeds_that_have_every_planned_task(seeds, found):
    """RTE of High is not there for some of the ten seeds; RACE, which the plan does not name, is
    there for three.
    """
    runs = examples.planned()
    more = [
        run | {"parameters": run["parameters"] | {"task": "race"}}
        for run in runs
        if run["parameters"]["task"] == "rte" and run["parameters"]["seed"] < 3
    ]
    lost = [
        run
        for run in runs
        if (run["parameters"]["arm"], run["parameters"]["task"]) == ("high", "rte")
    ][:seeds]
    own = [run for run in (*runs, *more) if run not in lost]
    rows = outcomes.measurements(
        verdicts.claims()["pretrain-from-scratch"], studies_of(retrofit=own)
    )
    assert [(row.n, pytest.approx(row.estimate)) for row in rows] == found


def sizes(own, *larger):
    """A record of notebook 12 on stories: pairs of (model, learning rate, seed, gap of High's
    loss).
    """

    def runs(model, rate, seed, gap):
        for strength, loss in ((0.0, 3.0), (0.2, 3.0 + gap)):
            curve = [{"step": step, "loss": loss} for step in (0, 100)]
            yield {
                "model": model,
                "learning_rate": rate,
                "strength": strength,
                "seed": seed,
                "curve": curve,
                "failed": None,
                "device": examples.DEVICE,
            }

    mini, others = ([run for one in pairs for run in runs(*one)] for pairs in (own, larger))
    found = examples.record("beyond", "mini", "high", 42, {"strengths": mini, "larger": others})
    return studies_of(stories=[found])


def test_two_learning_rates_of_a_size_are_no_two_seeds():
    """Small's two rates lie 2 nats apart; the seeds of one rate 0.02."""
    mini, medium = ("mini", None, 42, 0.0), ("medium", 1e-4, 42, 0.3)
    small = [("small", rate, 42, gap) for rate, gap in ((1e-4, 0.0), (1e-3, 2.0))]
    assert not [*verdicts.training.convergence_by_size(sizes([mini], medium, *small))]
    (part,) = verdicts.training.convergence_by_size(
        sizes([mini, ("mini", None, 43, 0.02)], medium, *small)
    )
    assert part.estimate == pytest.approx(-0.29) and part.error.parts[0][0] == pytest.approx(0.02)


def test_a_correlation_over_heads_is_no_surer_than_the_heads_of_a_run(monkeypatch):
    """Three seeds that agree to the last digit: Fisher's z of sixteen heads, over three seeds."""
    runs = both(("original",))
    monkeypatch.setattr(gtd, "fisher", lambda x, y: 0.5)
    heads = np.size(runs[0]["metrics"]["matrices"]["raw"]["gtd"])
    (part,) = verdicts.gtd.correlation(studies_of(own=runs), "indirect_entropy", "C19")
    reach = stats.norm.ppf(0.975) / np.sqrt(3 * (heads - 3))
    assert (part.low, part.high) == pytest.approx((np.tanh(0.5 - reach), np.tanh(0.5 + reach)))


def test_records_that_lack_what_a_claim_reads_are_no_measurement():
    timed, looked = examples.cost(), examples.attention()
    for way in timed["metrics"]["ways"].values():
        for phase in ("train", "train_no_dropout"):
            way[phase].pop("ratio_to_eager", None)
    looked["metrics"]["nan"] = {}
    decided = verdicts.verdicts(studies_of(smoke=[timed, looked]))
    found = {row.claim.id: row.outcome for row in decided}
    assert found["cost-eager"] == found["clustering-undefined"] == NOT_RUN
    assert set(found) == set(verdicts.claims())


def test_no_cell_of_the_table_is_long_and_two_rows_of_a_claim_and_scope_name_their_study():
    shown = verdicts.shown(verdicts.decided())
    assert shown.map(lambda cell: len(cell.split())).max(axis=None) <= 20
    assert not shown[shown["Scope"] != "–"].duplicated(["Claim", "Scope"]).any()


def test_the_command_shows_one_claim_and_refuses_another(capsys):
    assert cli.main(["claim", "multihop-cause"]) == 0
    shown = capsys.readouterr().out
    for named in (
        "High − Sinkhorn",
        "12-beyond-mini-quarter-42",
        "O'Brien-Fleming",
        "estimate moved by",
    ):
        assert named in shown
    assert cli.main(["claim", "multihop-gian"]) == 2
    said = capsys.readouterr().err
    assert (
        "no claim 'multihop-gian'; the nearest are multihop-gain, " in said
        and len(said.split(",")) == 3
    )


def test_a_planned_measurement_decides_at_its_analyses_alone_and_at_an_interim_one_by_a_wider_interval():
    first = over([2.0, 2.2, 1.8, 2.1, 1.9])
    interim, between, usual = (
        row.at_reading((5, 10)) for row in (first, over([2.0, 2.1, 1.9]), over([2.0, 2.1] * 5))
    )
    assert not interim.aside and interim.low < first.low and "O'Brien-Fleming" in interim.method
    assert between.aside and between.low == over([2.0, 2.1, 1.9]).low
    assert interim.high - interim.low > 1.5 * (first.high - first.low)
    assert usual.high - usual.low < 1.05 * (over([2.0, 2.1] * 5).high - over([2.0, 2.1] * 5).low)
    assert not over([2.0, 2.1, 1.9]).at_reading((5, 10), planned=False).aside


@pytest.mark.parametrize("trunks", [3, 5])
def test_branches_are_compared_within_their_trunk(trunks):
    """The trunks differ far more than their branches; before all of them are there nothing is
    decided.
    """
    gaps, runs = [-0.04, -0.05, -0.03, -0.04, -0.05], []
    for seed, gap in enumerate(gaps[:trunks]):
        ends = {"original": 4.0 + seed, "high": 4.0 + seed + gap, "uniform": 4.0 + seed}
        branches = [{"algorithm": name, "held_out": end} for name, end in ends.items()]
        runs.append(examples.record("branched", "mini-narrow", "", seed, {"branches": branches}))
    found, control = planned.branches(studies_of(branched=runs))
    assert (
        found.estimate == pytest.approx(np.mean(gaps[:trunks]))
        and control.estimate == 0
        and control.aside
    )
    claim = verdicts.claims()["convergence-branched"]
    assert (
        found.aside is (trunks < 5)
        and outcomes.decide(claim, [replace(found, aside=False)]) == SUPPORTED
    )


def across(x, y):
    runs = [
        examples.record("attention", "mini", *key, {})
        for key in product(("high", "low", "original"), range(4))
    ]
    (row,) = gtd._across("a", "mini", "", list(zip(runs, [None] * 12, x, y)))
    return row


def test_a_correlation_over_runs_has_the_interval_of_fewer_seeds_than_runs():
    row = across(*np.random.default_rng(0).normal(size=(2, 12)).tolist())
    # points, less what three algorithms and four seeds take, more the mean
    left = 12 - 6 + 1
    reach = stats.norm.isf(0.025) / np.sqrt(left - 3)
    assert np.arctanh([row.low, row.high]) == pytest.approx(
        np.arctanh(row.estimate) + np.array([-reach, reach])
    )


@pytest.mark.parametrize(("alike", "bounded"), [(6, True), (7, False), (10, False)])
def test_a_correlation_that_few_runs_make_has_no_interval(alike, bounded):
    row = across(
        [0.0] * alike + [*range(1, 13 - alike)], np.random.default_rng(1).normal(size=12).tolist()
    )
    assert row.bounded is bounded and np.isfinite(row.estimate)


def test_pairs_measured_on_two_machines_are_left_out_beside_the_number_that_has_them():
    def run(algorithm, seed, sparsity, machine, task="race"):
        found = {"matrices": {"raw": {"sparsity": [[sparsity]]}}}
        return examples.record("attention", "mini", algorithm, seed, found, task=task) | {
            "device": {"name": machine}
        }

    runs = [run("original", seed, 0.5, "A") for seed in range(4)]
    runs += [
        run("high", seed, 0.5 - gap, "B" if seed == 3 else "A")
        for seed, gap in enumerate((0.1, 0.2, 0.3, 1.0))
    ]
    every, alike = attention.gap(studies_of(narrow=runs), {"": "sparsity"})
    assert (every.estimate, every.n, every.aside) == (pytest.approx(-0.4), 4, False)
    assert (alike.estimate, alike.n, alike.without) == (
        pytest.approx(-0.2),
        3,
        attention.TWO_MACHINES,
    ) and alike.aside
    assert len([*attention.gap(studies_of(narrow=runs[:3] + runs[4:7]), {"": "sparsity"})]) == 1
    told = [*runs[:7], run("high", 3, 0.4, "A, AVX2")]
    assert len([*attention.gap(studies_of(narrow=told), {"": "sparsity"})]) == 1, (
        "no other machine than an early one"
    )
    told += [run("high", 4, 0.4, "A, AVX512"), run("original", 4, 0.5, "A, AVX512")]
    _, alike = attention.gap(studies_of(narrow=told), {"": "sparsity"})
    assert alike.n == 4, "an early machine may be either"
    runs += [
        run(side, seed, 0.5, "A", "squad") for side in ("original", "high") for seed in range(4)
    ]
    _, alike = attention.gap(studies_of(narrow=runs), {"": "sparsity"})
    assert set(alike.records) == {one["name"] for one in runs if one["parameters"]["seed"] != 3}, (
        "no run of that seed"
    )


def test_a_mean_of_tasks_with_one_seed_borrows_a_spread_as_of_tasks_apart():
    given = {42: (*GLUE, "race"), 43: ("race",), 44: ("race",)}
    runs = [
        examples.finetune("mini", side, seed, own)
        for side in ("high", "original")
        for seed, own in given.items()
    ]
    found = scores.Scores("a", "mini", runs, ("high", "original"))
    (row,) = found.measure("GLUE", dict.fromkeys(GLUE, 1 / len(GLUE)))
    variance, freedom = found.spread
    assert row.error.parts[0] == pytest.approx(((variance / len(GLUE)) ** 0.5, freedom))


@pytest.mark.parametrize(("own", "other"), [("first", "second"), ("second", "first")])
def test_the_loss_that_takes_a_runs_place_is_of_its_first_repetition_and_not_its_own(own, other):
    runs = tracked.repeats().query("study == 'stories'")
    row, *_, last = runs[runs["run"] == runs["run"][runs.duplicated("run")].iloc[0]].to_dict(
        "records"
    )
    run = examples.pretrain() | {"name": row["run"]}
    run["metrics"] = run["metrics"] | {"perplexity": np.exp(row[own])}
    (found,) = studies_of(stories=[run]).with_reruns().records["stories"]
    assert (
        np.log(found["metrics"]["perplexity"]) == pytest.approx(row[other])
        and last["second"] != row["second"]
    )


def test_a_publication_that_was_cut_off_is_no_study(monkeypatch, tmp_path):
    for name in ("narrow", ".narrow.k3v9"):
        (tmp_path / "data" / "results" / name).mkdir(parents=True)
    monkeypatch.setattr(reading.paths, "root", lambda: tmp_path)
    monkeypatch.setattr(reading, "load", lambda name: [])
    monkeypatch.setattr(reading.numbers, "load", lambda: None)
    assert [*reading.tracked().records] == ["narrow"]


def test_runs_on_other_items_are_no_measurement():
    runs = [
        examples.finetune(algorithm=name, seed=1, tasks=("race",)) for name in ("original", "high")
    ]
    runs[1]["metrics"]["tasks"]["race"] = examples.scores("race", 1, 0.1, items=100)
    assert [*verdicts.scores.gains(studies_of(a=runs))] == []
