"""Executed notebooks: which run each is, which comes before another, what readers see, and what git tracks of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from saobp.study.setup import labels, paths, typed_by_hand
from saobp.study.setup.execution import declared_parameters

IDENTITY = ("model", "algorithm", "seed")


@dataclass(frozen=True)
class Executed:
    """One execution of one notebook: its name, its cells, the values it ran with."""

    name: str
    node: NotebookNode = field(repr=False, compare=False)
    values: dict[str, Any] = field(compare=False)

    @property
    def notebook(self) -> str:
        """The notebook that was executed: "05-finetune-mini-high-42-all-0" -> "05-finetune"."""
        return "-".join(self.name.split("-")[:2])

    @property
    def place(self) -> tuple:
        """Where it stands among all: notebook, then size and algorithm in the paper's order, then seed."""
        model, algorithm = str(self.values.get("model", "")), self.values.get("algorithm")
        size = _rank(labels.size(model), labels.PAPER_SIZES)
        ranks = size, labels.is_scaled_down(model), _rank(algorithm, [*labels.ALGORITHMS])
        return self.notebook, *ranks, self.values.get("seed", 0), self.name


def read(notebooks: Sequence[Path]) -> list[Executed]:
    """Read executed notebooks and put them in the reader's order."""
    found = []
    for path in notebooks:
        node = nbformat.read(path, as_version=4)
        found.append(Executed(path.stem, node, _tagged(node, "parameters") | _tagged(node, "injected-parameters")))
    return sorted(found, key=lambda run: run.place)


def closest(run: Executed | None, notebook: str, among: Sequence[Executed]) -> Executed | None:
    """Choose the run of a notebook that belongs to `run`: the same model, algorithm and seed, as many as agree.

    The first of equals; None if the notebook has not been run.
    """
    runs = [other for other in among if other.notebook == notebook]
    return max(runs, key=lambda other: _kinship(run, other), default=None)


def title(node: NotebookNode) -> str:
    """Return a notebook's title, its first line."""
    return node.cells[0].source.partition("\n")[0].lstrip("# ") if node.cells else ""


def shown(run: Executed) -> NotebookNode:
    """Return the cells that a reader needs: no progress bars, no marks for tests, the run's parameters as one line."""
    injected = _tagged(run.node, "injected-parameters")
    node = nbformat.from_dict({**run.node, "cells": []})
    for cell in run.node.cells:
        tags = cell.metadata.get("tags", [])
        if injected and "parameters" in tags:
            node.cells.append(new_markdown_cell(f"*This run:* {parameters(injected)}."))
            cell = _without(cell, injected)
        if "outputs" in cell:
            outputs = [output for output in cell.outputs if not is_progress(output)]
            cell = nbformat.from_dict({**cell, "outputs": outputs})
        if "injected-parameters" not in tags and (cell.source.strip() or cell.get("outputs")):
            node.cells.append(cell)
    return node


def parameters(values: dict[str, Any]) -> str:
    """Say the parameters of a run in one line, without the places of files: "profile smoke, model mini, seed 42"."""
    words = {name: value for name, value in values.items() if name != "record"}
    if "profile" in words:
        words["profile"] = Path(words["profile"]).stem
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in words.items())


def _without(cell: NotebookNode, names: dict[str, Any]) -> NotebookNode:
    """Return a cell of assignments without those to some names."""
    gone = [node for name, node in typed_by_hand.assigned(cell.source) if name in names]
    lines = {line for node in gone for line in range(node.lineno, node.end_lineno + 1)}
    kept = [line for number, line in enumerate(cell.source.splitlines(), 1) if number not in lines]
    return nbformat.from_dict({**cell, "source": "\n".join(kept)})


def _tagged(node: NotebookNode, tag: str) -> dict[str, Any]:
    """Return the literal values that the cell with a tag assigns."""
    source = next((cell.source for cell in node.cells if tag in cell.metadata.get("tags", [])), "")
    found = typed_by_hand.declared(source)
    return {name: value for name, value in found.items() if not isinstance(value, typed_by_hand.Computed)}


def _kinship(run: Executed | None, other: Executed) -> int:
    """Count how far two runs agree: 3 for the same model, algorithm and seed, 1 for the model alone."""
    mine = run.values if run else {}
    agree = [name in mine and mine[name] == other.values.get(name) for name in IDENTITY]
    return [*agree, False].index(False) + (run == other)


def _rank(name: Any, order: Sequence[str]) -> int:
    return order.index(name) if name in order else len(order)


def renew_notebooks() -> None:
    """Put the outputs of the finished smoke run into `notebooks/`, without its paths, times and progress bars.

    Raises FileNotFoundError when a notebook has not been run, and ValueError when it has been edited since.
    """
    runs = {notebook: _run_of(notebook) for notebook in sorted((paths.root() / "notebooks").glob("*.ipynb"))}
    for notebook, executed in runs.items():
        paths.write_text(notebook, nbformat.writes(executed) + "\n")


def _run_of(notebook: Path) -> nbformat.NotebookNode:
    """Return the smoke run of a notebook's defaults, cleaned."""
    values = [str(v) for k, v in declared_parameters(notebook).items() if k not in ("profile", "record")]
    folder = paths.build("smoke") / "notebooks"
    # a run is named by the parameters that tell it from the others, the first ones of its notebook
    counts = range(len(values), -1, -1)
    candidates = [folder / f"{'-'.join([notebook.stem, *values[:count]])}.ipynb" for count in counts]
    executed = next((path for path in candidates if path.is_file()), None)
    if executed is None:
        raise FileNotFoundError(f"{candidates[0]}: not run yet; run `make reproduce` first")
    node = _clean(nbformat.read(executed, as_version=4))
    if [cell.source for cell in node.cells] != [cell.source for cell in nbformat.read(notebook, as_version=4).cells]:
        raise ValueError(f"{executed}: ran other cells than {notebook.name} has now; run `make reproduce` again")
    return node


def _clean(node: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Keep what a reader of the notebook's defaults would see, and nothing of the machine it ran on."""
    node.metadata = {key: node.metadata[key] for key in ("kernelspec", "language_info") if key in node.metadata}
    node.cells = [cell for cell in node.cells if "injected-parameters" not in cell.metadata.get("tags", [])]
    for cell in node.cells:
        tags = cell.metadata.get("tags", [])
        cell.metadata = {"tags": tags} if tags else {}
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if not is_progress(output)]
    codes = [cell for cell in node.cells if cell.cell_type == "code"]
    for count, cell in enumerate(codes, start=1):
        cell.execution_count = count
        for output in cell.outputs:
            if "execution_count" in output:
                output.execution_count = count
    return node


def is_progress(output: nbformat.NotebookNode) -> bool:
    """Say whether an output is a progress bar or another message for the log."""
    widget = "application/vnd.jupyter.widget-view+json" in output.get("data", {})
    return widget or output.get("name") == "stderr"
