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


def test_each_file_that_is_linked_to_is_wanted_once(lead):
    for link in ("../README.md", "../README.md#more", "../data/"):
        lead.lead(f'<a href="{link}">', "a.html", "notebooks/01-derivation.ipynb")
    assert lead.wanted == {"README.md": "files/README.md.txt"}


def test_what_only_looks_like_a_link_is_left_alone(lead):
    printed = 'it printed href="04-pretrain.ipynb" &lt;a href="04-pretrain.ipynb"'
    assert lead.lead(printed, "a.html", "notebooks/a.ipynb") == printed


def test_a_picture_of_the_repository_comes_along(lead):
    html = lead.lead('<img alt="a" src="figures/figure4.png">', "a.html", "README.md")
    assert html.startswith('<img alt="a" src="data:image/png;base64,')


@pytest.mark.parametrize("anchor", ["two-commands", "Two-commands"])
def test_an_anchor_is_spelled_as_its_page_has_it(anchor):
    pages = {"a.html": f'<a href="files/b.html#{anchor}">', "files/b.html": '<h2 id="Two-commands">'}
    assert links.settle_anchors(pages)["a.html"] == '<a href="files/b.html#Two-commands">'


def test_an_unknown_anchor_stays_and_can_be_found_out():
    pages = {"a.html": '<a href="b.html#none">', "b.html": '<h2 id="Two-commands">'}
    assert links.settle_anchors(pages)["a.html"] == '<a href="b.html#none">'
