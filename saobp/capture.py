"""Stream the attention of a model over data into diagnostics, holding one batch of maps at a time (Fig. 4-8).

`capture` runs any transformers model over batches and measures every attention matrix twice, as the softmax
made it ("raw") and as it multiplied the values ("refined"), in the same forward pass. It leaves one tidy
parquet file, a row a sample, layer, head and matrix, and returns a summary. Parts are written as it goes
(`saobp.parts`), so a killed capture loses at most one part.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from tqdm.auto import tqdm

from saobp import diagnostics
from saobp.graph import graph_measures
from saobp.huggingface import raw_attentions
from saobp.parts import MATRICES, Parts, Tally, summary
from saobp.refinement import Refinement

INPUTS = ("input_ids", "attention_mask", "token_type_ids", "position_ids")
PIXELS = "pixel_values"
Batch = Mapping[str, Tensor]


@dataclass(frozen=True)
class Plan:
    """What to measure; part of the identity of a capture."""

    beta: float
    hops: int
    graph_nodes: int  # of the token graphs; 0: none
    graph_threshold: float
    spectrum: bool  # effective rank, by far the dearest number
    keep_maps: int  # so many first samples' matrices are kept whole


def capture(
    model: nn.Module,
    batches: Iterable[Batch],
    path: str | Path,
    *,
    beta: float = 0.9,
    hops: int = 4,
    graph_nodes: int = 0,
    graph_threshold: float = 1e-4,
    spectrum: bool = False,
    keep_maps: int = 0,
    tokenizer: Any = None,
    part_samples: int = 64,
    progress: bool = True,
    resume: bool = True,
) -> dict[str, Any]:
    """Measure the attention of `model` over `batches`, write one parquet file to `path`, return its summary.

    A sample is one sequence: the options of a multiple-choice batch (batch, options, L) count singly. The
    model is put into eval mode meanwhile and stays on its device. If `path` already holds a capture of the
    same model, inputs and plan, its summary is returned; if parts of one lie beside it, they are not computed
    again.

    Args:
        model: A transformers model with one stack of self-attention, given to `saobp.apply` or not (then the
            two matrices are the same).
        batches: Dictionaries with input_ids and, where given, attention_mask, token_type_ids, position_ids; or,
            of a vision model, with pixel_values.
        path: Of the parquet file; kept maps go beside it, with the ending .maps.npz.
        beta: Discount of Eq. 12, in (0, 1].
        hops: K of Eq. 12.
        graph_nodes: Measure token graphs of so many first real tokens (the paper: 40); 0 leaves them out.
        graph_threshold: Least weight of an edge of theirs.
        spectrum: Measure the effective rank, which costs more than everything else together.
        keep_maps: Keep the matrices of so many first samples.
        tokenizer: With one, the mass on [CLS], [SEP], punctuation and content is measured, too.
        part_samples: Samples after which a part is written.
        progress: Show a bar.
        resume: Use what an earlier call left; False starts over.

    Returns:
        samples, tokens, layers, heads; the plan; `matrices`: for raw and refined the means over samples, by
        layer and head, by layer ("by_layer"), over all ("overall"), by query position; `nan`: how many values
        were undefined. The columns are explained in `saobp.diagnostics` and `saobp.graph`; `moved` is the
        mean total variation distance of a row from its raw one, mass_* the share of attention a class of
        tokens gets.

    Raises:
        ValueError: If the model gives no attention of one stack over tokens (of an encoder-decoder, pass
            `model.encoder`), or gives mass to padding.
    """
    for name, number, least in (("part_samples", part_samples, 1), ("keep_maps", keep_maps, 0)):
        if not isinstance(number, int) or number < least:
            raise ValueError(f"{name} must be a whole number of at least {least}; got {number!r}")
    plan = Plan(beta, hops, graph_nodes, graph_threshold, spectrum, keep_maps)
    classes = token_classes(tokenizer) if tokenizer is not None else None
    parts = Parts(Path(path), _identity(model, plan, classes), asdict(plan), resume)
    replayable = iter(batches) is not batches
    if replayable and parts.finished(chunk for _, chunk in _chunks(batches, part_samples)):
        return summary(path)
    length = len(batches) if hasattr(batches, "__len__") else None
    bar = tqdm(total=length, unit="batch", desc="attention", disable=not progress)
    with bar, _visible(model) as attend:
        for first, chunk in _chunks(batches, part_samples):
            if parts.begin(chunk):
                for batch in chunk:
                    parts.add(*_measured(attend, batch, first, plan, classes, parts))
                    first += size(batch)
                parts.commit()
            bar.update(len(chunk))
    return parts.finish()


def token_classes(tokenizer: Any) -> tuple[tuple[str, ...], Int[Tensor, " vocabulary"]]:
    """Sort a vocabulary into [CLS], [SEP], punctuation and content.

    Without a [CLS] in the vocabulary the first class is "first": the first real token of a sequence, where
    decoders keep their sink. Returns the classes' names and the class of every token id.
    """
    names = ("first" if tokenizer.cls_token_id is None else "cls", "sep", "punctuation", "content")
    words = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    classes = torch.tensor([2 if _is_punctuation(word) else 3 for word in words])
    separator = tokenizer.sep_token_id if tokenizer.sep_token_id is not None else tokenizer.eos_token_id
    for index, special in ((1, separator), (0, tokenizer.cls_token_id)):
        if special is not None:
            classes[special] = index
    return names, classes


def _is_punctuation(word: str | None) -> bool:
    """Tell whether a token, without the marks of its tokenizer, holds nothing but punctuation and symbols."""
    bare = (word or "").removeprefix("##").lstrip("Ġ▁")
    return bool(bare) and all(unicodedata.category(letter)[0] in "PS" for letter in bare)


def _measured(
    attend: Any, batch: Batch, first: int, plan: Plan, classes: Any, parts: Parts
) -> tuple[dict[str, np.ndarray], Tally]:
    """Measure all maps of one batch: columns of the table, and what the summary needs of them."""
    if classes and "input_ids" not in batch:
        raise ValueError("tokenizer: the batches hold no input_ids, so there are no classes of tokens")
    layers = attend(batch)
    shape, device = (size(batch), layers[0][0].shape[-1]), layers[0][0].device
    mask = batch.get("attention_mask", torch.ones(shape)).to(device).bool()
    tokens = batch.get("input_ids", torch.arange(shape[1]).expand(shape))  # patches have their place for a name
    groups = _grouped(tokens.to(device), mask, classes) if classes else {}
    values = _stacked([_pair(raw, refined, mask, plan, groups) for raw, refined in layers])
    for sample in range(min(len(mask), plan.keep_maps - first)):
        _keep(parts, first + sample, layers, mask[sample], tokens[sample], sample)
    tally = Tally.of(values, int(mask.sum()))
    tally.add_positions(*_positional(layers, mask))
    if len(layers) >= plan.hops:
        tally.add("cross_layer_gtd", _cross_layer(layers, plan, mask))
    return {
        "sample": np.arange(first, first + len(mask)),
        "tokens": mask.sum(-1).cpu().numpy(),
        **values,
    }, tally


def _pair(
    raw: Tensor, refined: Tensor, mask: Bool[Tensor, "batch L"], plan: Plan, groups: dict[str, Tensor]
) -> dict[str, Float[Tensor, "matrix batch head"]]:
    """Measure both matrices of one layer; a plain model's are one, measured once."""
    both = [
        _one(matrix, mask, plan, groups)
        for matrix in ((raw,) if raw.data_ptr() == refined.data_ptr() else (raw, refined))
    ]
    found = {name: torch.stack([both[0][name], both[-1][name]]) for name in both[0]}
    distance = (refined.float() - raw.float()).abs().sum(-1).masked_fill(~mask[:, None], 0.0).sum(-1) / 2
    moved = distance / mask.sum(-1, keepdim=True)
    return found | {"moved": torch.stack([torch.zeros_like(moved), moved])}


