"""Open a model that somebody named, with what turns text or pictures into its inputs, or say in one line why not.

Only safetensors (or a GGUF file, which transformers dequantises) is read and no code of a repository is run.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import (
    AutoConfig,
    AutoImageProcessor,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoTokenizer,
)

from saobp.models import public

TOKENIZER_FILES = ("tokenizer.json", "vocab.txt", "vocab.json", "tokenizer.model", "spiece.model")
PICKLED = ("pytorch_model*.bin", "*.pt", "*.pth", "*.ckpt")
HEADS = (("ForMaskedLM", AutoModelForMaskedLM), ("CausalLM", AutoModelForCausalLM), ("LMHead", AutoModelForCausalLM))


@dataclass(frozen=True)
class Opened:
    """A model in eval mode and float32, its tokenizer or image processor, and what to say of its weights."""

    name: str
    model: nn.Module
    tokenizer: Any
    note: str = ""


def open_model(name: str) -> Opened:
    """Open a public model ("minilm"), a folder, a .gguf file, or a repository of the hub.

    A language model comes with its head, so that its perplexity can be taken; others as `AutoModel` builds them.
    Raises ValueError in one line: nothing there, no configuration, no weights, pickled weights only, no tokenizer, or
    not a model of transformers.
    """
    if name in public.MODELS:
        return Opened(public.MODELS[name].repository, *public.load(name))
    path = Path(name).expanduser()
    if path.is_dir():
        _refuse_incomplete(path)
    elif path.suffix == ".gguf" and not path.is_file():
        raise ValueError(f"{name}: no such file")
    elif not path.is_file() and (name.count("/") != 1 or name.startswith((".", "/", "~"))):
        known = ", ".join(public.MODELS)
        raise ValueError(f"{name}: no such folder; name a folder, a repository of the hub (owner/name) or {known}")
    elif path.is_file() and path.suffix != ".gguf":
        raise ValueError(f"{name}: is a file; name the folder that holds the model")
    try:
        return _load(name, path)
    except public.PublicModelError:
        raise
    except Exception as error:  # transformers fails in a dozen classes; all mean that the model cannot be opened
        raise ValueError(f"{name}: transformers cannot open it ({_one_line(error)})") from None


def _load(name: str, path: Path) -> Opened:
    """Load what is known to be complete, or what the hub has."""
    options = {"gguf_file": path.name} if path.is_file() else {}
    place = path.parent if options else path if path.is_dir() else name
    config = AutoConfig.from_pretrained(place, **options)
    architecture = (getattr(config, "architectures", None) or ["CausalLM" if options else ""])[0]
    build = next((auto for ending, auto in HEADS if ending in architecture), AutoModel)
    safe = {} if options else {"use_safetensors": True}
    strict = {"dtype": torch.float32, "output_loading_info": True, "ignore_mismatched_sizes": True}
    model, loaded = build.from_pretrained(place, **strict, **options, **safe)
    absent = {*loaded["missing_keys"], *(found[0] for found in loaded["mismatched_keys"])}
    if absent := sorted(key for key in absent if "pooler" not in key):  # transformers fills them with random numbers
        more = f" and {len(absent) - 1} more" if absent[1:] else ""
        raise ValueError(f"its weights lack {absent[0]}{more}, or have it in another shape than config.json says")
    pictures = getattr(model, "main_input_name", "") == "pixel_values"
    reader = _reader(place, AutoImageProcessor if pictures else AutoTokenizer, options)
    note = f"weights of {path.name}, dequantised" if options else ""
    return Opened(path.resolve().name if path.exists() else name, model.eval(), reader, note)


def _reader(place: Any, kind: Any, options: dict[str, str]) -> Any:
    """Load a tokenizer or an image processor."""
    try:
        return kind.from_pretrained(place, **options)
    except Exception as error:
        what = "image processor" if kind is AutoImageProcessor else "tokenizer"
        raise ValueError(f"its {what}: {_one_line(error)}") from None


def _refuse_incomplete(folder: Path) -> None:
    """Raise ValueError where a folder lacks what every model has."""
    if not (folder / "config.json").is_file():
        raise ValueError(f"{folder}: has no config.json, so it is not a model of transformers")
    if not any(folder.glob("*.safetensors")):
        pickled = next((file.name for pattern in PICKLED for file in sorted(folder.glob(pattern))), "")
        if pickled:
            raise ValueError(
                f"{folder / pickled}: pickled weights can run code and are not read; "
                "save the model again with save_pretrained, which writes model.safetensors"
            )
        raise ValueError(f"{folder}: has no weights; model.safetensors is expected there")
    readers = (*TOKENIZER_FILES, "preprocessor_config.json")
    if not any((folder / file).is_file() for file in readers):
        raise ValueError(f"{folder}: has no tokenizer; put it there with tokenizer.save_pretrained")


def _one_line(error: Exception) -> str:
    """Return the first line of an error that says something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:200] if lines else type(error).__name__
