"""The runs of the plan's section `spare`: one record per model, arm and strength.

`python -m companion.studies.spare.run [--plan FILE] [--out FOLDER] [--only PATTERN]`
"""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

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
from saobp.measure.command import show
from saobp.models import public

ORIGINAL = Arm(factor="none")
# tokens that the decoder reads at once
TOKENS_AT_ONCE = 1024


def put_on(model: nn.Module, arm: Arm, strength: float) -> None:
    """Refine a model as an arm says, with nothing left of what it was before."""
    factors.register()
    saobp.apply(model, arm.factor, strength, spare=arm.spare)


class Form(NamedTuple):
    """One arm of the plan at one strength; of the decoder with the lengths of its blocks."""

    name: str
    arm: Arm
    strength: float
    lengths: Sequence[int] = ()

    def record_name(self, model: str) -> str:
        """Return the name of the record of a model."""
        return f"spare-{model}-{self.name}" + (f"-{self.strength:g}" if self.strength else "")

    def started(self, model: str, task: str) -> records.Run:
        """Start the run of a model; its parameters tell it from every other one."""
        parameters = {"model": model, "arm": self.name, "factor": self.arm.factor}
        parameters |= {"strength": self.strength, "spare": self.arm.spare, "task": task}
        return records.Run("spare", study_name="spare", parameters=parameters)


def encoder_forms(design: Encoder) -> Iterator[Form]:
    """Yield plain attention, then all arms strength by strength."""
    yield Form("original", ORIGINAL, 0.0)
    for strength in design.strengths:
        for name, arm in design.arms.items():
            yield Form(name, arm, strength)
    for name, arm in design.exploratory.items():
        yield Form(name, arm, design.strengths[0])


def decoder_forms(design: Decoder) -> Iterator[Form]:
    """Yield plain attention, then the arms."""
    lengths = sorted(design.blocks, reverse=True)
    yield Form("original", ORIGINAL, 0.0, lengths)
    for arms, read in ((design.arms, lengths), (design.short_arms, lengths[-1:])):
        for strength in design.strengths:
            for name, arm in arms.items():
                yield Form(name, arm, strength, read)


def run_encoder(design: Encoder, form: Form, path: Path, folder: Path) -> dict[str, Any]:
    """Make the encoder's record of one arm: the cosine of every pair, and each set's score."""
    quiet()
    run = form.started("minilm", "similarity")
    source = sources.resolve("hub")
    sets = {task: similarity.load(task, limit, source) for task, limit in design.pairs.items()}
    model, tokenizer = public.load("minilm")
    put_on(model, form.arm, form.strength)
    cosines = similarity.cosines(model, tokenizer, sets)
    scores = {}
    for task, pairs in sets.items():
        rounded = np.round(cosines[task], 6)
        value = similarity.score(task, rounded, pairs.gold)
        scores[task] = {"score": value, "pairs": len(pairs.gold), "cosines": rounded.tolist()}
        show(f"{path.stem} {task} {value:.2f}")
    data = {"source": source.name, "splits": [pairs.split for pairs in sets.values()]}
    return run.save(
        path, {"sets": scores}, data=data, departures=[not_trained("minilm")], precision="fp32"
    )


def run_intervals(design: Encoder, path: Path, folder: Path) -> dict[str, Any]:
    """Make the encoder's record of changes against plain attention, of all arms, with intervals.

    Raises ValueError, one line, while the record of an arm is missing.
    """
    run = Form("all", ORIGINAL, 0.0).started("minilm", "intervals")
    source = sources.resolve("hub")
    sets = {task: similarity.load(task, limit, source) for task, limit in design.pairs.items()}
    gold = {task: pairs.gold for task, pairs in sets.items()}
    original, *refined = encoder_forms(design)
    plain = cosines_of(path, original)
    changes = []
    for form in refined:
        difference = similarity.differences(cosines_of(path, form), plain, gold)
        changes.append({"arm": form.name, "strength": form.strength, "sets": difference})
    data = {"source": source.name, "splits": [pairs.split for pairs in sets.values()]}
    return run.save(path, {"changes": changes}, data=data, precision="fp32")


def cosines_of(path: Path, form: Form) -> dict[str, np.ndarray]:
    """Read the cosines of an arm's record beside `path`; ValueError where it is not there yet."""
    file = path.with_name(f"{form.record_name('minilm')}.json")
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


def run_decoder(design: Decoder, form: Form, path: Path, folder: Path) -> dict[str, Any]:
    """Make the decoder's record of one arm: the loss of every block, by length."""
    quiet()
    run = form.started("smollm2", "loss")
    decoder, source = opened(), sources.resolve("hub")
    parts, splits = passages.stretches(design, source, decoder.tokenizer)
    put_on(decoder.model, form.arm, form.strength)
    blocks = {}
    for length in form.lengths:
        chosen = passages.blocks(design, parts, length)
        losses = block_losses(decoder.model, chosen)
        show(f"{path.stem} {length} {np.mean(losses):.4f}")
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


def records_of(study: Spare) -> Iterator[plan.Entry]:
    """Yield the records of the plan: each model's original and primary way first."""
    for form in encoder_forms(study.encoder):
        yield form.record_name("minilm"), partial(run_encoder, study.encoder, form), {}
    for form in decoder_forms(study.decoder):
        yield form.record_name("smollm2"), partial(run_decoder, study.decoder, form), {}
    yield "spare-minilm-intervals", partial(run_intervals, study.encoder), {}


if __name__ == "__main__":
    torch.set_num_threads(1)
    plan.command("spare", Spare, records_of)()
