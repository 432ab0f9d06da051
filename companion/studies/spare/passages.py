"""Running text that no earlier run of the decoder has read: WikiText and held-out novels.

A stretch of text holds, one after the other, a block of each length of the study `spare` and a
passage of the study `dose`, so that no two of them share a token.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerBase

from companion.data.sources import Source
from companion.data.splits import DataError
from companion.records.schema import Split
from companion.studies.spare.sections import Decoder

NOVELS = ("local/novels", "default")
HELD_OUT = "validation"
# tokens of a passage of the study `dose`
PASSAGE = 512


@dataclass(frozen=True)
class Stretch:
    """Consecutive tokens of one source: "wikitext" or "novels"."""

    source: str
    tokens: list[int]


def stretches(
    design: Decoder, source: Source, tokenizer: PreTrainedTokenizerBase
) -> tuple[list[Stretch], list[Split]]:
    """Return as many stretches of each source as it gives blocks, evenly spaced over its text.

    Also what each split holds. Raises DataError, one line, for a novel that is not there, a text
    that is too short, and a number of blocks that does not divide among the sources.
    """
    each = _per_source(design)
    length = sum(design.blocks) + PASSAGE
    wikitext, held_out = _wikitext(design, source, tokenizer)
    parts = _spaced(wikitext, "wikitext", each, length)
    for book in design.novels:
        tokens = _novel(book, source, tokenizer)
        parts += _spaced(tokens, "novels", each // len(design.novels), length)
    novels = source.completeness(*NOVELS, HELD_OUT)
    return parts, [_read(held_out, each), _read(novels, each)]


def blocks(design: Decoder, parts: list[Stretch], length: int) -> list[Stretch]:
    """Return the block of a length of each stretch."""
    lengths = sorted(design.blocks, reverse=True)
    start = sum(lengths[: lengths.index(length)])
    return [Stretch(part.source, part.tokens[start : start + length]) for part in parts]


def dose_passages(parts: list[Stretch], count: int) -> list[Stretch]:
    """Return the passages at the ends of so many stretches, half of each source, evenly spaced."""
    chosen = []
    for name in ("wikitext", "novels"):
        of_source = [part for part in parts if part.source == name]
        if count % 2 or count // 2 > len(of_source):
            raise DataError(
                f"passages: {count} cannot be halved among {len(of_source)} stretches of each "
                "source; take an even number of at most twice as many"
            )
        places = np.linspace(0, len(of_source) - 1, count // 2).astype(int)
        chosen += [of_source[place] for place in places]
    return [Stretch(part.source, part.tokens[-PASSAGE:]) for part in chosen]


def pieces(
    passage: list[int], length: int, marks: tuple[int, int] | None = None
) -> list[list[int]]:
    """Cut a passage into pieces of a length; with `marks` each piece is [CLS] tokens [SEP]."""
    body = length - 2 if marks else length
    count = PASSAGE // length
    cut = [passage[body * place : body * (place + 1)] for place in range(count)]
    return [[marks[0], *piece, marks[1]] for piece in cut] if marks else cut


def _per_source(design: Decoder) -> int:
    numbers = set(design.blocks.values())
    number = max(numbers)
    if len(numbers) > 1 or number % (2 * len(design.novels)):
        raise DataError(
            f"blocks: {sorted(numbers)} do not divide among WikiText and {len(design.novels)} "
            "novels; give every length the same number, a multiple of twice the novels"
        )
    return number // 2


def _wikitext(
    design: Decoder, source: Source, tokenizer: PreTrainedTokenizerBase
) -> tuple[list[int], dict[str, Any]]:
    dataset, _, config = design.wikitext.partition(":")
    rows = source.load(dataset, config or None, HELD_OUT)
    tokens = _tokens("".join(rows["text"]), tokenizer)
    return tokens[design.after :], source.completeness(dataset, config or None, HELD_OUT)


def _novel(book: str, source: Source, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    rows = source.load(*NOVELS, HELD_OUT).to_pandas()
    paragraphs = rows.loc[rows["book"] == book, "text"]
    if paragraphs.empty:
        known = ", ".join(sorted(set(rows["book"])))
        raise DataError(f"novels: {NOVELS[0]} {HELD_OUT} has no {book}; choose among {known}")
    return _tokens("\n".join(paragraphs), tokenizer)


def _tokens(text: str, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    # the backend itself: no warning that the text is longer than the model's context
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    return backend.encode(text, add_special_tokens=False).ids


def _spaced(tokens: list[int], name: str, count: int, length: int) -> list[Stretch]:
    if len(tokens) < count * length:
        raise DataError(
            f"{name}: {len(tokens)} tokens do not hold {count} stretches of {length}; ask for fewer"
        )
    starts = np.linspace(0, len(tokens) - length, count).astype(int)
    return [Stretch(name, tokens[start : start + length]) for start in starts]


def _read(split: Split, count: int) -> Split:
    notes = [split["note"], f"{count} stretches of it"]
    note = "; ".join(filter(None, notes))
    return split | {"complete": False, "note": note, "role": "evaluation"}
