"""`saobp run`: one notebook, checked parameters, one record; every mistake is one line and exit code 2."""

import json
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


def failed(capsys, path, output):
    code = cli.main(["run", str(path), str(output)])
    said = capsys.readouterr().err
    (line,) = [line for line in said.splitlines() if line.startswith("saobp:")]
    assert code == 1 and "Traceback" not in said
    return line


def test_declared_parameters_are_read_without_running_the_notebook(tmp_path):
    found = execution.declared_parameters(notebook(tmp_path, "raise SystemExit"))
    assert found == {"profile": "smoke", "steps": 3, "rate": 0.5, "flag": False, "record": ""}


@pytest.mark.parametrize(
    "key, value, said",
    [
        ("stepz", "4", "has no parameter 'stepz': did you mean 'steps'?"),
        ("steps", "many", "parameter 'steps' of 99-try.ipynb takes int, as in 3: not 'many'"),
        ("steps", "1.5", "takes int"),
        ("steps", "true", "takes int"),
        ("flag", "1", "takes bool"),
        ("rate", "fast", "takes float"),
    ],
)
def test_a_wrong_parameter_is_one_line_and_exit_code_2(tmp_path, capsys, key, value, said):
    assert said in refused(capsys, notebook(tmp_path), tmp_path / "out.ipynb", "-p", key, value)


def test_missing_files_are_named(tmp_path, capsys):
    assert "no.ipynb: no such notebook" in refused(capsys, tmp_path / "no.ipynb", tmp_path / "out.ipynb")
    said = refused(capsys, notebook(tmp_path), tmp_path / "out.ipynb", "-f", tmp_path / "no.yaml")
    assert "no.yaml: no such profile" in said
    (tmp_path / "cut.ipynb").write_text('{"cells": [')
    assert "cut.ipynb: not a readable notebook" in refused(capsys, tmp_path / "cut.ipynb", tmp_path / "out.ipynb")
    nbformat.write(new_notebook(cells=[new_code_cell("profile = 1")]), tmp_path / "bare.ipynb")
    assert "has no cell tagged 'parameters'" in refused(capsys, tmp_path / "bare.ipynb", tmp_path / "out.ipynb")


def test_a_run_leaves_the_notebook_and_exactly_one_record(tmp_path, capsys):
    output = tmp_path / "deep" / "out.ipynb"
    given = ["-f", "smoke", "-p", "steps", "7", "-p", "record", ""]
    assert cli.main(["run", str(notebook(tmp_path, WRITES)), str(output), *given]) == 0
    assert "derivation" not in capsys.readouterr().err
    record = json.loads(output.with_suffix(".json").read_text())
    assert record["parameters"] == {"steps": 7, "rate": 0.5}
    assert (record["stage"], record["profile"]) == ("derivation", "smoke")
    assert sorted(path.name for path in output.parent.iterdir()) == ["out.ipynb", "out.json"]


@pytest.mark.parametrize(
    "cell, said",
    [
        ('raise ValueError("the corpus is empty\\nmore")', "ValueError: the corpus is empty ["),
        ("x = 1\nassert x == 2", "AssertionError: assert x == 2 ["),
    ],
)
def test_a_failing_cell_is_one_line_and_what_ran_is_kept_aside(tmp_path, capsys, cell, said):
    line = failed(capsys, notebook(tmp_path, cell, WRITES), tmp_path / "out.ipynb")
    assert "99-try.ipynb, cell" in line and said in line
    assert sorted(p.name for p in tmp_path.iterdir()) == ["99-try.ipynb", "out.failed.ipynb"]


def test_a_notebook_that_writes_no_record_fails(tmp_path):
    with pytest.raises(NotebookFailed, match="99-try.ipynb wrote no record"):
        execution.run(notebook(tmp_path, "1 + 1"), tmp_path / "out.ipynb", {})


