"""The graph of runs: claimed by one run at a time, minimal when repeated, and the same when it is
killed on the way.
"""

import contextlib
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from small_repository import ODD, given, made, one_of_each, repository, snakemake

from companion import records
from companion.publication import cli, workflow
from companion.publication.workflow import WorkflowFailed
from companion.setup import paths
from companion.setup.studies import load_study


def test_the_second_run_in_a_folder_is_told_who_holds_it_and_what_has_ended_holds_nothing(tmp_path):
    told = pytest.raises(WorkflowFailed, match=f"in use by process {os.getpid()} or one")
    with workflow.claimed(tmp_path), told, workflow.claimed(tmp_path):
        pass
    (tmp_path / "records").rmdir()
    (tmp_path / "records").write_text("a file where the folder should be")
    # the file is in the folder's place, or in that of one in it
    for folder in (tmp_path, tmp_path / "records"):
        told = pytest.raises(
            PermissionError, match="^.*records: cannot be written .*: choose a folder you own$"
        )
        with told, workflow.claimed(folder):
            pass


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("transformers>=99", r"transformers is \S+, saobp needs >=99: run 'make install'"),
        ("no-such-package", "no-such-package is not installed, saobp needs it"),
        ("no-such-package>=1 ; extra == 'measure'", "no-such-package is not installed"),
    ],
)
def test_a_package_that_does_not_fit_is_one_line(wanted, said, monkeypatch):
    monkeypatch.setattr(workflow.metadata, "requires", lambda name: [wanted])
    with pytest.raises(ValueError, match=f"{said}.*$"):
        workflow.check_packages()


def test_a_missing_data_folder_is_refused_before_anything_runs(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("SAOBP_DATA", str(tmp_path / "gone"))
    assert cli.main(["reproduce", "--study", "smoke"]) == 2
    assert "gone: no such data folder; set SAOBP_DATA to" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name",
    [
        "notebooks/09-audit.ipynb",
        "data/published/a.csv",
        "build/smoke/records/a b.json",
        "build/smoke/index.html",
        "Snakefile",
        "companion/training/trainer.py",
        "saobp/models/apply.py",
        "saobp/fused/native/passes.c",
    ],
)
def test_a_file_of_the_future_is_named_before_anything_runs(tmp_path, capsys, monkeypatch, name):
    studies = tmp_path / "notebooks" / "studies"
    studies.mkdir(parents=True)
    shutil.copy(paths.root() / "notebooks" / "studies" / "smoke.yaml", studies)
    file = paths.write_text(tmp_path / name, "{}")
    monkeypatch.chdir(tmp_path)
    runs = []
    monkeypatch.setattr(workflow, "_snakemake", lambda *_, **how: runs.append(how) or 0)
    monkeypatch.setattr(workflow.forked_runs, "serving", lambda: contextlib.nullcontext(({}, [])))
    monkeypatch.setenv("SAOBP_DATA", str(tmp_path))
    os.utime(file, (2**32, 2**32))
    assert cli.main(["reproduce", "--study", "smoke"]) == 2 and not runs
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and f"{file}: is of 2106-" in said and "touch {} +" in said
    # the command that it names
    command = said.partition("run: ")[2]
    subprocess.run(command, shell=True, check=True)
    assert cli.main(["reproduce", "--study", "smoke"]) == 0 and runs


def test_a_study_of_the_future_that_lies_elsewhere_is_named_before_anything_runs(
    tmp_path, tmp_path_factory, capsys, monkeypatch
):
    (tmp_path / "notebooks").mkdir()
    mine = tmp_path_factory.mktemp("my studies") / "mine.yaml"
    shutil.copy(paths.root() / "notebooks" / "studies" / "smoke.yaml", mine)
    mine.write_text(mine.read_text().replace("name: smoke", "name: mine"))
    monkeypatch.chdir(tmp_path)
    runs = []
    monkeypatch.setattr(workflow, "_snakemake", lambda *_, **how: runs.append(how) or 0)
    monkeypatch.setattr(workflow.forked_runs, "serving", lambda: contextlib.nullcontext(({}, [])))
    monkeypatch.setenv("SAOBP_DATA", str(tmp_path))
    os.utime(mine, (2**32, 2**32))
    assert cli.main(["reproduce", "--study", str(mine)]) == 2 and not runs
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and f"{mine}: is of 2106-" in said
    subprocess.run(said.partition("run: ")[2], shell=True, check=True)
    assert cli.main(["reproduce", "--study", str(mine)]) == 0 and runs


