"""The planned study of cost: BERT-Mini with High beside plain attention, in as many alternations as
the plan says.

One record per thread count and setting, on a machine that does nothing else: `python -m
companion.studies.cost.run`.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch

from companion.cost import timing, whole_model
from companion.paper.arithmetic import VOCABULARY
from companion.records import Run
from companion.studies.plan import Entry, Question, command
from companion.training import departures
from saobp.fused.tiled import native

MODEL, THREADS = "mini", (2, 1)
WAYS = ("original", "original_eager", "high")

# sequences, and tokens of each
SHAPES = ((1, 128), (8, 128), (32, 128), (1, 512))
SETTINGS = [
    whole_model.Setting("train", 32, 128),
    whole_model.Setting("train_no_dropout", 32, 128),
    *(whole_model.Setting("inference", *size) for size in SHAPES),
]


def passes() -> str:
    """Return how High is worked out: in "one call" that is compiled, or by "torch".

    An earlier record says "compiled" where the passes over tiles were, and torch made the products.
    """
    return "one call" if native.passes() else "torch"


def record(
    setting: whole_model.Setting, threads: int, rounds: int, path: Path, folder: Path
) -> None:
    """Time one setting (phase, sequences, length) with so many threads and write its record."""
    torch.set_num_threads(threads)
    phase, sequences, length = setting
    parameters = {
        "model": MODEL,
        "phase": phase,
        "sequences": sequences,
        "length": length,
        "threads": threads,
        "passes": passes(),
    }
    run = Run("alternations", study_name="cost", parameters=parameters)
    before = timing.circumstances()
    measurements = whole_model.timed(setting, MODEL, VOCABULARY, WAYS, rounds)
    ways = {way: {phase: numbers} for way, _, numbers in measurements}
    metrics = before | {"repeats": rounds, "ways": ways}
    apart = departures.cost(MODEL, sequences, length, rounds, VOCABULARY, phase)
    run.save(path, metrics, departures=apart)


def records_of(planned: Question) -> Iterator[Entry]:
    """Yield the records of the plan, those with most threads first."""
    for threads in THREADS:
        for setting in SETTINGS:
            phase, sequences, length = setting
            name = f"08-alternations-{phase}-{sequences}x{length}-{threads}"
            if passes() == "one call":
                name += "-one-call"
            yield name, partial(record, setting, threads, planned.primary.seeds), {}


if __name__ == "__main__":
    command("cost", Question, records_of)()
