"""The attention maps of a model on texts or pictures, plain and after one step of the
refinement.
"""

import copy
import itertools
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from saobp.equations.refine import refine
from saobp.equations.sparing import Spare, check_spare, spared_keys
from saobp.measure.observed import Seen, observed
from saobp.models.apply import apply, raw_attentions
from saobp.models.supported import (
    is_causal_module,
    maps_of_one_stack,
    self_attention_modules,
    without_cache,
)


@dataclass(frozen=True)
class Sample:
    """The inputs of one text or picture, and what its tokens are called."""

    inputs: dict[str, Tensor]
    labels: list[str]


def plain_copy(model: nn.Module) -> nn.Module:
    """Return a copy that shares the model's weights and whose attention is plain and can be
    seen.
    """
    shared = {id(tensor): tensor for tensor in itertools.chain(model.parameters(), model.buffers())}
    return apply(copy.deepcopy(model, shared), "none").eval()


def is_causal(model: nn.Module) -> bool:
    """Tell whether a model's self-attention is causal; ValueError if it is in some layers only."""
    kinds = {is_causal_module(module) for module in self_attention_modules(model)}
    if len(kinds) > 1:
        raise ValueError(
            f"model: {type(model).__name__} is causal in some layers only; saobp inspect cannot serve it"
        )
    return kinds.pop()


def encoded(
    model: nn.Module, tokenizer: Any, texts: Iterable[Any], tokens: int
) -> Iterator[Sample]:
    """Yield the inputs of every text of two tokens or more, cut to `tokens` or to what the model
    can hold.
    """
    if isinstance(texts, str) or not (hasattr(texts, "__iter__") or hasattr(texts, "__getitem__")):
        raise ValueError(f"texts must be several texts, [text]; got one {type(texts).__name__}")
    if not callable(tokenizer):
        raise ValueError(
            f"tokenizer must turn texts into input_ids; got {type(tokenizer).__name__}"
        )
    if getattr(model, "main_input_name", "") == "pixel_values":
        yield from (
            Sample(dict(tokenizer(images=image, return_tensors="pt")), []) for image in texts
        )
        return
    length = min(tokens, positions(model), tokenizer.model_max_length)
    for text in texts:
        if len(tokenizer(text, add_special_tokens=False)["input_ids"]) < 2:
            continue
        inputs = dict(tokenizer(text, truncation=True, max_length=length, return_tensors="pt"))
        ids = inputs["input_ids"][0].tolist()
        words = [tokenizer.decode([token]).replace("\n", "↵").strip() or "␣" for token in ids]
        # a part of a letter is called what the tokenizer calls it
        parted = ["\ufffd" in word for word in words]
        names = [
            tokenizer.convert_ids_to_tokens(token) if part else word
            for token, word, part in zip(ids, words, parted)
        ]
        yield Sample(inputs, names)


def positions(model: nn.Module) -> int:
    """Return how many tokens a model has positions for."""
    room = getattr(model.config, "max_position_embeddings", sys.maxsize)
    # those of RoBERTa start after that of padding
    tables = [m for name, m in model.named_modules() if name.endswith("position_embeddings")]
    starts = [getattr(table, "padding_idx", None) for table in tables]
    return room - max([0, *(start + 1 for start in starts if start is not None)])


def see(model: nn.Module, sample: Sample, observe: Callable[[Seen], None]) -> list[float]:
    """Call `observe` with each self-attention of a model on one sample, in the order of the layers.

    Returns the massive activation of each: the largest absolute hidden value after the layer over the
    median; NaN where layers are not numbered.
    """
    body = getattr(model, "base_model", model)
    if getattr(model.config, "is_encoder_decoder", False):
        body = model.get_encoder()
    device = next(model.parameters()).device
    inputs = {name: tensor.to(device) for name, tensor in sample.inputs.items()}
    maps: list[Tensor] = []

    def note(call: Seen) -> None:
        batch, heads, length, _ = call.query.shape
        maps.append(torch.empty(batch, heads, length, length, device="meta"))
        observe(call)

    with activations(model) as largest:

        def run() -> list[Any]:
            with torch.inference_mode(), observed(model, note):
                body(**inputs, **without_cache(body))
            return [(matrix, matrix) for matrix in maps]

        count = len(maps_of_one_stack(model, run, 1, "texts"))
    numbers = [values[0] for values in largest]
    return numbers if len(numbers) == count else [math.nan] * count


