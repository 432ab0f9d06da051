"""The page to open: whole in itself, with every table, figure, notebook and run."""

import json
import re

import nbformat
import pytest
from example_records import study
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from saobp.study import figures, paths, report


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("build")
    found = study()
    for record in found:
        paths.write_text(folder / "records" / f"{record['name']}.json", json.dumps(record))
    figures.publish(found, folder / "figures")
    bar = new_output("stream", name="stderr", text="50 %|#####     |")
    said = new_output("stream", name="stdout", text="forty-two <b>")
    node = new_notebook(cells=[new_markdown_cell("# A claim"), new_code_cell("1", outputs=[bar, said])])
    (folder / "notebooks").mkdir()
    nbformat.write(node, folder / "notebooks" / "01-derivation.ipynb")
    report.write(folder)
    return folder


def test_every_link_leads_somewhere_and_every_picture_is_inside(folder):
    text = (folder / "index.html").read_text()
    links = re.findall(r'href="([^"]+)"', text)
    assert links and all((folder / link).is_file() for link in links)
    sources = re.findall(r'src="([^"]{0,30})', text)
    assert sources and all(source.startswith("data:image/png;base64,") for source in sources)
    assert "http" not in text.replace("http-equiv", "")


def test_every_table_and_every_run_is_on_the_page(folder):
    text = (folder / "index.html").read_text()
    assert all(f'id="table{number}"' in text for number in range(1, 10))
    assert all(path.stem in text for path in (folder / "records").glob("*.json"))
    assert 'id="figure4"' in text


def test_progress_bars_stay_in_the_log(folder):
    page = (folder / "pages" / "01-derivation.html").read_text()
    assert "forty-two &lt;b&gt;" in page and "#####" not in page


def test_a_failed_task_is_named(folder):
    record = {"metrics": {"tasks": {"rte": {"failed": "the loss is nan"}, "race": {"headline": 1}}}}
    assert report.failures(record) == "rte: the loss is nan"


def test_a_folder_without_records_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no records there; run `make reproduce`"):
        report.write(tmp_path)
