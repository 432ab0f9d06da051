"""Executes one notebook by papermill with checked parameters; it must leave exactly one record."""

import contextlib
import difflib
import os
import re
import sys
from pathlib import Path
from typing import Any, get_args

import click
import nbformat
import papermill
from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel
from nbclient.exceptions import DeadKernelError
from papermill.exceptions import PapermillExecutionError

from saobp.study.setup import paths, recipes, records, studies, typed_by_hand

KERNEL = "python3"


class UsageError(ValueError):
    """A command that cannot be carried out as given; one line that says why."""


class NotebookFailed(click.ClickException):
    """A cell raised an error; one line with the cell, the error and where the notebook lies."""


def declared_parameters(notebook: Path) -> dict[str, Any]:
    """Return names and defaults of the notebook's cell tagged `parameters`, as `typed_by_hand.declared` reads them."""
    try:
        cells = nbformat.read(notebook, as_version=4).cells
    except FileNotFoundError:
        raise UsageError(f"{notebook}: no such notebook") from None
    except Exception as error:
        raise UsageError(f"{notebook}: not a readable notebook ({str(error).splitlines()[0]})") from None
    cell = next((c for c in cells if "parameters" in c.metadata.get("tags", [])), None)
    if cell is None:
        raise UsageError(f"{notebook}: has no cell tagged 'parameters'")
    try:
        return typed_by_hand.declared(cell.source)
    except SyntaxError as error:
        raise UsageError(f"{notebook}: the cell tagged 'parameters' is no Python (line {error.lineno})") from None


def checked(notebook: Path, given: dict[str, str], declared: dict[str, Any]) -> dict[str, Any]:
    """Turn the command line's texts into values of the declared types, or say which one is wrong."""
    values = {}
    for name, text in given.items():
        if name not in declared:
            close = difflib.get_close_matches(name, declared, n=1)
            hint = f"did you mean '{close[0]}'?" if close else f"it has {', '.join(declared)}"
            raise UsageError(f"{notebook.name} has no parameter '{name}': {hint}")
        try:
            values[name] = typed_by_hand.value(text, default := declared[name])
        except ValueError as error:
            if isinstance(default, typed_by_hand.Computed):
                taken = default.kind or f"a value ({error})"
            else:
                taken = f"{type(default).__name__}, as in {default!r}" + f" ({error})" * isinstance(default, list)
            raise UsageError(f"parameter '{name}' of {notebook.name} takes {taken}: not '{text}'") from None
    return values


ALGORITHMS_OF = {"07-decoder": recipes.DecoderAlgorithm}  # those of a notebook that takes other ones than encoders do
SEEDS = range(2**32)  # what numpy and torch take


def check_names(notebook: Path, values: dict[str, Any]) -> None:
    """Refuse a study that cannot be read, and a model, algorithm, task, group or seed that there is not."""
    for name in ("seed", "finetune_seed"):
        if name in values and values[name] not in SEEDS:
            raise UsageError(
                f"parameter '{name}': {values[name]} is no seed; take a whole number from 0 to {SEEDS[-1]}"
            )
    if not values.get("profile"):
        return
    study = studies.load_study(values["profile"])
    known = {
        "model": get_args(recipes.Model),
        "algorithm": get_args(ALGORITHMS_OF.get(notebook.stem, recipes.Algorithm)),
        "task": get_args(recipes.Task),
        "group": tuple(study.finetune.groups),
    }
    for name, choices in known.items():
        if name in values and values[name] not in choices:
            raise UsageError(f"parameter '{name}': '{values[name]}' is none of {', '.join(choices)}")


