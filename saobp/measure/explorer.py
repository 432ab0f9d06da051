"""The attention explorer: raw maps as small integers, and the page that refines them again in the browser."""

from __future__ import annotations

import base64
import itertools
import json
import math
from collections.abc import Iterable
from importlib.resources import files
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, UInt16
from torch import Tensor, nn

from saobp.equations.controls import UNSEEN
from saobp.equations.factors import WITHOUT_MESSAGES
from saobp.measure import gtd_and_entropy
from saobp.measure.inspect import FACTORS
from saobp.measure.maps import encoded, is_causal, maps_of, one_step, patch_labels, plain_copy

FLOOR = math.log(UNSEEN)
"""Logarithm of the smallest probability that travels; what is below it travels as none."""

LEVELS = 65535
"""The level of probability 1; those below are evenly spaced in the square root of the negative logarithm."""

SLIDER = tuple(step / 20 for step in range(1, 21))
"""Strengths at which the error of the levels is measured; the page's slider goes from 0 to 1."""

DRAWN = {
    "column": gtd_and_entropy.column_mass_maximum,
    "entropy": gtd_and_entropy.attention_entropy,
    "gtd": gtd_and_entropy.gtd,
}
"""What the page computes of a map."""

ASSETS = files("saobp.measure") / "assets"


def to_levels(maps: Float[Tensor, "*head L L"]) -> UInt16[np.ndarray, "*head L L"]:
    """Return probabilities as levels: 0 is none, 1 is e^FLOOR, `LEVELS` is 1."""
    steps = torch.sqrt((maps.double().log() / FLOOR).clamp(0, 1)) * (LEVELS - 1)
    levels = (LEVELS - steps.round()).masked_fill(maps.double().log() < FLOOR, 0)
    return levels.cpu().numpy().astype("<u2")


def from_levels(levels: UInt16[np.ndarray, "*head L L"]) -> Float[Tensor, "*head L L"]:
    """Return the probabilities that levels stand for, rows normalised, in float64, as the page computes them."""
    given = torch.from_numpy(levels.astype(np.float64))
    maps = (FLOOR * ((LEVELS - given) / (LEVELS - 1)) ** 2).exp().masked_fill(given == 0, 0)
    return maps / maps.sum(-1, keepdim=True)


def collect(
    model: nn.Module,
    tokenizer: Any,
    texts: Iterable[Any],
    *,
    factor: str = "high",
    strength: float = 0.2,
    number: int = 3,
    tokens: int = 28,
) -> dict[str, Any]:
    """Return what the explorer shows: the maps of the first texts, cut to `tokens`, and where it starts.

    It starts at the text, layer and head whose largest column loses most. `error` holds the largest differences that
    the levels make to a refined probability, a largest column sum, an entropy and a GTD: over these texts, all heads,
    all factors of the page and the strengths of `SLIDER`.
    Raises ValueError as `saobp.inspect` does.
    """
    plain = plain_copy(model)
    causal, shown, drains, errors = is_causal(plain), [], [], []
    for sample in itertools.islice(encoded(plain, tokenizer, texts, tokens), number):
        maps = torch.stack(maps_of(plain, sample))
        levels = to_levels(maps)
        labels = sample.labels or patch_labels(maps.shape[-1])
        title = " ".join(label for label in labels[1:6]) + " …"
        shown.append({"title": title, "tokens": labels, "maps": base64.b64encode(levels.tobytes()).decode()})
        received = from_levels(levels)
        refined = one_step(received, factor, strength, causal)
        drains.append(received.sum(-2).amax(-1) - refined.sum(-2).amax(-1))
        errors.append(_differences(maps, received, causal))
    text = max(range(len(shown)), key=lambda n: drains[n].max().item())
    layers, heads = drains[0].shape
    layer, head = divmod(int(drains[text].argmax()), heads)
    return {
        "factor": factor, "strength": strength, "causal": causal, "floor": FLOOR, "top": LEVELS,
        "layers": layers, "heads": heads, "start": {"text": text, "layer": layer, "head": head}, "texts": shown,
        "error": {name: max(one[name] for one in errors) for name in errors[0]},
    }  # fmt: skip


def _differences(maps: Tensor, received: Tensor, causal: bool) -> dict[str, float]:
    """Return how far the page's numbers are from those of the exact maps, at most over factors, strengths and heads."""
    largest = dict.fromkeys(("probability", *DRAWN), 0.0)
    for factor in FACTORS:
        for strength in SLIDER[-1:] if factor in WITHOUT_MESSAGES else SLIDER:
            ours, exact = (one_step(one, factor, strength, causal).double() for one in (received, maps))
            gaps = {"probability": ours - exact} | {name: of(ours) - of(exact) for name, of in DRAWN.items()}
            largest = {name: max(most, gaps[name].abs().max().item()) for name, most in largest.items()}
    return largest


def asset(name: str) -> str:
    """Return a file of the page's parts."""
    return ASSETS.joinpath(name).read_text(encoding="utf-8")


def as_json(data: Any) -> str:
    """Return data as JSON that can stand inside a page's script."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def fragment(data: dict[str, Any]) -> str:
    """Return the explorer as a piece of HTML with its style and script, which loads nothing from elsewhere."""
    markup = asset("explorer.html").replace("{{ data }}", as_json(data))
    return f"<style>\n{asset('explorer.css')}</style>\n{markup}<script>\n{asset('explorer.js')}</script>\n"
