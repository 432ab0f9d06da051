"""The planned study of cost: BERT-Mini with High beside plain attention, in as many alternations as the plan says.

One record per thread count and setting, on a machine that does nothing else: `python -m saobp.study.cost.alternations`.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from saobp.fused import native
from saobp.study.beyond.plan import Make, Question, command
from saobp.study.cost import timing, whole_model
from saobp.study.paper.arithmetic import VOCABULARY
from saobp.study.setup.records import Run

MODEL, THREADS = "mini", (2, 1)
WAYS = ("original", "original_eager", "high")


@dataclass(frozen=True)
class Setting:
    """What is timed: one of `whole_model.PHASES` on so many sequences of so many tokens."""

    phase: str
    sequences: int
    length: int


SETTINGS = (
    Setting("train", 32, 128),
    Setting("train_no_dropout", 32, 128),
    *(Setting("inference", *size) for size in ((1, 128), (8, 128), (32, 128), (1, 512))),
)


def passes(setting: Setting) -> str:
    """Return who takes the passes over High's tiles: "compiled" (`saobp.fused.native`) or "torch", as with dropout."""
    return "compiled" if setting.phase != "train" and native.library() else "torch"


def measure(setting: Setting, rounds: int, model: str = MODEL) -> dict[str, dict[str, Any]]:
    """Time every one of the `WAYS` in turns: way -> phase -> what `whole_model.measure` gives, without memory."""
    inputs = whole_model.batch(setting.sequences, setting.length, VOCABULARY, timing.place())
    dropout, training = whole_model.PHASES[setting.phase], setting.phase != "inference"
    networks = {way: whole_model.build(model, VOCABULARY, way, dropout=dropout).to(timing.place()) for way in WAYS}
    calls = {way: whole_model.call_of(setting.phase, network, inputs) for way, network in networks.items()}
    ways = {}
    for way, found in timing.interleaved(calls, rounds, against=WAYS[:2]).items():
        rates = whole_model.rates(found, setting.sequences, setting.length, training)
        ways[way] = {setting.phase: rates | {"kernel": timing.attention_kernel(calls[way])}}
    return ways


def record(setting: Setting, threads: int, rounds: int, path: Path, folder: Path) -> None:
    """Measure one setting with so many threads and write its record."""
    torch.set_num_threads(threads)
    given = {"model": MODEL, **asdict(setting), "threads": threads, "passes": passes(setting)}
    run = Run("alternations", profile="cost", parameters=given)
    before = timing.circumstances()
    run.save(path, before | {"repeats": rounds, "ways": measure(setting, rounds)})


def records_of(planned: Question) -> Iterator[tuple[str, Make]]:
    """Yield the records of the plan, those with most threads first."""
    for threads in THREADS:
        for one in SETTINGS:
            name = f"08-alternations-{one.phase}-{one.sequences}x{one.length}-{threads}"
            name += "-compiled" * (passes(one) == "compiled")
            yield name, partial(record, one, threads, planned.primary.seeds)


if __name__ == "__main__":
    command("cost", Question, records_of)
