"""Time the two commands and each of their steps: `python benchmarks/minutes.py`, in a fresh clone,
some ten minutes.

Writes benchmarks/minutes.json: seconds of `make reproduce`, of a second one that has nothing to do,
and of `make test`, once everything is installed; of every run as Snakemake has timed it; and of the
tests of every folder with their fixtures, as pytest has.
"""

import argparse
import csv
import json
import os
import subprocess
import time
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

from companion.cost.timing import circumstances
from companion.records import device
from companion.setup import paths

TIMED = {"PYTEST_ADDOPTS": "--junitxml=build/tests.xml -o junit_duration_report=total"}


def seconds(*command: str) -> float:
    """Run a command from the repository root and return how long it took; CalledProcessError if it
    fails.
    """
    start = time.perf_counter()
    subprocess.run(command, check=True, cwd=paths.root(), env=os.environ | TIMED)
    return round(time.perf_counter() - start, 1)


def steps(build: Path) -> dict[str, float]:
    """Return the seconds of each run of a build."""
    files = sorted((build / "timings").glob("*.tsv"))
    return {
        file.stem: float(next(csv.DictReader(file.open(), delimiter="\t"))["s"]) for file in files
    }


def tests(report: Path) -> dict[str, float]:
    """Return the seconds of the tests of each folder, all processes together."""
    spent: Counter[str] = Counter()
    for case in ElementTree.parse(report).iter("testcase"):
        folder, *rest = case.get("classname", "").removeprefix("tests.").split(".")
        spent[folder if rest or folder.startswith("notebooks") else "tests"] += float(
            case.get("time", 0)
        )
    return {folder: round(time, 1) for folder, time in spent.most_common()}


def main() -> None:
    """Measure and write."""
    build = paths.build("smoke")
    if build.exists():
        raise SystemExit(
            f"minutes.py: {build} is there already; run it in a fresh clone, or remove it"
        )
    seconds("make", "install")
    found = {"device": device(), **circumstances()}
    commands = {
        "make reproduce": ("make", "reproduce"),
        "again": ("make", "reproduce"),
        "make test": ("make", "test"),
    }
    found["commands"] = {name: seconds(*command) for name, command in commands.items()}
    found |= {"steps": steps(build), "tests": tests(paths.root() / "build" / "tests.xml")}
    paths.write_text(Path(__file__).with_suffix(".json"), json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    main()
