"""A run and a kernel forked from a process with its imports done are those that start by
themselves; they end alike.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from companion import records
from companion.publication import executed_notebooks, forked_runs
from companion.setup import kernel, paths

SAVE = (
    "\nfrom companion.records import Run"
    "\nsaved = Run('derivation', study_name=study_name, parameters={}).save(record, {})"
)
# settings of a user, each of which would change what a run does
HOSTILE = {
    "ACCELERATE_MIXED_PRECISION": "bf16",
    "ACCELERATE_USE_CPU": "yes",
    "BASH_ENV": "startup.py",
    "MATPLOTLIBRC": "matplotlibrc",
    "MKL_CBWR": "COMPATIBLE",
    "PYTHONHASHSEED": "3",
    "PYTHONOPTIMIZE": "1",
    "PYTHONSTARTUP": "startup.py",
    "SNAKEMAKE_PROFILE": "profile",
    "TORCH_LOGS": "not-a-log",
    "TRANSFORMERS_VERBOSITY": "debug",
}
# and where a run has its own
OTHERS = {"IPYTHONDIR": "ipython", "JUPYTER_PATH": "kernels-of-another-python"}
CELLS = {
    "tells": "import os, sys, pandas as pd, torch, matplotlib.pyplot as plt\nfrom tqdm.auto import tqdm\n"
    "print({name: value for name, value in plt.rcParams.items() if name != 'backend'})\n"
    "print([pd.get_option(f'display.{name}') for name in ('max_columns', 'max_rows', 'width', 'precision')])\n"
    "plt.plot([1, 2])\n"
    "print(tqdm.mro(), __name__, torch.get_num_threads(), os.getcwd(), os.environ['SAOBP_ASKED'])"
    + SAVE,
    "inherits": "import datasets, json, matplotlib, os, random, sys, tokenizers, torch, transformers\n"
    "modules = [datasets, json, random, tokenizers, transformers]\n"
    "print([module.__name__ for module in modules if os.path.dirname(module.__file__) == os.getcwd()])\n"
    f"print([name for name in {sorted(HOSTILE)} if name in os.environ])\n"
    "print(matplotlib.rcParams['lines.linewidth'], matplotlib.rcParams['timezone'], 'started' in dir())\n"
    "print('' in sys.path, sys.flags.optimize, __debug__)" + SAVE,
    "false": "assert 1 == 2" + SAVE,
    "father": "import os, sys, torch\n"
    "with open(f'/proc/{os.environ[\"JPY_PARENT_PID\"]}/stat') as stat:\n"
    "    father = int(stat.read().rpartition(')')[2].split()[1])  # of the run\n"
    "print(father == os.getppid(), len(os.listdir(f'/proc/{father}/task')), 'transformers.trainer' in sys.modules)\n"
    "print(torch.rand(1).item())" + SAVE,
    "fails": "raise ValueError('no corpus')",
    "killed": "import os\nos.kill(os.getpid(), 9)",
    "waits": "import time, os\nwith open(record + '.new', 'w') as file:\n"
    "    print(os.getpid(), os.environ['JPY_PARENT_PID'], file=file)\n"
    "os.replace(file.name, record + '.pid')\ntime.sleep(600)",
}


def hostile(folder):
    """Fill a folder with what would reach a run that is started in it; a run takes it for the
    repository.
    """
    studies = folder / "notebooks" / "studies"
    studies.mkdir(parents=True)
    (studies / "smoke.yaml").symlink_to(paths.root() / "notebooks" / "studies" / "smoke.yaml")
    for name in ("datasets", "json", "random", "tokenizers", "transformers"):
        (folder / f"{name}.py").write_text("raise SystemExit('a module of the user')")
    (folder / "matplotlibrc").write_text("lines.linewidth: 9\ntimezone: Europe/Berlin\n")
    (folder / "startup.py").write_text("started = True\n")
    startup = folder / "ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "own.py").write_text("started = True\n")
    other = folder / "kernels-of-another-python" / "kernels" / "python3" / "kernel.json"
    argv = ["/no/such/python", "{connection_file}"]
    paths.write_text(other, json.dumps({"argv": argv, "display_name": "", "language": "python"}))


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """An environment in which every kernel starts by itself, whatever these tests run in, with
    settings of a user's own.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name in (forked_runs.ADDRESS, kernel.FOLDER):
            patch.delenv(name, raising=False)
        hostile(folder := tmp_path_factory.mktemp("hostile"))
        patch.chdir(folder)
        for name, value in (HOSTILE | OTHERS).items():
            patch.setenv(name, str(folder / value) if (folder / value).exists() else value)
        yield os.environ | {"OMP_NUM_THREADS": "2", "SAOBP_ASKED": "yes"}


@pytest.fixture(scope="module")
def served(alone):
    with forked_runs.serving() as (variables, _):
        if not variables:
            pytest.skip("no forking beside an accelerator's driver")
        yield alone | variables


