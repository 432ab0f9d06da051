"""A whole profile, killed again and again at random moments: the same metrics as one run through."""

import contextlib
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


def start(folder):
    """Start the whole profile in a session of its own."""
    command = [sys.executable, "-m", "saobp.study.publication.cli", "reproduce", "--profile", "little", "--cores", "2"]
    with (folder / "log").open("a") as log:
        return subprocess.Popen(command, cwd=folder, env=given(), stdout=log, stderr=log, start_new_session=True)


def killed(process):
    """Kill a run with all of its children, wherever they are."""
    family = subprocess.run(["ps", "-s", str(process.pid), "-o", "pid="], capture_output=True, text=True).stdout
    for number in family.split():
        with contextlib.suppress(ProcessLookupError):  # ended in between
            os.kill(int(number), signal.SIGKILL)
    process.wait()


def timeless(mapping):
    return {key: value for key, value in mapping.items() if not any(word in key for word in TIMES)}


def metrics(folder):
    """Return what the records of a build say, without times."""
    records = sorted((folder / "build" / "little" / "records").glob("*.json"))
    return {path.name: json.loads(path.read_text(), object_hook=timeless)["metrics"] for path in records}


@pytest.mark.slow  # a quarter of an hour
def test_a_profile_killed_five_times_gives_the_metrics_of_one_run_through(tmp_path):
    chance = random.Random(3)
    whole, cut = repository(tmp_path / "whole", "little"), repository(tmp_path / "cut", "little")
    clock = time.monotonic()
    assert start(whole).wait(timeout=1800) == 0, (whole / "log").read_text()[-2000:]
    length = time.monotonic() - clock
    for _ in range(KILLS):
        process = start(cut)
        time.sleep(chance.uniform(0.1, 0.6) * length / 2)
        assert process.poll() is None, "it ended before it could be killed"
        killed(process)
    assert start(cut).wait(timeout=1800) == 0, (cut / "log").read_text()[-2000:]
    assert metrics(cut) == metrics(whole) and len(metrics(whole)) >= 8
