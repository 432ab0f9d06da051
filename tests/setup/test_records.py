"""One JSON a run: whole or absent, readable by anyone, and refused by name when it is damaged."""

import json

import example_records as examples
import numpy as np
import pytest
import torch
from example_records import FAILED, exam

from saobp.study.setup import paths, records
from saobp.study.setup.records import RecordError, Run
from saobp.study.setup.schema import Record


def saved(tmp_path, name="a", metrics=None, **parameters):
    run = Run("variants", profile="smoke", parameters=parameters)
    return run.save(tmp_path / f"{name}.json", metrics or {"x": 1.0})


def test_a_record_holds_what_architecture_promises_and_reads_back_the_same(tmp_path):
    written = saved(tmp_path, model="mini", seed=42)
    assert tuple(written) == tuple(Record.__annotations__)
    assert records.read(tmp_path / "a.json") == json.loads(json.dumps(written))
    assert written["device"] == records.device()
    assert written["packages"]["torch"].partition("+")[0] == torch.__version__.partition("+")[0]


def test_a_copy_without_history_is_told_its_commit_and_git_is_believed_first(monkeypatch, tmp_path):
    monkeypatch.setenv("SAOBP_COMMIT", "abc123")
    assert records.commit.__wrapped__() != "abc123"
    monkeypatch.setattr(paths, "root", lambda: tmp_path)
    assert records.commit.__wrapped__() == "abc123"
    monkeypatch.delenv("SAOBP_COMMIT")
    assert records.commit.__wrapped__() == "unknown"


def test_a_record_names_the_commit_at_which_its_run_began(monkeypatch, tmp_path):
    head = iter(["", "first", "", "second"])
    monkeypatch.setattr(records.subprocess, "check_output", lambda *command, **given: next(head))
    records.commit.cache_clear()
    run = records.Run("audit", profile="smoke", parameters={})
    next(head)  # another commit while it runs
    assert run.save(tmp_path / "run.json", {})["code"]["commit"] == "first"
    records.commit.cache_clear()


def test_undefined_numbers_become_null_and_tensors_become_numbers(tmp_path):
    metrics = {"nan": float("nan"), "inf": [np.float64("inf")], "tensor": torch.tensor([1, 2]), "n": np.int64(3)}
    saved(tmp_path, metrics=metrics)
    text = (tmp_path / "a.json").read_text()
    assert "NaN" not in text and "Infinity" not in text
    assert json.loads(text)["metrics"] == {"nan": None, "inf": [None], "tensor": [1, 2], "n": 3}


def test_a_record_that_cannot_be_written_leaves_the_old_one_whole(tmp_path):
    saved(tmp_path)
    before = (tmp_path / "a.json").read_bytes()
    with pytest.raises(AttributeError):
        saved(tmp_path, metrics={"x": object()})
    assert (tmp_path / "a.json").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize("content, said", [
    ('{"schema": 2', "not a readable record"), ("[]", "not a run record, record"),
    ('{"schema": 2, "stage": "x"}', "profile: Field required"),
    ('{"schema": 99, "stage": "x"}', "schema 99, this version reads 2"),
])  # fmt: skip
def test_a_damaged_record_or_one_of_another_schema_is_named_with_the_remedy(tmp_path, content, said):
    (tmp_path / "cut.json").write_text(content)
    with pytest.raises(RecordError, match=f"cut.json.*{said}.*run (it )?again"):
        records.load(tmp_path)


def test_select_keeps_stage_and_parameters(tmp_path):
    for seed in (1, 2):
        saved(tmp_path, f"r{seed}", model="mini", seed=seed)
    loaded = records.load(tmp_path)
    assert [r["name"] for r in loaded] == ["r1", "r2"]
    assert [r["name"] for r in records.select(loaded, "variants", seed=2)] == ["r2"]
    assert records.select(loaded, "pretrain") == [] == records.load("no-such-profile")


def test_the_name_of_a_study_is_never_taken_for_a_folder_beside_the_reader(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "build", lambda study: tmp_path / "build" / study)
    monkeypatch.setattr(paths, "results", lambda study: tmp_path / "results" / study)
    monkeypatch.chdir(tmp_path)
    for folder in ("narrow", "results/narrow", "other"):
        saved(tmp_path / folder, folder.replace("/", "-"))
    found = {name: [record["name"] for record in records.load(name)] for name in ("narrow", "other")}
    assert found == {"narrow": ["results-narrow"], "other": ["other"]}


