"""A folder laid out like the hub, a few rows a split, written by the tests that need one, and how
data are refused.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from transformers import BertTokenizer

from companion.data.splits import DataError

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,:?!_'"


def write_split(
    root: Path, dataset: str, config: str, split: str, rows: list[dict], shards: int = 1
) -> list[Path]:
    """Write rows as `<root>/<dataset>/<config>/<split>-*.parquet`."""
    folder = root / dataset / config
    folder.mkdir(parents=True, exist_ok=True)
    size = -(-len(rows) // shards)
    files = []
    for shard in range(shards):
        files.append(folder / f"{split}-{shard:05d}-of-{shards:05d}.parquet")
        pq.write_table(pa.Table.from_pylist(rows[shard * size : (shard + 1) * size]), files[-1])
    return files


def refused(said: str, read: Callable, *given: Any, **options: Any) -> str:
    """See that a call is refused in one line that matches what is to be said, and return the
    line.
    """
    with pytest.raises(DataError, match=said) as caught:
        read(*given, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def write_manifest(root: Path, entries: dict) -> None:
    """Write manifest.json: dataset -> config -> split -> what is known of it."""
    (root / "manifest.json").write_text(json.dumps(entries))


def word_tokenizer(*texts: str) -> BertTokenizer:
    """Return a WordPiece tokenizer that knows every word of some texts, and every letter."""
    words = {
        w for t in texts for w in "".join(c if c.isalnum() else f" {c} " for c in t.lower()).split()
    }
    pieces = {f"##{c}" for c in LETTERS if c.isalnum()} | set(LETTERS)
    entries = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sorted(words | pieces)]
    return BertTokenizer(vocab={entry: number for number, entry in enumerate(entries)})


def race_rows(count: int) -> list[dict]:
    """Return RACE-like questions whose answer is named in the article."""
    options = ["red", "blue", "green", "black"]
    return [
        {
            "example_id": f"middle{n}.txt",
            "article": f"story {n} . the hat is {options[n % 4]} .",
            "question": "What colour is the hat?" if n % 2 else "The hat is _ .",
            "options": options,
            "answer": "ABCD"[n % 4],
        }
        for n in range(count)
    ]
