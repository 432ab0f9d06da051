"""What a reader sees of a cell and a table: digits, signs and notes, Markdown, CSV and LaTeX, why a
cell is empty.
"""

import re
import shutil
import subprocess

import example_records as examples
import numpy as np
import pandas as pd
import pytest

from companion import tables
from companion.figures import correlations
from companion.results import claims
from companion.statistics import Estimate, trajectories
from companion.tables.cells import Cell, decimal, digits, effect
from companion.tables.render import Table


@pytest.mark.parametrize(
    ("value", "half", "text"),
    [
        (0.85608868, 0.00000003, "0.8561 ± <0.0001"),
        (0.85608868, 0.00031, "0.8561 ± 0.0003"),
        (0.0, 0.0004, "0.000 ± <0.001"),
        (154.1512, 0.0004, "154.15 ± <0.01"),
        (54.321, 7.494, "54.32 ± 7.49"),
        (1108.58, 9.24, "1109 ± 9"),
        (154.1512, 0.94, "154.15 ± 0.94"),
        (54.321, 0.0123, "54.32 ± 0.01"),
    ],
)
def test_a_number_has_four_significant_digits_and_the_csv_more(value, half, text):
    ours = Estimate(value, value - half, value + half, 1, 9)
    one = Table(
        4, {"GTD": "GTD"}, {("mini",): ("BERT-Mini",)}, {(("mini",), "GTD"): Cell(ours=ours)}
    )
    assert Cell(ours=ours).number() == text
    assert (
        f"| {text} | 1×9 |" in examples.narrow(one.to_markdown())
        and f",{value:.6g}," in one.to_csv()
    )
    assert text.split("± ")[1].replace("<", "$<$") in one.to_latex()


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ((-0.001, 0.066), 3),
        ((0.0, 0.0), 2),
        ((0.0004, 0.07), 4),
        ((1e-9, 1.0), 4),
        ((np.nan,) * 2, 2),
    ],
)
def test_an_end_that_is_not_zero_is_not_shown_as_zero_in_two_more_digits(ends, expected):
    assert digits(2, *ends) == expected
    assert effect(Estimate(0.0325, *ends, 3), 2).startswith(f"{0.0325:+.{expected}f}")


@pytest.mark.parametrize("value", [-0.0039, 0.0039, 0.0])
def test_a_number_that_rounds_to_zero_has_no_sign(value):
    assert decimal(value, 2, "+") == decimal(value, 2, ",") == "0.00"
    assert effect(Estimate(value, -0.08, 0.07, 3), 2) == "0.00 [−0.08, 0.07]"
    assert (decimal(-0.0051, 2, "+"), decimal(0.0051, 2, "+")) == ("−0.01", "+0.01")


# the measures of the ACL style
ACL_PAGE = r"""\documentclass[11pt]{article}
\usepackage{times}\usepackage[T1]{fontenc}
\usepackage[a4paper,margin=2.5cm]{geometry}\setlength\columnsep{0.6cm}\flushbottom\twocolumn\sloppy
\usepackage[font={footnotesize}]{caption}\usepackage{natbib}\usepackage[breaklinks]{hyperref}
\usepackage{array,booktabs,graphicx}
\begin{document}x
"""
# of a table before it is fitted to the page
MEASURE = r"""\let\fit\resizebox
\renewcommand\resizebox[3]{\sbox0{#3}\typeout{width \the\wd0 of \the\linewidth}\fit{#1}{#2}{#3}}
"""


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no TeX here")
def test_every_table_compiles_by_one_input_on_a_page_of_the_acl_and_fits_it(tmp_path):
    records = examples.study(("mini", "small-quarter"), ("original", "high", "low"), (42, 43))
    for number in tables.TABLES:
        tables.write(tables.table(number, records), tmp_path, ("tex",))
    claims.write(tmp_path, ["tex"])
    names = [*(f"table{number}" for number in tables.TABLES), "claims"]
    inputs = MEASURE + "\n".join(rf"\input{{{name}}}" for name in names)
    (tmp_path / "page.tex").write_text(f"{ACL_PAGE}{inputs}\n\\end{{document}}\n", encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stdout[-500:]
    assert "Overfull" not in result.stdout, "a table is wider than the page"
    widths = re.findall(r"^width ([\d.]+)pt ?of ([\d.]+)pt", result.stdout, re.MULTILINE)
    assert len(widths) >= len(names)
    assert max(float(own) / float(page) for own, page in widths) < 1.25, "too small to read"


def points(score, gtd=(0.1, 0.2, 0.3, 0.4), steps=(0, 1, 2, 3)):
    frame = pd.DataFrame({"gtd": gtd, "cross_gtd": gtd, "score": score, "step": steps})
    return frame.assign(algorithm="high", run="one", seed=42)


@pytest.mark.parametrize(
    ("frame", "lacks"),
    [
        (points([50.0] * 4), "the score never"),
        (points([50.0, 55.0, 60.0, 70.0], gtd=(0.1,) * 4), "the GTD never"),
        (points([50.0, 50.0, 60.0, 70.0], gtd=(0.1, 0.1, 0.2, 0.3)), "4 different points a run"),
        (points([50.0, 55.0, 60.0, 70.0], steps=(None,) * 4)[:3], "4 runs that share an algorithm"),
    ],
)
def test_a_correlation_that_is_none_is_undefined_in_the_figure_and_says_why_in_the_table(
    frame, lacks, monkeypatch
):
    head = correlations.heading(correlations.correlation(frame), "SST2", 0.9)
    assert "SST2" in head and "undefined" in head
    monkeypatch.setattr(trajectories, "checkpoints", lambda *_: frame)
    cell = tables.table(6, [examples.pretrain("mini")]).cells[("mini", "gtd-checkpoints"), "sst2"]
    assert cell.ours is None and lacks in cell.reason
