"""The notebooks' outputs, as tracked: those of the finished smoke run, without its paths, times and progress bars."""

from pathlib import Path

import nbformat

from saobp.study.setup import paths
from saobp.study.setup.execution import declared_parameters


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
