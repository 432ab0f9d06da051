"""`saobp run`: one notebook, checked parameters, one record; every mistake is one line and exit
code 2.
"""

import json
import sys

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from companion.publication import cli, executed_notebooks
from companion.records import execution
from companion.records.execution import NotebookFailed
from companion.setup import kernel

PARAMETERS = """study_name = "smoke"  # a comment
steps = 3
rate = 0.5
flag = False
model = "mini-quarter"
algorithm = "high"
task = "race"
group = "all"
seed = finetune_seed = 42
record = ""
"""
WRITES = (
    "from companion.records import Run\n"
    'result = Run("derivation", study_name=study_name, parameters=dict(steps=steps, rate=rate)).save(record, {"x": 1})'
)


def notebook(folder, *cells, parameters=PARAMETERS, stem="99-try"):
    node = new_notebook(cells=[new_markdown_cell("# A title"), new_code_cell(parameters)])
    node.cells[1].metadata["tags"] = ["parameters"]
    node.cells += [new_code_cell(cell) for cell in cells]
    path = folder / f"{stem}.ipynb"
    nbformat.write(node, path)
    return path


def refused(capsys, *arguments, code=2):
    """Give a command, and return the one line that says why it cannot be carried out."""
    assert cli.main(["run", *map(str, arguments)]) == code
    said = capsys.readouterr().err
    (line,) = [line for line in said.splitlines() if line.startswith("saobp: ")]
    assert "Traceback" not in said and (code == 1 or said.count("\n") == 1), said
    return line


@pytest.mark.parametrize(
    ("stem", "words", "said"),
    [
        ("99-try", "-p stepz 4", "has no parameter 'stepz': did you mean 'steps'?"),
        ("99-try", "-p steps many", "parameter 'steps' of 99-try.ipynb takes int"),
        ("99-try", "-p steps 3 -p steps 7", "parameter 'steps' is given 2 times"),
        ("99-try", "-p model gigantic", "parameter 'model': 'gigantic' is none of mini, small"),
        ("99-try", "-p algorithm hihg", "parameter 'algorithm': 'hihg' is none of original, high"),
        ("99-try", "-p task nope", "parameter 'task': 'nope' is none of cola, mrpc"),
        ("99-try", "-p group x", "parameter 'group': 'x' is none of all"),
        (
            "07-decoder",
            "-p algorithm entropy_reg",
            "parameter 'algorithm': 'entropy_reg' is none of original, high",
        ),
        (
            "05-finetune",
            "-p algorithm high_all_rows",
            "parameter 'algorithm': 'high_all_rows' is none of original",
        ),
        ("99-try", "-p seed -3", "parameter 'seed': '-3' is none of 0 to 4294967295"),
        (
            "99-try",
            "-p finetune_seed 4294967296",
            "parameter 'finetune_seed': '4294967296' is none of",
        ),
        ("99-try", "-p study_name nope", "no study is called 'nope'"),
        ("99-try", "-f nope", "no study is called 'nope'"),
        ("99-try", "-f no.yaml", "no.yaml: no such study"),
    ],
)
def test_a_wrong_parameter_is_one_line_before_anything_runs(tmp_path, capsys, stem, words, said):
    path = notebook(tmp_path, "raise SystemExit", stem=stem)
    assert said in refused(capsys, path, tmp_path / "out.ipynb", *words.split())


def test_an_error_without_words_is_told_by_its_name(tmp_path, monkeypatch):
    monkeypatch.setattr(nbformat, "read", lambda *_, **__: (_ for _ in ()).throw(MemoryError()))
    with pytest.raises(
        ValueError, match=r"99-try.ipynb: no notebook with parameters \(MemoryError\)"
    ):
        execution.declared_parameters(notebook(tmp_path))


