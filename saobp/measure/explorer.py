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
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from saobp.equations.refine import refine
from saobp.measure import diagnostics
from saobp.measure.inspect import encoded, is_causal, maps_of, one_step, patch_labels, plain_copy

FLOOR = math.log(1e-6)
"""Logarithm of the smallest probability that travels; what is below it travels as none."""

ASSETS = files("saobp.measure") / "assets"


def to_levels(maps: Float[Tensor, "*head L L"]) -> UInt8[np.ndarray, "*head L L"]:
    """Return probabilities as levels on a log scale: 0 is none, 1 is e^FLOOR, 255 is 1."""
    levels = torch.round((maps.double().log() / -FLOOR + 1) * 254 + 1).clamp(max=255)
    return levels.masked_fill(maps.log() < FLOOR, 0).to(torch.uint8).cpu().numpy()


def from_levels(levels: UInt8[np.ndarray, "*head L L"]) -> Float[Tensor, "*head L L"]:
    """Return the probabilities that levels stand for, rows normalised, in float64, as the page computes them."""
    given = torch.from_numpy(levels).double()
    maps = (FLOOR * (1 - (given - 1) / 254)).exp().masked_fill(given == 0, 0)
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
    the levels make, at `strength`, to a refined probability, a largest column sum, an entropy and a GTD.
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
        refined = refine(received, factor, strength, causal=causal)
        drains.append(received.sum(-2).amax(-1) - refined.sum(-2).amax(-1))
        errors.append(_differences(refined, one_step(maps, factor, strength, causal).double()))
    text = max(range(len(shown)), key=lambda n: drains[n].max().item())
    layers, heads = drains[0].shape
    layer, head = divmod(int(drains[text].argmax()), heads)
    return {
        "factor": factor, "strength": strength, "causal": causal, "floor": FLOOR, "layers": layers, "heads": heads,
        "start": {"text": text, "layer": layer, "head": head}, "texts": shown,
        "error": {name: max(one[name] for one in errors) for name in errors[0]},
    }  # fmt: skip


def _differences(ours: Tensor, exact: Tensor) -> dict[str, float]:
    """Return how far maps that travelled are from the exact ones, at most over heads."""
    measures = {
        "column": diagnostics.column_mass_maximum,
        "entropy": diagnostics.attention_entropy,
        "gtd": diagnostics.gtd,
    }
    found = {name: (measure(ours) - measure(exact)).abs().max().item() for name, measure in measures.items()}
    return {"probability": (ours - exact).abs().max().item()} | found


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
