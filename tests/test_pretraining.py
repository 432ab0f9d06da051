"""One run of a profile from the command line, as torchrun and Accelerate start it."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from saobp.study import paths, pretraining


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--profile", "nope", "--model", "mini", "--algorithm", "high"], "no profile is called 'nope'"),
        (["--profile", "smoke", "--model", "nope", "--algorithm", "high"], "trains no nope with high: choose one of"),
        (
            ["--profile", "smoke", "--model", "mini-twin", "--algorithm", "high_all_rows"],
            "trains no mini-twin with high",
        ),
    ],
)
def test_a_wrong_name_is_one_line(given, said, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["pretraining", *given])
    with pytest.raises(SystemExit) as stopped:
        pretraining.main()
    line = capsys.readouterr().err
    assert stopped.value.code == 2 and line.startswith("saobp: ") and said in line and line.count("\n") == 1


def test_the_processes_of_a_run_wait_together_for_another_run_and_continue_from_the_same_checkpoint(tmp_path):
    script = str(Path(__file__).with_name("distributed_pretraining.py"))
    launch = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command = [*launch, script, str(tmp_path), "high"]
    (tmp_path / "work").mkdir()
    with paths.locked(tmp_path / "work"):  # another run holds the folder ...
        waiting = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        time.sleep(15)
        assert waiting.poll() is None and not list((tmp_path / "work").glob("checkpoint-*"))
    said = waiting.communicate(timeout=300)[0]  # ... and lets go
    assert waiting.returncode == 0, said
    assert (tmp_path / "work" / "checkpoint-20").is_dir()
    again = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert again.returncode == 0 and "continuing from checkpoint-20" in again.stdout, again.stderr
