"""Formulas are drawn by every browser: nothing that MathML Core has dropped, and TeX's space around a name."""

import re

import pytest

from saobp.study.publication import formulas

THIN = '<mspace width="0.1667em" />'


@pytest.mark.parametrize("tex", [r"\mathcal L_\text{full}", r"\mathcal{L}", r"\mathcal N(i)"])
def test_a_script_letter_is_a_character_of_its_own(tex):
    drawn = formulas.mathml(tex)
    assert "mathvariant" not in drawn and ("\u2112" in drawn or "\U0001d4a9" in drawn)


@pytest.mark.parametrize(("tex", "spaced"), [
    (r"\log p", f"<mi>log</mi>{THIN}<mi>p</mi>"), (r"\log_2 p", f"</msub>{THIN}<mi>p</mi>"),
    (r"A\log A", f"<mi>A</mi>{THIN}<mi>log</mi>{THIN}<mi>A</mi>"),
    (r"-\log(p)", '<mo>\u2212</mo><mi>log</mi><mo stretchy="false">(</mo>'),
    (r"\operatorname{softmax} x", f"<mi>softmax</mi>{THIN}"),
])  # fmt: skip
def test_a_function_s_name_has_the_space_that_tex_gives_it(tex, spaced):
    assert spaced in formulas.mathml(tex)


def test_a_box_is_a_border_and_a_named_width_a_number():
    drawn = formulas.mathml(r"\boxed{a\!b}")
    assert '<mrow class="boxed">' in drawn and "menclose" not in drawn
    assert re.findall(r'width="([^"]+)"', drawn) == ["-0.1667em"]


def test_a_sum_has_its_limits_below_in_a_box_too():
    assert "<munder><mo>\u2211</mo>" in formulas.mathml(r"\boxed{\sum_i a_i}", "block")


def test_a_number_stands_at_the_right_and_not_in_the_formula():
    drawn = formulas.markdown(r"$$x = 1 \tag{2, 12}$$")
    assert drawn.index("</math>") < drawn.index('<span class="number">(2, 12)</span>')


def test_a_comma_stays_on_the_line_of_its_formula():
    assert "</math>,</span> then" in formulas.markdown("a $x$, then")


def test_a_table_and_a_picture_have_a_box_to_scroll_in():
    assert '<div class="scroll"><table>' in formulas.markdown("| a |\n|---|\n| 1 |\n")
    assert '<span class="scroll"><img' in formulas.markdown("![a](b.png)")


def test_cells_of_words_know_their_heads_and_a_table_of_numbers_is_told_from_one_of_words():
    words = formulas.markdown("| a | `b` & c | d | e |\n|:--|:--|---|---|\n| 1 | 2 | 3 | 4 |\n")
    assert '<table class="words">' in words
    assert '<td data-head="b &amp; c: ">2</td>' in words and '<td data-head="e: ">4</td>' in words
    numbers = formulas.markdown("| a | b | c | d |\n|---|---|---|---:|\n| 1 | 2 | 3 | 4 |\n")
    assert '<table class="numbers">' in numbers and "data-head" not in numbers
