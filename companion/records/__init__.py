"""What a run leaves: one JSON, its form, and how it is made, written and read."""

from companion.records.reading import (
    RecordError,
    hashes,
    is_record,
    kinds,
    load,
    move_answers,
    names,
    read,
    select,
)
from companion.records.writing import IDENTITY, PRETRAINED, Run, as_text, commit, device, finite

__all__ = [
    "IDENTITY",
    "PRETRAINED",
    "RecordError",
    "Run",
    "as_text",
    "commit",
    "device",
    "finite",
    "hashes",
    "is_record",
    "kinds",
    "load",
    "move_answers",
    "names",
    "read",
    "select",
]
