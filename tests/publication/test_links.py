"""Every link leads to a page: of a notebook to the run that belongs, of a file to its own, with the anchor it has."""

import pytest

from saobp.study.publication import links
from saobp.study.publication.executed import Executed
from saobp.study.setup import paths

RUN = Executed("04-pretrain-mini-high-42", None, {"model": "mini"})


@pytest.fixture
def lead():
    return links.Links([RUN], paths.root())


@pytest.mark.parametrize(("link", "leads"), [
    ("04-pretrain.ipynb", "04-pretrain-mini-high-42.html"),
    ("04-pretrain.ipynb#The-model", "04-pretrain-mini-high-42.html#The-model"),
    ("07-decoder.ipynb#Leak", "../index.html#07-decoder"),
    ("../saobp/equations/refine.py#L45", "files/saobp/equations/refine.py.txt"),
    ("../README.md", "files/README.md.txt"), ("../figures/table2.csv", "files/figures/table2.csv"),
    ("../data/", "../index.html"), ("../notebooks", "../index.html"), ("#here", "#here"),
    ("https://example.org/a", "https://example.org/a"), ("../../elsewhere.md", "../../elsewhere.md"),
    ("../saobp/nowhere.py", "../saobp/nowhere.py"),
])  # fmt: skip
def test_a_link_of_a_notebook_leads_to_a_page(lead, link, leads):
    assert lead.lead(f'<a href="{link}">', "a.html", "notebooks/01-derivation.ipynb") == f'<a href="{leads}">'


@pytest.mark.parametrize("anchor", ["two-commands", "Two-commands"])
def test_an_anchor_is_spelled_as_its_page_has_it(anchor):
    pages = {"a.html": f'<a href="files/b.html#{anchor}">', "files/b.html": '<h2 id="Two-commands">'}
    assert links.settle_anchors(pages)["a.html"] == '<a href="files/b.html#Two-commands">'
