"""What the attention maps of one batch say: the columns of a capture's table, and what its summary
needs of them.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from saobp.equations.padding import widened
from saobp.measure import gtd_and_entropy
from saobp.measure.capture_files import MATRICES, Parts
from saobp.measure.graph import graph_measures
from saobp.measure.observed import Seen
from saobp.measure.streams import POSITIONS, Tally

Batch = Mapping[str, Tensor]


@dataclass(frozen=True)
class Plan:
    """What to measure; part of the identity of a capture."""

    beta: float
    hops: int
    # of the token graphs; 0: none
    graph_nodes: int
    graph_threshold: float
    # so many first samples' matrices are kept whole
    keep_maps: int


@dataclass(frozen=True)
class Attended:
    """What a model did on one batch."""

    # (raw, refined) of each layer, (batch, head, L, L)
    maps: list[tuple[Tensor, Tensor]]
    # of its self-attention, where it goes through transformers' interface
    calls: list[Seen]
    # massive activations of each layer, where layers are numbered
    largest: list[Float[np.ndarray, " batch"]]


def token_classes(tokenizer: Any) -> tuple[tuple[str, ...], Int[Tensor, " vocabulary"]]:
    """Sort a vocabulary into [CLS], [SEP], punctuation and content.

    Without a [CLS] in the vocabulary the first class is "first": the first real token of a
    sequence, where decoders keep their sink. Returns the classes' names and the class of every
    token id.
    """
    if not hasattr(tokenizer, "batch_decode"):
        raise ValueError(
            f"tokenizer must be the model's tokenizer, or None; got {type(tokenizer).__name__}"
        )
    names = ("first" if tokenizer.cls_token_id is None else "cls", "sep", "punctuation", "content")
    # not as a tokenizer of bytes spells them
    words = tokenizer.batch_decode([[token] for token in range(len(tokenizer))])
    classes = torch.full((len(words),), 3)
    for index, word in enumerate(words):
        bare = word.strip().removeprefix("##")
        if bare and all(
            unicodedata.category(sign)[0] in "PS" and sign != "\ufffd" for sign in bare
        ):
            # a part of a letter, which no text spells, is no sign
            classes[index] = 2
    separator = (
        tokenizer.sep_token_id if tokenizer.sep_token_id is not None else tokenizer.eos_token_id
    )
    for index, special in ((1, separator), (0, tokenizer.cls_token_id)):
        if special is not None:
            classes[special] = index
    return names, classes


def measured(
    attend: Any, batch: Batch, first: int, plan: Plan, classes: Any, parts: Parts
) -> tuple[dict[str, np.ndarray], Tally]:
    """Measure all maps of one batch: columns of the table, and what the summary needs of them."""
    if classes and "input_ids" not in batch:
        raise ValueError(
            "tokenizer: the batches hold no input_ids, so there are no classes of tokens"
        )
    mask = batch.get("attention_mask")
    attended = attend(batch, None if mask is None else mask.bool())
    layers = attended.maps
    shape, device = (size(batch), layers[0][0].shape[-1]), layers[0][0].device
    mask = torch.ones(shape, dtype=torch.bool) if mask is None else mask
    mask = mask.to(device).bool()
    # patches have their place for a name
    tokens = batch.get("input_ids", torch.arange(shape[1]).expand(shape))
    groups = _grouped(tokens.to(device), mask, classes) if classes else {}
    pairs = [_pair(raw, refined, mask, plan, groups) for raw, refined in layers]
    for layer, pair in enumerate(pairs):
        pair |= _beside(attended, layer, mask)
    joined = {name: torch.stack([pair[name] for pair in pairs]) for name in pairs[0]}
    values = {
        name: value.permute(2, 0, 3, 1).double().cpu().numpy() for name, value in joined.items()
    }
    for sample in range(min(len(mask), plan.keep_maps - first)):
        _keep(parts, first + sample, layers, mask[sample], tokens[sample], sample)
    tally = Tally(len(mask), int(mask.sum()))
    # (sample, layer, head, matrix), the order of the table's rows
    for name, value in values.items():
        tally.add(name, np.moveaxis(value, -1, 0))
    tally.sums[POSITIONS], tally.counts[POSITIONS] = _positional(layers, mask)
    if len(layers) >= plan.hops:
        crossed = [
            gtd_and_entropy.cross_layer_gtd(maps, plan.beta, plan.hops, mask=mask)
            for maps in zip(*layers)
        ]
        tally.add("cross_layer_gtd", torch.stack(crossed).double().cpu().numpy())
    return {
        "sample": np.arange(first, first + len(mask)),
        "tokens": mask.sum(-1).cpu().numpy(),
        **values,
    }, tally


def _pair(
    raw: Tensor,
    refined: Tensor,
    mask: Bool[Tensor, "batch L"],
    plan: Plan,
    groups: dict[str, Tensor],
) -> dict[str, Float[Tensor, "matrix batch head"]]:
    """Measure both matrices of one layer; a plain model's are one, measured once."""
    both = [
        _one(matrix, mask, plan, groups)
        for matrix in ((raw,) if raw.data_ptr() == refined.data_ptr() else (raw, refined))
    ]
    numbers = {name: torch.stack([both[0][name], both[-1][name]]) for name in both[0]}
    distance = (refined.float() - raw.float()).abs().sum(-1).masked_fill(~mask[:, None], 0.0).sum(
        -1
    ) / 2
    moved = distance / mask.sum(-1, keepdim=True)
    return numbers | {"moved": torch.stack([torch.zeros_like(moved), moved])}