def test_a_build_that_hides_tracked_records_says_how_many(tmp_path, monkeypatch, caplog):
    build, tracked = tmp_path / "build" / "records", tmp_path / "results"
    monkeypatch.setattr(paths, "build", lambda study: build.parent)
    monkeypatch.setattr(paths, "results", lambda study: tracked / study)
    for name in ("a", "b", "c"):
        saved(tracked / "narrow", name)
    assert len(records.load("narrow")) == len(records.load(tracked / "narrow")) == 3 and not caplog.messages
    saved(build, "a")
    assert len(records.load("narrow")) == 1
    tells = f"{build}: lacks 2 of the records tracked in {tracked / 'narrow'}, and is read in place of them: finish it"
    assert caplog.messages == [f"{tells}, or remove it"]
    for name in ("b", "c", "10-tables"):
        saved(build, name)
    assert len(records.load("narrow")) == 4 and len(caplog.messages) == 1


def test_an_interactive_run_never_lands_among_the_workflows_records(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "build", lambda study: tmp_path / study)
    tuned = {"model": "mini", "algorithm": "high", "strength": 0.2, "seed": 0, "group": "all", "finetune_seed": 0}
    for stage, parameters, metrics in (("finetune", tuned, {"tasks": {}}), ("audit", {}, {})):
        Run(stage, profile="notebooks/studies/smoke.yaml", parameters=parameters).save("", metrics)
    made = sorted(path.name for path in (tmp_path / "smoke" / "interactive").iterdir())
    assert made == ["audit.json", "finetune-mini-high-0-all-0.json"]


@pytest.mark.parametrize("path", sorted(paths.root().glob("data/results/*/*.json")), ids=lambda path: path.stem)
def test_every_tracked_record_has_the_schema_and_departs_where_it_says_so(path):
    record = records.read(path)
    assert record["name"] == path.stem
    assert not [entry for entry in record["departures"] if entry["ours"] == entry["paper"]]


@pytest.mark.parametrize("stage, metrics, departures, said", [
    ("finetune", {"tasks": {}}, [{"matter": "steps", "ours": 10}], "departures.0.paper: Field required"),
    ("finetune", {}, [], "metrics.tasks: Field required"),
    ("finetune", {"tasks": {"rte": {"failed": "the loss is nan"}}}, [], r"metrics.tasks.rte.failed: Input"),
    ("finetune", {"tasks": {"rte": {"headline": 1.0, "f": 1}}}, [], "metrics.tasks.rte.f: Extra inputs"),
    ("finetune", {"tasks": {"rte": {}}}, [], r"metrics.tasks.rte: .* headline nor failed"),
    ("hops", {"multihop": 5, "exam_recipe": {}}, [], "metrics.multihop: Input should be a valid list"),
])  # fmt: skip
def test_a_record_of_another_form_is_never_written(tmp_path, stage, metrics, departures, said):
    with pytest.raises(RecordError, match=f"a.json: not written, {said}"):
        Run(stage, profile="smoke", parameters={}).save(tmp_path / "a.json", metrics, departures=departures)
    assert not list(tmp_path.iterdir())


def test_the_answers_of_an_exam_lie_beside_their_record_and_come_back(tmp_path):
    runs = [exam(layers, name, 0) for layers in (2, 4) for name in ("original", "high")]
    lost = exam(4, "high", 1, FAILED)
    record = examples.record("hops", "mini", "high", 42, {"multihop": [*runs, lost], "exam_recipe": {}})
    path = tmp_path / "a.json"
    paths.write_text(path, records.as_text(records.move_answers(record, path)))
    assert "outcomes\": {}" in path.read_text() and sorted(p.name for p in tmp_path.iterdir()) == [
        "a.answers.parquet", "a.json",
    ]  # fmt: skip
    assert records.read(path) == record
    path.with_suffix(records.ANSWERS_END).unlink()
    with pytest.raises(records.RecordError, match="a.answers.parquet, are missing or not whole"):
        records.read(path)