@pytest.mark.parametrize(
    "stem, name, value, said",
    [
        ("05-finetune", "model", "gigantic", "'gigantic' is none of mini, small"),
        ("05-finetune", "algorithm", "hihg", "'hihg' is none of original, high"),
        ("05-finetune", "algorithm", "high_all_rows", "'high_all_rows' is none of original, high"),
        ("07-decoder", "algorithm", "entropy_reg", "'entropy_reg' is none of original, high"),
        ("05-finetune", "task", "nope", "'nope' is none of cola, mrpc"),
        ("05-finetune", "group", "x", "'x' is none of all"),
        ("05-finetune", "seed", "-3", "-3 is no seed"),
        ("05-finetune", "finetune_seed", "4294967296", "4294967296 is no seed"),
    ],
)
def test_a_name_that_nothing_has_is_refused_before_anything_runs(tmp_path, capsys, stem, name, value, said):
    default = "42" if "seed" in name else '"high"'
    path = notebook(tmp_path, "raise SystemExit", parameters=f'profile = "smoke"\n{name} = {default}\nrecord = ""')
    path = path.rename(tmp_path / f"{stem}.ipynb")
    assert f"parameter '{name}': {said}" in refused(capsys, path, tmp_path / "out.ipynb", "-p", name, value)


def test_an_unknown_profile_is_refused_however_it_is_given(tmp_path, capsys):
    path = notebook(tmp_path, "raise SystemExit")
    for given in (("-p", "profile", "nope"), ("-f", "nope")):
        assert "no profile is called 'nope'" in refused(capsys, path, tmp_path / "out.ipynb", *given)


def test_an_output_that_cannot_be_written_is_refused_before_anything_runs(tmp_path, capsys):
    (tmp_path / "out.ipynb").mkdir()
    path = notebook(tmp_path, "raise SystemExit")
    assert "out.ipynb: is a folder" in refused(capsys, path, tmp_path / "out.ipynb")
    assert "99-try.ipynb: " in refused(capsys, path, path / "out.ipynb")


def test_a_cell_of_typed_parameters_is_read_as_papermill_reads_it(tmp_path):
    source = """%matplotlib inline
import math
steps: int = 3  # typed, steps = 4
rate = -1e-4
first = second = "x"
groups = [
    1,
    {"a": None},
]
unset: int
record = ''
"""
    path = notebook(tmp_path, parameters=source)
    declared = {"steps": 3, "rate": -1e-4, "first": "x", "second": "x"}
    assert execution.declared_parameters(path) == declared | {"groups": [1, {"a": None}], "record": ""}
    node = nbformat.read(path, as_version=4)
    assert executed.read([path])[0].values["steps"] == 3
    kept = executed._without(node.cells[1], {"steps": 4, "groups": []}).source
    assert "typed" not in kept and "1," not in kept and "first = second" in kept


def test_a_computed_value_is_no_parameter(tmp_path):
    source = 'steps = 2 * 3\nfirst, second = 1, 2\noptions["depth"] = 2\nprofile = "smoke"; record = ""'
    assert execution.declared_parameters(notebook(tmp_path, parameters=source)) == {"profile": "smoke", "record": ""}


@pytest.mark.parametrize("source", ["a = (", "a = 1\n b = 2", "a = !ls", "1 = a"])
def test_a_cell_of_parameters_that_is_no_python_is_one_line(tmp_path, source):
    with pytest.raises(UsageError, match=r"99-try.ipynb: the cell tagged 'parameters' is no Python \(line \d\)"):
        execution.declared_parameters(notebook(tmp_path, parameters=source))


def test_a_kernel_that_is_killed_is_one_line_with_the_cause_and_what_ran_is_kept(tmp_path, capsys):
    path = notebook(tmp_path, "import os, signal", "os.kill(os.getpid(), signal.SIGKILL)", WRITES)
    assert "99-try.ipynb: its kernel died: memory ran out, most likely" in failed(capsys, path, tmp_path / "out.ipynb")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["99-try.ipynb", "out.failed.ipynb"]


@pytest.mark.parametrize("command", ["/no/such/python", sys.executable])
def test_a_kernel_that_cannot_start_is_one_line_with_the_remedy(tmp_path, capsys, monkeypatch, command):
    spec = tmp_path / "jupyter" / "kernels" / "python3" / "kernel.json"
    spec.parent.mkdir(parents=True)
    argv = [command, "-c", "raise SystemExit(3)", "{connection_file}"]
    spec.write_text(json.dumps({"argv": argv, "display_name": "broken", "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    line = failed(capsys, notebook(tmp_path, WRITES), tmp_path / "out.ipynb")
    assert "99-try.ipynb does not start" in line and "python -m ipykernel install" in line
    assert sorted(p.name for p in tmp_path.iterdir()) == ["99-try.ipynb", "jupyter"]


def test_a_parameter_given_twice_is_refused(tmp_path, capsys):
    said = refused(capsys, notebook(tmp_path), tmp_path / "out.ipynb", "-p", "steps", "3", "-p", "steps", "7")
    assert "parameter 'steps' is given 2 times" in said
