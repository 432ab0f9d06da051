"""The runs of the plan's section `spare`: one record per model, arm and strength.

`python -m companion.studies.spare.run [--plan FILE] [--out FOLDER] [--only PATTERN]`
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

import saobp
from companion import records
from companion.data import sources
from companion.studies import plan
from companion.studies.retrofit.inserted import opened
from companion.studies.spare import factors, passages, similarity
from companion.studies.spare.sections import Arm, Decoder, Encoder, Spare
from companion.training.departures import differs
from companion.training.trainer import quiet
from saobp.models import public

ORIGINAL = Arm(factor="none")
# tokens that the decoder reads at once
TOKENS_AT_ONCE = 1024


def put_on(model: nn.Module, arm: Arm, strength: float) -> None:
    """Refine a model as an arm says, with nothing left of what it was before."""
    factors.register()
    saobp.apply(model, arm.factor, strength, spare=arm.spare)


def started(model: str, name: str, arm: Arm, strength: float, task: str) -> records.Run:
    """Start the run of one arm; its parameters tell it from every other one."""
    parameters = {"model": model, "arm": name, "factor": arm.factor, "strength": strength}
    parameters |= {"spare": arm.spare, "task": task}
    return records.Run("spare", study_name="spare", parameters=parameters)


def encoder_arms(design: Encoder) -> Iterator[tuple[str, Arm, float]]:
    """Yield (name, arm, strength): plain attention, then all arms strength by strength."""
    yield "original", ORIGINAL, 0.0
    for strength in design.strengths:
        yield from ((name, arm, strength) for name, arm in design.arms.items())
    yield from ((name, arm, design.strengths[0]) for name, arm in design.exploratory.items())


def decoder_arms(design: Decoder) -> Iterator[tuple[str, Arm, float, list[int]]]:
    """Yield (name, arm, strength, lengths of its blocks): plain attention, then the arms."""
    lengths = sorted(design.blocks, reverse=True)
    yield "original", ORIGINAL, 0.0, lengths
    for strength in design.strengths:
        yield from ((name, arm, strength, lengths) for name, arm in design.arms.items())
    for strength in design.strengths:
        yield from ((name, arm, strength, lengths[-1:]) for name, arm in design.short_arms.items())


def run_encoder(
    design: Encoder, name: str, arm: Arm, strength: float, path: Path, folder: Path
) -> dict[str, Any]:
    """Make the encoder's record of one arm: the cosine of every pair, and each set's score."""
    quiet()
    run = started("minilm", name, arm, strength, "similarity")
    source = sources.resolve("hub")
    sets = {task: similarity.load(task, limit, source) for task, limit in design.pairs.items()}
    model, tokenizer = public.load("minilm")
    put_on(model, arm, strength)
    cosines = similarity.cosines(model, tokenizer, sets)
    scores = {}
    for task, pairs in sets.items():
        rounded = np.round(cosines[task], 6)
        value = similarity.score(task, rounded, pairs.gold)
        scores[task] = {"score": value, "pairs": len(pairs.gold), "cosines": rounded.tolist()}
        print(path.stem, task, f"{value:.2f}", flush=True)
    data = {"source": source.name, "splits": [pairs.split for pairs in sets.values()]}
    return run.save(
        path, {"sets": scores}, data=data, departures=[not_trained("minilm")], precision="fp32"
    )


def run_intervals(design: Encoder, path: Path, folder: Path) -> dict[str, Any]:
    """Make the encoder's record of changes against plain attention, of all arms, with intervals.

    Raises ValueError, one line, while the record of an arm is missing.
    """
    run = started("minilm", "all", ORIGINAL, 0.0, "intervals")
    source = sources.resolve("hub")
    sets = {task: similarity.load(task, limit, source) for task, limit in design.pairs.items()}
    gold = {task: pairs.gold for task, pairs in sets.items()}
    plain, *others = encoder_arms(design)
    plain_cosines = cosines_of(path, plain)
    changes = []
    for name, arm, strength in others:
        cosines = cosines_of(path, (name, arm, strength))
        difference = similarity.differences(cosines, plain_cosines, gold)
        changes.append({"arm": name, "strength": strength, "sets": difference})
    data = {"source": source.name, "splits": [pairs.split for pairs in sets.values()]}
    return run.save(path, {"changes": changes}, data=data, precision="fp32")


def cosines_of(path: Path, arm: tuple[str, Arm, float]) -> dict[str, np.ndarray]:
    """Read the cosines of an arm's record beside `path`; ValueError where it is not there yet."""
    file = path.with_name(f"{encoder_name(*arm)}.json")
    if not file.is_file():
        raise ValueError(f"{file}: not there yet; intervals need every arm: run it first")
    sets = records.read(file)["metrics"]["sets"]
    return {task: np.array(each["cosines"]) for task, each in sets.items()}


