"""One JSON a run: whole or absent, readable by anyone, and refused by name when it is damaged."""

import json
import re
import shutil
import subprocess
from functools import reduce

import example_records as examples
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from example_records import FAILED, exam

import saobp
from companion import records
from companion.records import RecordError, Run, reading, schema
from companion.records.schema import Record
from companion.setup import paths


def saved(tmp_path, name="a", metrics=None, **parameters):
    run = Run("variants", study_name="smoke", parameters=parameters)
    return run.save(tmp_path / f"{name}.json", metrics or {"x": 1.0})


def test_a_record_holds_what_architecture_promises_and_reads_back_the_same_undefined_numbers_as_null(
    tmp_path,
):
    written = saved(tmp_path, model="mini", seed=42)
    assert tuple(written) == tuple(Record.__annotations__)
    assert records.read(tmp_path / "a.json") == json.loads(json.dumps(written))
    assert written["device"] == records.device()
    assert written["packages"]["torch"].partition("+")[0] == torch.__version__.partition("+")[0]
    metrics = {
        "nan": float("nan"),
        "inf": [np.float64("inf")],
        "t": torch.tensor([1, 2]),
        "n": np.int64(3),
    }
    saved(tmp_path, metrics=metrics)
    # a NaN, as Python writes it
    found = json.loads((tmp_path / "a.json").read_text(), parse_constant=pytest.fail)
    assert found["metrics"] == {"nan": None, "inf": [None], "t": [1, 2], "n": 3}


def test_a_processor_is_named_with_its_vector_set_and_alike_beside_an_early_record_without_one(
    monkeypatch,
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    name = records.device()["name"]
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "VSX")
    assert (
        name.rpartition(", ")[0] and records.device()["name"] == f"{name.rpartition(', ')[0]}, VSX"
    )
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H200")
    assert records.device()["name"] == "NVIDIA H200"
    old, new, other = "AMD EPYC", "AMD EPYC, AVX2", "AMD EPYC, AVX512"
    assert records.kinds([old, new, old, "AMD"]) == {old: old, new: old, "AMD": "AMD"}
    assert records.kinds([old, new, other]) == {name: name for name in (old, new, other)}, (
        "it may be either"
    )


def git(folder, *words):
    """Call git in a folder, as nobody in particular, and return what it says."""
    nobody = ["-c", "user.name=Nobody", "-c", "user.email=nobody@example.org"]
    return subprocess.check_output(["git", *nobody, *words], cwd=folder, text=True).strip()


def committed(folder):
    """Lay out a repository of what runs read, all of it committed, and return the commit."""
    for name in ("companion/records", "saobp", "notebooks/studies", "data/published"):
        paths.write_text(folder / name / "file", "as committed")
    paths.write_text(folder / "Snakefile", "as committed")
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    return git(folder, "rev-parse", "--short=12", "HEAD")


@pytest.fixture
def imported_from(monkeypatch):
    """Let the package be that of a folder, and notebooks and data be those of it or another."""

    def imported(package, root=None):
        monkeypatch.setattr(saobp, "__file__", str(package / "saobp" / "__init__.py"))
        place = str(package / "companion" / "records" / "writing.py")
        monkeypatch.setattr(records.writing, "__file__", place)
        monkeypatch.setattr(paths, "root", lambda: root or package)
        return records.commit.__wrapped__()

    monkeypatch.delenv("SAOBP_COMMIT", raising=False)
    return imported


