"""Rows of the tables: named as typed; within a budget by a schedule fitted to the machine, one for
all of a size.
"""

from types import SimpleNamespace

import pytest
import torch

from companion.data import sources
from companion.publication import cli, fitted_studies, workflow
from companion.setup import paths
from companion.setup.recipes import Pretraining
from companion.setup.studies import StudyError, load_study
from companion.training import departures, pretraining

PAPER, SMOKE = load_study("paper"), load_study("smoke")


def test_a_row_has_every_record_that_the_workflow_makes_of_it_once(capfd, tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "build", lambda name: tmp_path / name)
    records = workflow.of_rows(PAPER, ["mini/high/42", "mini/high/42"])
    stages = [name.partition("/")[2].partition("-")[0] for name in records]
    heads = len(PAPER.finetune.groups) * len(PAPER.finetune.seeds)
    assert stages == ["04"] + ["05"] * heads + ["06"] * len(PAPER.attention.tasks)
    assert cli.main(["reproduce", "--study", "paper", "--rows", "mini/high/42", "--dry-run"]) == 0
    listed = [
        line.split("\t")[0]
        for line in capfd.readouterr().out.splitlines()
        if line.startswith("records/")
    ]
    assert sorted(listed) == sorted(records)


RECIPE = Pretraining(
    length=128, batch=256, steps=60000, learning_rate=5e-5, warmup=3000, evaluation_sequences=1024
)


@pytest.mark.parametrize(
    ("seconds", "minutes"), [(0.05, 9), (0.5, 9), (4.0, 9), (4.0, 30), (20.0, 60)]
)
def test_a_schedule_fills_its_share_of_the_time_and_keeps_the_share_of_the_warmup(seconds, minutes):
    schedule, sequences = fitted_studies.within(RECIPE, seconds, minutes, "mini")
    checks = (RECIPE.evaluations + 2) * sequences / RECIPE.batch / 3
    time = fitted_studies.START + fitted_studies.LOAD * seconds * (schedule.steps + checks)
    share = fitted_studies.SHARE * 60 * minutes
    assert share - fitted_studies.LOAD * seconds < time <= share
    assert (
        checks
        <= max(
            fitted_studies.CHECKS * (schedule.steps + checks), 22 * fitted_studies.TIMED / 256 / 3
        )
        + 1
    )
    assert (
        schedule.warmup == round(schedule.steps / 20)
        and schedule.learning_rate == RECIPE.learning_rate
    )
    fast, sequences = fitted_studies.within(RECIPE, 0.001, 60, "mini")
    assert (fast.steps, fast.warmup, sequences) == (60000, 3000, 1024), (
        "the steps of the study and no more"
    )


@pytest.mark.parametrize("seconds", [10.0, 40.0, 300.0])
def test_too_few_minutes_for_a_step_are_refused_with_the_fewest_that_do(seconds):
    with pytest.raises(
        StudyError, match=f"--minutes 1: a step of mini takes {seconds:.1f} s here; give at"
    ) as refused:
        fitted_studies.within(RECIPE, seconds, 1, "mini")
    least = int(str(refused.value).rsplit(" ", 1)[1])
    assert fitted_studies.within(RECIPE, seconds, least, "mini")[0].steps >= 1
    with pytest.raises(StudyError):
        fitted_studies.within(RECIPE, seconds, least - 1, "mini")


@pytest.mark.parametrize(
    ("few", "whole", "expected"),
    [
        # an accelerator, kept waiting
        ({"fp32": 0.010, "bf16": 0.012}, {"fp32": 0.033, "bf16": 0.015}, ("bf16", 0.015)),
        # a processor, whose whole step takes long
        ({"fp32": 0.5, "bf16": 0.9}, None, ("fp32", 16.0)),
    ],
)
def test_a_quick_step_is_timed_whole_in_each_precision(few, whole, expected, monkeypatch):
    timed = {fitted_studies.TIMED: few, 256: whole}
    monkeypatch.setattr(
        fitted_studies.precision,
        "timed",
        lambda network, batch, names: timed[len(batch["input_ids"])],
    )
    monkeypatch.setattr(fitted_studies.precision, "has_bf16", lambda: True)
    assert fitted_studies.step_time(None, {"input_ids": torch.zeros(256, 4)}, "auto") == expected


