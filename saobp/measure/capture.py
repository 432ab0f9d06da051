"""Stream the attention of a model over data into diagnostics, holding one batch of maps at a time
(Fig. 4-8).

`capture` runs any transformers model over batches and measures every attention matrix twice, as the
softmax made it ("raw") and as it multiplied the values ("refined"), in the same forward pass. It
leaves one tidy parquet file, a row a sample, layer, head and matrix, and returns a summary. Parts
are written as it goes (`saobp.measure.capture_files`), so a killed capture loses at most one part.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from saobp.equations.checks import check_whole, first_line
from saobp.equations.factors import OWN
from saobp.measure.capture_files import Parts, checked_path, summary
from saobp.measure.graph import check_threshold
from saobp.measure.gtd_and_entropy import check_paths
from saobp.measure.inspection.maps import activations
from saobp.measure.measurement import Attended, Batch, Plan, measured, size, token_classes
from saobp.measure.observed import Seen, observed
from saobp.models.apply import raw_attentions
from saobp.models.module import Refinement
from saobp.models.supported import maps_of_one_stack, refuse_other_objects, without_cache

INPUTS = ("input_ids", "attention_mask", "token_type_ids", "position_ids")
PIXELS = "pixel_values"
# change no attention
OF_A_CALL = {"labels", "return_dict", "use_cache", "output_attentions", "output_hidden_states"}


def capture(
    model: nn.Module,
    batches: Iterable[Batch],
    path: str | Path,
    *,
    beta: float = 0.9,
    hops: int = 4,
    graph_nodes: int = 0,
    graph_threshold: float = 1e-4,
    keep_maps: int = 0,
    tokenizer: Any = None,
    part_samples: int = 64,
    progress: bool = True,
    resume: bool = True,
) -> dict[str, Any]:
    """Measure the attention of `model` over `batches`, write one parquet file to `path`, return its
    summary.

    A sample is one sequence: the options of a multiple-choice batch (batch, options, L) count
    singly. The model is put into eval mode meanwhile and stays on its device. If `path` already
    holds a capture of the same model, inputs and plan, its summary is returned; if parts of one lie
    beside it, they are not computed again.

    Args:
        model: A transformers model with one stack of self-attention, given to `saobp.apply` or not
            (then the
            two matrices are the same).
        batches: Dictionaries of tensors, arrays or lists with input_ids and, where given,
            attention_mask of the same
            shape, token_type_ids, position_ids; or, of a vision model, with pixel_values.
        path: Of the parquet file; kept maps go beside it, with the ending .maps.npz in place of
            .parquet.
        beta: Discount of Eq. 12, in (0, 1].
        hops: K of Eq. 12.
        graph_nodes: Measure token graphs of so many first real tokens (the paper: 40); 0 leaves
            them out.
        graph_threshold: Least weight of an edge of theirs.
        keep_maps: Keep the matrices of so many first samples.
        tokenizer: With one, the mass on [CLS], [SEP], punctuation and content is measured, too.
        part_samples: Samples after which a part is written.
        progress: Show a bar.
        resume: Use what an earlier call left; False starts over, as a factor of `register_factor`
            and a model with
            forward hooks always do.

    Returns:
        samples, tokens, layers, heads; the plan; `matrices`: for raw and refined the means over
        samples, by layer and head, by layer ("by_layer"), over all ("overall"), by query position;
        `nan`: how many values were undefined. The columns are explained in
        `saobp.measure.gtd_and_entropy`, `saobp.measure.graph` and
        `saobp.measure.inspection.measures`; `moved` is the mean total
        variation distance of a row from its raw one, mass_* the share of attention a class of
        tokens gets.

    Raises:
        ValueError: If the model gives no attention of one stack over tokens (of an encoder-decoder,
            pass
            `model.encoder`; CLIP and Swin have several), cannot run on the batches, takes something
            else that they hold, or gives mass to padding; or if `path` is none, is too long, or is
            a file that is no capture.
    """
    check_whole("part_samples", part_samples, 1)
    check_whole("keep_maps", keep_maps, 0)
    check_whole("graph_nodes", graph_nodes, 0)
    path = checked_path(path)
    refuse_other_objects(model)
    several = hasattr(batches, "__iter__") or hasattr(batches, "__getitem__")
    if isinstance(batches, (Mapping, Tensor, str)) or not several:
        raise ValueError(
            f"batches: must be several dictionaries; got one {type(batches).__name__}, put it in a list"
        )
    check_paths(beta, hops)
    check_threshold(graph_threshold, "graph_threshold")
    graph = int(graph_nodes), float(graph_threshold)
    plan = Plan(float(beta), int(hops), *graph, int(keep_maps))
    classes = token_classes(tokenizer) if tokenizer is not None else None
    # of the caller's: may change
    changeable = _hooked(model) or any(options["factor"] in OWN for options in _options(model))
    parts = Parts(path, _identity(model, plan, classes), asdict(plan), resume and not changeable)
    replayable = iter(batches) is not batches
    if replayable and parts.finished(chunk for _, chunk in _chunks(batches, part_samples, model)):
        return summary(path)
    length = len(batches) if hasattr(batches, "__len__") else None
    bar = tqdm(total=length, unit="batch", desc="attention", disable=not progress)
    with bar, _visible(model) as attend:
        for first, chunk in _chunks(batches, part_samples, model):
            if parts.begin(chunk, first):
                for batch in chunk:
                    parts.add(*measured(attend, batch, first, plan, classes, parts))
                    first += size(batch)
                parts.commit()
            bar.update(len(chunk))
    return parts.finish()


def _chunks(
    batches: Iterable[Batch], samples: int, model: nn.Module
) -> Iterator[tuple[int, list[Batch]]]:
    """Group batches into parts of at least `samples` sequences; with each comes its first sample's
    number.

    Only what the model reads is kept of a batch, as rows of tokens whatever stood before the last
    axis. ValueError for anything else that it takes and that may change its attention.
    """
    forward = getattr(model, "base_model", model).forward
    others = set(signature(forward).parameters) - {*INPUTS, PIXELS, *OF_A_CALL}
    first, chunk, samples_read = 0, [], 0
    for batch in batches:
        rows = _rows(batch)
        if unread := sorted(name for name in others & batch.keys() if batch[name] is not None):
            raise ValueError(
                f"batches: the model takes {', '.join(unread)}, which is not read here; leave it out"
            )
        chunk.append(rows)
        samples_read += size(rows)
        if samples_read >= samples:
            yield first, chunk
            first, chunk, samples_read = first + samples_read, [], 0
    if chunk:
        yield first, chunk


def _rows(batch: Batch) -> dict[str, Tensor]:
    """Return what a model reads of a batch as tensors; ValueError for what is none."""
    if not isinstance(batch, Mapping):
        raise ValueError(
            f"batches: one is a {type(batch).__name__}; each must be a dictionary with input_ids or {PIXELS}"
        )
    rows = {}
    for name in (*INPUTS, PIXELS):
        if batch.get(name) is not None:
            try:
                value = torch.as_tensor(batch[name])
            except (TypeError, ValueError) as error:
                raise ValueError(f"batches: {name} makes no tensor ({first_line(error)})") from None
            if not value.numel() or not value.dim():
                raise ValueError(
                    f"batches: {name} of one is {'empty' if value.dim() else 'one number'}, {tuple(value.shape)}"
                )
            rows[name] = value if name == PIXELS else value.reshape(-1, value.shape[-1])
    if not rows.keys() & {"input_ids", PIXELS}:
        raise ValueError(
            f"batches: one holds {', '.join(batch) or 'nothing'}, neither input_ids nor {PIXELS}"
        )
    mask, ids = (batch.get(name) for name in ("attention_mask", "input_ids"))
    if (
        mask is not None
        and ids is not None
        and rows["attention_mask"].shape != rows["input_ids"].shape
    ):
        shapes = (tuple(torch.as_tensor(value).shape) for value in (mask, ids))
        raise ValueError(
            "batches: attention_mask has shape {}, input_ids {}; they must be equal".format(*shapes)
        )
    return rows


@contextmanager
def _visible(model: nn.Module) -> Iterator[Any]:
    """Yield a function from inputs and a mask of real tokens to the layers' (raw, refined) maps,
    their calls and their massive activations; the model is as before afterwards.
    """
    # no need for the head's logits
    body = getattr(model, "base_model", model)
    if getattr(model.config, "is_encoder_decoder", False) and hasattr(body, "decoder"):
        raise ValueError(
            f"model: {type(model).__name__} has two stacks; pass its encoder, model.get_encoder()"
        )
    device = next(model.parameters()).device
    training = [module for module in model.modules() if module.training]
    configs = {id(part.config): part.config for part in model.modules() if hasattr(part, "config")}
    before = [
        (config, config._attn_implementation)
        for config in configs.values()
        if hasattr(config, "_attn_implementation")
    ]
    refined = any(isinstance(module, Refinement) for module in model.modules())

    def attend(inputs: dict[str, Tensor], mask: Tensor) -> Attended:
        calls: list[Seen] = []
        moved = {name: value.to(device) for name, value in inputs.items()} | without_cache(body)

        def run() -> list[Any]:
            with torch.inference_mode():
                if refined:
                    with raw_attentions(body) as pairs:
                        body(**moved)
                    return pairs
                maps = getattr(body(**moved, output_attentions=True), "attentions", None) or [None]
                return [None if layer is None else (layer, layer) for layer in maps]

        with observed(model, calls.append), activations(body, mask) as largest:
            maps = maps_of_one_stack(model, run, size(inputs), "batches")
        return Attended(maps, calls, largest)

    model.eval()
    if not refined:
        model.set_attn_implementation("eager")
    try:
        yield attend
    finally:
        # a part that was frozen stays so
        for module in training:
            module.training = True
        for config, implementation in before:
            config._attn_implementation = implementation


def _hooked(model: nn.Module) -> bool:
    """Say whether hooks of the caller's may change what a model computes."""
    # here, as it loads the heavy part of transformers
    from saobp.models.dispatch import HOOKS

    hooks = [
        hook
        for part in model.modules()
        for kind in (part._forward_hooks, part._forward_pre_hooks)
        for hook in kind.values()
    ]
    # which it leaves on a model that was asked for its attention
    recorders = "transformers.utils.output_capturing"
    return any(hook not in HOOKS and getattr(hook, "__module__", "") != recorders for hook in hooks)


def _options(model: nn.Module) -> list[dict[str, Any]]:
    """List what each module refines by, which the config of a head over a refined body does not
    say.
    """
    return [asdict(module.options) for module in model.modules() if isinstance(module, Refinement)]


def _identity(model: nn.Module, plan: Plan, classes: Any) -> str:
    """Hash what decides the numbers besides the inputs: weights, configuration, plan, classes of
    tokens.
    """
    digest = hashlib.blake2b(digest_size=16)
    config = {key: value for key, value in model.config.to_dict().items() if key != "_name_or_path"}
    facts = [type(model).__name__, config, _options(model), asdict(plan), classes and classes[0]]
    digest.update(json.dumps(facts, sort_keys=True, default=str).encode())
    tensors = (
        dict(model.state_dict())
        | dict(model.named_buffers())
        | ({"classes": classes[1]} if classes else {})
    )
    for name, tensor in tensors.items():
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
