"""A table that is taller than a page is cut into floats of one number, with nothing left out."""

import shutil
import subprocess

import example_records as examples
import pytest
from acl_page import ACL_PAGE

from saobp.study import tables, verdicts
from saobp.study.paper import numbers
from saobp.study.setup import labels
from saobp.study.tables import floats, render

SIZES = ("mini-twin", "small-twin", "medium-twin")


@pytest.fixture(scope="module")
def tall():
    """As many rows as the smoke profile has: three sizes, six algorithms of one."""
    runs = examples.study(SIZES, ("original", "high", "low", "elemmul"), (42,))
    for name in ("entropy_reg", "eigen_reg"):
        runs += [examples.pretrain("small-twin", name), examples.finetune("small-twin", name)]
    for run in runs:
        run["departures"] = [{"matter": f"matter {number}", "ours": number, "paper": -1} for number in range(30)]
    return runs


@pytest.mark.parametrize(
    ("heights", "above", "below", "cut"),
    [
        ([100.0] * 3, 50, 50, [(0, 3)]),
        ([300.0] * 4, 50, 0, [(0, 2), (2, 4)]),
        ([300.0, 300.0], 50, 200, [(0, 1), (1, 2)]),  # the notes do not fit
        ([900.0, 10.0], 50, 0, [(0, 1), (1, 2)]),  # a block is never cut
        ([], 50, 50, [(0, 0)]),
    ],
)
def test_blocks_are_cut_where_a_page_is_full(heights, above, below, cut):
    assert [(part.start, part.stop) for part in floats.pages(heights, above, below)] == cut


def test_a_tall_table_is_one_number_and_keeps_every_row_model_and_note(tall):
    table = tables.table(8, tall)
    text, short = table.to_latex(), tables.table(4, tall).to_latex()
    assert text.count(r"\begin{table*}") == text.count(r"\ContinuedFloat") + 1 > 1 == short.count(r"\begin{table*}")
    assert "caption" in text.splitlines()[0] and "ContinuedFloat" not in short
    rows = [line for line in text.splitlines() if line.endswith(r" \\") and not line.startswith("Model &")]
    assert len(rows) == len(render.lines(table)) == sum(len(row.cells) for row in table.rows if row.labels[0])
    for size in SIZES:
        assert text.count(labels.model_title(size).replace("×", r"$\times$") + ", Original & CoLA") == 1
    assert text.count(r"\label{") == text.count(r"\par\smallskip\begin{minipage}") == 1


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no TeX here")
def test_no_float_is_taller_than_a_page_of_the_acl(tall, tmp_path):
    for number in tables.TABLES:
        tables.write(number, tall, tmp_path, formats=("tex",))
    decided = verdicts.verdicts(verdicts.Studies({"smoke": tall}, numbers.load()))
    verdicts.write(decided, tmp_path, ["tex"])
    inputs = "\n".join(rf"\input{{{path.stem}}}" for path in sorted(tmp_path.glob("*.tex")))
    (tmp_path / "page.tex").write_text(f"{ACL_PAGE}{inputs}\n\\end{{document}}\n", encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stdout[-500:]
    assert "Float too large" not in result.stdout and "Overfull" not in result.stdout