@pytest.mark.parametrize(
    "name", ["narrow", "paper", pytest.param("laptop", marks=pytest.mark.nightly)]
)
def test_a_study_that_this_machine_cannot_run_has_a_graph_all_the_same(
    name, tmp_path, capfd, monkeypatch
):
    monkeypatch.setattr(paths, "build", lambda study_name: tmp_path / study_name)
    study, counts = load_study(name), planned(name, capfd)
    trained = len(study.pairs()) * len(study.seeds)
    heads = trained * len(study.finetune.groups) * len(study.finetune.seeds)
    assert (counts["pretrain"], counts["finetune"], counts["report"]) == (trained, heads, 1)
    assert counts["attention"] == len(study.looked_at()) * len(study.seeds)
    assert not (tmp_path / name / "records").exists()


def test_a_clone_in_a_folder_of_any_name_runs_a_rule(tmp_path):
    odd = repository(tmp_path / ODD, "little")
    done = made(odd, "little", "records/09-audit.json")
    assert done.returncode == 0, done.stdout + done.stderr
    build = odd / "build" / "little"
    assert records.read(build / "records" / "09-audit.json")["name"] == "09-audit"
    assert (build / "notebooks" / "09-audit.ipynb").is_file()
    assert "09-audit" in (build / "logs" / "09-audit.log").read_text()


def test_every_command_of_a_clone_in_a_folder_of_any_name_has_its_paths_whole(tmp_path):
    odd = repository(tmp_path / ODD, "little")
    study_name = odd / "notebooks" / "studies" / "little.yaml"
    done = made(odd, "little", "index.html", "processes=2", options=["--dry-run"])
    assert done.returncode == 0, done.stdout + done.stderr
    commands = re.findall(r"^Shell command: (OMP_NUM_THREADS=.*)$", done.stdout, re.MULTILINE)
    # of every rule, one in each of five notebooks that need no training
    assert len(commands) == 11
    for command in commands:
        for part in command.split(" && "):
            words = shlex.split(part)
            assert str(study_name) in words and sys.executable in words
            if "run" in words:
                assert (
                    (odd / "build" / "little" / words[words.index("run") + 1]).resolve().is_file()
                )
    (shared,) = [command for command in commands if "torch.distributed.run" in command]
    # two processes train, and the notebook finds it done
    first, then = shared.split(" && ")
    assert (
        "--nproc-per-node 2 -m companion.training.pretraining" in first
        and "forked_runs.py run" in then
    )
    assert "--model mini-quarter --algorithm high --seed 42" in first


