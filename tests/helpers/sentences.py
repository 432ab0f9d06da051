"""What a sentence has to carry, however it is worded."""

import re


def numbers_in(text: str) -> list[str]:
    """The numbers of a text as they are written, none of them part of a name: "2 of 3 runs on SST2"
    has 2 and 3.
    """
    return re.findall(r"(?<![\w.])[−+-]?\d+(?:[.,]\d+)*(?![\w-])", text)
