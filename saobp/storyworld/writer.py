"""Writes the story world to a folder laid out like the hub, with the columns of the published sets."""

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from saobp.storyworld import events, inference, narrative, paraphrases, reading, sentences

Row = dict[str, Any]
STORIES = 30_000
QUESTIONS = 2_000
NOTE = "written by the story world"
_STRING, _INT = pa.large_string(), pa.int64()
_GLUE = {"label": _INT, "idx": _INT, "hops": _INT}
_STRINGS = pa.list_(pa.string())
_ANSWERS = pa.struct([("text", _STRINGS), ("answer_start", pa.list_(pa.int64()))])
_HELLASWAG = dict.fromkeys(("activity_label", "ctx_a", "ctx_b", "ctx"), _STRING)

# (data set, configuration) -> how to make a row, its columns and their types
BENCHMARKS: dict[tuple[str, str], tuple[Callable[[Random, int], Row], dict[str, pa.DataType]]] = {
    ("nyu-mll/glue", "cola"): (sentences.cola, {"sentence": _STRING, **_GLUE}),
    ("nyu-mll/glue", "sst2"): (sentences.sst2, {"sentence": _STRING, **_GLUE}),
    ("nyu-mll/glue", "mrpc"): (paraphrases.mrpc, {"sentence1": _STRING, "sentence2": _STRING, **_GLUE}),
    ("nyu-mll/glue", "qqp"): (paraphrases.qqp, {"question1": _STRING, "question2": _STRING, **_GLUE}),
    ("nyu-mll/glue", "stsb"): (
        paraphrases.stsb,
        {"sentence1": _STRING, "sentence2": _STRING, **_GLUE, "label": pa.float32()},
    ),
    ("nyu-mll/glue", "mnli"): (inference.mnli, {"premise": _STRING, "hypothesis": _STRING, **_GLUE}),
    ("nyu-mll/glue", "qnli"): (inference.qnli, {"question": _STRING, "sentence": _STRING, **_GLUE}),
    ("nyu-mll/glue", "rte"): (inference.rte, {"sentence1": _STRING, "sentence2": _STRING, **_GLUE}),
    ("nyu-mll/glue", "wnli"): (inference.wnli, {"sentence1": _STRING, "sentence2": _STRING, **_GLUE}),
    ("rajpurkar/squad", "plain_text"): (
        reading.squad,
        {"id": _STRING, "title": _STRING, "context": _STRING, "question": _STRING, "answers": _ANSWERS, "hops": _INT},
    ),
    ("Rowan/hellaswag", "default"): (
        events.hellaswag,
        {
            "ind": _INT,
            **_HELLASWAG,
            "endings": _STRINGS,
            "source_id": _STRING,
            "split": _STRING,
            "split_type": _STRING,
            "label": _STRING,
            "hops": _INT,
        },
    ),
    ("ehovy/race", "middle"): (
        reading.race,
        {
            "example_id": _STRING,
            "article": _STRING,
            "answer": _STRING,
            "question": _STRING,
            "options": _STRINGS,
            "hops": _INT,
        },
    ),
    ("google/boolq", "default"): (
        reading.boolq,
        {"question": _STRING, "answer": pa.bool_(), "passage": _STRING, "hops": _INT},
    ),
}


def write(folder: str | Path, *, seed: int = 0, stories: int = STORIES, questions: int = QUESTIONS) -> Path:
    """Write a corpus of `stories` and every benchmark with `questions` training rows, and manifest.json.

    A validation (or test) split has a quarter of the rows of its train split. The same seed gives the same
    text on any machine. Returns the folder.
    Raises ValueError if a size is below 8.
    """
    for name, size in (("stories", stories), ("questions", questions)):
        if size < 8:
            raise ValueError(f"{name}: {size} is too few; ask for 8 or more")
    folder = Path(folder)
    manifest: dict[str, Any] = {}
    for dataset, config, split, table in _tables(seed, stories, questions):
        path = folder / dataset / config / f"{split}-00000-of-00001.parquet"
        entry = _write_table(path, table)
        manifest.setdefault(dataset, {}).setdefault(config, {})[split] = entry
    _put(folder / "manifest.json", json.dumps(manifest, indent=1).encode())
    return folder


