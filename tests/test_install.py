"""The method installs alone: what `pip install .` brings runs the README's snippet, and what needs more says what."""

import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from saobp.models import public
from saobp.study.setup import paths

README = (paths.root() / "README.md").read_text(encoding="utf-8")
SNIPPET = next(code for code in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "saobp.apply" in code)
OUTPUT = re.search(r"```text\n(none: .*?)```", README, re.DOTALL)[1]
HIDDEN = """
from importlib.machinery import PathFinder
real = PathFinder.find_spec
def find_spec(name, path=None, target=None):
    return None if name.partition(".")[0] in {modules!r} else real(name, path, target)
PathFinder.find_spec = find_spec
"""


def brought(name, found):
    """Add a distribution and what it requires without extras to `found`."""
    if name in found:
        return
    found.add(name)
    for text in importlib.metadata.requires(name) or []:
        wanted = Requirement(text)
        if wanted.marker is None or wanted.marker.evaluate({"extra": ""}):
            brought(canonical(wanted.name), found)


def canonical(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def beside_the_method():
    """Modules that are installed here and do not come with `pip install .`."""
    found = {"saobp"}
    for text in tomllib.loads((paths.root() / "pyproject.toml").read_text())["project"]["dependencies"]:
        brought(canonical(Requirement(text).name), found)
    return {
        module
        for module, owners in importlib.metadata.packages_distributions().items()
        if not {canonical(owner) for owner in owners} & found and "." not in module
    }


def run(code, folder, python=sys.executable):
    model = folder / "sentence-transformers" / "all-MiniLM-L6-v2"
    if not model.exists():
        model.parent.mkdir(parents=True)
        model.symlink_to(public.locate("minilm"))
    environment = {**os.environ, "PYTHONWARNINGS": "ignore", "SAOBP_DATA": str(folder)}
    return subprocess.run([python, "-c", code], cwd=folder, capture_output=True, text=True, env=environment)


def without_extras(code, folder):
    return run(HIDDEN.format(modules=beside_the_method()) + code, folder)


def test_the_snippet_needs_no_extra(tmp_path):
    hidden = beside_the_method()
    assert {"igraph", "pyarrow", "pandas", "datasets"} <= hidden and not hidden & {"torch", "tqdm"}
    done = without_extras(SNIPPET, tmp_path)
    assert (done.returncode, done.stdout) == (0, OUTPUT), done.stderr


@pytest.mark.parametrize(("name", "needs"), [("graph", "igraph"), ("capture", "pyarrow")])
def test_what_needs_an_extra_names_it(name, needs, tmp_path):
    done = without_extras(f"import saobp.{name}", tmp_path)
    last = done.stderr.strip().splitlines()[-1]
    assert last == f"ModuleNotFoundError: saobp.{name} needs {needs}: pip install 'saobp[measure]'"


@pytest.mark.slow
def test_the_wheel_alone_runs_the_snippet_in_an_empty_environment(tmp_path):
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", tmp_path, str(paths.root())], check=True)
    (wheel,) = tmp_path.glob("saobp-*.whl")
    venv.create(tmp_path / "empty", with_pip=True)
    python = tmp_path / "empty" / "bin" / "python"
    pins = [line for line in Path(paths.root() / "requirements.lock").read_text().splitlines() if line[:6] == "torch="]
    subprocess.run([python, *pip[1:], "install", *pins, str(wheel)], check=True)
    done = run(SNIPPET, tmp_path, python)
    assert (done.returncode, done.stdout) == (0, OUTPUT), done.stderr
