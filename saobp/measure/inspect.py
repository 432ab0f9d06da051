"""What attention does in a model, and what one step of the refinement would do to it.

Every layer is measured in the plain model, and its maps are refined on their own (Eq. 11): what a
refined layer would hand to the next one is not followed. The perplexities alone are those of the
model with the refinement in every layer.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float
from torch import nn
from tqdm.auto import tqdm

from saobp.equations.checks import check_whole, quoted
from saobp.equations.sparing import check_saved, check_spare
from saobp.fused.workers import side_by_side
from saobp.measure import gtd_and_entropy
from saobp.measure.inspection.maps import (
    Sample,
    encoded,
    is_causal,
    maps_of,
    one_step,
    patch_labels,
    plain_copy,
)
from saobp.measure.streams import StreamedBootstrap
from saobp.models.supported import refuse

if TYPE_CHECKING:
    import pandas

MEASURES = {
    "entropy": "entropy",
    "indirect_entropy": "indirect entropy",
    "gtd": "GTD",
    "column_mass_maximum": "largest column sum",
    "sparsity": "sparsity",
    "moved": "total variation",
}
"""Measures by name, as in `saobp.measure.gtd_and_entropy`, and their titles; `moved` is the total
variation from the softmax.
"""

FACTORS = ("high", "low", "elemmul", "sinkhorn")
CURVE = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Strengths at which the curves are taken, besides those asked for."""

MINI = 0.2, 11.17e6
"""Strength and parameters of the paper's BERT-Mini, from which Sec. 6 scales the strength of other
sizes.
"""


@dataclass
class Inspection:
    """What `examine` found: means over texts, and their bootstrap draws."""

    factor: str
    # asked for; the first is the one in the table
    strengths: tuple[float, ...]
    # at which everything was measured, 0 first: plain attention
    grid: tuple[float, ...]
    causal: bool
    # of (strength, measure, layer, head)
    values: StreamedBootstrap
    tokens: int = 0
    holders: dict[tuple[int, str], np.ndarray] = field(
        default_factory=lambda: defaultdict(lambda: np.zeros(3))
    )
    predictions: list[dict[str, Any]] = field(default_factory=list)
    # keys that get no bias, as for `saobp.apply`
    spare: str | float | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Layers and heads."""
        return self.values.mean().shape[-2:]

    def means(self, strength: float) -> dict[str, Float[np.ndarray, "layer head"]]:
        """Return every measure's mean over texts at a strength of the grid."""
        return dict(zip(MEASURES, self.values.mean()[self.grid.index(strength)]))

    def sinks(self, layer: int | None = None) -> list[dict[str, Any]]:
        """Return the tokens that hold largest columns, most frequent first, of one layer (from 1)
        or of all.

        `share` is that of all (text, head) pairs; `before` and `after` are mean sums of the column,
        in queries.
        """
        found: dict[str, np.ndarray] = defaultdict(lambda: np.zeros(3))
        for (place, token), counted in self.holders.items():
            if layer in (None, place):
                found[token] = found[token] + counted
        pairs = sum(counted[0] for counted in found.values())
        ordered = sorted(found.items(), key=lambda item: (-item[1][0], item[0]))
        return [
            {"token": token, "share": n / pairs, "before": before / n, "after": after / n}
            for token, (n, before, after) in ordered
        ]

    def table(self) -> pandas.DataFrame:
        """Return one row per strength asked for, layer, head and measure; head is missing in the
        means over heads.

        Columns before, after, change and its 95 % bootstrap interval over texts, low and high.
        """
        import pandas

        rows = []
        for strength in self.strengths:
            at = self.grid.index(strength)
            for heads in (False, True):
                average = (
                    (lambda found: found)
                    if heads
                    else (lambda found: found.mean(-1, keepdims=True))
                )
                before, after = average(self.values.mean()[0]), average(self.values.mean()[at])
                low, high = self.values.interval(
                    lambda found, at=at, of=average: of(found[at] - found[0])
                )
                for m, layer, head in np.ndindex(before.shape):
                    place = (m, layer, head)
                    rows.append(
                        {
                            "factor": self.factor,
                            "strength": strength,
                            "layer": layer + 1,
                            "head": head + 1 if heads else pandas.NA,
                            "measure": list(MEASURES)[m],
                            "before": before[place],
                            "after": after[place],
                            "change": after[place] - before[place],
                            "low": low[place],
                            "high": high[place],
                        }
                    )
        return pandas.DataFrame(rows).astype({"head": "Int64"})


def inspect(
    model: nn.Module,
    tokenizer: Any,
    texts: Iterable[str],
    *,
    factor: str = "high",
    strengths: float | Sequence[float] | None = None,
    samples: int = 16,
    tokens: int = 128,
    spare: str | float | None = None,
) -> pandas.DataFrame:
    """Measure attention before and after one step of the refinement, per layer and head (Eq. 2,
    11-14).

    The model is not changed. Every layer's maps are refined on their own, see
    `saobp.measure.inspect`.

    Args:
        model: A transformers model that `saobp.apply` serves, an encoder or a decoder.
        tokenizer: Its tokenizer; of a vision model its image processor.
        texts: Texts, at most `samples` of them are read; of a vision model pictures.
        factor: "high", "low", "elemmul" or "sinkhorn".
        strengths: The paper's lambda in nats, one or several; None is the paper's rule, see
            `strength_for`.
        tokens: Longest sequence; what follows is cut.
        spare: Keys that get no bias, as for `saobp.apply`: "first", "edges", a share in (0, 1], or
            None.

    Returns:
        One row per strength, layer, head (missing: the mean over heads) and measure, with before,
        after, change, and the change's 95 % bootstrap interval over texts (low, high). Entropies in
        nats, largest column sum in queries.

    Raises:
        ValueError: One line that names the argument, or the model if `saobp.apply` does not serve
            it.

    Source: Lee et al. 2025, Eq. 2, 7-16.
    """
    given = {"factor": factor, "strengths": strengths, "samples": samples, "tokens": tokens}
    return examine(model, tokenizer, texts, **given, spare=spare, curve=()).table()


