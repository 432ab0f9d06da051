"""Refresh requirements.lock and environment.yml from pyproject.toml (`make lock`)."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
# torch pins its own accelerator libraries, and the build for the machine may need none: leave them
# to it
LEFT_TO_TORCH = re.compile(r"^(nvidia-|cuda-|triton)")
EXTRAS = ("measure", "study", "test")
COMPILE = (
    "uv pip compile pyproject.toml --extra measure --extra study --extra test --universal --fork-strategy fewest "
    "--python-version 3.11 --quiet --upgrade --no-annotate --no-header"
)
HEADER = "# Exact pins for Python 3.11 and later, written by `make lock`: edit pyproject.toml, not this file.\n"


def resolve() -> list[str]:
    """Resolve every extra of pyproject.toml to exact pins, one line a package."""
    command = [sys.executable, "-m", *COMPILE.split()]
    lines = subprocess.run(
        command, cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    elsewhere = ("sys_platform == 'emscripten'", "sys_platform == 'win32'")
    return [
        line for line in lines if not LEFT_TO_TORCH.match(line) and not line.endswith(elsewhere)
    ]


def pins(lines: list[str]) -> dict[str, str]:
    """Map package name to pinned version; of a fork by Python version, the oldest Python's."""
    pairs = [line.split(";")[0].strip().split("==") for line in lines if "==" in line.split(";")[0]]
    return dict(reversed(pairs))


def direct_dependencies() -> list[str]:
    """List the requirement strings that pyproject.toml states, those of a cluster's own left
    out.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [
        r
        for name in EXTRAS
        for r in project["optional-dependencies"][name]
        if not r.startswith("saobp[")
    ]
    return project["dependencies"] + extras


def environment(lines: list[str]) -> str:
    """Write environment.yml: the direct dependencies at the lock's pins, then the package
    itself.
    """
    versions = pins(lines)
    names = sorted(
        {re.match(r"[A-Za-z0-9._-]+", requirement)[0] for requirement in direct_dependencies()}
    )
    packages = "".join(f"      - {name}=={versions[name]}\n" for name in names)
    return (
        "# conda env create -f environment.yml; the pins are requirements.lock's, written by `make lock`\n"
        "name: saobp\nchannels:\n  - conda-forge\ndependencies:\n  - python=3.11\n  - pip\n  - make\n"
        f"  - pip:\n{packages}      - -e .\n"
    )


if __name__ == "__main__":
    resolved = resolve()
    (ROOT / "requirements.lock").write_text(HEADER + "\n".join(resolved) + "\n")
    (ROOT / "environment.yml").write_text(environment(resolved))
    print(f"{len(resolved)} packages pinned in requirements.lock; environment.yml follows it")