@pytest.fixture
def fitted(tmp_path, monkeypatch):
    """Gives the copy of the smoke study for a budget, on a machine whose step takes half a
    second.
    """
    monkeypatch.setattr(paths, "build", lambda name: tmp_path / name)
    monkeypatch.setattr(fitted_studies, "step_time", lambda network, batch, wanted: ("bf16", 0.5))
    monkeypatch.setattr(fitted_studies, "sample_time", lambda model, length: 2.0)
    clock = SimpleNamespace(perf_counter=lambda: 0.0)
    monkeypatch.setattr(fitted_studies, "time", clock)

    def copy(*models, minutes=2, of=SMOKE, gone=0.0, tokens=None):
        told = iter([0.0])
        clock.perf_counter = lambda: next(told, gone)
        path, study = fitted_studies.own_copy(of, minutes, tokens, models, cores=4)
        assert path == tmp_path / "smoke" / "smoke.yaml" and load_study(path) == study
        return study

    return copy


def test_a_budget_gives_a_copy_of_the_study_whose_record_says_so(fitted):
    study = fitted("mini-quarter")
    usual, recipe = SMOKE.recipe("mini-quarter"), study.recipe("mini-quarter")
    assert 0 < recipe.steps < usual.steps and recipe.warmup == round(
        recipe.steps * usual.warmup / usual.steps
    )
    assert study.attention.samples == max(
        fitted_studies.TIMED, int((60 - fitted_studies.START) / 2.0)
    )
    _, text, _ = pretraining.texts(study, "mini-quarter", sources.resolve("synthetic"))
    said = {
        entry["matter"]: entry
        for entry in departures.departures(study, "mini-quarter", text, "high", 7)
    }
    assert said["minutes for a row"] == {"matter": "minutes for a row", "ours": 2, "paper": None}
    assert said["steps"]["ours"] == recipe.steps


def test_what_unpacking_and_timing_take_is_part_of_the_minutes(fitted, tmp_path):
    whole = fitted("mini-quarter")
    (tmp_path / "smoke" / "smoke.yaml").unlink()
    late = fitted("mini-quarter", gone=20.0)
    fewer = fitted_studies.SHARE * 20.0 / (fitted_studies.LOAD * 0.5)
    assert whole.recipe("mini-quarter").steps - late.recipe("mini-quarter").steps == pytest.approx(
        fewer, rel=0.2
    )
    assert (whole.attention.samples, late.attention.samples) == (10, fitted_studies.TIMED)


def test_too_few_minutes_are_refused_with_the_seconds_that_unpacking_the_token_file_took(
    fitted, tmp_path
):
    tokens = pretraining.write_tokens(tmp_path / "smoke.tar.bz2", "smoke")
    said = "a step of mini-quarter takes 0.5 s here{}; give at least 2$".format
    for given in ({"tokens": tokens}, {"of": SMOKE.changed(tokens=str(tokens))}):
        with pytest.raises(StudyError, match=said(", unpacking the token file took 20 s")):
            fitted("mini-quarter", minutes=1, gone=20.0, **given)
    # without a file, and with one that was unpacked before
    for gone, file in ((20.0, None), (0.4, tokens)):
        with pytest.raises(StudyError, match=said("")):
            fitted("mini-quarter", minutes=1, gone=gone, tokens=file)


