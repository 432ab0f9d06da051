"""Markdown as HTML whose formulas are MathML: TeX as browsers draw it by themselves, without a
script.
"""

import re
import xml.etree.ElementTree as ElementTree
from html import escape, unescape
from itertools import cycle
from string import ascii_uppercase
from xml.etree.ElementTree import Element

from latex2mathml.converter import convert
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

SCRIPT = str.maketrans(ascii_uppercase, "".join(map(chr, range(0x1D49C, 0x1D49C + 26))))
# Unicode's block of script letters leaves these out: they were there before
SCRIPT |= str.maketrans("BEFHILMR", "\u212c\u2130\u2131\u210b\u2110\u2112\u2133\u211b")
HEAD, TAG = re.compile(r"<th\b[^>]*>(.*?)</th>"), re.compile(r"<[^>]*>")
NUMBER = re.compile(r"\\tag\*?\{([^}]*)\}")
ROWS = ("math", "mrow", "mstyle", "mtd")
SCRIPTED = ("msub", "msup", "msubsup", "munder", "mover", "munderover")
LIMITS = {"msub": "munder", "msubsup": "munderover"}
WIDTHS = {
    "negativethinmathspace": "-0.1667em",
    "thinmathspace": "0.1667em",
    "mediummathspace": "0.2222em",
}
CLOSES = (")", "]", "|", "\u2016")
PUNCTUATED = re.compile(r'(<math display="inline">(?:(?!</math>).)*</math>)([,.;:!?)]+)', re.DOTALL)


def markdown(source: str, *, trusted: bool = False) -> str:
    """Return Markdown as HTML; a comma after a formula stays on its line, a wide table scrolls by
    itself.

    HTML in it, and links that run a script, stay what they are in a `trusted` source alone.
    """
    renderer = Formulas(escape=not trusted, allow_harmful_protocols=trusted)
    text = MarkdownWithMath(renderer=renderer).render(source)
    return PUNCTUATED.sub(r'<span class="together">\1\2</span>', text)


class Formulas(IPythonRenderer):
    """Sets formulas as MathML and gives every table and picture a box to scroll in."""

    def inline_math(self, body: str) -> str:
        """Set a formula in a line."""
        return mathml(body)

    def block_math(self, body: str) -> str:
        """Set a formula of its own, its number (`\\tag`) at the right."""
        numbers = "".join(
            f'<span class="number">({number})</span>' for number in NUMBER.findall(body)
        )
        return f'<span class="formula" tabindex="0">{mathml(NUMBER.sub("", body), "block")}{numbers}</span>'

    def table(self, text: str) -> str:
        """Put a table into its box: of "numbers", or of "words" in many columns, whose cells then
        know their heads.
        """
        # the usual; the style sheet asks for what is set otherwise
        text = text.replace(' style="text-align:left"', "")
        heads = [escape(unescape(TAG.sub("", head))) for head in HEAD.findall(text)]
        kind = (
            ' class="numbers"'
            if 'text-align:right"' in text
            else ' class="words"'
            if len(heads) > 3
            else ""
        )
        if "words" in kind:
            named = cycle(heads)
            text = re.sub("<td>", lambda cell: f'<td data-head="{next(named)}: ">', text)
        return f'<div class="scroll" tabindex="0"><table{kind}>{text}</table></div>\n'

    def image(self, text: str, url: str, title: str | None = None) -> str:
        """Put a picture into its box."""
        return f'<span class="scroll">{super().image(text, url, title)}</span>'


def mathml(tex: str, display: str = "inline") -> str:
    """Convert TeX to MathML Core: what all browsers draw, with TeX's space around a function's
    name.
    """
    tree = ElementTree.fromstring(re.sub(r' xmlns="[^"]*"', "", convert(tex, display=display)))
    for element in tree.iter():
        _to_core(element)
    for row in [element for element in tree.iter() if element.tag in ROWS]:
        for place in reversed(range(1, len(row))):
            if _apart(row[place - 1], row[place]):
                row.insert(place, Element("mspace", {"width": "0.1667em"}))
    return ElementTree.tostring(tree, encoding="unicode")


def _to_core(element: Element) -> None:
    """Replace what MathML Core has dropped (script variants, boxes, named widths), and a backslash
    without space.
    """
    text = element.text or ""
    if element.get("mathvariant") == "script":
        del element.attrib["mathvariant"]
        element.text = text.translate(SCRIPT)
    if element.tag == "menclose" and element.get("notation") == "box":
        element.tag, element.attrib = "mrow", {"class": "boxed"}
    if element.get("width") in WIDTHS:
        element.set("width", WIDTHS[element.get("width")])
    # in a line, browsers move them to the side
    if element.tag in LIMITS and element[0].text in ("\u2211", "\u220f"):
        element.tag = LIMITS[element.tag]
    if text == "\u29f5":
        element.tag, element.text = "mo", "\u2216"
    if _is_name(element):
        element.tag, element.attrib = "mi", {}


def _is_name(element: Element) -> bool:
    """Whether an element is a function's name (log, softmax)."""
    return element.tag in ("mi", "mo") and bool(re.fullmatch("[A-Za-z]{2,}", element.text or ""))


def _apart(left: Element, right: Element) -> bool:
    """Whether TeX sets a thin space between two: beside a function's name, but for a sign and
    before a bracket.
    """
    # what carries the indices
    while left.tag in SCRIPTED:
        left = left[0]
    while right.tag in SCRIPTED:
        right = right[0]
    before = _is_name(right) and (left.tag not in ("mo", "mspace") or left.text in CLOSES)
    return before or _is_name(left) and right.tag != "mo"
