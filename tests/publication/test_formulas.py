"""Formulas are drawn by every browser: nothing that MathML Core has dropped, and TeX's space around
a name.
"""

import pytest

from companion.publication import formulas

THIN = '<mspace width="0.1667em" />'


@pytest.mark.parametrize(
    ("tex", "spaced"),
    [
        (r"\log p", f"<mi>log</mi>{THIN}<mi>p</mi>"),
        (r"\log_2 p", f"</msub>{THIN}<mi>p</mi>"),
        (r"A\log A", f"<mi>A</mi>{THIN}<mi>log</mi>{THIN}<mi>A</mi>"),
        (r"-\log(p)", '<mo>\u2212</mo><mi>log</mi><mo stretchy="false">(</mo>'),
        (r"\operatorname{softmax} x", f"<mi>softmax</mi>{THIN}"),
    ],
)
def test_a_function_s_name_has_the_space_that_tex_gives_it(tex, spaced):
    assert spaced in formulas.mathml(tex)


def test_a_box_is_a_border_a_named_width_a_number_a_script_letter_a_character_and_a_tag_stands_at_the_right():
    drawn = formulas.mathml(r"\boxed{a\!b} \mathcal H \mathcal A")
    assert '<mrow class="boxed">' in drawn and "menclose" not in drawn and "-0.1667em" in drawn
    assert "<mi>\u210b</mi>" in drawn and "<mi>\U0001d49c</mi>" in drawn
    drawn = formulas.markdown(r"$$x = 1 \tag{2, 12}$$")
    assert drawn.index("</math>") < drawn.index('<span class="number">(2, 12)</span>')


def test_cells_of_words_know_their_heads_and_a_table_of_numbers_is_told_from_one_of_words():
    words = formulas.markdown("| a | `b` & c | d | e |\n|:--|:--|---|---|\n| 1 | 2 | 3 | 4 |\n")
    assert '<table class="words">' in words
    assert '<td data-head="b &amp; c: ">2</td>' in words and '<td data-head="e: ">4</td>' in words
    numbers = formulas.markdown("| a | b | c | d |\n|---|---|---|---:|\n| 1 | 2 | 3 | 4 |\n")
    assert '<table class="numbers">' in numbers and "data-head" not in numbers
