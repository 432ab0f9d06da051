"""Rows of what a reader meets first: how long the two commands take, and the embedded novel."""

from collections.abc import Iterator

import pandas as pd

from companion.results.row import Endpoint, Row
from companion.results.study import Study
from companion.setup import paths

PARAGRAPHS = Endpoint("paragraphs", "paragraphs")
WORDS = Endpoint("words of a paragraph", "words")


def commands() -> Iterator[Row]:
    """Yield how long a command takes, or what it writes, at least and at most, and on how many cores
    (data/results/commands.csv).
    """
    study = Study("commands", (), data="idle CPU cores")
    file = paths.root() / "data" / "results" / "commands.csv"
    for row in pd.read_csv(file).itertuples():
        endpoint = Endpoint(row.command, row.unit)
        yield study.level(endpoint, "at least", row.low)
        yield study.level(endpoint, "at most", row.high)
        yield study.level(Endpoint(row.command, "cores"), "cores", row.cores)


def novel() -> Iterator[Row]:
    """Yield how much of the novel is embedded."""
    # it lies beside what measures attention, which starts with torch
    from saobp.measure.prose import prose

    study = Study("novel", (), data="embedded prose")
    words = [len(paragraph.split()) for paragraph in prose()]
    yield study.level(PARAGRAPHS, "embedded", len(words))
    yield study.level(WORDS, "least", min(words))
    yield study.level(WORDS, "most", max(words))