def _one(
    attention: Float[Tensor, "batch head L L"], mask: Tensor, plan: Plan, groups: dict[str, Tensor]
) -> dict[str, Float[Tensor, "batch head"]]:
    """Measure one matrix of one layer."""
    attention = attention.float().masked_fill(~mask[:, None, :, None], 0.0)
    mass = attention.masked_fill(~mask[:, None, None], 0.0).sum(-2)
    if ((mass.sum(-1) / mask.sum(-1, keepdim=True) - 1).abs() > 0.01).any():
        raise ValueError("model: its attention gives mass to padding, or does not sum to 1 over the real keys")
    found = diagnostics.measure(attention, plan.beta, plan.hops, mask=mask)
    if plan.spectrum:
        found["effective_rank"] = diagnostics.effective_rank(attention, mask=mask)
    shares = mass / mask.sum(-1)[:, None, None]
    found |= {name: (shares * group[:, None]).sum(-1) for name, group in groups.items()}
    if plan.graph_nodes:
        size = {"nodes": plan.graph_nodes, "threshold": plan.graph_threshold}
        graphs = [graph_measures(maps, mask=real, **size) for maps, real in zip(attention, mask)]
        found |= {name: torch.stack([one[name].to(mask.device) for one in graphs]) for name in graphs[0]}
    return found


def _grouped(tokens: Tensor, mask: Tensor, classes: Any) -> dict[str, Bool[Tensor, "batch L"]]:
    """Say for every class which keys belong to it."""
    names, table = classes
    table = torch.cat([table, torch.full((1,), len(names) - 1)]).to(tokens.device)
    kind = table[tokens.clamp_max(len(table) - 1)]  # ids beyond the vocabulary are content
    if names[0] == "first":
        kind = kind.masked_fill((mask.cumsum(-1) == 1) & mask, 0)
    return {f"mass_{name}": kind == index for index, name in enumerate(names)}


