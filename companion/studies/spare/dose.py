"""The runs of the plan's section `dose`: one record per model and strength, at every length.

`python -m companion.studies.spare.dose [--plan FILE] [--out FOLDER] [--only PATTERN]`
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from companion import records
from companion.data import sources
from companion.studies import plan
from companion.studies.retrofit.inserted import opened
from companion.studies.spare import passages
from companion.studies.spare.run import ORIGINAL, not_trained, put_on
from companion.studies.spare.sections import Arm, Decoder, Dose, Spare
from companion.training.trainer import quiet
from saobp.measure.command import show
from saobp.measure.gtd_and_entropy import attention_entropy, column_mass_maximum
from saobp.models import public
from saobp.models.apply import raw_attentions

HIGH = Arm(factor="high")


def attention_cell(model: nn.Module, tokens: Tensor) -> tuple[Any, dict[str, list[float]]]:
    """Return a model's output and, by layer, the refined matrices' largest column sum and entropy.

    Means over the sequences and heads.
    """
    with raw_attentions(model) as pairs:
        output = model(input_ids=tokens)
    refined = [pair[1] for pair in pairs]
    sums = [column_mass_maximum(layer).mean().item() for layer in refined]
    entropies = [attention_entropy(layer).mean().item() for layer in refined]
    return output, {"sink_by_layer": sums, "entropy_by_layer": entropies}


def loss(output: Any, tokens: Tensor) -> float:
    """Return a decoder's loss on sequences, in nats per predicted token."""
    predicted = output.logits[:, :-1].transpose(1, 2).float()
    return functional.cross_entropy(predicted, tokens[:, 1:]).item()


def pooled(output: Any) -> Tensor:
    """Return (sequence, width), the mean of an encoder's last hidden states."""
    return output.last_hidden_state.mean(1)


@torch.inference_mode()
def decoder_cells(model: nn.Module, batches: list[Tensor], strength: float) -> list[dict[str, Any]]:
    """Return each passage's cell at one length: the attention, and the loss."""
    put_on(model, HIGH if strength else ORIGINAL, strength)
    cells = []
    for tokens in batches:
        output, cell = attention_cell(model, tokens)
        cells.append(cell | {"harm": loss(output, tokens)})
    return cells


@torch.inference_mode()
def encoder_cells(model: nn.Module, batches: list[Tensor], strength: float) -> list[dict[str, Any]]:
    """Return each passage's cell at one length: the attention, and 1 - cosine with the original."""
    put_on(model, ORIGINAL, 0.0)
    plain = [pooled(model(input_ids=tokens)) for tokens in batches]
    put_on(model, HIGH if strength else ORIGINAL, strength)
    cells = []
    for tokens, before in zip(batches, plain):
        output, cell = attention_cell(model, tokens)
        cosine = functional.cosine_similarity(pooled(output), before).mean().item()
        cells.append(cell | {"harm": 1 - cosine})
    return cells


MODELS: dict[str, Callable[..., list[dict[str, Any]]]] = {
    "minilm": encoder_cells,
    "smollm2": decoder_cells,
}


def run(
    study: Dose, texts: Decoder, model: str, strength: float, path: Path, folder: Path
) -> dict[str, Any]:
    """Make one model's record at one strength: a cell per length and passage."""
    quiet()
    parameters = {"model": model, "factor": "high" if strength else "none", "strength": strength}
    started = records.Run("dose", study_name="spare", parameters=parameters)
    source = sources.resolve("hub")
    network, tokenizer, note = opened_model(model)
    parts, splits = passages.stretches(texts, source, tokenizer)
    chosen = passages.dose_passages(parts, study.passages[model])
    marks = None
    if model == "minilm":
        marks = (tokenizer.cls_token_id, tokenizer.sep_token_id)
    cells = []
    for length in study.lengths:
        batches = [torch.tensor(passages.pieces(part.tokens, length, marks)) for part in chosen]
        of_length = MODELS[model](network, batches, strength)
        cells += [{"length": length, "passage": n} | cell for n, cell in enumerate(of_length)]
        harm = np.mean([cell["harm"] for cell in of_length])
        show(f"{path.stem} {length} {harm:.4f}")
    metrics = {"cells": cells, "sources": [part.source for part in chosen]}
    data = {"source": source.name, "splits": splits}
    departures = [not_trained(model, note)]
    return started.save(path, metrics, data=data, departures=departures, precision="fp32")


def opened_model(name: str) -> tuple[nn.Module, Any, str]:
    """Return a public model, its tokenizer, and what to say of its weights."""
    if name == "minilm":
        return *public.load(name), ""
    decoder = opened()
    return decoder.model, decoder.tokenizer, decoder.note


def records_of(study: Dose, texts: Decoder) -> Iterator[plan.Entry]:
    """Yield the records of the plan: each model's at every strength, the original first."""
    for model in study.passages:
        for strength in (0.0, *study.strengths):
            make = partial(run, study, texts, model, strength)
            yield f"dose-{model}-{strength:g}", make, {}


def planned(study: Dose) -> Iterator[plan.Entry]:
    """Yield the records of the plan in force, on the texts of its section `spare`."""
    yield from records_of(study, plan.section(plan.file(), "spare", Spare).decoder)


if __name__ == "__main__":
    torch.set_num_threads(1)
    plan.command("dose", Dose, planned)()
