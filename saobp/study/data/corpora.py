"""Pretraining text as blocks of tokens of one length, tokenised once into a memory-mapped file (Sec. 6).

A token file holds such text in one archive, for a machine that has neither the text nor the network.
"""

import hashlib
import json
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import torch
from torch import Tensor
from tqdm.auto import tqdm
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from saobp.study.data.documents import Document, Mixture
from saobp.study.data.sources import DataError, Source
from saobp.study.data.tokenizers import make_tokenizer, tokenizer_fingerprint
from saobp.study.setup import paths
from saobp.study.setup.recipes import Pretraining
from saobp.study.setup.schema import Data, Split

PARTS = ("train", "validation")
NOBODY = {"uid": 0, "gid": 0, "mtime": 0, "uname": "", "gname": "", "deep": False}  # the same bytes, whoever writes
FORMAT = 3  # of the token file; another number makes old files be built again


class Blocks(torch.utils.data.Dataset):
    """Blocks of contiguous text of a token folder, each `{"input_ids": (length,) int64}`; the tokens stay on disk.

    A masked block is [CLS] tokens [SEP]; a causal block is text alone. `tokens` counts all of them, `splits`
    says what each data set is and lacks, `text` how they were mixed and what was dropped.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.about: dict[str, Any] = json.loads((folder / "about.json").read_text(encoding="utf-8"))
        self.length, self.fingerprint = self.about["length"], self.about["fingerprint"]
        self.text, self.splits = self.about["text"], self.about["splits"]
        self.tokens = len(self) * self.length

    def __len__(self) -> int:
        return self.about["blocks"]

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"block {index} of {len(self)}")
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Tensor]]:
        """Return many blocks at once: what a DataLoader asks for."""
        rows = torch.from_numpy(self._map[list(indices)].astype(np.int64))
        if self.about["around"]:
            first, last = (torch.full((len(rows), 1), mark) for mark in self.about["around"])
            rows = torch.cat([first, rows, last], dim=1)
        return [{"input_ids": row} for row in rows]

    def __getstate__(self) -> dict[str, Any]:
        """Leave the map out: a worker opens the file itself instead of being sent the text."""
        return {name: value for name, value in self.__dict__.items() if name != "_map"}

    @cached_property
    def _map(self) -> np.ndarray:
        shape = (len(self), self.about["body"])
        return np.memmap(self.folder / "tokens.bin", dtype=self.about["dtype"], mode="r", shape=shape)


def token_blocks(
    source: Source,
    mixture: Mapping[str, float],
    tokenizer: PreTrainedTokenizerBase,
    length: int,
    *,
    split: str = "train",
    cache: Path | None = None,
    limit_tokens: int | None = None,
) -> Blocks:
    """Tokenise a mixture's split once and return it in blocks of `length` tokens, [SEP] or <|endoftext|> between texts.

    The file in `cache` (the build's by default) is keyed by text, tokenizer and length; one that is not whole
    is built again. `limit_tokens` is the most that the blocks may hold. Blocks are masked ones where the tokenizer
    puts [CLS] and [SEP] around a text, else causal ones.
    Raises DataError if a data set is missing or the text fills no block, CacheError if the cache cannot be written.
    """
    style = "masked" if tokenizer.num_special_tokens_to_add() else "causal"
    if length < 3:
        raise ValueError(f"length={length} must be at least 3: [CLS], a token, [SEP]")
    text = Mixture(source, mixture, split)
    key = [FORMAT, text.identity(), tokenizer_fingerprint(tokenizer), length, split, limit_tokens, style, True]
    fingerprint = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:16]

    def write(folder: Path) -> None:
        about = _write(folder, text, tokenizer, length, limit_tokens) | {"fingerprint": fingerprint, "length": length}
        paths.write_text(folder / "about.json", json.dumps(about, indent=1))

    return Blocks(paths.made((cache or paths.cache()) / f"tokens-{fingerprint}", write))


def prepared(
    source: Source, mixture: Mapping[str, float], kind: str, vocabulary: int | None, recipe: Pretraining
) -> tuple[PreTrainedTokenizerBase, Blocks, Blocks]:
    """Return a mixture's tokenizer, its training text and its held-out text, in sequences of a recipe's length."""
    tokenizer = make_tokenizer(kind, source, vocabulary=vocabulary, mixture=mixture)
    text = token_blocks(source, mixture, tokenizer, recipe.length, limit_tokens=recipe.limit_tokens)
    return tokenizer, text, token_blocks(source, mixture, tokenizer, recipe.length, split="validation")


def provenance(source: Source, text: Blocks, held_out: Blocks, more: Sequence[Split] = ()) -> Data:
    """Return what a record says of its data: where it came from, which text exactly, and how complete each split is."""
    splits = [*text.splits, *held_out.splits, *more]
    return {"source": source.name, "fingerprint": text.fingerprint, "splits": splits, "text": text.text}


def _write(
    folder: Path, text: Mixture, tokenizer: PreTrainedTokenizerBase, length: int, limit: int | None
) -> dict[str, Any]:
    """Write the tokens of whole blocks to `tokens.bin` and return what about.json says of them."""
    masked = tokenizer.num_special_tokens_to_add() > 0
    around = [tokenizer.cls_token_id, tokenizer.sep_token_id] if masked else []
    between = tokenizer.sep_token_id if masked else tokenizer.eos_token_id
    body = length - len(around)
    dtype = np.dtype(np.uint16 if len(tokenizer) <= 2**16 else np.uint32)
    with (folder / "tokens.bin").open("wb") as stream:
        pieces = _encoded(text, tokenizer, between)
        most = None if limit is None else limit // length * body
        written, text.counts["documents"] = _append(stream, pieces, dtype, most, f"tokenise {text.split}")
        blocks = written // body
        if not blocks:
            named = f"{', '.join(text.parts)} {text.split}"
            raise DataError(f"{named}: {written} tokens do not fill a block of {length}; add text")
        stream.truncate(blocks * body * dtype.itemsize)
    splits = text.completeness()
    if written == most:
        said = f"cut at {limit} tokens of the mixture"
        splits = [s | {"complete": False, "note": f"{s['note']}; {said}" if s["note"] else said} for s in splits]
    about = {"blocks": blocks, "body": body, "dtype": dtype.name, "around": around}
    return about | {"text": text.mixed(), "splits": splits}


def _encoded(documents: Iterable[Document], tokenizer: PreTrainedTokenizerBase, between: int) -> Iterator[list[int]]:
    """Yield each document's tokens, a mark behind each."""
    tokenizer.backend_tokenizer.no_truncation()  # an earlier call may have left it on
    tokenizer.backend_tokenizer.no_padding()
    remaining = iter(documents)
    while group := list(islice(remaining, 256)):
        texts = ["\n".join(document) for document in group]
        # the backend itself: no length warning for a long document, and no offsets to compute
        for encoding in tokenizer.backend_tokenizer.encode_batch_fast(texts, add_special_tokens=False):
            yield [*encoding.ids, between]


def _append(
    stream: BinaryIO, pieces: Iterable[list[int]], dtype: np.dtype, limit: int | None, title: str
) -> tuple[int, int]:
    """Write pieces up to a limit of tokens, showing progress, and return how many tokens and pieces were written."""
    written, count = 0, 0
    with tqdm(total=limit, desc=title, unit=" tokens", unit_scale=True) as progress:
        for piece in pieces:
            part = piece if limit is None else piece[: limit - written]
            stream.write(np.asarray(part, dtype=dtype).tobytes())
            written, count = written + len(part), count + 1
            progress.update(len(part))
            if written == limit:
                break
    return written, count


class TokenFile(NamedTuple):
    """What a token file holds: the tokenizer, training and held-out text in blocks, and of what they were made.

    `about`: "tokenizer" and "vocabulary" as a study names them, "corpus" (data set -> weight) and "length".
    """

    tokenizer: PreTrainedTokenizerBase
    train: Blocks
    validation: Blocks
    about: dict[str, Any]


def write_file(file: Path, content: TokenFile) -> Path:
    """Write a token file (a tar, compressed by bzip2), whole or not at all; the same text gives the same bytes."""

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        content.tokenizer.save_pretrained(folder / "tokenizer")
        paths.write_text(folder / "about.json", json.dumps(content.about, indent=1))
        paths.seal(folder)
        with paths.new_file(file) as temporary, tarfile.open(temporary, "w:bz2") as archive:
            for part, place in zip(("", *PARTS), (folder, content.train.folder, content.validation.folder)):
                archive.add(place, part, filter=lambda entry: entry.replace(**NOBODY))
    return file


def read_file(file: Path) -> TokenFile:
    """Unpack a token file once, to the build's cache, and return what it holds.

    Raises DataError, one line, if the file is missing, damaged or none of `write_file`.
    """
    if not file.is_file():
        raise DataError(f"{file}: no such token file; `saobp tokens {file.name}` writes one")
    folder = paths.made(paths.cache() / f"prepared-{paths.digest(file)[:16]}", lambda folder: _unpack(file, folder))
    about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
    return TokenFile(AutoTokenizer.from_pretrained(folder / "tokenizer"), *(Blocks(folder / p) for p in PARTS), about)


def _unpack(file: Path, folder: Path) -> None:
    try:
        with tarfile.open(file, "r:bz2") as archive:
            archive.extractall(folder, filter="data")
    except (tarfile.TarError, EOFError, OSError) as error:
        raise DataError(f"{file}: not a token file ({error}); write it again with `saobp tokens`") from None
    for part in ("", *PARTS):
        if problem := paths.damage(folder / part):
            raise DataError(f"{file}: {part or 'it'} is not whole ({problem}); write it again with `saobp tokens`")
