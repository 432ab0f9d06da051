"""The lock, pyproject.toml and environment.yml say the same."""

import re
import subprocess
import sys

import lock
import pytest
import yaml
from packaging.requirements import Requirement

PINS = lock.pins((lock.ROOT / "requirements.lock").read_text().splitlines())
CONDA = yaml.safe_load((lock.ROOT / "environment.yml").read_text())
DIRECT = {Requirement(text).name: Requirement(text) for text in lock.direct_dependencies()}


def conda_pins():
    listed = next(entry["pip"] for entry in CONDA["dependencies"] if isinstance(entry, dict))
    return dict(text.split("==") for text in listed if "==" in text)


def test_the_lock_pins_every_direct_dependency_within_its_range():
    for name, requirement in DIRECT.items():
        assert requirement.specifier.contains(PINS[name]), name


def test_environment_yml_has_the_lock_s_pins_of_exactly_the_direct_dependencies():
    assert conda_pins() == {name: PINS[name] for name in DIRECT}


def test_every_line_of_the_lock_is_an_exact_pin_and_names_no_accelerator_library():
    lines = [line for line in (lock.ROOT / "requirements.lock").read_text().splitlines() if not line.startswith("#")]
    assert all(re.match(r"^[A-Za-z0-9._-]+==[^ =]+( ; .*)?$", line) for line in lines)
    assert not [line for line in lines if lock.LEFT_TO_TORCH.match(line)]


def test_torch_is_the_release_that_the_project_was_tried_with():
    assert PINS["torch"] == "2.13.0" and conda_pins()["torch"] == "2.13.0"


def test_the_method_needs_nothing_of_the_study():
    """The door between the two rooms opens one way."""
    for path in (lock.ROOT / "saobp").glob("*.py"):
        assert "saobp.study" not in path.read_text(encoding="utf-8"), path.name


@pytest.mark.slow  # asks the package index
@pytest.mark.parametrize("version", ["3.11", "3.12"])
def test_the_lock_installs_on_every_python_that_it_is_for(version):
    pytest.importorskip("uv", reason="`make lock` installs it")
    command = [
        sys.executable,
        "-m",
        "uv",
        "pip",
        "compile",
        "requirements.lock",
        "--python-version",
        version,
        "--quiet",
    ]
    done = subprocess.run(command, cwd=lock.ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert f"torch=={PINS['torch']}" in done.stdout
