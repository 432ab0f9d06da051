"""A whole profile, killed again and again at random moments: the same metrics as one run through."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest
from small_repository import given, repository

TIMES = ("seconds", "milliseconds", "per_second", "timings", "started", "duration")  # of a machine, not of a run
KILLS = 5


def start(folder, name):
    """Start the whole profile in a process group of its own."""
    command = [sys.executable, "-m", "saobp.study.publication.cli", "reproduce", "--profile", name, "--cores", "2"]
    with (folder / "log").open("a") as log:
        return subprocess.Popen(command, cwd=folder, env=given(), stdout=log, stderr=log, start_new_session=True)


def killed(process):
    """Kill a run with all of its children, wherever they are."""
    family = subprocess.run(["ps", "-eo", "pid,sid"], capture_output=True, text=True, check=True).stdout
    for line in family.splitlines()[1:]:
        pid, session = map(int, line.split())
        if session == process.pid:
            os.kill(pid, signal.SIGKILL)
    process.wait()


def metrics(folder, name):
    """Return what the records of a build say, without times."""

    def timeless(value):
        if isinstance(value, dict):
            return {key: timeless(x) for key, x in value.items() if not any(word in key for word in TIMES)}
        return [timeless(x) for x in value] if isinstance(value, list) else value

    records = sorted((folder / "build" / name / "records").glob("*.json"))
    return {path.name: timeless(json.loads(path.read_text())["metrics"]) for path in records}


@pytest.mark.slow  # a quarter of an hour
def test_a_profile_killed_five_times_gives_the_metrics_of_one_run_through(tmp_path):
    chance = random.Random(3)
    whole, cut = repository(tmp_path / "whole", "little"), repository(tmp_path / "cut", "little")
    clock = time.monotonic()
    assert start(whole, "little").wait(timeout=1800) == 0, (whole / "log").read_text()[-2000:]
    length = time.monotonic() - clock
    for _ in range(KILLS):
        process = start(cut, "little")
        time.sleep(chance.uniform(0.1, 0.6) * length / 2)
        assert process.poll() is None, "it ended before it could be killed"
        killed(process)
    assert start(cut, "little").wait(timeout=1800) == 0, (cut / "log").read_text()[-2000:]
    ours, theirs = metrics(cut, "little"), metrics(whole, "little")
    assert ours.keys() == theirs.keys() and len(ours) >= 8
    for name in ours:
        assert ours[name] == theirs[name], name
