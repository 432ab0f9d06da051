"""Pretraining text as blocks of tokens of one length, tokenised once into a memory-mapped file
(Sec. 6).

A token file holds such text in one archive, for a machine that has neither the text nor the
network.
"""

import bz2
import errno
import hashlib
import json
import shutil
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Tensor
from tqdm.auto import tqdm
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from companion.data.documents import Mixture
from companion.data.sources import UNPACKED_AT_MOST, DataError, Source
from companion.data.splits import Absent
from companion.data.tokenizers import tokenizer_fingerprint
from companion.records.schema import Data, Split
from companion.setup import paths
from saobp.equations.checks import first_line

PARTS = ("train", "validation")
# the same bytes, whoever writes
NOBODY = {"uid": 0, "gid": 0, "mtime": 0, "uname": "", "gname": "", "deep": False}
# how the system says that a disk or a quota is
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# of the token file; another number makes old files be built again
FORMAT = 3


class Blocks(torch.utils.data.Dataset):
    """Blocks of contiguous text of a token folder, each `{"input_ids": (length,) int64}`; the
    tokens stay on disk.

    A masked block is [CLS] tokens [SEP]; a causal block is text alone. `tokens` counts all of them,
    `splits` says what each data set is and lacks, `text` how they were mixed and what was dropped.
    """

    def __init__(self, folder: Path, source: str | None = None) -> None:
        # of a token file's text, what that says; of other text none
        self.folder, self.source = folder, source
        self.about: dict[str, Any] = json.loads((folder / "about.json").read_text(encoding="utf-8"))
        self.length, self.fingerprint = self.about["length"], self.about["fingerprint"]
        self.text = self.about["text"]
        # as files of before have it
        renamed = {"published_rows": "hub_rows"}
        self.splits = [
            {renamed.get(key, key): value for key, value in split.items()}
            for split in self.about["splits"]
        ]
        self.tokens = len(self) * self.length

    def __len__(self) -> int:
        return self.about["blocks"]

    def body(self) -> np.ndarray:
        """Map the tokens from the disk (block, token), without [CLS] and [SEP]."""
        # not kept: a worker would be sent the text
        shape = (len(self), self.about["body"])
        return np.memmap(self.folder / "tokens.bin", self.about["dtype"], "r", shape=shape)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Tensor]]:
        """Return many blocks at once: what a DataLoader asks for."""
        rows = torch.from_numpy(self.body()[list(indices)].astype(np.int64))
        if self.about["around"]:
            first, last = (torch.full((len(rows), 1), mark) for mark in self.about["around"])
            rows = torch.cat([first, rows, last], dim=1)
        return [{"input_ids": row} for row in rows]


def token_blocks(
    source: Source,
    mixture: Mapping[str, float],
    tokenizer: PreTrainedTokenizerBase,
    length: int,
    *,
    split: str = "train",
    limit_tokens: int | None = None,
) -> Blocks:
    """Tokenise a mixture's split once and return it in blocks of `length` tokens, `limit_tokens` at
    most together.

    Blocks are masked ones where the tokenizer puts [CLS] and [SEP] around a text, else causal ones.
    Raises DataError if a data set is missing or the text fills no block, ValueError if the cache
    cannot be written.
    """
    style = "masked" if tokenizer.num_special_tokens_to_add() else "causal"
    text = Mixture(source, mixture, split)
    key = [
        FORMAT,
        text.identity(),
        tokenizer_fingerprint(tokenizer),
        length,
        split,
        limit_tokens,
        style,
        True,
    ]
    fingerprint = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:16]

    def write(folder: Path) -> None:
        about = _write(folder, text, tokenizer, length, limit_tokens) | {
            "fingerprint": fingerprint,
            "length": length,
        }
        paths.write_text(folder / "about.json", json.dumps(about, indent=1))

    return Blocks(paths.made(paths.cache() / f"tokens-{fingerprint}", write))


