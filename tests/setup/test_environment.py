"""What a run inherits is one list, and what could not be cleared is told."""

import os
import subprocess
import sys

import pytest

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
        inherited = environment.told()
    for name, value in {
        "ACCELERATE_MIXED_PRECISION": "bf16",
        "LD_PRELOAD": "/home/nobody/lib.so",
        "PYTHONPATH": f"/elsewhere{os.pathsep}{PACKAGE}",
        "SAOBP_NATIVE": "0",
        "HF_TOKEN": "secret",
    }.items():
        monkeypatch.setenv(name, value)
    told = environment.told()
    assert told["ACCELERATE_MIXED_PRECISION"] == "bf16"
    assert (told["LD_PRELOAD"], told["PYTHONPATH"], told["SAOBP_NATIVE"]) == (
        "a path",
        "a path",
        "0",
    )
    assert "secret" not in told.values() and "nobody" not in str(told)
    # a run of a command of ours cannot do without these
    with environment.cleared():
        assert {**inherited, "LD_PRELOAD": "a path", "SAOBP_NATIVE": "0"} == environment.told()


def test_a_process_whose_assertions_are_off_tells_it():
    code = "from companion.setup import environment; print(environment.told())"
    command = [sys.executable, "-O", "-c", code]
    told = subprocess.check_output(
        command, text=True, env=environment.of_a_run() | {"PYTHONPATH": PACKAGE}
    )
    assert "'python -O': '1'" in told