@torch.inference_mode()
def block_losses(model: nn.Module, blocks: list[passages.Stretch]) -> list[float]:
    """Return the loss of each block, in nats per predicted token."""
    length = len(blocks[0].tokens)
    at_once = max(1, TOKENS_AT_ONCE // length)
    losses = []
    for start in range(0, len(blocks), at_once):
        tokens = torch.tensor([block.tokens for block in blocks[start : start + at_once]])
        logits = model(input_ids=tokens.to(model.device), use_cache=False).logits
        predicted = logits[:, :-1].transpose(1, 2).float()
        target = tokens[:, 1:].to(model.device)
        loss = functional.cross_entropy(predicted, target, reduction="none")
        losses += loss.mean(-1).tolist()
    return losses


def run_decoder(
    design: Decoder,
    name: str,
    arm: Arm,
    strength: float,
    lengths: list[int],
    path: Path,
    folder: Path,
) -> dict[str, Any]:
    """Make the decoder's record of one arm: the loss of every block, by length."""
    quiet()
    run = started("smollm2", name, arm, strength, "loss")
    decoder, source = opened(), sources.resolve("hub")
    parts, splits = passages.stretches(design, source, decoder.tokenizer)
    put_on(decoder.model, arm, strength)
    blocks = {}
    for length in lengths:
        chosen = passages.blocks(design, parts, length)
        losses = block_losses(decoder.model, chosen)
        print(path.stem, length, f"{np.mean(losses):.4f}", flush=True)
        blocks[str(length)] = {"losses": losses, "sources": [block.source for block in chosen]}
    return run.save(
        path,
        {"blocks": blocks},
        data={"source": source.name, "splits": splits},
        departures=[not_trained("smollm2", decoder.note)],
        precision="fp32",
    )


def not_trained(model: str, note: str = "") -> dict[str, Any]:
    """Return the departure that a public model stands in for one that was pretrained refined."""
    title = {"minilm": "all-MiniLM-L6-v2", "smollm2": "SmolLM2-135M-Instruct"}[model]
    words = ", ".join(filter(None, (title, note, "not trained any further")))
    return differs("model", words, "pretrained with it")


def encoder_name(name: str, arm: Arm, strength: float) -> str:
    """Return the name of the record of an arm of the encoder."""
    return arm_name("minilm", name, strength)


def arm_name(model: str, name: str, strength: float) -> str:
    """Return the name of the record of an arm of a model."""
    return f"spare-{model}-{name}" + (f"-{strength:g}" if strength else "")


def records_of(study: Spare) -> Iterator[plan.Entry]:
    """Yield the records of the plan: each model's original and primary way first."""
    for name, arm, strength in encoder_arms(study.encoder):
        make = partial(run_encoder, study.encoder, name, arm, strength)
        yield arm_name("minilm", name, strength), make, {}
    for name, arm, strength, lengths in decoder_arms(study.decoder):
        make = partial(run_decoder, study.decoder, name, arm, strength, lengths)
        yield arm_name("smollm2", name, strength), make, {}
    yield "spare-minilm-intervals", partial(run_intervals, study.encoder), {}


if __name__ == "__main__":
    torch.set_num_threads(1)
    plan.command("spare", Spare, records_of)()