def gathered(parts: Mapping[str, Blocks], sequences: int) -> Blocks:
    """Return so many sequences of several texts, as many of each, evenly spaced over it.

    A text that is shorter than its share comes whole, and the others make up for it.
    `about["sources"]` says how many are whose, in their order. The texts are of one tokenizer and
    length.
    """
    chosen: dict[str, int] = {}
    for name in sorted(parts, key=lambda name: len(parts[name])):
        share = (sequences - sum(chosen.values())) // (len(parts) - len(chosen))
        chosen[name] = min(share, len(parts[name]))
    chosen = {name: chosen[name] for name in parts}
    first = next(iter(parts.values()))
    key = json.dumps([[blocks.fingerprint, chosen[name]] for name, blocks in parts.items()])
    fingerprint = hashlib.sha256(key.encode()).hexdigest()[:16]

    def write(folder: Path) -> None:
        rows = [
            blocks.body()[[n * len(blocks) // chosen[name] for n in range(chosen[name])]]
            for name, blocks in parts.items()
        ]
        (folder / "tokens.bin").write_bytes(np.concatenate(rows).tobytes())
        about = first.about | {
            "blocks": sum(chosen.values()),
            "splits": [split for blocks in parts.values() for split in blocks.splits],
            "fingerprint": fingerprint,
            "sources": chosen,
        }
        paths.write_text(folder / "about.json", json.dumps(about, indent=1))

    return Blocks(paths.made(paths.cache() / f"gathered-{fingerprint}", write))


def provenance(
    source: Source | None, text: Blocks, held_out: Blocks, more: Sequence[Split] = ()
) -> Data:
    """Return what a record says of its data: where it came from, which text exactly, and how
    complete each split is.
    """
    splits = [*text.splits, *held_out.splits, *more]
    return {
        "source": text.source or source.name,
        "fingerprint": text.fingerprint,
        "splits": splits,
        "text": text.text,
    }


def _write(
    folder: Path, text: Mixture, tokenizer: PreTrainedTokenizerBase, length: int, limit: int | None
) -> dict[str, Any]:
    """Write the tokens of whole blocks to `tokens.bin` and return what about.json says of them."""
    around, between = [], tokenizer.eos_token_id
    if tokenizer.num_special_tokens_to_add():
        around, between = [tokenizer.cls_token_id, tokenizer.sep_token_id], tokenizer.sep_token_id
    body, dtype = (
        length - len(around),
        np.dtype(np.uint16 if len(tokenizer) <= 2**16 else np.uint32),
    )
    most, written = None if limit is None else limit // length * body, 0
    progress = tqdm(total=most, desc=f"tokenise {text.split}", unit=" tokens", unit_scale=True)
    with (folder / "tokens.bin").open("wb") as stream, progress:
        for piece, counts in _encoded(text, tokenizer, between):
            piece = piece[: None if most is None else most - written]
            stream.write(np.asarray(piece, dtype=dtype).tobytes())
            written += len(piece)
            progress.update(len(piece))
            if written == most:
                text.counts = counts
                break
        if not (blocks := written // body):
            named = f"{', '.join(text.parts)} {text.split}"
            raise Absent(f"{named}: {written} tokens do not fill a block of {length}; add text")
        stream.truncate(blocks * body * dtype.itemsize)
    splits = text.completeness()
    if written == most:
        note = f"cut at {limit} tokens of the mixture"
        splits = [
            s | {"complete": False, "note": f"{s['note']}; {note}" if s["note"] else note}
            for s in splits
        ]
    form = {"blocks": blocks, "body": body, "dtype": dtype.name, "around": around}
    return form | {"text": text.mixed(), "splits": splits}


def _encoded(
    text: Mixture, tokenizer: PreTrainedTokenizerBase, between: int
) -> Iterator[tuple[list[int], Counter]]:
    """Yield each document's tokens, a mark behind them, and the text's counts up to it: others are
    read ahead.
    """
    # itself: no length warning for a long document, and no offsets to compute
    backend = tokenizer.backend_tokenizer
    # an earlier call may have left it on
    backend.no_truncation()
    backend.no_padding()
    remaining = (("\n".join(document), text.counts.copy()) for document in text)
    while read := list(islice(remaining, 256)):
        texts, counts = zip(*read)
        encoded = backend.encode_batch_fast(list(texts), add_special_tokens=False)
        yield from (([*tokens.ids, between], count) for tokens, count in zip(encoded, counts))


def refuse_to_overwrite(file: Path) -> None:
    """Raise DataError, one line, where a token file would replace a file that is none."""
    try:
        if file.is_file():
            with _opened(file) as archive:
                archive.getmember("about.json")
    except (tarfile.TarError, KeyError, EOFError, OSError):
        raise DataError(f"{file}: is there, and is no token file; name another") from None


def write_file(
    file: Path,
    tokenizer: PreTrainedTokenizerBase,
    train: Blocks,
    validation: Blocks,
    about: Mapping[str, Any],
) -> Path:
    """Write a token file (a tar, compressed by bzip2), whole or not at all; the same text gives the
    same bytes.

    `about`: "tokenizer" and "vocabulary" as a study names them, "corpus" (data set -> weight),
        "length", "source".
    Raises as `refuse_to_overwrite`.
    """
    refuse_to_overwrite(file)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tokenizer.save_pretrained(folder / "tokenizer")
        paths.write_text(folder / "about.json", json.dumps(about, indent=1))
        paths.seal(folder)
        with paths.new_file(file) as temporary, tarfile.open(temporary, "w:bz2") as archive:
            for part, place in zip(("", *PARTS), (folder, train.folder, validation.folder)):
                archive.add(place, part, filter=lambda entry: entry.replace(**NOBODY))
    return file


class _Bounded:
    """A stream that raises TarError before it gives more than `most` bytes."""

    def __init__(self, stream: BinaryIO, most: int):
        self.stream, self.left = stream, most

    def read(self, size: int) -> bytes:
        """Return the next bytes."""
        self.left -= size
        if self.left < 0:
            raise tarfile.TarError(f"it unpacks to over {UNPACKED_AT_MOST} times its size")
        return self.stream.read(size)


@contextmanager
def _opened(file: Path) -> Iterator[tarfile.TarFile]:
    """Open a token file, to be read from its start to its end: its headers too may hold more than
    they seem to.
    """
    most = UNPACKED_AT_MOST * file.stat().st_size + tarfile.RECORDSIZE
    with (
        bz2.open(file) as stream,
        tarfile.open(fileobj=_Bounded(stream, most), mode="r|") as archive,
    ):
        yield archive


def _extract(archive: tarfile.TarFile, folder: Path, most: int) -> None:
    """Write the plain files of an archive below a folder; Python's filter "data" came with 3.11.4.

    Raises TarError for one that leads elsewhere, and before more than `most` bytes are written.
    """
    size = 0
    for entry in archive:
        place = (folder / entry.name).resolve()
        if not (entry.isreg() or entry.isdir()) or not place.is_relative_to(folder.resolve()):
            raise tarfile.TarError(f"'{entry.name}' leads elsewhere")
        # of a file with holes the archive holds less
        size += entry.size
        if size > most:
            raise tarfile.TarError(f"it unpacks to over {UNPACKED_AT_MOST} times its size")
        if entry.isdir():
            place.mkdir(parents=True, exist_ok=True)
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        with archive.extractfile(entry) as source, place.open("wb") as target:
            shutil.copyfileobj(source, target)


def read_file(file: Path) -> tuple[PreTrainedTokenizerBase, Blocks, Blocks, dict[str, Any]]:
    """Unpack a token file once, to the build's cache, and return what `write_file` was given.

    Raises DataError, one line, if the file is missing, damaged or none of `write_file`.
    """
    if not file.is_file():
        raise DataError(f"{file}: no such token file; `saobp tokens {file.name}` writes one")

    def unpack(folder: Path) -> None:
        try:
            with _opened(file) as archive:
                _extract(archive, folder, UNPACKED_AT_MOST * file.stat().st_size)
        except (tarfile.TarError, EOFError, OSError) as error:
            if getattr(error, "errno", None) in FULL:
                raise
            raise DataError(
                f"{file}: not a token file ({error}); write it again with `saobp tokens`"
            ) from None
        for part in ("", *PARTS):
            if problem := paths.damage(folder / part):
                raise DataError(
                    f"{file}: {part or 'it'} is not whole ({problem}); write it again with `saobp tokens`"
                )

    folder = paths.made(paths.cache() / f"prepared-{paths.digest(file)[:16]}", unpack)
    about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
    parts = [Blocks(folder / part, about.get("source", "tokens")) for part in PARTS]
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder / "tokenizer", trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise DataError(
            f"{file}: its tokenizer cannot be read ({first_line(error)}); "
            "write it again with `saobp tokens`"
        ) from None
    return tokenizer, *parts, about
