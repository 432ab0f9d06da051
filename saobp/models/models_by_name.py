"""Open a model that somebody named, with what turns text or pictures into its inputs, or say in one
line why not.

Only safetensors (or a GGUF file, which transformers dequantises) is read and no code of a
repository is run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from saobp.equations.checks import first_line
from saobp.models import public
from saobp.models.supported import refuse

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json", "*.model")
PICKLED = ("pytorch_model*.bin", "*.pt", "*.pth", "*.ckpt")
HEADS = {
    "ForMaskedLM": "AutoModelForMaskedLM",
    "CausalLM": "AutoModelForCausalLM",
    "LMHead": "AutoModelForCausalLM",
}
"""Endings of architectures that come with a language head, and the class of transformers that
builds it.
"""


@dataclass(frozen=True)
class Opened:
    """A model in eval mode and float32, its tokenizer or image processor, and what to say of its
    weights.
    """

    name: str
    model: nn.Module
    tokenizer: Any
    note: str = ""


def open_model(name: str) -> Opened:
    """Open a public model ("minilm", or its repository), a folder, a .gguf file, or a repository of
    the hub.

    A repository is taken from the folder that SAOBP_DATA names where it lies there. A language
    model comes with its head, so that its perplexity can be taken; others as `AutoModel` builds
    them.
    Raises ValueError in one line: nothing there, no configuration, no weights, pickled weights
    only, no tokenizer, or not a model of transformers.
    """
    for short, known in public.MODELS.items():
        if name in (short, known.repository):
            return Opened(known.repository, *public.load(short))
    title, place = _place(name)
    single = isinstance(place, Path) and place.is_file()
    source, options = (place.parent, {"gguf_file": place.name}) if single else (place, {})
    with _opening(name):
        model = _model(source, options)
    refuse(model)
    with _opening(name):
        reader = _reader(model, source, options)
    return Opened(
        title, model.eval(), reader, f"weights of {place.name}, dequantised" if single else ""
    )


@contextmanager
def _opening(name: str) -> Iterator[None]:
    """Say in one line that a model cannot be opened: transformers fails in a dozen classes."""
    try:
        yield
    except Exception as error:
        raise ValueError(
            f"{name}: transformers cannot open it ({first_line(error)[:200]})"
        ) from None


def _place(name: str) -> tuple[str, Path | str]:
    """Return what a model is called and where it is: a folder, a .gguf file, or a repository that
    the hub has.
    """
    path = Path(os.path.expanduser(name))
    if path.is_file() or path.suffix == ".gguf":
        if not path.is_file():
            raise ValueError(f"{name}: no such file")
        if path.suffix != ".gguf":
            raise ValueError(f"{name}: is a file; name the folder that holds the model")
        return path.resolve().name, path
    if not path.is_dir() and (name.count("/") != 1 or name.startswith((".", "/", "~"))):
        known = ", ".join(public.MODELS)
        raise ValueError(
            f"{name}: no such folder; name a folder, a repository of the hub (owner/name) or {known}"
        )
    folder = path if path.is_dir() else public.mirrored(name)
    if folder is None:
        return name, _on_hub(name)
    _refuse_incomplete(folder)
    return path.resolve().name if folder is path else name, folder


def _on_hub(name: str) -> Path | str:
    """Return a repository's name, or the folder of its copy in the cache where the hub cannot be
    reached.

    The hub is asked once: transformers would try again and again, for half a minute, before it gave
    up.
    """
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError

    try:
        HfApi().model_info(name, timeout=10)
        return name
    except (HFValidationError, RepositoryNotFoundError):
        raise ValueError(f"{name}: no such folder, and no such repository on the hub") from None
    # no network, or told not to use it
    except Exception:
        pass
    try:
        return Path(snapshot_download(name, local_files_only=True))
    except Exception:
        raise ValueError(
            f"{name}: no such folder, not in the hub's cache, and the hub cannot be reached; "
            "name a folder, or let SAOBP_DATA name one laid out like the hub that has it"
        ) from None


def _model(place: Path | str, options: dict[str, str]) -> nn.Module:
    """Load the model that is known to be complete, or that the hub has."""
    import torch
    import transformers

    config = transformers.AutoConfig.from_pretrained(place, **options, trust_remote_code=False)
    architecture = (getattr(config, "architectures", None) or ["CausalLM" if options else ""])[0]
    build = getattr(
        transformers,
        next((auto for ending, auto in HEADS.items() if ending in architecture), "AutoModel"),
    )
    safe = {} if options else {"use_safetensors": True}
    strict = {"dtype": torch.float32, "output_loading_info": True, "ignore_mismatched_sizes": True}
    model, loaded = build.from_pretrained(
        place, **strict, **options, **safe, trust_remote_code=False
    )
    absent = {*loaded["missing_keys"], *(mismatch[0] for mismatch in loaded["mismatched_keys"])}
    # transformers fills them with random numbers
    if absent := sorted(key for key in absent if "pooler" not in key):
        more = f" and {len(absent) - 1} more" if absent[1:] else ""
        raise ValueError(
            f"its weights lack {absent[0]}{more}, or have it in another shape than config.json says"
        )
    return model


def _reader(model: nn.Module, place: Path | str, options: dict[str, str]) -> Any:
    """Load the tokenizer of a model, or of one that sees its image processor."""
    import transformers

    pictures = getattr(model, "main_input_name", "") == "pixel_values"
    kind, what = (
        ("AutoImageProcessor", "image processor") if pictures else ("AutoTokenizer", "tokenizer")
    )
    try:
        return getattr(transformers, kind).from_pretrained(
            place, **options, trust_remote_code=False
        )
    except Exception as error:
        raise ValueError(f"its {what}: {first_line(error)[:200]}") from None


def _refuse_incomplete(folder: Path) -> None:
    """Raise ValueError where a folder lacks what every model has."""
    if not (folder / "config.json").is_file():
        raise ValueError(f"{folder}: has no config.json, so it is not a model of transformers")
    if not any(folder.glob("*.safetensors")):
        pickled = next(
            (file.name for pattern in PICKLED for file in sorted(folder.glob(pattern))), ""
        )
        if pickled:
            raise ValueError(
                f"{folder / pickled}: pickled weights can run code and are not read; "
                "save the model again with save_pretrained, which writes model.safetensors"
            )
        raise ValueError(f"{folder}: has no weights; model.safetensors is expected there")
    readers = (*TOKENIZER_FILES, "preprocessor_config.json")
    if not any(any(folder.glob(file)) for file in readers):
        raise ValueError(
            f"{folder}: has no tokenizer and no image processor; put it there with its save_pretrained"
        )