def _beside(
    attended: Attended, layer: int, mask: Bool[Tensor, "batch L"]
) -> dict[str, Float[Tensor, "matrix batch head"]]:
    """Return what the matrices of a layer do not hold; NaN where it cannot be seen."""
    maps = torch.stack(attended.maps[layer]).float()
    shape = maps.shape[:3]
    nothing = maps.new_full(shape, torch.nan)
    logits, norms, largest = nothing, nothing, nothing
    if len(attended.calls) == len(attended.maps):
        call, padded = attended.calls[layer], ~mask[:, None, :, None]
        logits = call.scores().masked_fill(padded, -torch.inf).amax((-2, -1)).expand(shape)
        columns = maps.masked_fill(padded, 0).sum(-2)
        norms = torch.stack([call.sink_value_norms(side) for side in columns])
    if len(attended.largest) == len(attended.maps):
        largest = maps.new_tensor(attended.largest[layer])[:, None].expand(shape)
    return {"max_logit": logits, "sink_value_norm": norms, "massive_activation": largest}


def _one(
    attention: Float[Tensor, "batch head L L"], mask: Tensor, plan: Plan, groups: dict[str, Tensor]
) -> dict[str, Float[Tensor, "batch head"]]:
    """Measure one matrix of one layer."""
    attention = widened(attention).masked_fill(~mask[:, None, :, None], 0.0)
    mass = attention.masked_fill(~mask[:, None, None], 0.0).sum(-2)
    if ((mass.sum(-1) / mask.sum(-1, keepdim=True) - 1).abs() > 0.01).any():
        raise ValueError(
            "model: its attention gives mass to padding, or does not sum to 1 over the real keys"
        )
    numbers = gtd_and_entropy.measure(attention, plan.beta, plan.hops, mask=mask)
    shares = mass / mask.sum(-1)[:, None, None]
    numbers |= {name: (shares * group[:, None]).sum(-1) for name, group in groups.items()}
    if plan.graph_nodes:
        size = {"nodes": plan.graph_nodes, "threshold": plan.graph_threshold}
        graphs = [graph_measures(maps, mask=real, **size) for maps, real in zip(attention, mask)]
        numbers |= {
            name: torch.stack([measures[name].to(mask.device) for measures in graphs])
            for name in graphs[0]
        }
    return numbers


def _grouped(tokens: Tensor, mask: Tensor, classes: Any) -> dict[str, Bool[Tensor, "batch L"]]:
    """Say for every class which keys belong to it."""
    names, table = classes
    table = torch.cat([table, torch.full((1,), len(names) - 1)]).to(tokens.device)
    # ids beyond the vocabulary are content
    kind = table[tokens.clamp_max(len(table) - 1)]
    if names[0] == "first":
        kind = kind.masked_fill((mask.cumsum(-1) == 1) & mask, 0)
    return {f"mass_{name}": kind == index for index, name in enumerate(names)}


def _positional(layers: list[tuple[Tensor, Tensor]], mask: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Return sums (matrix, layer, position) of row entropies, heads averaged, and how many rows
    each has.
    """
    place = (mask.cumsum(-1) - 1)[mask]
    sums = torch.zeros(len(MATRICES), len(layers), mask.shape[-1], dtype=torch.float64)
    counts = torch.zeros_like(sums)
    for layer, pair in enumerate(layers):
        for index, attention in enumerate(pair):
            rows = gtd_and_entropy.row_entropy(attention, mask=mask).mean(1)[mask].double()
            sums[index, layer].index_add_(0, place.cpu(), rows.nan_to_num().cpu())
            counts[index, layer].index_add_(0, place.cpu(), rows.isfinite().double().cpu())
    return sums.numpy(), counts.numpy()


def _keep(
    parts: Parts, sample: int, layers: list, mask: Tensor, tokens: Tensor, index: int
) -> None:
    """Put one sample's maps aside, padding cut: (layer, head, L, L)."""
    maps = {}
    for name, matrices in zip(MATRICES, zip(*layers)):
        stack = torch.stack([matrix[index] for matrix in matrices]).float()
        maps[name] = stack[:, :, mask][..., mask].cpu().numpy()
    parts.keep(sample, maps | {"input_ids": tokens.cpu()[mask.cpu()].numpy()})


def size(batch: Batch) -> int:
    """Return how many sequences or pictures a batch holds."""
    return len(next(iter(batch.values())))