def test_make_hands_a_study_file_of_any_name_over_whole(tmp_path):
    folder = tmp_path / ODD
    programs = folder / ".venv" / "bin"
    programs.mkdir(parents=True)
    (folder / "Makefile").symlink_to(paths.root() / "Makefile")
    said = programs / "saobp"
    said.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    said.chmod(0o755)
    study = f"{folder}/my: study.yaml"
    for target in ("reproduce", "publish"):
        command = ["make", "-s", "-o", "install", target, f"STUDY={study}"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and done.stdout.splitlines()[:3] == [
            target,
            "--study",
            study,
        ], done


def planned(study_name, capfd):
    """Return rule -> jobs of a dry run."""
    assert cli.main(["reproduce", "--study", str(study_name), "--dry-run"]) == 0
    rows = [
        line.split("\t") for line in capfd.readouterr().out.splitlines() if line.count("\t") == 5
    ]
    due = [(file, rule) for file, _, rule, _, _, plan in rows if plan == "update pending"]
    return Counter(
        rule for file, rule in due if file.startswith("records/") or file == "index.html"
    )


def finished(folder, summary):
    """Leave an empty file for every product of a workflow that its summary lists, none older than
    another.
    """
    now = time.time()
    for line in summary.splitlines()[1:]:
        path = paths.write_text(folder / line.partition("\t")[0], "")
        os.utime(path, (now, now))
    return now


@pytest.fixture
def one(tmp_path, monkeypatch):
    """A study of one model and algorithm, whose runs are all there."""
    folder = tmp_path / ODD
    monkeypatch.setattr(paths, "build", lambda study_name: folder)
    study_name = paths.write_text(folder / "one.yaml", one_of_each("one"))
    finished(folder, snakemake(folder, study_name, "--cores", "1", "--summary", check=True).stdout)
    return study_name


def test_deleting_one_record_reruns_what_depends_on_it_and_nothing_else(one, capfd):
    assert planned(one, capfd) == {}
    lost, aside = (
        one.parent / "records/06-attention-mini-quarter-high-42-race.json",
        one.parent / "aside",
    )
    lost.rename(aside)
    assert planned(one, capfd) == {"attention": 1, "summary": 2, "report": 1}
    aside.rename(lost)
    # as an outdated report asks for
    for path in (one.parent / "records").glob("1[01]-*.json"):
        path.unlink()
    assert planned(one, capfd) == {"summary": 2, "report": 1}


def test_a_changed_study_reruns_what_depends_on_the_change_and_nothing_else(
    one, capfd, monkeypatch
):
    snakemake(one.parent, one, "--cores", "1", "--touch", "--forceall", "--quiet", check=True)
    assert planned(one, capfd) == {}
    text, after = one.read_text(), {"summary": 2, "report": 1}
    for old, new, rerun in (
        ("  samples: 32", "  samples: 31", {"attention": 1}),
        # one more, not both
        ("  seeds: [0]", "  seeds: [0, 1]", {"finetune": 1}),
        ("  learning_rate: 1.0e-3", "  learning_rate: 4.0e-4", {"finetune": 1}),
        # both read those rows
        ("  limit_evaluation: 12", "  limit_evaluation: 11", {"finetune": 1, "attention": 1}),
        ("  limit_train: 12", "  limit_train: 11", {"finetune": 1, "attention": 1}),
        (
            "  curve: 4",
            "  curve: 4\n  splits: {race: [validation, test]}",
            {"finetune": 1, "attention": 1},
        ),
        # not the task looked at
        ("  curve: 4", "  curve: 4\n  splits: {rte: [validation, test]}", {"finetune": 1}),
        ("  steps: 90", "  steps: 91", {"pretrain": 1, "finetune": 1, "attention": 1}),
    ):
        one.write_text(text.replace(old, new))
        assert planned(one, capfd) == rerun | after, new
    one.write_text(text)
    # other data than the study names
    monkeypatch.setenv("SAOBP_DATA", str(one.parent))
    assert planned(one, capfd) == {"pretrain": 1, "finetune": 1, "attention": 1} | after


@pytest.mark.parametrize("place", ["named by a variable", "in the folder"])
def test_snakemakes_settings_of_a_user_leave_no_outdated_record(
    one, capfd, monkeypatch, tmp_path, place
):
    snakemake(one.parent, one, "--cores", "1", "--touch", "--forceall", "--quiet", check=True)
    profile = tmp_path / "profiles" / "default"
    paths.write_text(profile / "config.yaml", "rerun-triggers: [mtime]\n")
    if place == "in the folder":
        monkeypatch.chdir(tmp_path)
    else:
        monkeypatch.setenv("SNAKEMAKE_PROFILE", str(profile))
    one.write_text(one.read_text().replace("  samples: 32", "  samples: 31"))
    assert planned(one, capfd) == {"attention": 1, "summary": 2, "report": 1}


RESULTS = "results/{}".format
BOTH = {"published", RESULTS("narrow")}
# run -> what it shows of data/ and figures/
TRACKED = {
    "05-finetune-mini-quarter-high-42-all-0": BOTH | {"figures"},
    "06-attention-mini-quarter-high-42-race": {RESULTS("narrow"), "figures"},
    "07-decoder-mini-quarter-high_all_rows-42": BOTH | {"figures"},
    "08-cost-mini-quarter": BOTH | {"figures"},
    "09-audit": {"published"},
    "10-tables": BOTH | {"figures", RESULTS("laptop"), RESULTS("decoders")},
    "11-figures": {"published", "plan", "examples", "figures"},
    "12-beyond-mini-quarter-42": {"figures", RESULTS("stories"), RESULTS("learning")},
    "13-retrofit": {RESULTS("retrofit"), "plan", "figures"},
    "report": {"figures"},
}


def test_a_change_of_what_is_tracked_reruns_the_runs_that_show_it_and_those_alone(tmp_path):
    folder = repository(tmp_path / "clone", "little")
    # their names, which may be touched
    for name in ("data", "figures"):
        (folder / name).unlink()
        shutil.copytree(
            paths.root() / name, folder / name, copy_function=lambda _, path: Path(path).touch()
        )
    build, smoke = folder / "build" / "smoke", paths.root() / "notebooks" / "studies" / "smoke.yaml"
    build.mkdir(parents=True)

    def said(option):
        how = {"folder": folder, "cwd": folder, "env": given(), "check": True}
        return snakemake(build, smoke, "--cores", "1", option, **how).stdout

    now = finished(build, said("--summary"))
    assert "Nothing to be done" in said("--dry-run")
    for path in (*folder.glob("data/**/*.*"), *folder.glob("figures/*")):
        os.utime(path, (now + 1, now + 1))
    found, line = {}, "^    {}: (.*)$"
    for job in said("--dry-run").split("\nrule ")[1:]:
        (inputs,), log = (
            re.findall(line.format(key), job, re.MULTILINE) for key in ("input", "log")
        )
        if shown := re.findall(r"\.\./(?:data/(results/[^/,]+|[^/,]+)|(figures)/)", inputs):
            found[Path(*log).stem] = {name for names in shown for name in filter(None, names)}
    assert found == TRACKED


# when it ran, not what came out
TIMES = ("seconds", "per_second", "timings", "started", "duration", "sittings")


def start(folder):
    """Start the whole study in a session of its own."""
    command = [
        sys.executable,
        "-m",
        "companion.publication.cli",
        "reproduce",
        "--study",
        "little",
        "--cores",
        "2",
    ]
    with (folder / "log").open("a") as log:
        return subprocess.Popen(
            command, cwd=folder, env=given(), stdout=log, stderr=log, start_new_session=True
        )


def killed(process):
    """Kill a run with all of its children, wherever they are."""
    family = subprocess.run(
        ["ps", "-s", str(process.pid), "-o", "pid="], capture_output=True, text=True
    ).stdout
    for number in family.split():
        # ended in between
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(number), signal.SIGKILL)
    process.wait()


def timeless(mapping):
    return {key: value for key, value in mapping.items() if not any(word in key for word in TIMES)}


def metrics(folder):
    """Return what the records of a build say, without times."""
    records = sorted((folder / "build" / "little" / "records").glob("*.json"))
    return {
        path.name: json.loads(path.read_text(), object_hook=timeless)["metrics"] for path in records
    }


# a quarter of an hour
@pytest.mark.slow
def test_a_study_killed_five_times_gives_the_metrics_of_one_run_through(tmp_path):
    chance = random.Random(3)
    whole, cut = repository(tmp_path / "whole", "little"), repository(tmp_path / "cut", "little")
    clock = time.monotonic()
    assert start(whole).wait(timeout=1800) == 0, (whole / "log").read_text()[-2000:]
    length = time.monotonic() - clock
    for _ in range(5):
        process = start(cut)
        time.sleep(chance.uniform(0.1, 0.6) * length / 2)
        assert process.poll() is None, "it ended before it could be killed"
        killed(process)
    assert start(cut).wait(timeout=1800) == 0, (cut / "log").read_text()[-2000:]
    assert metrics(cut) == metrics(whole) and len(metrics(whole)) >= 8