def test_the_commit_in_a_record_is_that_of_the_package_that_runs(
    tmp_path, imported_from, monkeypatch
):
    commit, other = committed(tmp_path / "clone"), committed(tmp_path / "other")
    assert imported_from(tmp_path / "clone") == commit
    # its notebooks and data are another tree's
    assert imported_from(tmp_path / "clone", tmp_path / "other") == f"{commit}+"
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    assert imported_from(tmp_path / "clone") == commit
    assert imported_from(tmp_path / "other") == other
    monkeypatch.delenv("GIT_DIR")
    # an archive unpacked within a repository that tracks it, and one within none
    shutil.copytree(tmp_path / "clone" / "saobp", tmp_path / "other" / "unpacked" / "saobp")
    git(tmp_path / "other", "add", "-A")
    git(tmp_path / "other", "commit", "-qm", "second")
    for folder in (tmp_path / "other" / "unpacked", tmp_path):
        monkeypatch.delenv("SAOBP_COMMIT", raising=False)
        assert imported_from(folder) == "unknown"
        monkeypatch.setenv("SAOBP_COMMIT", "abc123")
        assert imported_from(folder) == "abc123"


def test_parts_of_the_package_from_two_places_have_no_commit(tmp_path, imported_from, monkeypatch):
    committed(tmp_path / "clone")
    imported_from(tmp_path / "clone")
    monkeypatch.setattr(saobp, "__file__", str(tmp_path / "elsewhere" / "saobp" / "__init__.py"))
    assert records.commit.__wrapped__() == "unknown"


def test_a_module_that_git_ignores_marks_the_commit_and_what_python_caches_does_not(
    tmp_path, imported_from
):
    commit = committed(tmp_path)
    paths.write_text(tmp_path / ".git" / "info" / "exclude", "extra.py\n__pycache__/\n*.json\n")
    paths.write_text(tmp_path / "saobp" / "__pycache__" / "file.pyc", "cached")
    assert imported_from(tmp_path) == commit
    for name in ("saobp/extra.py", "data/results/narrow/extra.json"):
        paths.write_text(tmp_path / name, "{}")
        assert imported_from(tmp_path) == f"{commit}+"
        (tmp_path / name).unlink()


@pytest.mark.parametrize(
    "name",
    ["saobp/file", "companion/records/file", "notebooks/studies/file", "data/published/file"]
    + ["Snakefile", "notebooks/studies/new.yaml", "data/published/new.csv", "saobp/new.py"],
)
def test_a_change_of_anything_that_a_run_reads_marks_the_commit(tmp_path, imported_from, name):
    commit = committed(tmp_path)
    paths.write_text(tmp_path / "README.md", "no run reads it")
    assert imported_from(tmp_path) == commit
    paths.write_text(tmp_path / name, "not as committed")
    assert imported_from(tmp_path) == f"{commit}+"


def test_a_record_names_the_commit_at_which_its_run_began(monkeypatch, tmp_path, imported_from):
    folder = tmp_path / "clone"
    first = committed(folder)
    imported_from(folder)
    records.commit.cache_clear()
    run = records.Run("audit", study_name="smoke", parameters={})
    # another commit while it runs
    git(folder, "commit", "-q", "--allow-empty", "-m", "second")
    assert run.save(tmp_path / "run.json", {})["code"]["commit"] == first
    records.commit.cache_clear()


@pytest.mark.parametrize(
    "content, said",
    [
        ('{"schema": 3', "not a readable record"),
        ("[]", "not a run record, record"),
        (f'{{"a": {"[" * 10**5}', "not a readable record .maximum recursion depth"),
        ('{"schema": 3, "stage": "x"}', "study: Field required"),
        ('{"schema": 3, "seconds": NaN}', "it holds NaN"),
        ('{"schema": 3, "seconds": -Infinity}', "it holds -Infinity"),
        ('{"schema": 99, "stage": "x"}', "schema 99, this version reads 3"),
    ],
)
def test_a_damaged_record_or_one_of_another_schema_is_named_with_the_remedy(
    tmp_path, content, said
):
    (tmp_path / "cut.json").write_text(content)
    with pytest.raises(RecordError, match=f"cut.json.*{said}.*run (it )?again"):
        records.load(tmp_path)