def started(name, folder, environment):
    """Run a notebook of one cell as the workflow does."""
    parameters = new_code_cell(
        'study_name = "smoke"\nrecord = ""', metadata={"tags": ["parameters"]}
    )
    nbformat.write(
        new_notebook(cells=[parameters, new_code_cell(CELLS[name])]), folder / f"{name}.ipynb"
    )
    command = [
        sys.executable,
        "-S",
        forked_runs.__file__,
        "run",
        f"{folder}/{name}.ipynb",
        f"{folder}/out.ipynb",
    ]
    return subprocess.Popen(
        command,
        env=environment,
        stderr=subprocess.STDOUT,
        stdout=subprocess.PIPE,
        text=True,
        # ignored in the background
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def ended(*given):
    process = started(*given)
    return process.communicate(timeout=300)[0], process.returncode


def outputs(folder):
    cell = executed_notebooks.cleaned(nbformat.read(folder / "out.ipynb", as_version=4)).cells[-1]
    return [output.get("text") or output["data"] for output in cell.outputs]


def test_a_forked_kernel_says_and_draws_what_one_that_starts_by_itself_does(
    alone, served, tmp_path
):
    found = []
    for name, environment in (("alone", alone), ("forked", served)):
        (tmp_path / name).mkdir()
        said, code = ended("tells", tmp_path / name, environment)
        assert code == 0 and "tells: " in said, said
        record = records.read(tmp_path / name / "out.json")
        found.append((outputs(tmp_path / name), record["name"], record["device"]))
    assert found[0] == found[1]
    texts = [output for output in found[0][0] if isinstance(output, str)]
    assert texts[0].endswith(f"__main__ 2 {paths.root()} yes\n")
    assert any("image/png" in output for output in found[0][0])


@pytest.mark.parametrize("kind", ["alone", "forked"])
def test_a_run_inherits_nothing_of_a_users_settings_and_of_the_folder_it_is_started_in(
    alone, served, tmp_path, kind
):
    environment = {"alone": alone, "forked": served}[kind]
    said, code = ended("inherits", tmp_path, environment)
    assert code == 0, said
    modules, variables, look, path = outputs(tmp_path)[0].splitlines()
    assert (modules, variables) == ("[]", "[]")
    assert look == "1.5 UTC False"
    assert path == "False 0 True"
    assert records.read(tmp_path / "out.json")["environment"] == {}
    said, code = ended("false", tmp_path, environment)
    assert code == 1 and "cell 3: AssertionError: assert 1 == 2" in said, said


def test_forks_have_imports_and_random_numbers_of_their_own_and_a_parent_of_one_thread(
    served, tmp_path
):
    drawn = set()
    for _ in range(2):
        assert ended("father", tmp_path, served)[1] == 0
        parent, number = outputs(tmp_path)[0].splitlines()
        assert parent == "True 1 True"
        drawn.add(number)
    assert len(drawn) == 2


@pytest.mark.parametrize(
    ("name", "line"), [("fails", "ValueError: no corpus"), ("killed", "its kernel died")]
)
def test_a_run_whose_forked_kernel_fails_is_one_line_and_exit_code_1(served, tmp_path, name, line):
    said, code = ended(name, tmp_path, served)
    assert code == 1 and line in said and (tmp_path / "out.failed.ipynb").is_file()
    assert not (tmp_path / "out.ipynb").exists()


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_forked_run_and_its_kernel_end_with_the_command_that_asked(served, tmp_path, kind):
    process = started("waits", tmp_path, served)
    numbers = waiting(tmp_path)
    process.send_signal(kind)
    process.communicate(timeout=120)
    assert process.returncode != 0 and not (tmp_path / "out.ipynb").exists()
    assert str(process.pid) not in numbers
    wait_for(lambda: ended_all(numbers))


def waiting(folder):
    """Return the numbers of a kernel that waits and of its run."""
    said = folder / "out.json.pid"
    return wait_for(lambda: said.is_file() and said.read_text().split())


def ended_all(numbers):
    return not any(os.path.exists(f"/proc/{number}") for number in numbers)


def wait_for(condition, seconds=120):
    end = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < end:
        time.sleep(0.2)
    assert found
    return found


def asked(environment):
    """Ask for something quick, and return what was said."""
    command = [sys.executable, "-S", forked_runs.__file__, "claim", "nothing"]
    how = {"cwd": Path(forked_runs.__file__).parents[2], "env": environment}
    done = subprocess.run(command, **how, capture_output=True, text=True, timeout=300)
    assert done.returncode == 2
    return done.stderr


def test_an_asker_that_goes_before_it_has_asked_ends_nobody_else_and_who_is_served_starts_no_second_process(
    served, monkeypatch
):
    with socket.socket(socket.AF_UNIX) as asker:
        asker.connect(served[forked_runs.ADDRESS])
    assert asked(served).startswith("saobp: claim: no claim 'nothing'")
    monkeypatch.setenv(forked_runs.ADDRESS, served[forked_runs.ADDRESS])
    with forked_runs.serving() as again:
        assert again == ({}, [])


def test_forks_end_with_the_process_that_forks_them_and_later_ones_start_by_themselves(
    served, tmp_path
):
    process = started("waits", tmp_path, served)
    numbers = waiting(tmp_path)
    with open(f"/proc/{numbers[0]}/stat") as stat:
        # the last test that it serves
        os.kill(int(stat.read().rpartition(")")[2].split()[1]), signal.SIGKILL)
    assert process.wait(timeout=120) != 0
    process.stdout.close()
    wait_for(lambda: ended_all(numbers))
    assert asked(served).startswith("saobp: claim: no claim 'nothing'")
