"""What the notebooks put in double quotes is in the paper, word for word."""

import csv
import os
import re
from pathlib import Path

import nbformat
import pytest

from companion.setup import paths

FILE = paths.root() / "data" / "published" / "quotations.csv"
NOTEBOOKS = sorted((paths.root() / "notebooks").glob("*.ipynb"))
QUOTED = re.compile(r'["“]([^"“”\n]+(?:\n[^"“”\n]+)*)["”]')
# names of ours for a column of a matrix
OURS = {"query $j$ attends like me"}


def plain(text):
    """Return a text without line breaks, marks of TeX and doubled spaces."""
    return " ".join(text.replace("$", " ").replace("\\", " ").split()).lower().rstrip(".,")


def tracked():
    with FILE.open(encoding="utf-8", newline="") as rows:
        return {plain(row["quotation"]): row["where"] for row in csv.DictReader(rows)}


def quoted(notebook):
    cells = nbformat.read(notebook, as_version=4).cells
    found = [
        match
        for cell in cells
        if cell.cell_type == "markdown"
        for match in QUOTED.findall(cell.source)
    ]
    return [text for text in found if " " in text.strip() and text not in OURS]


def test_every_quotation_of_the_notebooks_is_one_of_the_paper_and_each_of_those_is_used_and_has_a_place():
    used = {plain(text) for notebook in NOTEBOOKS for text in quoted(notebook)}
    apart = used ^ tracked().keys()
    assert not apart, f"not in {FILE.name}, or in no notebook: {apart}"
    assert all(tracked().values())


@pytest.mark.skipif(
    "SAOBP_PAPER" not in os.environ, reason="SAOBP_PAPER names no text of the paper"
)
def test_every_quotation_stands_in_the_papers_text():
    paper = plain(Path(os.environ["SAOBP_PAPER"]).read_text(encoding="utf-8"))
    assert [text for text in tracked() if text not in paper] == []