def rows(dataset: str, config: str, split: str, count: int, *, seed: int = 0) -> list[Row]:
    """Return the rows of a task's split; splits of any name are made of different stories."""
    make = BENCHMARKS[dataset, config][0]
    random = Random(f"{seed}/{dataset}/{config}/{split}")
    made = [make(random, index) for index in range(count)]
    random.shuffle(made)
    return [_identified(row, config, split, index) for index, row in enumerate(made)]


def _identified(row: Row, config: str, split: str, index: int) -> Row:
    """Fill in what the published sets number their rows by."""
    if "id" in row:
        row["id"] = f"story-{split}-{index:06d}"
    elif "example_id" in row:
        row["example_id"] = f"{config}-{split}-{index}.txt"
    elif "ind" in row:
        row |= {"ind": index, "split": {"validation": "val"}.get(split, split), "source_id": f"story~{index}"}
    elif "label" in row:
        row["idx"] = index
    return row


def _tables(seed: int, stories: int, questions: int) -> Iterator[tuple[str, str, str, pa.Table]]:
    """Yield every split."""
    yield from _corpus(seed, stories)
    for (dataset, config), (_, columns) in BENCHMARKS.items():
        for split in _splits(config):
            count = questions if split == "train" else max(8, questions // 4)
            made = rows(dataset, config, split, count, seed=seed)
            yield dataset, config, split, pa.Table.from_pylist(made, schema=pa.schema(list(columns.items())))


def _splits(config: str) -> tuple[str, ...]:
    """Return the splits of a task under their published names."""
    if config == "mnli":
        return "train", "validation_matched"
    return ("train", "validation", "test") if config == "middle" else ("train", "validation")


def _corpus(seed: int, stories: int) -> Iterator[tuple[str, str, str, pa.Table]]:
    """Yield the stories, and other stories in the form of WikiText (raw, and with the tokens set apart)."""
    for split, count in (("train", stories), ("validation", max(8, stories // 20))):
        random = Random(f"{seed}/stories/{split}")
        yield "saobp/stories", "default", split, _texts([narrative.story(random) for _ in range(count)])
    for split, count in (("train", stories // 10), ("validation", stories // 40), ("test", stories // 40)):
        lines = _wikitext(Random(f"{seed}/wikitext/{split}"), max(8, count))
        yield "Salesforce/wikitext", "wikitext-103-raw-v1", split, _texts(lines)
        if split != "train":
            yield "Salesforce/wikitext", "wikitext-103-v1", split, _texts([_spaced(line) for line in lines])


def _texts(texts: list[str]) -> pa.Table:
    return pa.table({"text": pa.array(texts, _STRING)})


def _wikitext(random: Random, stories: int) -> list[str]:
    """Return lines as WikiText has them: an empty one, a heading, an empty one, one paragraph a line."""
    lines = []
    for index in range(stories):
        if index % 4 == 0:
            lines += ["", f" = {narrative.heading(random)} = \n", ""]
        lines.append(f" {narrative.story(random)} \n")
    return lines


def _spaced(line: str) -> str:
    """Set the marks of a line apart by spaces."""
    for mark in (".", ",", "'s", "?"):
        line = line.replace(mark, f" {mark}")
    return line


def _write_table(path: Path, table: pa.Table) -> dict[str, Any]:
    """Write one split whole or not at all, and return its entry in the manifest."""
    path.parent.mkdir(parents=True, exist_ok=True)
    buffer = pa.BufferOutputStream()
    pq.write_table(table, buffer)
    data = buffer.getvalue().to_pybytes()
    _put(path, data)
    return {
        "rows": table.num_rows,
        "published_rows": None,  # nobody published these rows
        "complete": True,
        "note": NOTE,
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
    }


def _put(path: Path, data: bytes) -> None:
    """Write a file beside its place and put it there whole."""
    temporary = path.with_name(f".{path.name}.part")
    temporary.write_bytes(data)
    temporary.replace(path)
