"""The notebooks keep the house's form: a claim, parameters, outputs of the default run, and links that hold."""

import re

import nbformat
import pytest

from saobp.study.setup import paths
from saobp.study.setup.execution import declared_parameters

DRAWS = re.compile(r"plot\(|\.subplots\(|heatmap\(|figures\.shown\(|learning\.accuracy\(|costs\.\w+\(")
NOTEBOOKS = sorted((paths.root() / "notebooks").glob("*.ipynb"))


def cells(path, kind):
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == kind]


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request):
    return request.param


def test_it_opens_with_its_number_and_one_claim(notebook):
    opening = cells(notebook, "markdown")[0].source
    assert opening.startswith(f"# {notebook.stem[:2]} ")
    assert re.match(r"(\*\*Claim: |\*)[^*]{20,}\*", opening.split("\n\n")[1])
    assert all(word in opening for word in ("Reads", "Writes", "Paper items", "Runtime"))


def test_its_parameters_are_literals_with_profile_and_record(notebook):
    assert {"profile": "smoke", "record": ""}.items() <= declared_parameters(notebook).items()


def test_it_was_committed_with_outputs_and_without_errors(notebook):
    outputs = [output for cell in cells(notebook, "code") for output in cell.outputs]
    assert outputs and not [output for output in outputs if output.output_type == "error"]


def test_what_a_cell_draws_is_to_be_seen(notebook):
    for cell in cells(notebook, "code"):
        if DRAWS.search(cell.source):
            assert any("image/png" in output.get("data", {}) for output in cell.outputs), cell.source


def test_no_cell_is_machinery(notebook):
    for cell in cells(notebook, "code"):
        assert len(cell.source.splitlines()) <= 15, cell.source[:60]
        assert notebook.stem.startswith("01") or not re.search(r"^def ", cell.source, re.MULTILINE)


def test_every_link_leads_to_a_file(notebook):
    for cell in cells(notebook, "markdown"):
        for target in re.findall(r"\]\((?!http)([^)#]+)", cell.source):
            assert (notebook.parent / target).exists(), target


def test_it_names_no_folder_of_the_machine_it_ran_on(notebook):
    text = notebook.read_text(encoding="utf-8")
    assert str(paths.root()) not in text