@contextmanager
def activations(
    model: nn.Module, mask: Tensor | None = None
) -> Iterator[list[Float[np.ndarray, " batch"]]]:
    """Collect the massive activations of each layer's output while a model runs, of real tokens."""
    largest: list[np.ndarray] = []

    def note(module: nn.Module, inputs: Any, output: Any) -> None:
        hidden = output[0] if isinstance(output, tuple) else output
        largest.append(massive(hidden, mask))

    modules = dict(model.named_modules())
    attending = {module: None for module in self_attention_modules(model)}
    names = [name for name, module in modules.items() if module in attending]
    # the first number in a name is that of the layer
    blocks = {match[0]: None for name in names if (match := re.match(r"(.*?\.)?\d+(?=\.)", name))}
    hooks = [modules[name].register_forward_hook(note) for name in blocks]
    try:
        yield largest
    finally:
        for hook in hooks:
            hook.remove()


def massive(hidden: Tensor, mask: Tensor | None) -> Float[np.ndarray, " batch"]:
    """Return the largest absolute value of each sequence's real tokens over the median."""
    ratios = []
    for number, tokens in enumerate(hidden.detach()):
        # a picture's grid of patches is a sequence, too
        values = (tokens if mask is None else tokens[mask[number]]).float().abs()
        tiny = torch.finfo(values.dtype).tiny
        ratios.append((values.max() / values.median().clamp_min(tiny)).item())
    return np.array(ratios)


def maps_of(model: nn.Module, sample: Sample) -> list[Float[Tensor, "head L L"]]:
    """Return every layer's attention of a plain copy on one sample, float32."""
    body = getattr(model, "base_model", model)
    if getattr(model.config, "is_encoder_decoder", False):
        body = model.get_encoder()
    device = next(model.parameters()).device
    inputs = {name: tensor.to(device) for name, tensor in sample.inputs.items()}

    def run() -> list[Any]:
        with torch.inference_mode(), raw_attentions(body) as pairs:
            body(**inputs, **without_cache(body))
        return pairs

    layers = [raw[0].float() for raw, _ in maps_of_one_stack(model, run, 1, "texts")]
    if not all(maps.isfinite().all() for maps in layers):
        raise ValueError(
            f"model: {type(model).__name__} gives attention that is no number on one of the texts"
        )
    return layers


def one_step(
    maps: Float[Tensor, "*head L L"],
    factor: str,
    strength: float,
    causal: bool,
    spare: Spare = None,
) -> Tensor:
    """Refine maps; what a layer's mask hid from a query stays hidden, as in `saobp.apply`.

    Hidden is what no head of the layer gives mass: of one head alone it may be a softmax that came
    to 0.
    """
    # also where a factor has no strength: the curves start at plain attention
    if strength == 0:
        return maps
    hidden = (maps == 0).all(-3, keepdim=True)
    check_spare(spare, factor, causal=causal)
    if spare is not None:
        spare = spared_keys(spare, maps, ~hidden).squeeze(-2)
    refined = refine(maps, factor, strength, causal=causal, spare=spare)
    refined = refined.masked_fill(hidden, 0)
    return refined / refined.sum(-1, keepdim=True)


def patch_labels(count: int) -> list[str]:
    """Return names of a picture's patches: row and column, after the class token where there is
    one.
    """
    side = int((count - 1) ** 0.5)
    if side * side + 1 != count:
        return [str(number + 1) for number in range(count)]
    return ["[CLS]", *(f"{row + 1},{column + 1}" for row in range(side) for column in range(side))]
