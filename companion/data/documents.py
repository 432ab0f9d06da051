"""Running text for pretraining: joined to documents, deduplicated, interleaved by weight (Sec. 6).

A mixture maps data sets (`owner/name` or `owner/name:config`) to weights. The weights are shares of
the characters that are kept, for as long as every set lasts; a set that has run out is not
repeated, the others go on, and the shares that came of it are counted. A limit on the tokens that
no set runs out before holds the weights.
"""

import hashlib
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from companion.data.splits import Absent, DataError, Source
from companion.records.schema import Split, Text

RULE = (
    "paragraphs of 8 words or more that occurred before, or that the mixture's validation splits hold, are "
    "dropped (compared without case and spacing)"
)
# words; shorter lines recur honestly: a dialogue is full of "Yes," he said.
SHORTEST_COMPARED = 8
# one sentence a row, books not marked: cut every 1,000 rows
SENTENCE_ROWS = {"bookcorpus/bookcorpus"}

# its paragraphs
Document = list[str]


@dataclass
class Mixture:
    """Deduplicated, interleaved documents of a split, and a count of what was dropped while they
    are read.
    """

    source: Source
    weights: Mapping[str, float]
    split: str = "train"
    # documents, paragraphs, dropped, and characters by set
    counts: Counter = field(default_factory=Counter)

    def __post_init__(self) -> None:
        """Find the data sets that have the split, and those whose validation text must not occur in
        train.
        """
        validated = []
        for name in self.weights:
            with suppress(Absent):
                self.source.known(*_place(name), "validation")
                validated.append(name)
        self.parts, self.held_out = (
            (list(self.weights), validated) if self.split == "train" else (validated, [])
        )
        if not self.parts:
            raise Absent(
                f"no data set of {', '.join(self.weights)} has a split '{self.split}'; add one that has"
            )

    def __iter__(self) -> Iterator[Document]:
        """Yield documents; only train is deduplicated, held-out text stays as it is."""
        self.counts.clear()
        held_out = (
            d for name in self.held_out for d in _documents(self.source, name, "validation")
        )
        seen = {_key(paragraph) for document in held_out for paragraph in document}
        return interleave({name: self._read(name, seen) for name in self.parts}, self.weights)

    def completeness(self) -> list[Split]:
        """Return what each data set's split is and lacks; those without the split say so."""
        splits = [self.source.completeness(*_place(name), self.split) for name in self.parts]
        for dataset, config in (_place(name) for name in self.weights if name not in self.parts):
            none = {"rows": 0, "hub_rows": None, "complete": False, "note": "has no such split"}
            splits.append({"dataset": dataset, "config": config, "split": self.split, **none})
        return splits

    def identity(self) -> list[Any]:
        """Return what changes when the text does: fingerprints, weights and rules."""
        parts = [
            [name, self.weights[name], self.source.fingerprint(*_place(name), self.split)]
            for name in self.parts
        ]
        held_out = [self.source.fingerprint(*_place(name), "validation") for name in self.held_out]
        return [RULE, "dropped before they are weighed", parts, held_out]

    def mixed(self) -> Text:
        """Return what was read and dropped so far: weights, shares of the characters read,
        documents, paragraphs.
        """
        characters = max(1, sum(self.counts[name] for name in self.parts))
        return {
            "weights": {name: float(self.weights[name]) for name in self.parts},
            "shares": {name: self.counts[name] / characters for name in self.parts},
            **{name: self.counts[name] for name in ("documents", "paragraphs", "dropped")},
        }

    def _read(self, name: str, seen: set[int | None]) -> Iterator[Document]:
        for document in _documents(self.source, name, self.split):
            kept = document
            if self.split == "train":
                kept = []
                for paragraph in document:
                    if (key := _key(paragraph)) is None or key not in seen:
                        kept.append(paragraph)
                        seen.add(key)
                self.counts["paragraphs"] += len(document)
                self.counts["dropped"] += len(document) - len(kept)
            if kept:
                self.counts["documents"] += 1
                self.counts[name] += sum(map(len, kept))
                yield kept


def interleave(
    streams: Mapping[str, Iterator[Document]], weights: Mapping[str, float]
) -> Iterator[Document]:
    """Yield documents, always of the stream whose characters are furthest behind its weight: no
    draw.
    """
    written = dict.fromkeys(streams, 0.0)
    while written:
        name = min(written, key=written.__getitem__)
        if document := next(streams[name], None):
            written[name] += max(1, sum(map(len, document))) / weights[name]
            yield document
        else:
            del written[name]


def _key(paragraph: str) -> int | None:
    """Return a paragraph's 64-bit hash without case and spacing, or None for one too short to
    compare.
    """
    words = paragraph.casefold().split()
    if len(words) < SHORTEST_COMPARED:
        return None
    return int.from_bytes(
        hashlib.blake2b(" ".join(words).encode(), digest_size=8).digest(), "little"
    )


def _place(name: str) -> tuple[str, str | None]:
    dataset, _, config = name.partition(":")
    return dataset, config or None


def _documents(source: Source, name: str, split: str) -> Iterator[Document]:
    for _, rows in itertools.groupby(_labelled(source, name, split), key=lambda pair: pair[0]):
        lines = (line.strip() for _, text in rows for line in text.splitlines())
        if paragraphs := [line for line in lines if line]:
            yield paragraphs


def _labelled(source: Source, name: str, split: str) -> Iterator[tuple[Any, str]]:
    """Pair each row's text with what it shares with the rows of the same document.

    WikiText has a line a row and a title line ` = Title = `, a section's with two marks on each
    side; a column `book` names a book; any other row is a document.
    """
    article, (dataset, config) = 0, _place(name)
    for number, row in enumerate(source.stream(dataset, config, split)):
        text = row.get("text")
        if not isinstance(text, str):
            raise DataError(
                f"{dataset} {split}: row {number} has no text; a corpus needs a column 'text'"
            )
        if dataset.endswith("/wikitext"):
            article += re.fullmatch(r"= [^=](.*[^=])? =", text.strip()) is not None
            # a mark inside a word: `1 @,@ 000`
            yield article, re.sub(r" @([-,.])@ ", r"\1", text)
        else:
            yield number // 1000 if dataset in SENTENCE_ROWS else row.get("book", number), text