def test_a_study_is_its_build_or_else_what_is_tracked_and_never_a_folder_beside_the_reader(
    tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr(paths, "build", lambda study: tmp_path / "build" / study)
    monkeypatch.setattr(paths, "results", lambda study: tmp_path / "results" / study)
    monkeypatch.chdir(tmp_path)

    def loaded(name):
        return [record["name"] for record in records.load(name)]

    for folder, name in (
        ("narrow", "x"),
        ("other", "y"),
        ("results/narrow", "a"),
        ("results/narrow", "b"),
    ):
        saved(tmp_path / folder, name)
    assert (
        loaded("narrow") == ["a", "b"]
        and loaded("other") == ["y"]
        and loaded("no-such-study") == []
    )
    saved(tmp_path / "build/narrow/records", "a", model="mini", seed=2)
    assert not caplog.messages and loaded("narrow") == ["a"]
    assert "lacks 1 of the records tracked in" in caplog.messages[0]
    for name in ("b", "10-tables"):
        saved(tmp_path / "build/narrow/records", name)
    found = records.load("narrow")
    assert len(found) == 3 and len(caplog.messages) == 1
    assert [r["name"] for r in records.select(found, "variants", seed=2)] == ["a"]
    assert records.select(found, "pretrain") == []


def test_an_interactive_run_never_lands_among_the_workflows_records(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "build", lambda study: tmp_path / study)
    tuned = {
        "model": "mini",
        "algorithm": "high",
        "strength": 0.2,
        "seed": 0,
        "group": "all",
        "finetune_seed": 0,
    }
    for stage, parameters, metrics in (("finetune", tuned, {"tasks": {}}), ("audit", {}, {})):
        Run(stage, study_name="notebooks/studies/smoke.yaml", parameters=parameters).save(
            "", metrics
        )
    made = sorted(path.name for path in (tmp_path / "smoke" / "interactive").iterdir())
    assert made == ["audit.json", "finetune-mini-high-0-all-0.json"]


@pytest.mark.parametrize(
    "path", sorted(paths.root().glob("data/results/*/*.json")), ids=lambda path: path.stem
)
def test_every_tracked_record_has_the_schema_and_departs_where_it_says_so(path):
    record = records.read(path)
    assert record["name"] == path.stem
    assert not [entry for entry in record["departures"] if entry["ours"] == entry["paper"]]


@pytest.mark.parametrize(
    "stage, metrics, departures, said",
    [
        (
            "finetune",
            {"tasks": {}},
            [{"matter": "steps", "ours": 10}],
            "departures.0.paper: Field required",
        ),
        ("finetune", {}, [], "metrics.tasks: Field required"),
        (
            "finetune",
            {"tasks": {"rte": {"failed": "the loss is nan"}}},
            [],
            r"metrics.tasks.rte.failed: Input",
        ),
        (
            "finetune",
            {"tasks": {"rte": {"headline": 1.0, "f": 1}}},
            [],
            "metrics.tasks.rte.f: Extra inputs",
        ),
        ("finetune", {"tasks": {"rte": {}}}, [], r"metrics.tasks.rte: .* lacks headline, interval"),
        (
            "hops",
            {"multihop": 5, "exam_recipe": {}},
            [],
            "metrics.multihop: Input should be a valid list",
        ),
    ],
)
def test_a_record_of_another_form_or_that_cannot_be_written_leaves_the_old_one_whole(
    tmp_path, stage, metrics, departures, said
):
    before = saved(tmp_path)
    with pytest.raises(RecordError, match=f"a.json: not written, {said}"):
        run = Run(
            stage, study_name="smoke", parameters={"model": "mini", "algorithm": "high", "seed": 0}
        )
        run.save(tmp_path / "a.json", metrics, departures=departures)
    with pytest.raises(AttributeError):
        saved(tmp_path, metrics={"x": object()})
    assert records.load(tmp_path) == [before] and [path.name for path in tmp_path.iterdir()] == [
        "a.json"
    ]


@pytest.mark.parametrize(
    "key, value, said",
    [
        ("stage", "finetoon", "stage: 'finetoon' is none of pretrain, .*finetune"),
        ("parameters", {}, "parameters.model: Field required"),
        (
            "parameters",
            {"model": 5, "algorithm": "high", "seed": 42},
            "parameters.model: Input should be a valid string",
        ),
        (
            "parameters",
            {"model": "mini", "algorithm": {}, "seed": 42},
            "parameters.algorithm: Input should be a valid str",
        ),
        (
            "parameters",
            {"model": "mini", "algorithm": "high", "seed": "42"},
            "parameters.seed: Input should be a valid",
        ),
    ],
)
def test_a_stage_that_there_is_not_and_a_parameter_of_another_type_are_named(
    tmp_path, key, value, said
):
    record = json.loads(
        (paths.root() / "data/results/laptop/05-finetune-mini-high-42-race-0.json").read_text()
    )
    (tmp_path / "a.json").write_text(json.dumps(record | {key: value}))
    with pytest.raises(
        RecordError, match=f"a.json: not a run record, {said}.*delete it and run again"
    ):
        records.read(tmp_path / "a.json")


def test_a_run_of_a_stage_that_there_is_not_is_refused_before_it_runs():
    with pytest.raises(
        RecordError, match=r"stage 'mine': is none of pretrain, .*; add it to records/schema.py"
    ):
        Run("mine", study_name="smoke", parameters={})


def test_every_notebook_writes_a_stage_that_the_schema_knows():
    sources = [
        path.read_text(encoding="utf-8") for path in (paths.root() / "notebooks").glob("*.ipynb")
    ]
    named = {stage for source in sources for stage in re.findall(r'Run\(\\"([^"\\]+)', source)}
    assert {"derivation", "pretrain", "inserted"} <= named <= set(schema.FORMS)


def test_the_answers_of_an_exam_lie_beside_their_record_and_come_back_or_are_named(tmp_path):
    runs, path = (
        [exam(2, "original", 0), exam(4, "high", 0), exam(4, "high", 1, FAILED)],
        tmp_path / "a.json",
    )
    record = examples.record("hops", "mini", "high", 42, {"multihop": runs, "exam_recipe": {}})
    paths.write_text(path, records.as_text(records.move_answers(record, path)))
    assert path.read_text().count('"outcomes": {}') == 3 and records.read(path) == record
    # of other runs or columns
    for table in ({"run": [99], "hops": [1], "right": [[1]]}, {"other": [1]}):
        pq.write_table(pa.table(table), tmp_path / "a.answers.parquet")
        with pytest.raises(
            RecordError, match="a.answers.parquet: not the answers of a.json: restore them, or run"
        ):
            records.read(path)
    (tmp_path / "a.answers.parquet").unlink()
    with pytest.raises(RecordError, match="a.answers.parquet, are missing or not whole"):
        records.read(path)


def test_a_small_file_of_answers_that_unpacks_to_more_than_an_exam_is_refused(tmp_path):
    runs, path = [exam(2, "original", 0)], tmp_path / "a.json"
    record = examples.record("hops", "mini", "high", 42, {"multihop": runs, "exam_recipe": {}})
    paths.write_text(path, records.as_text(records.move_answers(record, path)))
    zeros = np.zeros(10**7, dtype=np.int8)
    right = pa.ListArray.from_arrays(pa.array([0, len(zeros)], pa.int32()), pa.array(zeros))
    answers = pa.table({"run": [0], "hops": [1], "right": right}, reading.ANSWERS)
    pq.write_table(answers, tmp_path / "a.answers.parquet", compression="zstd")
    assert (tmp_path / "a.answers.parquet").stat().st_size < 10_000
    with pytest.raises(RecordError, match="a.answers.parquet: not the answers of a.json"):
        records.read(path)


CHECK = {"step": 1, "entropy": [1.0], "gtd": [0.1], "cross_layer_gtd": 0.1, "score": -7.0}
RACE, PRETRAIN = "laptop/05-finetune-mini-high-42-race-0", "laptop/04-pretrain-mini-high-42"
ATTENTION, COST = "laptop/06-attention-mini-high-42-race", "laptop/08-cost-mini"
HOPS, RETROFIT = "hops/12-hops-64-23", "retrofit/13-retrofit-untrained-minilm"
TASK = "tasks.race"
BELOW = "tasks.race: .* has a score below 0 percent, "
# record, place of the metric, what it becomes (GONE: nothing), and the flaw where it is not the place
GONE = object()
DAMAGED = [
    (ATTENTION, "means.gtd", GONE, ": Field required"),
    (COST, "ways.high.train", "abc", ": Input"),
    (RETROFIT, "similarity.0.interval", GONE, ": Field required"),
    (HOPS, "multihop.0.curve.0.accuracy", GONE, ": Field required"),
    (HOPS, "exam_recipe.pretrain.steps", "many", ": Input"),
    (PRETRAIN, "recipe.wormup", 3, ": Extra inputs"),
    (PRETRAIN, "wikitext.config", GONE, ": Field req"),
    (PRETRAIN, "size.heads", 4.5, ": Input"),
    (COST, "lengths.0.peak_mib.low", GONE, ": Field"),
    (ATTENTION, "matrices.raw.gtd", [["a"]], ".*Input"),
    (ATTENTION, "matrices.raw", GONE, ": Field req"),
    (ATTENTION, "matrices.raw.gtd", {"x": [1.0]}, ": Input"),
    (PRETRAIN, "training.0.loss", GONE, ": Field req"),
    (RACE, f"{TASK}.scores.accuracy", 150.0, ": Input should be less than or equal to 100"),
    (RACE, f"{TASK}.headline", 150.0, ": Input should be less"),
    (RETROFIT, "similarity.0.spearman", 150.0, ": Input should be less"),
    (HOPS, "multihop.0.curve.0.accuracy.1", 1.5, ": Input should be less than or equal to 1"),
    # of the whole task
    (RACE, f"{TASK}.outcomes", GONE, "tasks.race: .* lacks outcomes"),
    (RACE, f"{TASK}.outcomes", [1, 0], "tasks.race: .* 2 outcomes of 1436 items"),
    (RACE, f"{TASK}.metric", "acc", "tasks.race: .* has no score of its metric, acc"),
    (RACE, f"{TASK}.scores", {}, "tasks.race: .* has no score of its metric, accuracy"),
    (RACE, f"{TASK}.scores.accuracy", -3.0, f"{BELOW}accuracy"),
    (RACE, f"{TASK}.headline", -7.0, f"{BELOW}headline"),
    (RACE, f"{TASK}.chance", -7.0, f"{BELOW}chance"),
    (RACE, f"{TASK}.majority", -7.0, f"{BELOW}majority"),
    (RACE, f"{TASK}.interval", [-7.0, 30.0], f"{BELOW}interval"),
    (RACE, f"{TASK}.floor", {"headline": -7.0}, f"{BELOW}headline of floor"),
    (RACE, f"{TASK}.floor", {"scores": {"accuracy": -7.0}}, f"{BELOW}accuracy of floor"),
    (RACE, f"{TASK}.curve", [CHECK], f"{BELOW}score of curve"),
    (RACE, f"{TASK}.epochs", [{"epoch": 1, "scores": {"accuracy": -7.0}}], f"{BELOW}accuracy of e"),
]


@pytest.mark.parametrize(("name", "place", "value", "flaw"), DAMAGED)
def test_a_number_that_is_missing_of_another_type_or_out_of_range_is_named_when_the_record_is_read(
    tmp_path, name, place, value, flaw
):
    record = json.loads((paths.root() / "data" / "results" / f"{name}.json").read_text())
    *above, last = [int(key) if key == "0" else key for key in place.split(".")]
    part = reduce(lambda part, key: part[key], above, record["metrics"])
    part[last] = value
    if value is GONE:
        del part[last]
    (tmp_path / "a.json").write_text(json.dumps(record))
    flaw = flaw if flaw.startswith("tasks") else place + flaw
    with pytest.raises(
        RecordError, match=f"a.json: not a run record, metrics.{flaw}.*delete it and run again"
    ):
        records.read(tmp_path / "a.json")
