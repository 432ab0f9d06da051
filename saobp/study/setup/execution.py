"""Executes one notebook by papermill with checked parameters; it must leave exactly one record."""

import difflib
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
from papermill.exceptions import PapermillExecutionError

from saobp.study.setup import paths, recipes, records, studies, typed_by_hand

SEEDS = range(2**32)  # what numpy and torch take


class UsageError(ValueError):
    """A command that cannot be carried out as given; one line that says why."""


class NotebookFailed(click.ClickException):
    """A cell raised an error; one line with the cell, the error and where the notebook lies."""


def declared_parameters(notebook: Path) -> dict[str, Any]:
    """Return names and defaults of the notebook's cell tagged `parameters`, without running it."""
    try:
        cells = nbformat.read(notebook, as_version=4).cells
        tagged = next(cell for cell in cells if "parameters" in cell.metadata.get("tags", []))
        return typed_by_hand.declared(tagged.source)
    except FileNotFoundError:
        raise UsageError(f"{notebook}: no such notebook") from None
    except StopIteration:
        raise UsageError(f"{notebook}: has no cell tagged 'parameters'") from None
    except SyntaxError as error:
        raise UsageError(f"{notebook}: the cell tagged 'parameters' is no Python (line {error.lineno})") from None
    except Exception as error:
        raise UsageError(f"{notebook}: not a readable notebook ({str(error).splitlines()[0]})") from None


def checked(notebook: Path, given: dict[str, str], declared: dict[str, Any]) -> dict[str, Any]:
    """Turn the command line's texts into values of the declared types, or say which one is wrong."""
    values = {}
    for name, text in given.items():
        if name not in declared:
            close = difflib.get_close_matches(name, declared, n=1)
            hint = f"did you mean '{close[0]}'?" if close else f"it has {', '.join(declared)}"
            raise UsageError(f"{notebook.name} has no parameter '{name}': {hint}")
        try:
            values[name] = typed_by_hand.value(text, declared[name])
        except ValueError as error:
            taken = f"{type(declared[name]).__name__}, as in {declared[name]!r}"
            raise UsageError(f"parameter '{name}' of {notebook.name} takes {taken}: not '{text}' ({error})") from None
    return values


def check_names(notebook: Path, values: dict[str, Any]) -> None:
    """Refuse a profile that cannot be read, and a model, algorithm, task, group or seed that there is not."""
    for name in {"seed", "finetune_seed"} & set(values):
        if values[name] not in SEEDS:
            raise UsageError(f"parameter '{name}': {values[name]} is no seed; take a whole number up to {SEEDS[-1]}")
    if not values.get("profile"):
        return
    decoder = notebook.stem == "07-decoder"
    known = {
        "group": tuple(studies.load_profile(values["profile"]).finetune.groups),
        "model": get_args(recipes.Model),
        "algorithm": get_args(recipes.DecoderAlgorithm if decoder else recipes.Algorithm),
        "task": get_args(recipes.Task),
    }
    for name in set(known) & set(values):
        if values[name] not in known[name]:
            raise UsageError(f"parameter '{name}': '{values[name]}' is none of {', '.join(known[name])}")


def run(notebook: Path, output: Path, given: dict[str, str], profile_file: Path | None = None) -> dict[str, Any]:
    """Execute `notebook` into `output` and return the one record that it wrote.

    The record goes to the parameter `record`, by default beside the output. The output appears when all
    cells have run; what a failing run had done is kept as `<output>.failed.ipynb`.
    Raises UsageError for a wrong command, NotebookFailed for a failing cell or a missing record.
    """
    declared = declared_parameters(notebook)
    if profile_file is not None:
        given = {"profile": str(studies.find(profile_file).resolve()), **given}
    values = checked(notebook, given, declared)
    check_names(notebook, declared | values)
    if output.is_dir():
        raise UsageError(f"{output}: is a folder; name the notebook to write")
    record = Path(values.get("record") or output.with_suffix(".json")).resolve()  # the kernel runs elsewhere
    values["record"] = str(record)
    before = record.stat().st_mtime_ns if record.exists() else None
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror}") from None
    _execute(notebook, output, values)
    if not record.exists() or record.stat().st_mtime_ns == before:
        raise NotebookFailed(f"{notebook.name} wrote no record to {record}: its last cell must call run.save(…)")
    return records.read(record)


def _execute(notebook: Path, output: Path, values: dict[str, Any]) -> None:
    """Run papermill into a hidden neighbour of the output and rename it when it is whole."""
    partial = output.with_name(f".{output.stem}.partial.ipynb")
    failed = output.with_suffix(".failed.ipynb")
    try:
        papermill.execute_notebook(
            str(notebook), str(partial), values, cwd=str(paths.root()), kernel_name="python3",
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
        raise NotebookFailed(f"{notebook.name}: {said} [{failed}]") from None
    except (OSError, RuntimeError, NoSuchKernel) as error:  # of the disk, or jupyter's before the first cell
        mend = "free space, or install the Jupyter kernel again: python -m ipykernel install --sys-prefix"
        raise NotebookFailed(f"{notebook.name} does not start ({' '.join(str(error).split())}); {mend}") from None
    finally:
        partial.unlink(missing_ok=True)


def _source_line(error: PapermillExecutionError) -> str:
    """Return the line of code that raised an error, as the traceback's last arrow shows it; "" without one."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(error.traceback))
    return (re.findall(r"^-+> *\d+ (.*)$", plain, re.MULTILINE) or [""])[-1].strip()
