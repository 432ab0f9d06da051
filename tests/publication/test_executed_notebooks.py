"""Which run a page is, which one belongs to another, where links lead, and what of a notebook its
readers see.
"""

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from companion import records
from companion.publication import cli, executed_notebooks, pages
from companion.setup import paths

DEFAULTS = 'study_name = "smoke"\nrecord = ""\nmodel = "mini"\nalgorithm = "high"\nseed = 42\nlength = 8  # tokens\n'


def notebook(**values):
    values = {
        "study_name": "/home/somebody/profiles/smoke.yaml",
        "record": "/home/somebody/r.json",
        **values,
    }
    given = "# Parameters\n" + "\n".join(f"{name} = {value!r}" for name, value in values.items())
    bar = new_output(
        "display_data", data={"application/vnd.jupyter.widget-view+json": {}, "text/plain": "50 %"}
    )
    cells = [
        new_markdown_cell("# 04 Pretraining\n\n**Claim: nothing else differs.**\n\nMore."),
        new_code_cell(DEFAULTS, metadata={"tags": ["parameters"]}),
        new_code_cell(given, metadata={"tags": ["injected-parameters"]}),
        new_code_cell("length", outputs=[bar, new_output("stream", name="stderr", text="50 %|##")]),
    ]
    return new_notebook(cells=cells, metadata={"papermill": {"parameters": values}})


@pytest.fixture
def runs(tmp_path):
    for name in ("04-pretrain", "05-finetune"):
        for model, algorithm in [
            ("medium", "high"),
            ("mini", "high"),
            ("mini", "original"),
            ("small", "original"),
        ]:
            node = notebook(model=model, algorithm=algorithm, seed=42)
            nbformat.write(node, tmp_path / f"{name}-{model}-{algorithm}-42.ipynb")
    return executed_notebooks.read(sorted(tmp_path.glob("*.ipynb")))


def test_runs_stand_in_the_paper_s_order(runs):
    order = [run.name for run in runs if run.notebook == "04-pretrain"]
    assert order == [
        f"04-pretrain-{row}-42"
        for row in ("mini-original", "mini-high", "small-original", "medium-high")
    ]


@pytest.mark.parametrize(
    ("values", "chosen"),
    [
        ({"model": "medium", "algorithm": "high", "seed": 42}, "medium-high"),
        ({"model": "mini", "algorithm": "high", "seed": 7}, "mini-high"),
        ({"model": "small", "algorithm": "high", "seed": 42}, "small-original"),
        ({"model": "large", "algorithm": "high", "seed": 42}, "mini-original"),
        ({}, "mini-original"),
    ],
)
def test_a_run_belongs_to_the_one_that_shares_most_with_it(runs, values, chosen):
    run = executed_notebooks.Executed("06-attention", notebook(), values)
    assert executed_notebooks.closest(run, "05-finetune", runs).name == f"05-finetune-{chosen}-42"


@pytest.mark.parametrize(
    ("link", "leads"),
    [
        ("04-pretrain.ipynb", "04-pretrain-mini-original-42.html"),
        ("04-pretrain.ipynb#The-model", "04-pretrain-mini-original-42.html#The-model"),
        ("07-decoder.ipynb#Leak", "../index.html#07-decoder"),
        ("../saobp/equations/refine.py#L45", "files/saobp/equations/refine.py.txt"),
        ("../README.md", "files/README.md.txt"),
        ("../figures/table2.csv", "files/figures/table2.csv"),
        ("../data/", "../index.html"),
        ("../notebooks", "../index.html"),
        ("#here", "#here"),
        ("https://example.org/a", "https://example.org/a"),
        ("../../elsewhere.md", "../../elsewhere.md"),
        ("../saobp/nowhere.py", "../saobp/nowhere.py"),
    ],
)
def test_a_link_of_a_notebook_leads_to_a_page(runs, tmp_path, link, leads):
    found = pages.LINK.sub(
        lambda found: pages.lead(found, runs[0], runs, tmp_path), f'<a href="{link}">'
    )
    assert found == f'<a href="{leads}">' and (tmp_path / leads).is_file() == leads.startswith(
        "files/"
    )


def printed(node):
    """What nbval compares: the texts of the cells that it checks."""
    cells = [
        cell.outputs for cell in node.cells if "nbval-check-output" in cell.metadata.get("tags", [])
    ]
    return [
        [output.get("text") or output.data.get("text/plain") for output in outputs]
        for outputs in cells
    ]


def test_the_outputs_in_the_notebooks_are_those_of_a_finished_smoke_run():
    """nbval need not execute again what `make reproduce` has executed."""
    runs = records.load(paths.build("smoke") / "records")
    if not (paths.build("smoke") / "index.html").is_file() or {
        r["code"]["commit"] for r in runs
    } != {records.commit()}:
        pytest.skip("no finished smoke run of this commit")
    for path, node in executed_notebooks.of_defaults().items():
        assert printed(node) == printed(nbformat.read(path, as_version=4)), path.name


def test_outputs_go_into_a_notebook_only_from_a_run_of_the_cells_it_has(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(paths, "root", lambda: tmp_path)
    ran, kept = paths.build("smoke") / "notebooks", tmp_path / "notebooks" / "04-pretrain.ipynb"
    ran.mkdir(parents=True), kept.parent.mkdir()
    node = notebook(model="mini", algorithm="high", seed=42, length=8)
    node.cells[-1].outputs += [
        new_output("stream", name="stdout", text=piece) for piece in ("8", "\n9")
    ]
    nbformat.write(node, ran / "04-pretrain-mini-high-42-8.ipynb")
    nbformat.write(
        notebook(model="mini", algorithm="original", seed=42),
        ran / "04-pretrain-mini-original-42.ipynb",
    )
    source = notebook()
    del source.cells[2]
    nbformat.write(source, kept)
    assert cli.main(["notebooks"]) == 0
    shown = nbformat.read(kept, as_version=4)
    assert [cell.source for cell in shown.cells] == [cell.source for cell in source.cells]
    # no progress bar
    assert [output.text for output in shown.cells[-1].outputs] == ["8\n9"]
    source.cells[-1].source += " + 1"
    nbformat.write(source, kept)
    before = kept.read_bytes()
    assert cli.main(["notebooks"]) == 2 and kept.read_bytes() == before
    assert (
        "mini-high-42-8.ipynb: ran other cells than 04-pretrain.ipynb has now"
        in capsys.readouterr().err
    )
