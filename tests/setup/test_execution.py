"""`saobp run`: one notebook, checked parameters, one record; every mistake is one line and exit code 2."""

import json
import subprocess
import sys

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from saobp.study.publication import cli, executed
from saobp.study.setup import execution
from saobp.study.setup.execution import NotebookFailed, UsageError

PARAMETERS = 'profile = "smoke"  # a comment\nsteps = 3\nrate = 0.5\nflag = False\nrecord = ""'
WRITES = (
    "from saobp.study.setup.records import Run\n"
    'result = Run("derivation", profile=profile, parameters=dict(steps=steps, rate=rate)).save(record, {"x": 1})'
)


def notebook(folder, *cells, parameters=PARAMETERS):
    node = new_notebook(cells=[new_markdown_cell("# A title"), new_code_cell(parameters)])
    node.cells[1].metadata["tags"] = ["parameters"]
    node.cells += [new_code_cell(cell) for cell in cells]
    path = folder / "99-try.ipynb"
    nbformat.write(node, path)
    return path


def refused(capsys, *arguments):
    code = cli.main(["run", *map(str, arguments)])
    said = capsys.readouterr().err
    assert code == 2 and said.startswith("saobp: ") and said.count("\n") == 1 and "Traceback" not in said, said
    return said


@pytest.mark.parametrize("key, value, said", [
    ("stepz", "4", "has no parameter 'stepz': did you mean 'steps'?"),
    ("steps", "many", "parameter 'steps' of 99-try.ipynb takes int, as in 3: not 'many'"),
    ("steps", "1.5", "takes int"), ("steps", "true", "takes int"), ("flag", "1", "takes bool"),
    ("rate", "fast", "takes float"),
])  # fmt: skip
def test_a_wrong_parameter_is_one_line_and_exit_code_2(tmp_path, capsys, key, value, said):
    assert said in refused(capsys, notebook(tmp_path), tmp_path / "out.ipynb", "-p", key, value)


def test_missing_files_are_named(tmp_path, capsys):
    assert "no.ipynb: no such notebook" in refused(capsys, tmp_path / "no.ipynb", tmp_path / "out.ipynb")
    said = refused(capsys, notebook(tmp_path), tmp_path / "out.ipynb", "-f", tmp_path / "no.yaml")
    assert "no.yaml: no such study" in said
    (tmp_path / "cut.ipynb").write_text('{"cells": [')
    assert "cut.ipynb: not a readable notebook" in refused(capsys, tmp_path / "cut.ipynb", tmp_path / "out.ipynb")
    nbformat.write(new_notebook(cells=[new_code_cell("profile = 1")]), tmp_path / "bare.ipynb")
    assert "has no cell tagged 'parameters'" in refused(capsys, tmp_path / "bare.ipynb", tmp_path / "out.ipynb")


@pytest.mark.parametrize(("cell", "failure"), [
    ('raise ValueError("the corpus is empty\\nmore")', "ValueError: the corpus is empty ["),
    ("x = 1\nassert x == 2", "AssertionError: assert x == 2"),  # it has no message, so the line is shown
])  # fmt: skip
def test_a_failing_cell_is_one_line_and_what_ran_is_kept_aside(tmp_path, capsys, cell, failure):
    code = cli.main(["run", str(notebook(tmp_path, cell, WRITES)), str(tmp_path / "out.ipynb")])
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("saobp:")]
    assert code == 1 and len(said) == 1 and "99-try.ipynb, cell" in said[0] and failure in said[0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["99-try.ipynb", "out.failed.ipynb"]


def test_a_notebook_that_writes_no_record_fails(tmp_path, monkeypatch):
    monkeypatch.setattr(execution, "_execute", lambda *given: None)
    with pytest.raises(NotebookFailed, match="99-try.ipynb wrote no record"):
        execution.run(notebook(tmp_path, "1 + 1"), tmp_path / "out.ipynb", {})


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UsageError, match="file"):
        execution.run(notebook(tmp_path, WRITES), tmp_path / "file" / "out.ipynb", {})


def test_the_command_is_installed_and_explains_itself():
    done = subprocess.run(
        [sys.executable, "-m", "saobp.study.publication.cli", "--help"], capture_output=True, text=True
    )
    assert done.returncode == 0 and "reproduce" in done.stdout


@pytest.mark.parametrize(("stem", "name", "value", "known", "said"), [
    ("99-try", "model", "gigantic", '"mini-quarter"', "'gigantic' is none of mini, small"),
    ("99-try", "algorithm", "hihg", '"entropy_reg"', "'hihg' is none of original, high"),
    ("99-try", "task", "nope", '"race"', "'nope' is none of cola, mrpc"),
    ("99-try", "group", "x", '"all"', "'x' is none of all"),
    ("07-decoder", "algorithm", "entropy_reg", '"high"', "'entropy_reg' is none of original, high"),
    ("05-finetune", "algorithm", "high_all_rows", '"high"', "'high_all_rows' is none of original, high"),
    ("99-try", "seed", "-3", "42", "-3 is no seed"), ("99-try", "finetune_seed", "-3", "42", "-3 is no seed"),
])  # fmt: skip
def test_a_name_or_seed_that_nothing_has_is_refused_before_anything_runs(
    tmp_path, capsys, stem, name, value, known, said
):
    path = notebook(tmp_path, "raise SystemExit", parameters=f'profile = "smoke"\n{name} = {known}\nrecord = ""')
    path = path.rename(tmp_path / f"{stem}.ipynb")
    assert f"parameter '{name}': {said}" in refused(capsys, path, tmp_path / "out.ipynb", "-p", name, value)


