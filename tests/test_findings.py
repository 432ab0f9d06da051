import pandas as pd
import pytest

from saobp.study.paper.findings import WIDTH, Findings, listed, say, span

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


def test_numbers_are_written_with_their_names_or_as_a_span():
    assert listed({"Mini": 0.021, "Small": -0.05}) == "Mini +0.02, Small -0.05"
    assert span(pd.Series([1.412, 1.14, 1.2])) == "1.14 to 1.41"


def test_sentences_are_broken_between_words_where_a_page_ends(capsys):
    say("torch computes Original " * 9, "a second sentence")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4 and max(map(len, lines)) <= WIDTH and lines[-1] == "a second sentence"
    assert {word for line in lines[:-1] for word in line.split()} == {"torch", "computes", "Original"}
