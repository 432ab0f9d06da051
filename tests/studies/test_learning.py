"""The plan of the study `learning`, its runs and the order in which they are made."""

import math

import pytest
import torch
from click.testing import CliRunner

from companion import records
from companion.setup.studies import load_study
from companion.studies import plan
from companion.studies.hops import questions
from companion.studies.learning import arms, batches, design, run
from companion.studies.learning.design import Learning, Run

PLANNED = plan.section(plan.file(), "learning", Learning)
SMALL = PLANNED.changed(steps=4, every=2, layers=1, width=16, items=2, known=0.99, warmup=1)


@pytest.fixture
def small_stories(monkeypatch):
    """Stories of two hops, which a test can afford."""
    usual = load_study("stories").multihop
    few = usual.pretrain.changed(batch=4)
    monkeypatch.setattr(
        Learning,
        "stories",
        lambda self, width: usual.changed(items=self.items, hidden=width, heads=2, pretrain=few),
    )


def curve_of(*shares, every=50):
    return [
        {"step": every * n, "loss": 1.0, "accuracy": {"1": 1.0, "2": two, "3": three}}
        for n, (two, three) in enumerate(shares)
    ]


def write_record(out, planned, which, *shares):
    parameters = {"width": which.width, "arm": which.arm, "rate": which.rate, "seed": which.seed}
    made = records.Run("learning", study_name="learning", parameters=parameters)
    metrics = {"curve": curve_of(*shares), "seconds": 0.1, "failed": None}
    metrics["recipe"] = planned.recipe(which)
    return made.save(out / f"{which.name}.json", metrics)


def test_the_endpoint_is_the_mean_of_the_logs_and_ends_at_the_last_step(tmp_path):
    which = Run(64, "high", 0.001, 41)
    reached = write_record(tmp_path, PLANNED, which, (0.3, 0.3), (1.0, 0.3), (1.0, 0.9))
    two = 50 * (0.9 - 0.3) / 0.7
    expected = (math.log(two) + math.log(100)) / 2
    assert design.endpoint(PLANNED, reached) == pytest.approx(expected)
    never = write_record(tmp_path, PLANNED, which, (0.3, 0.3), (1.0, 0.3))
    expected = (math.log(two) + math.log(4000)) / 2
    assert design.endpoint(PLANNED, never) == pytest.approx(expected)


def test_every_planned_arm_is_known_and_no_seed_was_run_before():
    assert {*PLANNED.arms} == {*arms.ALGORITHMS, *arms.FORMS}
    hops = plan.studies()["hops"].model_extra["seeds"]
    earlier = {seed for _, _, seed in load_study("stories").multihop.runs()} | {*hops}
    seeds = [*PLANNED.seeds, *PLANNED.rates.seeds]
    assert earlier.isdisjoint(seeds) and len({*seeds}) == len(seeds) == 34
    assert PLANNED.exam not in (load_study("stories").multihop.exam, "exam-2026-11")
    assert PLANNED.warmup_of("warmup-1000") == 1000 and PLANNED.warmup_of("high") == 200


def write_rates(out, planned, runs, times):
    """Write records in which an arm reaches both hops at a step that its rate has."""
    for which in runs:
        checks = times[which.arm, which.rate]
        write_record(out, planned, which, *[(0.3, 0.3)] * checks, (0.9, 0.9))


TIMES = {("original", 0.0005): 9, ("original", 0.001): 6, ("original", 0.002): 4}
TIMES |= {("original", 0.004): 4, ("high", 0.0005): 5, ("high", 0.001): 3}
TIMES |= {("high", 0.002): 4, ("high", 0.004): 8}


def test_the_best_rate_is_the_lowest_of_the_rates_with_the_lowest_mean(tmp_path):
    runs = PLANNED.rate_runs()
    write_rates(tmp_path, PLANNED, runs, TIMES)
    best = design.best_rates(PLANNED, runs, tmp_path)
    assert best == {"original": 0.002, "high": 0.001}