def test_an_unknown_profile_and_a_folder_in_the_place_of_the_output_are_refused_before_anything_runs(tmp_path, capsys):
    path = notebook(tmp_path, "raise SystemExit")
    for given in (("-p", "profile", "nope"), ("-f", "nope")):
        assert "no study is called 'nope'" in refused(capsys, path, tmp_path / "out.ipynb", *given)
    (tmp_path / "out.ipynb").mkdir()
    assert "out.ipynb: is a folder" in refused(capsys, path, tmp_path / "out.ipynb")


CODE = """%matplotlib inline
from math import (
    sqrt,
)
options = {}
options["depth"] = 2
def double(number):
    return 2 * number
steps = double(
    3
)
size: int = 2 ** 4
rate: float = 1
first, second = sqrt(4), 3  # two names in one are no parameters
text = f"{first}"  # text = ...
if steps > 3: rate = 2
unset: int
low = high = -1e-4
groups = [
    1,
    {"a": None},
]
profile = "smoke"; record = ""
"""


def test_a_cell_of_parameters_with_code_in_it_is_read_as_papermill_reads_it(tmp_path):
    path = notebook(tmp_path, parameters=CODE)
    found = execution.declared_parameters(path)
    assert found == {
        "options": {}, "steps": object, "size": int, "rate": 1.0, "text": object, "low": -1e-4, "high": -1e-4,
        "groups": [1, {"a": None}], "profile": "smoke", "record": "",
    }  # fmt: skip
    assert type(found["rate"]) is float
    given = {"steps": "010", "size": "12", "rate": "2", "text": "[1, 2]"}
    assert execution.checked(path, given, found) == {"steps": 10, "size": 12, "rate": 2.0, "text": [1, 2]}


def test_a_run_leaves_the_notebook_and_exactly_one_record(tmp_path, capsys):
    folder = tmp_path / "{x} {steps}"
    folder.mkdir()
    path, output = notebook(folder, WRITES, parameters=CODE), folder / "{flag}" / "out{}.ipynb"
    assert "takes int: not '1.5'" in refused(capsys, path, output, "-p", "size", "1.5")
    given = ["-f", "smoke", "-p", "record", "", "-p", "steps", "7", "-p", "rate", "0.5"]
    assert cli.main(["run", str(path), str(output), *given]) == 0 and "derivation" not in capsys.readouterr().err
    record = json.loads(output.with_suffix(".json").read_text())
    assert (record["parameters"], record["stage"]) == ({"steps": 7, "rate": 0.5}, "derivation")
    assert record["profile"] == "smoke" and len(list(output.parent.iterdir())) == 2
    (run,) = executed.read([output])
    assert run.values["steps"] == 7 and "size" not in run.values


@pytest.mark.parametrize(("given", "seen"), [({"steps": "3"}, True), ({"steps": "4"}, False), ({"rate": "9"}, False)])
def test_what_every_run_shows_is_left_out_of_all_but_that_of_the_defaults(tmp_path, monkeypatch, given, seen):
    monkeypatch.setattr(execution.papermill, "execute_notebook", lambda *given, **how: None)
    path, output = notebook(tmp_path, "print('the same')", WRITES), tmp_path / "out.ipynb"
    node = nbformat.read(path, as_version=4)
    node.cells[2].metadata["tags"] = ["once"]
    nbformat.write(node, path)
    for own, there in ((True, seen), (False, True)):
        with pytest.raises(NotebookFailed, match="wrote no record"):
            execution.run(path, output, given, own=own)
        assert ("the same" in output.read_text()) == there


@pytest.mark.parametrize("source", ["a = (", "a = 1\n b = 2", "a = !ls", "1 = a"])
def test_a_cell_of_parameters_that_is_no_python_is_one_line(tmp_path, source):
    with pytest.raises(UsageError, match=r"99-try.ipynb: the cell tagged 'parameters' is no Python \(line \d\)"):
        execution.declared_parameters(notebook(tmp_path, parameters=source))


def test_a_kernel_that_is_killed_is_one_line_with_the_cause_and_what_ran_is_kept(tmp_path, capsys):
    path = notebook(tmp_path, "import os, signal", "os.kill(os.getpid(), signal.SIGKILL)", WRITES)
    code = cli.main(["run", str(path), str(tmp_path / "out.ipynb")])
    said = capsys.readouterr().err
    (line,) = [line for line in said.splitlines() if line.startswith("saobp:")]
    assert code == 1 and "Traceback" not in said
    assert "99-try.ipynb, cell 4: its kernel died: memory ran out, most likely" in line
    assert sorted(p.name for p in tmp_path.iterdir()) == ["99-try.ipynb", "out.failed.ipynb"]


@pytest.mark.parametrize("command", ["/no/such/python", sys.executable])
def test_a_kernel_that_cannot_start_is_named_in_one_line(tmp_path, capsys, monkeypatch, command):
    spec = tmp_path / "jupyter" / "kernels" / "python3" / "kernel.json"
    spec.parent.mkdir(parents=True)
    argv = [command, "-c", "raise SystemExit(3)", "{connection_file}"]
    spec.write_text(json.dumps({"argv": argv, "display_name": "broken", "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    code = cli.main(["run", str(notebook(tmp_path, WRITES)), str(tmp_path / "out.ipynb")])
    said = capsys.readouterr().err
    (line,) = [line for line in said.splitlines() if line.startswith("saobp:")]
    assert code == 1 and "Traceback" not in said
    assert "the Jupyter kernel 'python3' does not start" in line and command in line
    assert sorted(p.name for p in tmp_path.iterdir()) == ["99-try.ipynb", "jupyter"]


def test_a_parameter_given_twice_is_refused(tmp_path, capsys):
    said = refused(capsys, notebook(tmp_path), tmp_path / "out.ipynb", "-p", "steps", "3", "-p", "steps", "7")
    assert "parameter 'steps' is given 2 times" in said
