"""Executes one notebook by papermill with checked parameters; it must leave exactly one record."""

import difflib
import json
import os
import re
import sys
from pathlib import Path
from typing import Any, get_args

import click
import nbformat
import papermill
from jupyter_client.kernelspec import NoSuchKernel
from nbclient.exceptions import DeadKernelError
from nbconvert.filters import strip_ansi
from papermill.exceptions import PapermillExecutionError

from companion import records
from companion.setup import kernel, paths, recipes, studies, typed_by_hand

# parameters that tell no run of a study from another
UNNAMED = {"study_name", "record"}
FOREIGN = "is there, and no run wrote it"


class NotebookFailed(click.ClickException):
    """A cell raised an error; one line with the cell, the error and where the notebook lies."""


def declared_parameters(notebook: Path) -> dict[str, Any]:
    """Return names and defaults of the notebook's cell tagged `parameters`, as
    `typed_by_hand.declared` reads them.
    """
    try:
        cells = nbformat.read(notebook, as_version=4).cells
        return typed_by_hand.declared(
            next(c for c in cells if "parameters" in c.metadata.get("tags", [])).source
        )
    except FileNotFoundError:
        raise ValueError(f"{notebook}: no such notebook") from None
    except StopIteration:
        reason = "it has no cell tagged 'parameters'"
    # no file, no JSON, none of a notebook, or a cell that is no Python
    except Exception as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
    raise ValueError(f"{notebook}: no notebook with parameters ({reason})")


def checked(notebook: Path, texts: dict[str, str], declared: dict[str, Any]) -> dict[str, Any]:
    """Turn the command line's texts into values of the declared types, or say which one is
    wrong.
    """
    values = {}
    for name, text in texts.items():
        if name not in declared:
            close = difflib.get_close_matches(name, declared, n=1)
            hint = f"did you mean '{close[0]}'?" if close else f"it has {', '.join(declared)}"
            raise ValueError(f"{notebook.name} has no parameter '{name}': {hint}")
        try:
            values[name] = typed_by_hand.value(text, default := declared[name])
        except ValueError as error:
            kind = default if isinstance(default, type) else type(default)
            taken = f"a value ({error})" if kind is object else kind.__name__
            taken += f", as in {default!r}" * (default is not kind) + f" ({error})" * (kind is list)
            raise ValueError(
                f"parameter '{name}' of {notebook.name} takes {taken}: not '{text}'"
            ) from None
    return values


def check_names(notebook: Path, values: dict[str, Any]) -> None:
    """Refuse a study that cannot be read, and a model, algorithm, task, group or seed that there is
    not.
    """
    if not values.get("study_name"):
        return
    known = {
        "seed": recipes.SEEDS,
        "finetune_seed": recipes.SEEDS,
        "model": get_args(recipes.Model),
        "algorithm": get_args(
            recipes.DecoderAlgorithm if notebook.stem == "07-decoder" else recipes.Algorithm
        ),
        "task": get_args(recipes.Task),
        "group": tuple(studies.load_study(values["study_name"]).finetune.groups),
    }
    for name, choices in known.items():
        if name in values and values[name] not in choices:
            named = f"0 to {choices[-1]}" if choices is recipes.SEEDS else ", ".join(choices)
            raise ValueError(f"parameter '{name}': '{values[name]}' is none of {named}")


def run(
    notebook: Path,
    output: Path,
    parameters: dict[str, str],
    study_file: Path | None = None,
    changed: bool = False,
) -> dict[str, Any]:
    """Execute `notebook` into `output`, whole or as `<output>.failed.ipynb`, and return the one
    record that it wrote.

    `changed`: without the cells tagged `once`, which show the same in every run, unless it has the
        notebook's defaults.
    Raises ValueError for a wrong command, NotebookFailed for a failing cell or a missing record.
    """
    declared = declared_parameters(notebook)
    if study_file is not None:
        parameters = {"study_name": str(studies.find(study_file).resolve()), **parameters}
    values = checked(notebook, parameters, declared)
    check_names(
        notebook, {name: d for name, d in declared.items() if not isinstance(d, type)} | values
    )
    # the kernel runs elsewhere
    record = Path(values.get("record") or output.with_suffix(".json")).resolve()
    refuse_to_overwrite(notebook, output, record)
    for value in (output, record, *values.values()):
        if isinstance(value, str | Path):
            paths.check_letters(value)
    for path in (record, output):
        paths.own_folder(path.parent)
    values["record"] = str(record)
    before = record.stat().st_mtime_ns if record.exists() else None
    chosen = {name: value for name, value in values.items() if name not in UNNAMED}
    again = changed and any(value != declared[name] for name, value in chosen.items())
    _execute(notebook, output, values, "once" if again else "")
    if not record.exists() or record.stat().st_mtime_ns == before:
        raise NotebookFailed(
            f"{notebook.name} wrote no record to {record}: its last cell must call run.save(…)"
        )
    return records.read(record)


