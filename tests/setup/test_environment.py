"""What a run inherits is one list, and what could not be cleared is told."""

import os
import subprocess
import sys

import pytest

from companion.publication import cli
from companion.setup import environment, paths

PACKAGE = str(paths.root())


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("HOME", True),
        ("LC_ALL", True),
        ("SAOBP_DATA", True),
        ("HF_TOKEN", True),
        ("https_proxy", True),
        ("CUDA_VISIBLE_DEVICES", True),
        ("SLURM_JOB_ID", True),
        ("SNAKEMAKE_SLURM_PARTITION", True),
        ("SNAKEMAKE_PROFILE", False),
        ("ACCELERATE_MIXED_PRECISION", False),
        ("PYTHONOPTIMIZE", False),
        ("MATPLOTLIBRC", False),
        ("MKL_CBWR", False),
        ("NVIDIA_TF32_OVERRIDE", False),
        ("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", False),
        ("GIT_DIR", False),
        ("ANYTHING_ELSE", False),
    ],
)
def test_a_run_inherits_what_the_list_names_and_nothing_else(monkeypatch, name, kept):
    monkeypatch.setenv(name, "1")
    assert (name in environment.of_a_run()) == kept


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (PACKAGE, PACKAGE),
        (os.pathsep.join(["/elsewhere", PACKAGE]), PACKAGE),
        ("/elsewhere", None),
        ("", None),
    ],
)
def test_of_the_path_of_modules_only_the_folder_of_the_package_stays(monkeypatch, value, kept):
    monkeypatch.setenv("PYTHONPATH", value)
    assert environment.of_a_run().get("PYTHONPATH") == kept


def test_the_environment_is_a_runs_while_the_block_lasts(monkeypatch):
    monkeypatch.setenv("PYTHONOPTIMIZE", "1")
    before = dict(os.environ)
    with environment.cleared(MORE="1"):
        assert "PYTHONOPTIMIZE" not in os.environ
        assert os.environ["MORE"] == "1"
        assert os.environ["TOKENIZERS_PARALLELISM"] == "false"
    assert dict(os.environ) == before


def test_what_may_change_numbers_and_was_not_cleared_is_told_without_paths(monkeypatch):
    with environment.cleared():
        inherited = environment.settings()
    for name, value in {
        "ACCELERATE_MIXED_PRECISION": "bf16",
        "LD_PRELOAD": "/home/nobody/lib.so",
        "PYTHONPATH": f"/elsewhere{os.pathsep}{PACKAGE}",
        "SAOBP_NATIVE": "0",
        "HF_TOKEN": "secret",
    }.items():
        monkeypatch.setenv(name, value)
    told = environment.settings()
    assert told["ACCELERATE_MIXED_PRECISION"] == "bf16"
    assert (told["LD_PRELOAD"], told["PYTHONPATH"], told["SAOBP_NATIVE"]) == (
        "a path",
        "a path",
        "0",
    )
    assert "secret" not in told.values() and "nobody" not in str(told)
    # a run of a command of ours cannot do without these
    with environment.cleared():
        assert {**inherited, "LD_PRELOAD": "a path", "SAOBP_NATIVE": "0"} == environment.settings()


def test_a_process_whose_assertions_are_off_tells_it():
    code = "from companion.setup import environment; print(environment.settings())"
    command = [sys.executable, "-O", "-c", code]
    told = subprocess.check_output(
        command, text=True, env=environment.of_a_run() | {"PYTHONPATH": PACKAGE}
    )
    assert "'python -O': '1'" in told


def test_a_user_without_a_home_is_told_in_one_line_and_one_that_there_is_not_is_no_folder(
    monkeypatch, capsys
):
    assert cli.main(["inspect", "~nobody-of-this-name/model"]) == 2
    assert capsys.readouterr().err.startswith("saobp: ~nobody-of-this-name/model: ")
    monkeypatch.delenv("HOME")
    # a number without a name, as in a container
    monkeypatch.setattr("pwd.getpwuid", lambda number: {}[number])
    assert cli.main(["figures"]) == 2
    said = "saobp: HOME: is not set, and this user has no home; set it to a folder of yours\n"
    assert capsys.readouterr().err == said


TRIES = {
    "a pool of processes": """
from concurrent.futures import ProcessPoolExecutor
from companion.cost import timing
print(timing.fresh(1, len, "four"))
""",
    "a kernel": """
import socket
from companion.setup import kernel
with kernel.offered(["true"]) as folder, socket.socket(socket.AF_UNIX) as listener:
    listener.bind(str(folder / "socket"))
print([4])
""",
    "workers that load batches": """
import torch
from companion.setup import environment
from companion.training import devices, trainer
devices.place = lambda: torch.device("cuda")
loader = torch.utils.data.DataLoader([torch.ones(4)], num_workers=trainer.loaders())
print([len(batch[0]) for batch in loader])
""",
}


@pytest.mark.parametrize("name", TRIES)
def test_a_long_temporary_folder_leaves_room_for_the_addresses_of_sockets(tmp_path, name):
    folder = tmp_path / "t" / ("x" * (106 - len(str(tmp_path / "t")) - 1))
    folder.mkdir(parents=True)
    assert len(str(folder)) == 106
    given = environment.of_a_run() | {"PYTHONPATH": PACKAGE, "TMPDIR": str(folder)}
    command = [sys.executable, "-P", "-c", TRIES[name]]
    done = subprocess.run(command, env=given, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and done.stdout.strip() == "[4]", done.stderr
