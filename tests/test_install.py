"""The lock, pyproject.toml and environment.yml say the same; the method installs alone; what needs
more says what.
"""

import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
import venv

import lock
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from saobp.models import public

LOCKED = (lock.ROOT / "requirements.lock").read_text().splitlines()
PINS = lock.pins(LOCKED)
README = (lock.ROOT / "README.md").read_text(encoding="utf-8")
SNIPPET = next(
    code for code in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "saobp.apply" in code
)
OUTPUT = re.search(r"```text\n(none, .*?)```", README, re.DOTALL)[1]
ALONE = """
from importlib.machinery import PathFinder
real = PathFinder.find_spec
def find_spec(name, path=None, target=None):
    return None if name.partition(".")[0] in {modules!r} else real(name, path, target)
PathFinder.find_spec = find_spec
{snippet}
for name in ("graph", "capture"):
    try:
        __import__("saobp.measure." + name)
    except ModuleNotFoundError as error:
        print(error)
"""
COMMAND = """
import sys
from saobp.measure import command
sys.stderr = sys.stdout
print(command.main({words}))
raise SystemExit
"""


def test_the_lock_pins_exactly_and_environment_yml_repeats_every_direct_dependency():
    lines = [line for line in LOCKED if not line.startswith("#")]
    assert all(re.match(r"^[A-Za-z0-9._-]+==[^ =]+( ; .*)?$", line) for line in lines)
    assert not [line for line in lines if lock.LEFT_TO_TORCH.match(line)]
    assert PINS["torch"] == "2.13.0", "the release that the project was tried with"
    conda = yaml.safe_load((lock.ROOT / "environment.yml").read_text())
    listed = next(entry["pip"] for entry in conda["dependencies"] if isinstance(entry, dict))
    direct = {Requirement(text).name: Requirement(text) for text in lock.direct_dependencies()}
    assert [
        name for name, wanted in direct.items() if not wanted.specifier.contains(PINS[name])
    ] == []
    assert dict(text.split("==") for text in listed if "==" in text) == {
        name: PINS[name] for name in direct
    }


# asks the package index
@pytest.mark.slow
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
        "-q",
    ]
    done = subprocess.run(command, cwd=lock.ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert f"torch=={PINS['torch']}" in done.stdout


def beside_the_method():
    """Modules that are installed here and do not come with `pip install .`."""
    due, found = (
        tomllib.loads((lock.ROOT / "pyproject.toml").read_text())["project"]["dependencies"],
        {"saobp"},
    )
    # to which is added what each requires without extras
    for wanted in map(Requirement, due):
        name = canonicalize_name(wanted.name)
        if name not in found and (wanted.marker is None or wanted.marker.evaluate({"extra": ""})):
            found.add(name)
            due += importlib.metadata.requires(name) or []
    owned = importlib.metadata.packages_distributions().items()
    return {
        name
        for name, owners in owned
        if "." not in name and not {*map(canonicalize_name, owners)} & found
    }


def run(code, folder, python=sys.executable):
    """Run code with the packaged model in the place where the snippet looks for it."""
    model = folder / "sentence-transformers" / "all-MiniLM-L6-v2"
    model.parent.mkdir(parents=True)
    model.symlink_to(public.locate("minilm"))
    environment = {**os.environ, "PYTHONWARNINGS": "ignore", "SAOBP_DATA": str(folder)}
    done = subprocess.run(
        [python, "-c", code], cwd=folder, capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_snippet_needs_no_extra_and_what_needs_one_names_it(tmp_path):
    hidden = beside_the_method()
    assert {"igraph", "pyarrow", "pandas", "datasets"} <= hidden and not hidden & {"torch", "tqdm"}
    lack = "saobp.measure.{} needs {}: pip install 'saobp[measure]'\n".format
    printed = OUTPUT + lack("graph", "igraph") + lack("capture", "pyarrow")
    assert run(ALONE.format(modules=hidden, snippet=SNIPPET), tmp_path) == printed
    plain, refined, spared = (
        [float(x) for x in re.findall(r" ([\d.]+)", line)] for line in OUTPUT.splitlines()
    )
    # the sink, and the cosine with the plain model
    assert refined[0] < 0.9 * plain[0] < spared[0]
    assert refined[1] < spared[1] < plain[1] == 1
    assert sum(map(bool, map(str.strip, SNIPPET.splitlines()))) <= 14


@pytest.mark.parametrize(
    ("words", "lacks", "extra"),
    [
        (["inspect", "minilm"], None, "measure"),
        (["table", "2"], "pandas", "study"),
        (["figure", "4"], "matplotlib", "study"),
    ],
)
def test_a_command_that_needs_an_extra_names_it(words, lacks, extra, tmp_path):
    code = ALONE.format(
        modules={lacks} if lacks else beside_the_method(), snippet=COMMAND.format(words=words)
    )
    assert re.fullmatch(
        rf"saobp: \w+ is not installed: pip install 'saobp\[{extra}\]'\n2\n", run(code, tmp_path)
    )


@pytest.mark.slow
def test_the_wheel_alone_runs_the_snippet_in_an_empty_environment(tmp_path):
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", tmp_path, str(lock.ROOT)], check=True)
    (wheel,) = tmp_path.glob("saobp-*.whl")
    venv.create(tmp_path / "empty", with_pip=True)
    python = tmp_path / "empty" / "bin" / "python"
    subprocess.run([python, *pip[1:], "install", f"torch=={PINS['torch']}", str(wheel)], check=True)
    assert run(SNIPPET, tmp_path, python) == OUTPUT