def test_what_is_no_notebook_and_a_folder_in_the_place_of_the_output_are_named(tmp_path, capsys):
    output = tmp_path / "out.ipynb"
    assert "no.ipynb: no such notebook" in refused(capsys, tmp_path / "no.ipynb", output)
    (tmp_path / "cut.ipynb").write_text('{"cells": [')
    assert "cut.ipynb: no notebook with parameters" in refused(
        capsys, tmp_path / "cut.ipynb", output
    )
    nbformat.write(new_notebook(cells=[new_code_cell("study = 1")]), tmp_path / "bare.ipynb")
    assert "has no cell tagged 'parameters'" in refused(capsys, tmp_path / "bare.ipynb", output)
    for source in ("a = (", "a = 1\n b = 2", "a = !ls", "1 = a"):
        given = notebook(tmp_path, parameters=source)
        assert "99-try.ipynb: no notebook with parameters (" in refused(capsys, given, output)
    output.mkdir()
    assert "out.ipynb: is a folder" in refused(capsys, notebook(tmp_path), output)
    assert "cannot be written" in refused(
        capsys, tmp_path / "99-try.ipynb", tmp_path / "cut.ipynb" / "out.ipynb"
    )


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ("out.ipynb", "is the notebook"),
        ("folder", "is a folder"),
        ("file/run.json", "cannot be written"),
    ],
)
def test_a_record_that_could_not_be_written_is_refused_before_anything_runs(
    tmp_path, capsys, record, said
):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    path = notebook(tmp_path, "raise SystemExit")
    assert said in refused(capsys, path, tmp_path / "out.ipynb", "-p", "record", tmp_path / record)
    assert "is the notebook" in refused(capsys, path, tmp_path / "same.json")


@pytest.mark.parametrize(
    "words", [["caf\udce9.ipynb"], ["out.ipynb", "-p", "record", "\udce9.json"]]
)
def test_a_name_that_no_notebook_can_hold_is_refused_before_anything_runs(tmp_path, capsys, words):
    path = notebook(tmp_path, "raise SystemExit")
    (output, *more) = words
    said = refused(capsys, path, tmp_path / output, *more)
    assert r"\udce9" in said and "is no UTF-8, in which notebooks and records are" in said
    assert {file.name for file in tmp_path.iterdir()} == {path.name}


