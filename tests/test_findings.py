import pytest

from saobp.study.findings import WIDTH, Findings

MEAN = {"printed": "a gain of 2.00", "recomputed": "a gain of 1.00", "advice": "use the second"}


def test_a_finding_is_printed_where_it_is_found_and_kept_for_the_table(capsys):
    findings = Findings()
    findings.note("Table 2", **MEAN)
    said = capsys.readouterr().out
    assert all(text in said for text in ("Table 2", *MEAN.values()))
    expected = {"item": "Table 2", "printed": MEAN["printed"], "recomputed": MEAN["recomputed"]}
    assert findings.rows() == [expected | {"what to do": MEAN["advice"]}]


def test_a_long_finding_is_broken_into_lines_that_a_page_holds(capsys):
    Findings().note("Table 2", **MEAN | {"recomputed": "a gain of 1.00, " * 30})
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 3 and max(map(len, lines)) <= WIDTH


def test_one_item_has_one_finding():
    findings = Findings()
    findings.note("Table 2", **MEAN)
    with pytest.raises(ValueError, match="item"):
        findings.note("Table 2", **MEAN)


def test_bars_and_stars_of_a_finding_do_not_break_the_table():
    findings = Findings()
    findings.note("Fig. 3: |r| > 0.5", **MEAN)
    assert findings.markdown().splitlines()[2].startswith("| Fig. 3: \\|r\\| > 0.5 | a gain of 2.00 |")
