"""A text that was tokenised before, in one compressed file: for a machine that has neither the text nor the network."""

import json
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from saobp.study.data.corpora import Blocks
from saobp.study.data.sources import DataError
from saobp.study.setup import paths, seals

PARTS = ("train", "validation")


@dataclass(frozen=True)
class Prepared:
    """What a token file holds: the tokenizer, training and held-out text in blocks, and of what they were made.

    `about`: "tokenizer" and "vocabulary" as a study names them, "corpus" (data set -> weight) and "length".
    """

    tokenizer: PreTrainedTokenizerBase
    train: Blocks
    validation: Blocks
    about: dict[str, Any]


def write(file: Path, tokenizer: PreTrainedTokenizerBase, blocks: Mapping[str, Blocks], about: dict[str, Any]) -> Path:
    """Write a token file (a tar, compressed by bzip2), whole or not at all; `blocks` are those of both `PARTS`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tokenizer.save_pretrained(folder / "tokenizer")
        paths.write_text(folder / "about.json", json.dumps(about, indent=1))
        seals.seal(folder)
        with paths.new_file(file) as temporary, tarfile.open(temporary, "w:bz2") as archive:
            archive.add(folder, "", filter=_no_owner)
            for part in PARTS:
                archive.add(blocks[part].folder, part, filter=_no_owner)
    return file


def _no_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Leave out who wrote a file and when: the same text gives the same bytes."""
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


def read(file: Path) -> Prepared:
    """Unpack a token file once, to the build's cache, and return what it holds.

    Raises DataError, one line, if the file is missing, damaged or none of `write`.
    """
    if not file.is_file():
        raise DataError(f"{file}: no such token file; `saobp tokens {file.name}` writes one")
    folder = seals.made(paths.cache() / f"prepared-{seals.digest(file)[:16]}", lambda folder: _unpack(file, folder))
    about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
    tokenizer = AutoTokenizer.from_pretrained(folder / "tokenizer")
    return Prepared(tokenizer, *(Blocks(folder / part) for part in PARTS), about)


def _unpack(file: Path, folder: Path) -> None:
    try:
        with tarfile.open(file, "r:bz2") as archive:
            archive.extractall(folder, filter="data")
    except (tarfile.TarError, EOFError, OSError) as error:
        raise DataError(f"{file}: not a token file ({error}); write it again with `saobp tokens`") from None
    for part in ("", *PARTS):
        if problem := seals.flaw(folder / part):
            raise DataError(f"{file}: {part or 'it'} is not whole ({problem}); write it again with `saobp tokens`")