@pytest.mark.parametrize("name", ["mine.ipynb", "./folder/../mine.ipynb", "link.ipynb"])
def test_a_notebook_is_never_its_own_output(tmp_path, capsys, name):
    path, before = notebook(tmp_path, WRITES, stem="mine"), (tmp_path / "mine.ipynb").read_bytes()
    (tmp_path / "folder").mkdir()
    (tmp_path / "link.ipynb").symlink_to(path)
    assert "is the notebook that is run" in refused(capsys, path, f"{tmp_path}/{name}")
    # which would be removed once it has run
    failed = path.rename(tmp_path / "run.failed.ipynb")
    assert "is the notebook that is run" in refused(capsys, failed, tmp_path / "run.ipynb")
    assert failed.read_bytes() == before


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("out.ipynb", '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'),
        ("out.ipynb", "notes"),
        ("out.failed.ipynb", "notes"),
        ("out.json", '{"settings": 1}'),
        ("out.json", "notes"),
    ],
)
def test_a_run_writes_over_nothing_that_no_run_wrote(tmp_path, capsys, name, content):
    path = notebook(tmp_path, "raise SystemExit")
    (tmp_path / name).write_text(content)
    said = refused(capsys, path, tmp_path / "out.ipynb")
    assert f"{name}: is there, and no run wrote it; remove it, or name another" in said
    assert (tmp_path / name).read_text() == content


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (
            ['raise ValueError("the corpus is empty\\nmore")'],
            "cell 3: ValueError: the corpus is empty [",
        ),
        # it has no message, so the line is shown
        (["x = 1\nassert x == 2"], "cell 3: AssertionError: assert x == 2"),
        (
            ["import os", "os.kill(os.getpid(), 9)"],
            "cell 4: its kernel died: memory ran out, most likely",
        ),
    ],
)
def test_a_failing_cell_or_a_killed_kernel_is_one_line_and_what_ran_is_kept_aside(
    tmp_path, capsys, cells, said
):
    path = notebook(tmp_path, *cells, WRITES)
    assert f"99-try.ipynb, {said}" in refused(capsys, path, tmp_path / "out.ipynb", code=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["99-try.ipynb", "out.failed.ipynb"]


@pytest.mark.parametrize("command", ["/no/such/python", sys.executable])
def test_a_kernel_that_cannot_start_is_named_in_one_line(tmp_path, capsys, monkeypatch, command):
    monkeypatch.delenv(kernel.FOLDER, raising=False)
    monkeypatch.setattr(kernel, "ALONE", (command, "-c", "raise SystemExit(3)"))
    line = refused(capsys, notebook(tmp_path, WRITES), tmp_path / "out.ipynb", code=1)
    assert "the Jupyter kernel does not start" in line
    assert command in line or "Kernel died" in line
    assert sorted(path.name for path in tmp_path.iterdir()) == ["99-try.ipynb"]


CODE = """%matplotlib inline
from math import (
    sqrt,
)
options = {}
def double(number):
    return 2 * number
steps = double(
    3
)
size: int = 2 ** 4
rate: float = 1
first, second = sqrt(4), 3  # two names in one are no parameters
text = f"{first}"  # text = ...
unset: int
low = high = -1e-4
groups = [
    1,
    {"a": None},
]
study_name = "smoke"; record = ""
"""


def test_a_cell_of_parameters_with_code_in_it_is_read_as_papermill_reads_it(tmp_path):
    path = notebook(tmp_path, parameters=CODE)
    found = execution.declared_parameters(path)
    assert found == {
        "options": {},
        "steps": object,
        "size": int,
        "rate": 1.0,
        "text": object,
        "low": -1e-4,
        "high": -1e-4,
        "groups": [1, {"a": None}],
        "study_name": "smoke",
        "record": "",
    }
    assert type(found["rate"]) is float
    given = {"steps": "010", "size": "12", "rate": "2", "text": "[1, 2]"}
    assert execution.checked(path, given, found) == {
        "steps": 10,
        "size": 12,
        "rate": 2.0,
        "text": [1, 2],
    }


def test_a_run_leaves_the_notebook_and_exactly_one_record(tmp_path, capsys):
    folder = tmp_path / "{x} {steps}"
    folder.mkdir()
    path, output = notebook(folder, WRITES, parameters=CODE), folder / "{flag}" / "out{}.ipynb"
    assert "takes int: not '1.5'" in refused(capsys, path, output, "-p", "size", "1.5")
    given = ["-f", "smoke", "-p", "record", "", "-p", "steps", "7", "-p", "rate", "0.5"]
    assert (
        cli.main(["run", str(path), str(output), *given]) == 0
        and "derivation" not in capsys.readouterr().err
    )
    record = json.loads(output.with_suffix(".json").read_text())
    assert (record["parameters"], record["stage"]) == ({"steps": 7, "rate": 0.5}, "derivation")
    assert record["study"] == "smoke" and len(list(output.parent.iterdir())) == 2
    (run,) = executed_notebooks.read([output])
    assert run.values["steps"] == 7 and "size" not in run.values


@pytest.mark.parametrize(
    ("given", "seen"), [({"steps": "3"}, True), ({"steps": "4"}, False), ({"rate": "9"}, False)]
)
def test_what_every_run_shows_is_left_to_that_of_the_defaults_and_all_need_a_record(
    tmp_path, monkeypatch, given, seen
):
    monkeypatch.setattr(execution.papermill, "execute_notebook", lambda *given, **how: None)
    path, output = notebook(tmp_path, "print('the same')", WRITES), tmp_path / "out.ipynb"
    node = nbformat.read(path, as_version=4)
    node.cells[2].metadata["tags"] = ["once"]
    nbformat.write(node, path)
    for own, there in ((True, seen), (False, True)):
        with pytest.raises(NotebookFailed, match="99-try.ipynb wrote no record"):
            execution.run(path, output, given, changed=own)
        assert ("the same" in output.read_text()) == there
        output.unlink()
