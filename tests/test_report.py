"""The page to open: whole in itself, with every table, figure, notebook and run."""

import json
import re
import shutil
import subprocess

import nbformat
import pytest
from example_records import study
from matplotlib import image
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from saobp.study import figures, paths, report, tables


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("build")
    found = study()
    for record in found:
        paths.write_text(folder / "records" / f"{record['name']}.json", json.dumps(record))
    figures.publish(found, folder / "figures")
    bar = new_output("stream", name="stderr", text="50 %|#####     |")
    said = new_output("stream", name="stdout", text="forty-two <b>")
    claim = new_markdown_cell(
        "# A claim\n\n$$\\sum_i A_{ij} = 1$$ see [Pretraining](04-pretrain.ipynb) and [Audit](09-audit.ipynb)"
    )
    node = new_notebook(cells=[claim, new_code_cell("1", outputs=[bar, said])])
    (folder / "notebooks").mkdir()
    for name in ("01-derivation", "04-pretrain-mini-high-42"):
        nbformat.write(node, folder / "notebooks" / f"{name}.ipynb")
    tables.write_verdicts(found, folder / "figures")
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


def test_a_page_needs_nothing_from_elsewhere_and_its_links_lead_to_pages(folder):
    page = (folder / "pages" / "01-derivation.html").read_text()
    assert "<math" in page and "$$" not in page
    assert not re.search(r"<(script|link|img)[^>]*(src|href)=\"https?:", page)
    assert 'href="04-pretrain-mini-high-42.html"' in page  # the first run of the notebook
    assert 'href="../index.html"' in page  # no run of it


def test_verdicts_come_first(folder):
    text = (folder / "index.html").read_text()
    assert 0 < text.index("What reproduced and what did not") < text.index("Notebooks") < text.index("Tables")
    assert "cannot be decided at this scale" in text or "not reproduced" in text


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
ALONE = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--enable-logging=stderr",
)  # fmt: skip


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
@pytest.mark.parametrize("width", [420, 1200])
@pytest.mark.parametrize("name", ["index.html", "pages/01-derivation.html"])
def test_a_browser_draws_the_page_without_a_complaint(folder, tmp_path, name, width):
    shot = tmp_path / "shot.png"
    options = [*ALONE, f"--user-data-dir={tmp_path}", f"--window-size={width},1600", f"--screenshot={shot}"]
    done = subprocess.run(
        [CHROMIUM, *options, (folder / name).as_uri()], capture_output=True, text=True, timeout=120, check=True
    )
    assert "CONSOLE" not in done.stderr
    picture = image.imread(shot)
    assert picture.shape[1] == width and picture[..., :3].std() > 0.02  # something is drawn
