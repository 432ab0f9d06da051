"""The study `lockstep`: its token file, branches that advance in step, and its records."""

import re

import pytest
import torch
from click.testing import CliRunner
from small_hub import word_tokenizer, write_split

from companion import records
from companion.data import corpora, sources
from companion.data.splits import DataError
from companion.setup import paths
from companion.statistics.seeds import branch_gaps
from companion.studies import plan
from companion.studies.lockstep import design, run, text
from companion.studies.lockstep.design import Lockstep

TEXTS = [f"story number {n} has a hat and a cat" for n in range(60)]
# held-out sequences that a source has, or none
HELD_OUT = {"a/long": 40, "b/short": 3, "c/none": 0}
PLANNED = plan.section(plan.file(), "lockstep", Lockstep)
SMALL = PLANNED.changed(
    model="mini-quarter",
    corpus=dict.fromkeys(HELD_OUT, 1.0),
    length=8,
    batch=4,
    held_out=12,
    warmup=6,
    turn=2,
    trunks=[71, 72],
    seconds=100,
    timing=10,
    checks=2,
)


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "cache", lambda: tmp_path / "cache")
    monkeypatch.setattr(text, "make_tokenizer", lambda *given: word_tokenizer(*TEXTS))
    for name, count in HELD_OUT.items():
        write_split(tmp_path, name, "default", "train", [{"text": name + " " + t} for t in TEXTS])
        if count:
            # of six tokens, as a sequence without its marks
            rows = [{"text": f"{name[0]} cat number {n} a"} for n in range(count)]
            write_split(tmp_path, name, "default", "validation", rows)
    return sources.FolderSource(tmp_path)


@pytest.fixture
def file(source, tmp_path):
    return text.write(SMALL, source, tmp_path / "text.tar.bz2")


