"""Clones, studies, data and outputs below folders whose names a shell, YAML or a format string would read otherwise."""

import json
import subprocess
import sys

import pytest
from small_repository import given, made, repository

from saobp.study import paths, records
from saobp.study.profile import load_profile

ODD = "a b's #1 {x} ü"


@pytest.fixture
def clone(tmp_path):
    """A clone in an odd folder, with the smoke study and a small one, whose name is odd too."""
    folder = repository(tmp_path / ODD, "it's {y}, #2: ü")
    smoke = "notebooks/profiles/smoke.yaml"
    (folder / smoke).write_text((paths.root() / smoke).read_text())
    return folder


def saobp(folder, *arguments):
    command = [sys.executable, "-m", "saobp.study.runner", *map(str, arguments)]
    return subprocess.run(command, cwd=folder, env=given(), capture_output=True, text=True, timeout=300)


def test_the_whole_smoke_study_is_planned_from_odd_folders_on_odd_data(tmp_path, clone):
    below = tmp_path / 'it\'s #1: {y} "b" 100% $HOME `z` & ;'
    below.mkdir()
    text = (clone / "notebooks" / "profiles" / "smoke.yaml").read_text()
    text = text.replace("name: smoke", 'name: "o{x}\'s #2"').replace(
        "data: synthetic", f"data: {json.dumps(str(below))}"
    )
    (below / "o{x}'s #2.yaml").write_text(text)
    done = saobp(clone, "reproduce", "--profile", below / "o{x}'s #2.yaml", "--dry-run")
    assert done.returncode == 0, done.stdout + done.stderr
    study = load_profile(clone / "notebooks" / "profiles" / "smoke.yaml")
    counts = [line.split() for line in done.stdout.splitlines()]
    assert ["pretrain", str(len(study.pairs()) * len(study.seeds))] in counts and ["report", "1"] in counts


def test_a_rule_runs_in_a_clone_in_an_odd_folder(clone):
    (name,) = (path.stem for path in (clone / "notebooks" / "profiles").iterdir() if "it's" in path.name)
    done = made(clone, name, "notebooks/09-audit.ipynb")
    assert done.returncode == 0, done.stdout + done.stderr
    folder = clone / "build" / name
    assert records.read(folder / "records" / "09-audit.json")["profile"] == name
    assert (folder / "notebooks" / "09-audit.ipynb").is_file()
    assert (folder / "logs" / "09-audit.log").read_text()