def refuse_to_overwrite(notebook: Path, output: Path, record: Path) -> None:
    """Raise ValueError, one line, where a run would write over what no run has written: its own
    notebook above all.
    """
    if output.is_dir():
        raise ValueError(f"{output}: is a folder; name the notebook to write")
    if record.is_dir():
        raise ValueError(f"{record}: is a folder; name another record")
    if record == output.resolve():
        raise ValueError(f"{record}: is the notebook; name another record")
    for path in (output, output.with_suffix(".failed.ipynb")):
        if path.exists() and path.samefile(notebook):
            raise ValueError(f"{path}: is the notebook that is run; name another output")
        if path.exists() and "papermill" not in _metadata(path):
            raise ValueError(f"{path}: {FOREIGN}; remove it, or name another output")
    if record.exists() and not records.is_record(record):
        raise ValueError(f"{record}: {FOREIGN}; remove it, or name another record")


def _metadata(path: Path) -> dict[str, Any]:
    """Return what a notebook says of itself; nothing if it is none."""
    try:
        return dict(json.loads(path.read_text(encoding="utf-8"))["metadata"])
    except (OSError, ValueError, LookupError, TypeError):
        return {}


def _execute(notebook: Path, output: Path, values: dict[str, Any], without: str) -> None:
    """Run papermill, `without` the cells of a tag, into a neighbour of the output, and rename that
    when it is whole.
    """
    partial, failed = (
        output.with_name(f".{output.stem}.partial.ipynb"),
        output.with_suffix(".failed.ipynb"),
    )
    node = nbformat.read(notebook, as_version=4)
    node.cells = [cell for cell in node.cells if without not in cell.metadata.get("tags", [])]
    # papermill fills in what stands in braces
    place = str(partial).replace("{", "{{").replace("}", "}}")
    how = {
        "progress_bar": False,
        "stderr_file": sys.stderr,
        "extra_arguments": ["--log-level=CRITICAL"],
    }
    where = {"cwd": str(paths.root()), "kernel_name": kernel.NAME, "language": "python"}
    nbformat.write(node, partial)
    try:
        with kernel.ready():
            papermill.execute_notebook(place, place, values, **where, **how)
        os.replace(partial, output)
        failed.unlink(missing_ok=True)
    except (PapermillExecutionError, DeadKernelError) as error:
        os.replace(partial, failed)
        raise NotebookFailed(f"{notebook.name}, {_reason(error, failed)} [{failed}]") from None
    # jupyter's, before any cell
    except (RuntimeError, NoSuchKernel, FileNotFoundError, PermissionError) as error:
        reason = str(error).split("\n")[0]
        raise NotebookFailed(
            f"the Jupyter kernel does not start ({reason}); install ipykernel again"
        ) from None
    finally:
        partial.unlink(missing_ok=True)


def _reason(error: PapermillExecutionError | DeadKernelError, failed: Path) -> str:
    """Say which cell of a failed notebook raised what; of an error without words, the line of code
    that raised it.
    """
    if isinstance(error, DeadKernelError):
        begun = 0
        for cell in nbformat.read(failed, as_version=4).cells:
            timed = cell.metadata.get("papermill", {})
            begun += cell.cell_type == "code" and timed.get("start_time") is not None
        reason = "its kernel died: memory ran out, most likely, or something killed it; free memory and run it again"
        return f"cell {begun}: {reason}"
    arrows = re.findall(r"^-+> *\d+ (.*)$", strip_ansi("\n".join(error.traceback)), re.MULTILINE)
    # the last one points at the line
    reason = str(error.evalue).split("\n")[0] or "".join(arrows[-1:]).strip()
    return f"cell {error.exec_count}: {error.ename}: {reason}"
