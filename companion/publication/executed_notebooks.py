"""Executed notebooks: which run each is, which comes before another, and what git tracks of it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from nbconvert.preprocessors import CoalesceStreamsPreprocessor
from nbformat import NotebookNode

from companion.records import IDENTITY, PRETRAINED
from companion.records.execution import UNNAMED, declared_parameters
from companion.setup import labels, paths

# what a progress bar is shown as
PROGRESS = "application/vnd.jupyter.widget-view+json"


@dataclass(frozen=True)
class Executed:
    """One execution of one notebook: its name, its cells, the parameters it was given."""

    name: str
    node: NotebookNode
    values: dict[str, Any]

    @property
    def notebook(self) -> str:
        """The notebook that was executed: "05-finetune-mini-high-42-all-0" -> "05-finetune"."""
        return "-".join(self.name.split("-")[:2])

    @property
    def title(self) -> str:
        """The notebook's first line."""
        return self.node.cells[0].source.partition("\n")[0].lstrip("# ")


def read(notebooks: Iterable[Path]) -> list[Executed]:
    """Read executed notebooks, by notebook, then size and algorithm in the paper's order, then
    seed.
    """

    def place(run: Executed) -> tuple:
        size, algorithm = labels.size(str(run.values.get("model", ""))), run.values.get("algorithm")
        ranks = (
            [*labels.PAPER_SIZES, size].index(size),
            [*labels.ALGORITHMS, algorithm].index(algorithm),
        )
        return run.notebook, *ranks, run.values.get("seed", 0), run.name

    nodes = [(path.stem, nbformat.read(path, as_version=4)) for path in notebooks]
    runs = (
        Executed(name, node, node.metadata.get("papermill", {}).get("parameters", {}))
        for name, node in nodes
    )
    return sorted(runs, key=place)


def closest(run: Executed, notebook: str, among: Sequence[Executed]) -> Executed | None:
    """Choose the run of a notebook that belongs to `run`: the first with the most of its model,
    algorithm and seed.
    """

    def kinship(candidate: Executed) -> int:
        agree = [
            name in run.values and run.values[name] == candidate.values.get(name)
            for name in PRETRAINED
        ]
        return [*agree, False].index(False) + (run.name == candidate.name)

    return max(
        (candidate for candidate in among if candidate.notebook == notebook),
        key=kinship,
        default=None,
    )


def named(values: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of a run in the reader's order, the study by its name and without the
    record's place.
    """
    names = sorted(values.keys() - UNNAMED, key=lambda name: ([*IDENTITY, name].index(name), name))
    return {"study": Path(values["study_name"]).stem} | {name: values[name] for name in names}


def of_defaults() -> dict[Path, NotebookNode]:
    """Return, for each notebook of the repository, what its run by its defaults under the smoke
    study left, cleaned.

    Raises FileNotFoundError when a notebook has not been run, and ValueError when it has been
    edited since.
    """
    folder = paths.build("smoke") / "notebooks"
    # not the failed ones
    runs, nodes = read(path for path in folder.glob("*.ipynb") if len(path.suffixes) == 1), {}
    for path in sorted((paths.root() / "notebooks").glob("*.ipynb")):
        usual, mine = declared_parameters(path), [run for run in runs if run.notebook == path.stem]
        alike = (
            run
            for run in mine
            if all(usual.get(name) == run.values[name] for name in {*run.values} - UNNAMED)
        )
        if (run := next(alike, None)) is None:
            raise FileNotFoundError(
                f"{folder}: no run of {path.name} by its defaults; run `make reproduce` first"
            )
        nodes[path] = node = cleaned(run.node)
        if [cell.source for cell in node.cells] != [
            cell.source for cell in nbformat.read(path, as_version=4).cells
        ]:
            ran = folder / f"{run.name}.ipynb"
            raise ValueError(
                f"{ran}: ran other cells than {path.name} has now; run `make reproduce` again"
            )
    return nodes


def cleaned(node: NotebookNode) -> NotebookNode:
    """Return a copy of what a reader of an executed notebook would see, with nothing of the machine
    it ran on.
    """
    node = nbformat.from_dict(node)
    node.metadata = {
        key: node.metadata[key] for key in ("kernelspec", "language_info") if key in node.metadata
    }
    node.cells = [
        cell for cell in node.cells if "injected-parameters" not in cell.metadata.get("tags", [])
    ]
    codes = [cell for cell in node.cells if cell.cell_type == "code"]
    for cell in node.cells:
        # a folded cell stays folded
        kept = {name: cell.metadata.get(name) for name in ("tags", "jupyter")}
        cell.metadata = {name: value for name, value in kept.items() if value}
    # of what was printed in pieces: where a kernel cuts it is chance
    joined = CoalesceStreamsPreprocessor()
    for count, cell in enumerate(codes, start=1):
        cell.execution_count = count
        # no message for the log
        read = [output for output in cell.outputs if output.get("name") != "stderr"]
        cell.outputs = [output for output in read if PROGRESS not in output.get("data", {})]
        joined.preprocess_cell(cell, {}, count)
        for output in cell.outputs:
            if "execution_count" in output:
                output.execution_count = count
    return node