def examine(
    model: nn.Module,
    tokenizer: Any,
    texts: Iterable[str],
    *,
    factor: str = "high",
    strengths: float | Sequence[float] | None = None,
    samples: int = 16,
    tokens: int = 128,
    spare: str | float | None = None,
    curve: Sequence[float] = CURVE,
    progress: bool = False,
) -> Inspection:
    """Do what `inspect` does and return all that was found: also sinks by token, and measures along
    a `curve`.
    """
    check(factor, strengths, samples, tokens, spare)
    refuse(model)
    asked = _several(strength_for(model) if strengths is None else strengths)
    grid = tuple(sorted({0.0, *curve, *asked}))
    plain = plain_copy(model)
    found = Inspection(factor, asked, grid, is_causal(plain), StreamedBootstrap(), spare=spare)
    check_spare(spare, factor, causal=found.causal)
    chosen = itertools.islice(encoded(plain, tokenizer, texts, tokens), samples)
    if (first := next(chosen, None)) is None:
        raise ValueError(
            "text: no text of two tokens or more; attention between tokens needs at least two"
        )
    chosen = itertools.chain([first], chosen)
    for sample in tqdm(chosen, total=samples, unit="text", desc="attention", disable=not progress):
        _measure(found, plain, sample)
    return found


def check(
    factor: str,
    strengths: float | Sequence[float] | None,
    samples: int,
    tokens: int,
    spare: str | float | None = None,
) -> None:
    """Refuse what cannot be inspected, whatever the model, with a ValueError of one line."""
    if factor not in FACTORS:
        raise ValueError(f"factor must be one of {', '.join(FACTORS)}; got {quoted(factor)}")
    for one in () if strengths is None else _several(strengths):
        if isinstance(one, bool) or not isinstance(one, Real) or not 0 < one < float("inf"):
            why = "since plain attention is always shown"
            raise ValueError(f"strength must be finite and above 0, {why}; got {quoted(one)}")
    check_whole("samples", samples, 1)
    check_whole("tokens", tokens, 4)
    check_saved(spare)
    check_spare(spare, factor, causal=False)


def _several(strengths: float | Sequence[float]) -> tuple[float, ...]:
    """Return one strength or several, each once, in the order given; ValueError for none."""
    # an array or a tensor
    strengths = strengths.tolist() if hasattr(strengths, "tolist") else strengths
    several = (
        tuple(strengths)
        if isinstance(strengths, Sequence) and not isinstance(strengths, str)
        else (strengths,)
    )
    if not several:
        raise ValueError("strengths must hold one at least; None takes the paper's rule")
    return tuple(dict.fromkeys(several))


def strength_for(model: nn.Module) -> float:
    """Return the paper's strength for a model's size: 0.2 times 11.17 M over its parameters (Sec.
    6), one digit.

    The paper's own 0.08 and 0.05 for its larger sizes follow. Smaller models get 0.2, the most that
    the paper uses.
    """
    strength, parameters = MINI
    count = sum(parameter.numel() for parameter in model.parameters())
    return float(f"{strength * min(1.0, parameters / count):.1g}")


def _measure(found: Inspection, model: nn.Module, sample: Sample) -> None:
    """Measure one sample's maps at every strength and note which token holds the largest column."""
    layers = maps_of(model, sample)
    # the masks of CLIP are causal, its modules are not
    if not any(bool(layer.triu(1).any()) for layer in layers):
        found.causal = True
    values = np.empty((len(found.grid), len(MEASURES), len(layers), len(layers[0])))
    labels = sample.labels or patch_labels(layers[0].shape[-1])
    # where a decoder's sink is, whatever the word
    labels = ["first token", *labels[1:]] if found.causal else labels

    def measure_layer(layer: int) -> None:
        maps = layers[layer]
        for at, strength in enumerate(found.grid):
            refined = one_step(maps, found.factor, strength, found.causal, found.spare)
            taken = gtd_and_entropy.measure(refined) | {
                "moved": (refined - maps).abs().sum(-1).mean(-1) / 2
            }
            values[at, :, layer] = torch.stack([taken[name] for name in MEASURES]).cpu().numpy()

    side_by_side(measure_layer, [(layer,) for layer in range(len(layers))])
    for layer, maps in enumerate(layers, start=1):
        refined = one_step(maps, found.factor, found.strengths[0], found.causal, found.spare)
        before, after = maps.sum(-2).cpu(), refined.sum(-2).cpu()
        for head, key in enumerate(before.argmax(-1).tolist()):
            found.holders[layer, labels[key]] += (
                1,
                before[head, key].item(),
                after[head, key].item(),
            )
    found.values.add(values)
    found.tokens += len(labels)
