"""The embedded prose is whole, and is what data/README.md says."""

import hashlib
from pathlib import Path

import pytest

from saobp.measure.prose import prose

README = Path(__file__).parents[2] / "data" / "README.md"


def test_the_prose_is_as_long_as_it_says_in_readable_paragraphs_and_what_the_data_page_names():
    words = [len(paragraph.split()) for paragraph in prose()]
    assert len(words) == len(set(prose())) == 300 and min(words) >= 40 and max(words) <= 160
    assert not [paragraph for paragraph in prose() if "\n" in paragraph or not paragraph.isascii()]
    assert prose(3) == prose()[:3]
    for number in (0, -1, 301, 2.0):
        with pytest.raises(ValueError, match="between 1 and 300"):
            prose(number)
    text = "\n\n".join(prose()) + "\n"
    page = README.read_text(encoding="utf-8")
    assert "saobp/measure/prose.txt" in page and "Chesterton" in page
    assert hashlib.sha256(text.encode()).hexdigest() in page