def _positional(layers: list[tuple[Tensor, Tensor]], mask: Tensor) -> tuple[Tensor, Tensor]:
    """Sum row entropies over samples at each query position among the real tokens, heads averaged.

    Returns sums (matrix, layer, position) and how many rows each has.
    """
    place = (mask.cumsum(-1) - 1)[mask]
    sums = torch.zeros(len(MATRICES), len(layers), mask.shape[-1], dtype=torch.float64)
    counts = torch.zeros_like(sums)
    for layer, pair in enumerate(layers):
        for index, attention in enumerate(pair):
            rows = diagnostics.row_entropy(attention, mask=mask).mean(1)[mask].double()
            sums[index, layer].index_add_(0, place.cpu(), rows.nan_to_num().cpu())
            counts[index, layer].index_add_(0, place.cpu(), rows.isfinite().double().cpu())
    return sums, counts


def _cross_layer(layers: list[tuple[Tensor, Tensor]], plan: Plan, mask: Tensor) -> np.ndarray:
    """Measure every sample's cross-layer GTD: (matrix, batch, window)."""
    stacks = [[pair[index] for pair in layers] for index in range(len(MATRICES))]
    values = [diagnostics.cross_layer_gtd(stack, plan.beta, plan.hops, mask=mask) for stack in stacks]
    return torch.stack(values).double().cpu().numpy()


def _stacked(layers: list[dict[str, Tensor]]) -> dict[str, np.ndarray]:
    """Join the layers' values: (batch, layer, head, matrix), the order of the table's rows."""
    joined = {name: torch.stack([layer[name] for layer in layers]) for name in layers[0]}
    return {name: value.permute(2, 0, 3, 1).double().cpu().numpy() for name, value in joined.items()}


def _keep(parts: Parts, sample: int, layers: list, mask: Tensor, tokens: Tensor, index: int) -> None:
    """Put one sample's maps aside, padding cut: (layer, head, L, L)."""
    maps = {}
    for name, matrices in zip(MATRICES, zip(*layers)):
        stack = torch.stack([matrix[index] for matrix in matrices]).float()
        maps[name] = stack[:, :, mask][..., mask].cpu().numpy()
    parts.keep(sample, maps | {"input_ids": tokens.cpu()[mask.cpu()].numpy()})


def size(batch: Batch) -> int:
    """Return how many sequences or pictures a batch holds."""
    return len(next(iter(batch.values())))


def _chunks(batches: Iterable[Batch], samples: int) -> Iterator[tuple[int, list[Batch]]]:
    """Group batches into parts of at least `samples` sequences; with each comes its first sample's number.

    Only what the model reads is kept of a batch, as rows of tokens whatever stood before the last axis.
    """
    first, chunk, held = 0, [], 0
    for batch in batches:
        given = {name: batch[name] for name in INPUTS if batch.get(name) is not None}
        rows = {name: value.reshape(-1, value.shape[-1]) for name, value in given.items()}
        if batch.get(PIXELS) is not None:
            rows[PIXELS] = batch[PIXELS]
        if not rows.keys() & {"input_ids", PIXELS}:
            raise ValueError(f"batches: one holds {', '.join(batch) or 'nothing'}, neither input_ids nor {PIXELS}")
        chunk.append(rows)
        held += size(rows)
        if held >= samples:
            yield first, chunk
            first, chunk, held = first + held, [], 0
    if chunk:
        yield first, chunk


@contextmanager
def _visible(model: nn.Module) -> Iterator[Any]:
    """Yield a function from inputs to the layers' (raw, refined) maps; the model is as before afterwards."""
    body = getattr(model, "base_model", model)  # no need for the head's logits
    if getattr(model.config, "is_encoder_decoder", False) and hasattr(body, "decoder"):
        raise ValueError(f"model: {type(model).__name__} has two stacks; pass its encoder, model.get_encoder()")
    device = next(model.parameters()).device
    training, implementation = model.training, model.config._attn_implementation
    refined = any(isinstance(module, Refinement) for module in model.modules())

    def attend(inputs: dict[str, Tensor]) -> list[tuple[Tensor, Tensor]]:
        inputs = {name: value.to(device) for name, value in inputs.items()}
        with torch.inference_mode():
            if refined:
                with raw_attentions(body) as pairs:
                    body(**inputs)
            else:
                maps = getattr(body(**inputs, output_attentions=True), "attentions", None) or [None]
                pairs = [None if one is None else (one, one) for one in maps]
        if any(pair is None for pair in pairs):
            raise ValueError(f"model: {type(model).__name__} gives no attention maps of one stack of layers")
        return list(pairs)

    model.eval()
    if not refined:
        model.set_attn_implementation("eager")
    try:
        yield attend
    finally:
        model.train(training)
        if not refined:
            model.set_attn_implementation(implementation)


def _identity(model: nn.Module, plan: Plan, classes: Any) -> str:
    """Hash what decides the numbers besides the inputs: weights, configuration, plan, classes of tokens."""
    digest = hashlib.blake2b(digest_size=16)
    config = {key: value for key, value in model.config.to_dict().items() if key != "_name_or_path"}
    said = [type(model).__name__, config, asdict(plan), classes and classes[0]]
    digest.update(json.dumps(said, sort_keys=True, default=str).encode())
    tensors = dict(model.state_dict()) | ({"classes": classes[1]} if classes else {})
    for name, tensor in tensors.items():
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
