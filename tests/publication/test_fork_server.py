"""A run forked from a process with its imports done is the run that starts by itself, and ends with its asker."""

import os
import signal
import subprocess
import sys
import time

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from saobp.study.publication import executed, fork_server
from saobp.study.setup import paths, records

SAVE = (
    "\nfrom saobp.study.setup.records import Run"
    "\nsaved = Run('derivation', profile=profile, parameters={}).save(record, {})"
)
CELLS = {
    "tells": "import os, sys, pandas as pd, torch, matplotlib.pyplot as plt\n"
    "print({name: value for name, value in plt.rcParams.items() if name != 'backend'})\n"
    "print([pd.get_option(f'display.{name}') for name in ('max_columns', 'max_rows', 'width', 'precision')])\n"
    "plt.plot([1, 2])\n"
    "print(__name__, torch.get_num_threads(), sys.path[0] == '', os.getcwd(), os.environ['ASKED'])" + SAVE,
    "father": "import os, sys\n"
    "print(len(os.listdir(f'/proc/{os.getppid()}/task')), 'transformers.trainer' in sys.modules)" + SAVE,
    "fails": "raise ValueError('no corpus')",
    "killed": "import os\nos.kill(os.getpid(), 9)",
    "waits": "import time, os\nopen(record + '.pid', 'w').write(str(os.getpid()))\ntime.sleep(600)",
}


@pytest.fixture(scope="module")
def served():
    with fork_server.serving() as environment:
        if not environment:
            pytest.skip("no forking beside an accelerator's driver")
        yield os.environ | environment | {"OMP_NUM_THREADS": "2", "ASKED": "yes"}


def asked(name, folder, environment, wait=True):
    """Have a notebook of one cell run as the workflow does; return the finished process, or the living one."""
    node = new_notebook(cells=[new_code_cell('profile = "smoke"\nrecord = ""', metadata={"tags": ["parameters"]})])
    node.cells.append(new_code_cell(CELLS[name]))
    nbformat.write(node, folder / f"{name}.ipynb")
    words = ["run", str(folder / f"{name}.ipynb"), str(folder / "out.ipynb")]
    command = [sys.executable, "-S", fork_server.__file__, *words]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if wait:
        process.said = "".join(process.communicate(timeout=300))
    return process


def outputs(folder):
    (cell,) = [cell for cell in nbformat.read(folder / "out.ipynb", as_version=4).cells[-1:]]
    return [output.get("text") or output["data"] for output in cell.outputs if not executed.is_progress(output)]


def test_a_served_run_says_and_draws_what_one_that_starts_by_itself_does(served, tmp_path):
    alone = {name: value for name, value in served.items() if name not in (fork_server.ADDRESS, "JUPYTER_PATH")}
    found = []
    for name, environment in (("alone", alone), ("served", served)):
        (tmp_path / name).mkdir()
        done = asked("tells", tmp_path / name, environment)
        assert done.returncode == 0 and "tells: " in done.said, done.said
        record = records.read(tmp_path / name / "out.json")
        found.append((outputs(tmp_path / name), record["name"], record["device"]))
    assert found[0] == found[1]
    texts = [output for output in found[0][0] if isinstance(output, str)]
    assert texts[0].endswith(f"__main__ 2 False {paths.root()} yes\n")
    assert any("image/png" in output for output in found[0][0])


def test_what_is_forked_has_its_imports_and_its_parent_a_single_thread(served, tmp_path):
    assert asked("father", tmp_path, served).returncode == 0
    assert outputs(tmp_path) == ["1 True\n"]


@pytest.mark.parametrize(("name", "said"), [("fails", "ValueError: no corpus"), ("killed", "its kernel died")])
def test_a_served_run_that_fails_is_one_line_and_exit_code_1(served, tmp_path, name, said):
    done = asked(name, tmp_path, served)
    assert done.returncode == 1 and said in done.said and (tmp_path / "out.failed.ipynb").is_file()
    assert not (tmp_path / "out.ipynb").exists()


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGKILL])
def test_a_run_and_its_kernel_end_with_the_one_who_asked(served, tmp_path, kind):
    process = asked("waits", tmp_path, served, wait=False)
    kernel = wait_for(lambda: (tmp_path / "out.json.pid").is_file() and (tmp_path / "out.json.pid").read_text())
    process.send_signal(kind)
    process.communicate(timeout=120)
    assert process.returncode != 0 and not (tmp_path / "out.ipynb").exists()
    assert wait_for(lambda: not os.path.exists(f"/proc/{kernel}"))


def wait_for(condition, seconds=120):
    end = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < end:
        time.sleep(0.2)
    assert found
    return found