def test_the_runs_come_in_the_order_of_the_plan_and_take_the_rates_of_its_records(tmp_path):
    write_rates(tmp_path, PLANNED, PLANNED.rate_runs(), TIMES)
    write_rates(tmp_path, PLANNED, PLANNED.wide_rate_runs(), TIMES | {("high", 0.004): 1})
    stages = [stage.runs for stage in design.stages(PLANNED, tmp_path)]
    assert [len(runs) for runs in stages] == [80, 24, 132, 32, 32, 24, 132]
    _, primary, secondary, _, wide, later, rest = stages
    assert {(one.arm, one.rate) for one in primary} == {("original", 0.002), ("high", 0.001)}
    assert {one.rate for one in secondary + rest} == {0.002}
    assert {one.arm for one in secondary} == {*PLANNED.arms} - {"original"}
    assert {(one.width, one.rate) for one in wide if one.arm == "high"} == {
        (128, 0.004),
        (256, 0.004),
    }
    assert {one.seed for one in primary} == {*range(41, 53)}
    assert {one.seed for one in later} == {*range(53, 65)}


def test_rates_are_not_chosen_from_records_of_which_some_are_missing(tmp_path):
    runs = PLANNED.rate_runs()
    write_rates(tmp_path, PLANNED, runs[1:], TIMES)
    with pytest.raises(design.MissingRuns, match=f"1 of the 80 runs .* {runs[0].name} first"):
        design.best_rates(PLANNED, runs, tmp_path)


def test_the_batches_are_the_stories_of_the_seed_whether_drawn_or_read(tmp_path):
    stories = load_study("stories").multihop
    stories = stories.changed(pretrain=stories.pretrain.changed(batch=3))
    drawn = [*batches.batches(stories, 7, 102, tmp_path)]
    read = [*batches.batches(stories.changed(hidden=32), 7, 102, tmp_path)]
    assert len(drawn) == len(read) == 102 and len([*tmp_path.glob("*.npy")]) == 2
    every = questions.Stories(stories, 7, 306)
    for step in (0, 99, 101):
        items = [every[3 * step + n] for n in range(3)]
        for name, values in questions.stacked(items).items():
            assert torch.equal(drawn[step][name], values), name
            assert torch.equal(read[step][name], values), name


def test_two_runs_of_one_seed_have_the_same_numbers(tmp_path, small_stories):
    which = Run(16, "damped", 0.002, 41)
    first = run.train(SMALL, which, tmp_path)
    second = run.train(SMALL, which, tmp_path)
    assert first["curve"] == second["curve"]
    assert [check["step"] for check in first["curve"]] == [0, 2, 4]
    another = run.train(SMALL, Run(16, "damped", 0.002, 42), tmp_path)
    assert another["curve"] != first["curve"]


def test_a_run_ends_when_both_hops_have_been_known(tmp_path, small_stories):
    planned = SMALL.changed(known=0.0)
    made = run.train(planned, Run(16, "high", 0.002, 41), tmp_path)
    assert [check["step"] for check in made["curve"]] == [0, 2]
    once = curve_of((0.995, 0.2), (0.2, 0.995))
    assert run.learned(SMALL, once) and not run.learned(SMALL, once[:1])


def test_a_run_whose_loss_is_no_number_says_so_and_counts_as_the_last_step(
    tmp_path, monkeypatch, small_stories
):
    monkeypatch.setattr(run.trainer, "adamw", broken_after(run.trainer.adamw))
    made = run.train(SMALL, Run(16, "original", 0.004, 41), tmp_path)
    assert made["failed"]["reason"] == "the loss is no number at step 2"
    endpoint = design.endpoint(SMALL, {"metrics": made})
    assert endpoint == pytest.approx(math.log(SMALL.steps))


def broken_after(usual):
    """An optimizer whose first step spoils the weights."""

    def make(network, rate, decay):
        optimizer = usual(network, rate, decay)

        def spoil(*_):
            next(network.parameters()).data.fill_(math.nan)

        optimizer.register_step_post_hook(spoil)
        return optimizer

    return make


def test_matrices_decay_and_biases_and_norms_do_not():
    network = run.encoder(SMALL, SMALL.stories(16), Run(16, "original", 0.002, 41))
    decayed, kept = run.trainer.adamw(network, 0.002, 0.01).param_groups
    names = {id(weights): name for name, weights in network.named_parameters()}
    assert decayed["weight_decay"] == 0.01 and kept["weight_decay"] == 0.0
    assert all("bias" in names[id(one)] or "LayerNorm" in names[id(one)] for one in kept["params"])
    assert len(decayed["params"]) + len(kept["params"]) == len(names)
    assert all("embeddings" in names[id(one)] or one.ndim == 2 for one in decayed["params"])