def run(notebook: Path, output: Path, given: dict[str, str], study_file: Path | None = None) -> dict[str, Any]:
    """Execute `notebook` into `output` and return the one record that it wrote.

    The record goes to the parameter `record`, by default beside the output. The output appears when all
    cells have run; what a failing run had done is kept as `<output>.failed.ipynb`.
    Raises UsageError for a wrong command, NotebookFailed for a failing cell or a missing record.
    """
    declared = declared_parameters(notebook)
    if study_file is not None:
        given = {"profile": str(studies.find(study_file).resolve()), **given}
    values = checked(notebook, given, declared)
    known = {name: value for name, value in declared.items() if not isinstance(value, typed_by_hand.Computed)}
    check_names(notebook, {**known, **values})
    if output.is_dir():
        raise UsageError(f"{output}: is a folder; name the notebook to write")
    record = Path(values.get("record") or output.with_suffix(".json")).resolve()  # the kernel runs elsewhere
    values["record"] = str(record)
    before = record.stat().st_mtime_ns if record.exists() else None
    _execute(notebook, output, values)
    if not record.exists() or record.stat().st_mtime_ns == before:
        raise NotebookFailed(f"{notebook.name} wrote no record to {record}: its last cell must call run.save(…)")
    return records.read(record)


def _execute(notebook: Path, output: Path, values: dict[str, Any]) -> None:
    """Run papermill into a hidden neighbour of the output and rename it when it is whole."""
    partial = output.with_name(f".{output.stem}.partial.ipynb")
    failed = output.with_suffix(".failed.ipynb")
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        papermill.execute_notebook(
            _verbatim(notebook), _verbatim(partial), values, cwd=str(paths.root()), kernel_name=KERNEL,
            language="python", progress_bar=False, stderr_file=sys.stderr, extra_arguments=["--log-level=CRITICAL"],
        )  # fmt: skip
        os.replace(partial, output)
        failed.unlink(missing_ok=True)
    except PapermillExecutionError as error:
        os.replace(partial, failed)
        reason = str(error.evalue).split("\n")[0] or _source_line(error)
        raise NotebookFailed(f"{notebook.name}, cell {error.exec_count}: {error.ename}: {reason} [{failed}]") from None
    except DeadKernelError:
        os.replace(partial, failed)
        said = "its kernel died: memory ran out, most likely, or something killed it; free memory and run it again"
        raise NotebookFailed(f"{notebook.name}, cell {_running(failed)}: {said} [{failed}]") from None
    except (RuntimeError, NoSuchKernel) as error:  # jupyter's, before the first cell
        raise _no_start(error) from None
    except OSError as error:
        if error.filename in _command():
            raise _no_start(error) from None
        raise UsageError(f"{error.filename or output}: {error.strerror}") from None
    finally:
        with contextlib.suppress(OSError):  # of a folder that could not be made
            partial.unlink(missing_ok=True)


def _source_line(error: PapermillExecutionError) -> str:
    """Return the line of code that raised an error, as the traceback's last arrow shows it; "" without one."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(error.traceback))
    return (re.findall(r"^-+> *\d+ (.*)$", plain, re.MULTILINE) or [""])[-1].strip()


def _verbatim(path: Path) -> str:
    """Return a path as papermill takes it, which fills in what stands in braces."""
    return str(path).replace("{", "{{").replace("}", "}}")


def _running(notebook: Path) -> int:
    """Return the number, among the code cells, of the cell that an executed notebook had come to."""
    cells = [cell for cell in nbformat.read(notebook, as_version=4).cells if cell.cell_type == "code"]
    return sum(cell.metadata.get("papermill", {}).get("start_time") is not None for cell in cells)


def _command() -> list[str]:
    """Return the command that starts the kernel; none if there is no such kernel."""
    try:
        return KernelSpecManager().get_kernel_spec(KERNEL).argv
    except NoSuchKernel:
        return []


def _no_start(error: Exception) -> NotebookFailed:
    reason = getattr(error, "strerror", None) or str(error).split("\n")[0]
    command = " ".join(_command()[:1]) or "none"
    mend = "install it again: python -m ipykernel install --sys-prefix"
    return NotebookFailed(f"the Jupyter kernel '{KERNEL}' does not start ({command}: {reason}); {mend}")