def test_later_rows_of_a_budget_have_the_same_steps_and_another_budget_or_study_is_refused(
    fitted, monkeypatch
):
    first = fitted("mini-quarter")
    # a busier machine
    monkeypatch.setattr(fitted_studies, "step_time", lambda network, batch, wanted: ("fp32", 0.7))
    # what is no part of a row has changed; the copy itself
    for same in (SMOKE, SMOKE.changed(cost=None), first):
        assert fitted("mini-quarter", of=same) == first
    for changed in (
        {"minutes": 3},
        {"of": SMOKE.changed(strengths={"mini-quarter": 0.9})},
        {"of": SMOKE.changed(pretrain=SMOKE.pretrain.changed(dropout=0.1))},
        {"of": SMOKE.changed(finetune=SMOKE.finetune.changed(learning_rate=5e-5))},
        {"of": SMOKE.changed(models=["small-quarter", "mini-quarter"])},
    ):
        with pytest.raises(
            StudyError,
            match="made for 2 minutes, the token file None and smoke as it was.*remove it",
        ):
            fitted("mini-quarter", **changed)
    other = fitted("small-quarter", "mini-quarter")
    assert other.recipe("mini-quarter") == first.recipe("mini-quarter")
    assert other.recipe("small-quarter").steps < SMOKE.recipe("small-quarter").steps


def test_the_workflow_makes_the_records_of_the_rows_alone_and_takes_a_fitted_study_as_it_is(
    fitted, monkeypatch, tmp_path, capsys
):
    calls = []
    monkeypatch.setattr(workflow, "_snakemake", lambda *given, **how: calls.append(given) or 0)
    monkeypatch.setattr(workflow, "check_packages", lambda: None)
    copy, kept = tmp_path / "smoke" / "smoke.yaml", tmp_path / "smoke.yaml"
    whole = paths.write_text(tmp_path / "smoke/records/04-pretrain-mini-quarter-high-8.json", "{}")
    asked = ["reproduce", "--minutes", "2", "--rows"]
    assert cli.main([*asked, "mini-quarter/high/8"]) == 2, (
        "its row would take the place of the study's own"
    )
    assert f"{whole}: is the study's own: leave out --minutes" in capsys.readouterr().err
    assert cli.main([*asked, "mini-quarter/high/7"]) == 0
    assert str(whole.parent) in capsys.readouterr().out
    # on another machine
    copy.rename(kept)
    assert cli.main(["reproduce", "--study", str(kept), "--rows", "mini-quarter/high/7"]) == 0
    assert [given[1] for given in calls] == [copy, kept] and not copy.exists()
    kept.rename(copy)
    for budget in (["--minutes", "2"], []):
        given = ["reproduce", *budget, "--rows", "mini-quarter/high/7"]
        assert cli.main([*given, "--dry-run"]) == cli.main(given) == 0
        listed, ran = calls.pop(-2), calls.pop()
        assert listed[1] == ran[1] and (ran[1] == copy) == bool(budget), (
            "what is listed is what would run"
        )
    for _, _, wanted, *_ in calls:
        assert "records/04-pretrain-mini-quarter-high-7.json" in wanted and len(wanted) == 5


def test_items_fill_the_time_that_the_longest_group_has():
    source, item = sources.resolve("synthetic"), 0.01
    study = SMOKE.changed(finetune=SMOKE.finetune.changed(limit_train=None))
    few, more = (fitted_studies.most_items(study, source, item, seconds) for seconds in (60, 120))
    # short tasks end, the others take their time
    assert few > fitted_studies.TIMED and 2 * few - 2 <= more <= 3 * few
    assert fitted_studies.most_items(study, source, item, 1e9) is None
    assert fitted_studies.most_items(study, source, item, -5) == fitted_studies.TIMED


def test_tasks_that_a_source_lacks_are_left_out_and_stand_ins_take_the_place_of_public_splits(
    monkeypatch, capsys
):
    def missing(name, recipe, source):
        if name == "wnli" or name == "race" and recipe.splits.get("race") != ["validation", "test"]:
            raise sources.DataError("none")

    monkeypatch.setattr(fitted_studies.finetuning, "task_of", missing)
    study = fitted_studies.at_hand(PAPER, sources.resolve("synthetic"))
    tasks = [task for group in study.finetune.groups.values() for task in group]
    assert "wnli" not in tasks and study.finetune.splits == {"race": ["validation", "test"]}
    assert study.attention.tasks == PAPER.attention.tasks and study.finetune.seeds == [0]
    said = capsys.readouterr().out
    assert "synthetic" in said and "wnli" in said
