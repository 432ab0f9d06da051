"""Every link leads to a page: of a notebook to the run that belongs, of a file to its own, with the anchor it has."""

import pytest

from saobp.study.publication import links, listings
from saobp.study.publication.executed import Executed
from saobp.study.setup import paths

RUN = Executed("04-pretrain-mini-high-42", None, {"model": "mini"})


@pytest.fixture
def lead():
    return links.Links([RUN], paths.root())


@pytest.mark.parametrize(
    ("link", "leads"),
    [
        ("04-pretrain.ipynb", "04-pretrain-mini-high-42.html"),
        ("04-pretrain.ipynb#The-model", "04-pretrain-mini-high-42.html#The-model"),
        ("07-decoder.ipynb#Leak", "../index.html#07-decoder"),
        ("../saobp/equations/refine.py#L45", "files/saobp/equations/refine.py.html#L45"),
        ("../README.md", "files/README.md.html"),
        ("../data/", "files/data/index.html"),
        ("../notebooks", "../index.html"),
        ("#here", "#here"),
        ("https://example.org/a", "https://example.org/a"),
        ("../../elsewhere.md", "../../elsewhere.md"),
        ("../saobp/nowhere.py", "../saobp/nowhere.py"),
    ],
)
def test_a_link_of_a_notebook_leads_to_a_page(lead, link, leads):
    assert lead.lead(f'<a href="{link}">', "a.html", "notebooks/01-derivation.ipynb") == f'<a href="{leads}">'


def test_a_link_of_a_file_is_relative_to_that_file(lead):
    html = lead.lead('<a href="saobp/study">', "files/README.md.html", "README.md")
    assert html == '<a href="saobp/study/index.html">'
    assert lead.wanted == {"saobp/study": "files/saobp/study/index.html"}
    html = lead.lead('<a href="notebooks/04-pretrain.ipynb">', "files/README.md.html", "README.md")
    assert html == '<a href="../04-pretrain-mini-high-42.html">'


def test_what_only_looks_like_a_link_is_left_alone(lead):
    printed = 'it printed href="04-pretrain.ipynb" &lt;a href="04-pretrain.ipynb"'
    assert lead.lead(printed, "a.html", "notebooks/a.ipynb") == printed


def test_a_picture_of_the_repository_comes_along(lead):
    html = lead.lead('<img alt="a" src="figures/figure4.png">', "files/README.md.html", "README.md")
    assert html.startswith('<img alt="a" src="data:image/png;base64,')


@pytest.mark.parametrize("anchor", ["two-commands", "Two-commands"])
def test_an_anchor_is_spelled_as_its_page_has_it(anchor):
    pages = {"a.html": f'<a href="files/b.html#{anchor}">', "files/b.html": '<h2 id="Two-commands">'}
    assert links.settle_anchors(pages)["a.html"] == '<a href="files/b.html#Two-commands">'


def test_an_unknown_anchor_stays_and_can_be_found_out():
    pages = {"a.html": '<a href="b.html#none">', "b.html": '<h2 id="Two-commands">'}
    assert links.settle_anchors(pages)["a.html"] == '<a href="b.html#none">'


def test_source_has_an_anchor_for_each_line_and_each_name(tmp_path):
    (tmp_path / "a.py").write_text('"""A <b>."""\n\nSIZE: int = 3\n\n\ndef refine(x):\n    return x < SIZE\n')
    html = listings.body(tmp_path / "a.py", "folder/a.py")
    assert '<span id="L3"><span id="SIZE"></span>' in html and '<span id="L6"><span id="refine"></span>' in html
    assert html.count('<span id="L') == 7 and "A &lt;b&gt;" in html and "<code>folder/a.py</code>" in html


def test_a_file_of_no_known_language_is_plain_text(tmp_path):
    (tmp_path / "LICENSE").write_text("Permission <is>\n")
    assert "Permission &lt;is&gt;" in listings.body(tmp_path / "LICENSE", "LICENSE")


def test_a_folder_lists_its_files_and_links_to_those_that_have_pages(tmp_path):
    (tmp_path / "a.py").write_text('"""What a does."""\n')
    (tmp_path / "b.py").write_text("")
    html = listings.folder(tmp_path, "x", {"x/a.py"})
    assert '<a href="a.py"><code>a.py</code></a> What a does.' in html and "<li><code>b.py</code> </li>" in html