class Clock:
    """A clock that goes on with every training step."""

    def __init__(self, a_step):
        self.now, self.a_step = 0.0, a_step

    def read(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock, usual = Clock(0.5), run.Learner.step

    def step(learner, batch, rate):
        usual(learner, batch, rate)
        clock.now += clock.a_step

    monkeypatch.setattr(run, "monotonic", clock.read)
    monkeypatch.setattr(run.Learner, "step", step)
    return clock


def test_held_out_sequences_are_of_every_source_and_a_short_one_comes_whole(file):
    tokenizer, train, held_out = text.read(SMALL, file)
    assert held_out.about["sources"] == {"a/long": 9, "b/short": 3}
    first = tokenizer.convert_tokens_to_ids(["a", "b"])
    whose = [int(held_out[n]["input_ids"][1]) for n in range(len(held_out))]
    assert whose == [first[0]] * 9 + [first[1]] * 3
    # evenly spaced over the long one
    numbers = [tokenizer.decode(held_out[n]["input_ids"][4]) for n in range(9)]
    assert [int(number) for number in numbers] == [n * 40 // 9 for n in range(9)]
    assert train.tokens > 1000 and len(train[0]["input_ids"]) == 8


def test_a_file_of_another_plan_is_refused_in_one_line(file):
    for changes, said in (
        ({"length": 9}, "length 8, not 9"),
        ({"held_out": 13}, "held_out 12, not 13"),
        ({"corpus": {"a/long": 1.0}}, "corpus .*, not {'a/long': 1.0}"),
    ):
        with pytest.raises(DataError, match=f"{said}: write it for this plan") as error:
            text.read(SMALL.changed(**changes), file)
        assert "\n" not in str(error.value)


def test_texts_without_held_out_text_are_refused(source):
    planned = SMALL.changed(corpus={"c/none": 1.0})
    with pytest.raises(DataError, match="c/none: none has held-out text"):
        text.held_out_of(planned, source, word_tokenizer(*TEXTS))


def place_of(file, **changes):
    planned = SMALL.changed(**changes)
    return run.prepared(planned, *text.read(SMALL, file))


def test_batches_are_of_their_trunk_s_seed_and_step_and_masked_anew_each_time(file):
    place = place_of(file)
    first, again, other = (run.Batches(place, seed) for seed in (71, 71, 72))
    passes = len(place.tokens) // 4
    for step in (0, 3, passes - 1, passes):
        batch = first(step)
        assert all(torch.equal(values, again(step)[name]) for name, values in batch.items())
        assert not torch.equal(batch["input_ids"], other(step)["input_ids"])
        assert batch["input_ids"].shape == (4, 8)
    # by whether a token is to be predicted, at some steps
    masks = [first(step)["labels"] != -100 for step in range(8)]
    assert len({tuple(mask.flatten().tolist()) for mask in masks}) == 8
    # one pass has every sequence once
    whole = [first(step) for step in range(passes)]
    rows = torch.cat([torch.where(b["labels"] == -100, b["input_ids"], b["labels"]) for b in whole])
    assert len(rows.unique(dim=0)) == len(place.tokens[: 4 * passes].unique(dim=0))


def test_a_plain_branch_is_the_trunk_continued_and_another_arm_starts_from_its_weights(file):
    place = place_of(file)
    batches, trunk = run.Batches(place, 71), run.Learner.new(place, "original", 71)
    for step in range(3):
        trunk.step(batches(step), 0.01)
    plain, high = trunk.branch("original", 71), trunk.branch("high", 71)
    for one, other in zip(trunk.network.parameters(), high.network.parameters(), strict=True):
        assert torch.equal(one, other)
    for learner in (trunk, plain, high):
        learner.step(batches(3), 0.01)
    pairs = list(zip(*(learner.network.parameters() for learner in (trunk, plain, high))))
    assert all(torch.equal(one, other) for one, other, _ in pairs)
    assert not all(torch.equal(one, other) for one, _, other in pairs)


def test_the_rate_falls_to_zero_over_the_turns_that_the_time_left_allows():
    course = run.Course(start=10, step=50)
    assert course.rates(0.1, 4) == [0.1] * 4
    # ten turns took 80 s of 100
    course.settle(80.0, 100.0, 4)
    assert (course.falls_at, course.end) == (50, 58)
    assert course.rates(0.1, 4) == pytest.approx([0.1, 0.0875, 0.075, 0.0625])
    late = run.Course(start=0, step=8)
    late.settle(99.9, 100.0, 4)
    assert late.end == 12, "one turn at least"


def test_branches_have_the_same_step_at_every_check_and_end_with_their_time(file, clock, tmp_path):
    out = tmp_path / "records"
    told = run.run(SMALL.changed(enough=1), file, out, None)
    made = [records.read(path) for path in sorted(out.glob("*.json"))]
    assert [record["parameters"]["seed"] for record in made] == [71, 72]
    # 31.5 s of trunks, two steps of 0.5 s for each; then 58.5 s in turns of 4 branches
    start = made[0]["metrics"]["start"]
    assert start == 32
    turn = 2 * 4 * 0.5
    falls = start + 2 * -(-0.8 * 58.5 // turn)
    left = int((58.5 - turn * (falls - start) / 2) / turn)
    assert told["falls_at"] == falls and told["steps"] == falls + 2 * left
    for record in made:
        metrics = record["metrics"]
        assert [one["algorithm"] for one in metrics["branches"]] == ["original", "high"]
        assert metrics["lockstep"]["ended"] and metrics["lockstep"]["falls_at"] == falls
        assert metrics["lockstep"]["sources"] == {"a/long": 9, "b/short": 3}
        steps = [[point["step"] for point in one["curve"]] for one in metrics["branches"]]
        assert steps[0] == steps[1] and steps[0][:2] == [0, start]
        assert steps[0][-1] == told["steps"] and len(steps[0]) == 2 + SMALL.checks
        for one in metrics["branches"]:
            assert len(one["nats"]) == len(one["tokens"]) <= 12
            assert one["held_out"] == pytest.approx(one["curve"][-1]["loss"], rel=1e-5)
            assert one["training"][-1]["learning_rate"] < SMALL.learning_rate / 2
    assert branch_gaps(made).keys() == {71, 72}


def test_a_run_that_is_cut_leaves_its_last_check(file, clock, tmp_path, monkeypatch):
    out, usual = tmp_path / "records", run.Saving.check

    def cut(save, groups, course, seconds, *, ended):
        usual(save, groups, course, seconds, ended=ended)
        raise KeyboardInterrupt

    monkeypatch.setattr(run.Saving, "check", cut)
    with pytest.raises(KeyboardInterrupt):
        run.run(SMALL.changed(enough=1), file, out, None)
    made = [records.read(path) for path in sorted(out.glob("*.json"))]
    assert len(made) == 2 and not any(one["metrics"]["lockstep"]["ended"] for one in made)
    steps = {branch["steps"] for one in made for branch in one["metrics"]["branches"]}
    assert len(steps) == 1


@pytest.mark.parametrize(
    ("speed", "arms"),
    [(4e6, ["original", "high", "uniform"]), (3.4e6, ["original", "high"]), (1.4e6, None)],
)
def test_a_slower_machine_trains_fewer_arms_and_a_slow_one_none(speed, arms):
    if arms:
        assert design.arms_at(PLANNED, speed) == arms
        return
    with pytest.raises(ValueError, match="1400000 tokens per second are fewer than the 1500000"):
        design.arms_at(PLANNED, speed)


def test_the_speed_is_that_of_all_arms_without_the_first_turn(file, clock):
    place = place_of(file)
    # three arms in turn, half a second a step
    assert run.measured_speed(place, 20.0) == pytest.approx(4 * 8 / 0.5)


def asked(*options):
    return CliRunner().invoke(run.main, [str(option) for option in options])


@pytest.fixture
def small_plan(monkeypatch):
    monkeypatch.setattr(plan, "section", lambda *given: SMALL)


def test_a_trial_takes_all_arms_and_a_share_of_the_size_and_says_so(
    file, clock, tmp_path, small_plan
):
    out = tmp_path / "records"
    result = asked("--text", file, "--out", out, "--trial", 0.5, "--seconds", 90)
    assert result.exit_code == 0, result.output
    assert re.search(r"ended at step \d+, the rate fell from step \d+", result.output)
    made = records.read(out / "12-lockstep-71.json")
    assert made["metrics"]["lockstep"]["trial"] and made["metrics"]["recipe"]["batch"] == 2
    assert len(made["metrics"]["branches"]) == 3
    assert made["metrics"]["recipe"]["evaluation_sequences"] == 6
    assert run.smaller(PLANNED, 0.01).turn == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--seconds", 90], "--seconds is for a trial"),
        ([], "tokens per second are fewer than the 1500000 of the plan"),
        (["--text", "nowhere.tar.bz2"], "no such token file"),
        (["--kept"], "12-lockstep-71.json: is there already: give another --out"),
        (["--large"], r"text: \d+ sequences are fewer than a batch of 100000"),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_line_and_leaves_nothing(
    file, clock, tmp_path, monkeypatch, options, message
):
    out = tmp_path / "records"
    planned = SMALL.changed(batch=100_000) if "--large" in options else SMALL
    monkeypatch.setattr(plan, "section", lambda *given: planned)
    if "--kept" in options:
        paths.write_text(out / "12-lockstep-71.json", "{}")
    before = sorted(out.glob("*"))
    options = [option for option in options if option not in ("--kept", "--large")]
    result = asked("--text", file, "--out", out, *options)
    assert result.exit_code == 1 and re.search(message, result.output), result.output
    assert result.output.splitlines()[-1].startswith("saobp: ")
    assert sorted(out.glob("*")) == before


def test_a_mixture_has_its_share_of_every_text(source):
    tokenizer = word_tokenizer(*TEXTS)
    parts = {
        name: corpora.token_blocks(source, {name: 1.0}, tokenizer, 8, split="validation")
        for name in ("a/long", "b/short")
    }
    assert corpora.gathered(parts, 1000).about["sources"] == {"a/long": 40, "b/short": 3}
    few = corpora.gathered(parts, 4)
    assert few.about["sources"] == {"a/long": 2, "b/short": 2} and len(few) == 4
    assert [split["dataset"] for split in few.splits] == ["a/long", "b/short"]
