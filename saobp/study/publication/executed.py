"""Executed notebooks as a reader sees them: which run each is, which one comes before another, what is shown of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from saobp.study.publication.renewal import is_progress
from saobp.study.setup import labels, typed_by_hand

IDENTITY = ("model", "algorithm", "seed")
MARKER = "# NBVAL_CHECK_OUTPUT\n"


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
        ranks = size, labels.is_twin(model), _rank(algorithm, [*labels.ALGORITHMS])
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
            cell = nbformat.from_dict({**cell, "source": cell.source.removeprefix(MARKER), "outputs": outputs})
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