def small_plan(folder, **changes):
    """The plan with a study `learning` of one rate and few, short runs."""
    text = plan.file().read_text()
    before, mark, section = text.partition("\nlearning:\n")
    usual = {
        "  steps: 4000": "  steps: 4",
        "  every: 50 ": "  every: 2 ",
        "  items: 100": "  items: 2",
        "  layers: 4": "  layers: 1",
        "  width: 64": "  width: 16",
        "[0.0005, 0.001, 0.002, 0.004]": "[0.001]",
        "[901, 902, 903, 904, 905, 906, 907, 908, 909, 910]": "[901, 902]",
    }
    for old, new in (usual | changes).items():
        assert section.count(old) >= 1, old
        section = section.replace(old, new, 1)
    file = folder / "mine.yaml"
    file.write_text(before + mark + section)
    return file


def asked(file, out, only=""):
    command = ["--plan", str(file), "--out", str(out), "--only", only]
    return CliRunner().invoke(run.main, command)


def test_the_command_makes_one_record_a_run_and_makes_none_twice(tmp_path, small_stories):
    file, out = small_plan(tmp_path), tmp_path / "records"
    result = asked(file, out, "-16-.*-90[12]$")
    assert result.exit_code == 0, result.output
    names = [
        f"12-learning-16-{arm}-0.001-{seed}" for arm in ("high", "original") for seed in (901, 902)
    ]
    assert sorted(path.stem for path in out.glob("*.json")) == sorted(names)
    made = records.read(out / f"{names[0]}.json")
    assert made["parameters"] == {"width": 16, "arm": "high", "rate": 0.001, "seed": 901}
    assert made["device"]["precision"] == "fp32" and made["device"]["threads"] == 1
    kept = {path: path.stat().st_mtime_ns for path in out.glob("*.json")}
    result = asked(file, out, "16-.*-41$")
    assert result.exit_code == 0, result.output
    assert kept.items() <= {path: path.stat().st_mtime_ns for path in out.glob("*.json")}.items()
    arms_of_41 = {path.stem.removesuffix("-0.001-41") for path in out.glob("*-41.json")}
    assert arms_of_41 == {f"12-learning-16-{arm}" for arm in PLANNED.arms}


def test_a_run_that_was_cut_begins_again_and_says_so(tmp_path, small_stories):
    file, out = small_plan(tmp_path), tmp_path / "records"
    work = tmp_path / "work" / "12-learning-16-high-0.001-901"
    work.mkdir(parents=True)
    (work / "begun").touch()
    result = asked(file, out, "high-0.001-901")
    assert result.exit_code == 0, result.output
    assert "12-learning-16-high-0.001-901 was cut: it begins again from its seed" in result.output
    assert not (work / "begun").exists() and len([*out.glob("*.json")]) == 1


@pytest.mark.parametrize(
    ("only", "changes", "message"),
    [
        ("high-0.003", {}, "0.003: the plan has no run of such a name, arm or rate"),
        ("low", {}, "low: the plan has no run of such a name, arm or rate"),
        ("(", {}, "unterminated"),
        ("-41$", {"[901, 902]": "[903]"}, "runs that choose the rates are missing"),
        ("", {"    damped: {}": "    dumped: {}"}, "learning.arms: 'dumped' is none of"),
        ("", {"    arms: [original, high]": "    arms: [low]"}, "low is none of the arms"),
        ("", {"  every: 2 ": "  every: 3 "}, "every: 3 does not divide the 4 steps"),
        (
            "",
            {"  exam: exam-learning-2026-11": "  exam: other"},
            "by another recipe than the plan's",
        ),
        ("", {"known: 0.9": "known: 2"}, "key 'learning.known'"),
    ],
)
def test_what_the_plan_has_not_is_refused_in_one_line(
    tmp_path, small_stories, only, changes, message
):
    out = tmp_path / "records"
    planned = plan.section(small_plan(tmp_path), "learning", Learning)
    write_rates(out, planned, planned.rate_runs(), {("original", 0.001): 1, ("high", 0.001): 1})
    wide = planned.wide_rate_runs()
    write_rates(out, planned, wide, {("original", 0.001): 1, ("high", 0.001): 1})
    result = asked(small_plan(tmp_path, **changes), out, only)
    assert result.exit_code == 1 and message in result.output
    assert len(result.output.strip().splitlines()) == 1


def test_an_unreadable_record_is_refused_by_its_name(tmp_path, small_stories):
    out = tmp_path / "records"
    out.mkdir()
    (out / "12-learning-16-original-0.001-901.json").write_text("{")
    result = asked(small_plan(tmp_path), out, "original-0.001-901")
    assert result.exit_code == 1 and "901.json: not a readable record" in result.output
    assert len(result.output.strip().splitlines()) == 1
