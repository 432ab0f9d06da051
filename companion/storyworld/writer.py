"""Writes the story world to a folder laid out like the hub, with the columns of the public sets."""

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from companion.storyworld import activities, inference, narrative, sentences

Row = dict[str, Any]
NOTE = "written by the story world"

_SENTENCES = (sentences.cola, sentences.sst2, sentences.mrpc, sentences.qqp, sentences.stsb)
_GLUE = (*_SENTENCES, inference.mnli, inference.qnli, inference.rte, inference.wnli)
# (data set, configuration) -> how to make a row: its columns in their order, without the number of
# GLUE's
BENCHMARKS: dict[tuple[str, str], Callable[[Random, int], Row]] = {
    **{("nyu-mll/glue", make.__name__): make for make in _GLUE},
    ("rajpurkar/squad", "plain_text"): inference.squad,
    ("Rowan/hellaswag", "default"): activities.hellaswag,
    ("ehovy/race", "middle"): inference.race,
    ("google/boolq", "default"): inference.boolq,
}
# else the usual two
SPLITS = {"mnli": ("train", "validation_matched"), "middle": ("train", "validation", "test")}


def write(
    folder: str | Path, *, seed: int = 0, stories: int = 30_000, questions: int = 2_000
) -> Path:
    """Write a corpus of `stories` and every benchmark with `questions` training rows, and
    manifest.json.

    A validation (or test) split has a quarter of the rows of its train split. The same seed gives
    the same text on any machine. Returns the folder.
    """
    folder = Path(folder)
    manifest: dict[str, Any] = {}
    # those of the public sets
    types = {pa.string(): pa.large_string(), pa.float64(): pa.float32()}
    for dataset, config, split, made in _splits(seed, stories, questions):
        path = folder / dataset / config / f"{split}-00000-of-00001.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        table = pa.Table.from_pylist(made)
        kinds = [types.get(field.type, field.type) for field in table.schema]
        pq.write_table(table.cast(pa.schema(zip(table.column_names, kinds))), path)
        data = path.read_bytes()
        # the hub has none of these
        known = {"rows": len(made), "hub_rows": None, "complete": True, "note": NOTE}
        known |= {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        manifest.setdefault(dataset, {}).setdefault(config, {})[split] = known
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    return folder


def rows(dataset: str, config: str, split: str, count: int, *, seed: int = 0) -> list[Row]:
    """Return the rows of a task's split; splits of any name are made of different stories."""
    random = Random(f"{seed}/{dataset}/{config}/{split}")
    made = [BENCHMARKS[dataset, config](random, index) for index in range(count)]
    random.shuffle(made)
    # numbered as the public sets are
    for index, row in enumerate(made):
        if "id" in row:
            row["id"] = f"story-{split}-{index:06d}"
        elif "example_id" in row:
            row["example_id"] = f"{config}-{split}-{index}.txt"
        elif "ind" in row:
            name = "val" if split == "validation" else split
            row |= {"ind": index, "split": name, "source_id": f"story~{index}"}
        elif "label" in row:
            row |= {"idx": index, "hops": row.pop("hops")}
    return made


def _splits(seed: int, stories: int, questions: int) -> Iterator[tuple[str, str, str, list[Row]]]:
    """Yield every split: stories, other stories in the form of WikiText (raw, and with the tokens
    set apart), tasks.
    """
    for split, count in (("train", stories), ("validation", max(8, stories // 20))):
        random = Random(f"{seed}/stories/{split}")
        texts = [{"text": narrative.story(random)} for _ in range(count)]
        yield "saobp/stories", "default", split, texts
    for split, share in (("train", 10), ("validation", 40), ("test", 40)):
        count = stories // share
        random, lines = Random(f"{seed}/wikitext/{split}"), []
        for index in range(max(8, count)):
            # a heading between empty lines, then one paragraph a line
            if index % 4 == 0:
                lines += ["", f" = {narrative.scene(random, narrative.HEADINGS)} = \n", ""]
            lines.append(f" {narrative.story(random)} \n")
        yield "Salesforce/wikitext", "wikitext-103-raw-v1", split, [{"text": s} for s in lines]
        if split != "train":
            apart = [{"text": re.sub(r"('s|[.,?])", r" \1", line)} for line in lines]
            yield "Salesforce/wikitext", "wikitext-103-v1", split, apart
    for dataset, config in BENCHMARKS:
        for split in SPLITS.get(config, ("train", "validation")):
            count = questions if split == "train" else max(8, questions // 4)
            yield dataset, config, split, rows(dataset, config, split, count, seed=seed)
