"""Time the callback of the Trainer beside a step: `python benchmarks/attention_callback.py`.

Writes benchmarks/attention_callback.json: processor time of a training step of a small BERT, of one
measurement by `saobp.AttentionCallback`, and the share of training that it takes at one measurement
every 50 steps, on one thread.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import torch
import transformers as hf

import saobp
from companion.cost.timing import circumstances
from companion.records import device
from companion.setup.paths import write_text

SIZE = {
    "num_hidden_layers": 4,
    "hidden_size": 256,
    "num_attention_heads": 4,
    "intermediate_size": 1024,
    "vocab_size": 4096,
}
SEQUENCES, LONG, STEPS, EVERY = 32, 128, 7, 50
WARM_UP = 2


class Timed(saobp.AttentionCallback):
    """Measure after every step, and keep the time of steps and of measurements."""

    def __init__(self, trainer: hf.Trainer):
        super().__init__(trainer, every=1)
        self.steps, self.measurements = [], []

    def on_step_begin(self, args, state, control, **kwargs) -> None:
        """Start the clock of a step."""
        self.start = time.process_time()

    def on_step_end(self, args, state, control, **kwargs) -> None:
        """Stop it, and time the measurement."""
        end = time.process_time()
        super().on_step_end(args, state, control, **kwargs)
        self.steps.append(end - self.start)
        self.measurements.append(time.process_time() - end)


def trained(factor: str) -> Timed:
    """Train for some steps and return what was timed."""
    hf.set_seed(0)
    model = saobp.apply(hf.BertForMaskedLM(hf.BertConfig(**SIZE)), factor)
    ids = torch.randint(5, SIZE["vocab_size"], (SEQUENCES * STEPS, LONG))
    texts = [{"input_ids": row, "labels": row} for row in ids]
    with tempfile.TemporaryDirectory() as folder:
        arguments = hf.TrainingArguments(
            folder,
            max_steps=STEPS,
            per_device_train_batch_size=SEQUENCES,
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            save_strategy="no",
        )
        trainer = hf.Trainer(model, arguments, train_dataset=texts)
        trainer.remove_callback(hf.PrinterCallback)
        callback = Timed(trainer)
        trainer.add_callback(callback)
        trainer.train()
    return callback


def row(factor: str) -> dict[str, float | str]:
    """Return the medians of one training."""
    callback = trained(factor)
    step = statistics.median(callback.steps[WARM_UP:])
    measurement = statistics.median(callback.measurements[WARM_UP:])
    share = measurement / (EVERY * step)
    return {
        "factor": factor,
        "step_seconds": step,
        "measurement_seconds": measurement,
        "share": share,
    }


def main(path: Path) -> None:
    """Measure the plain and the refined model and write the numbers."""
    torch.set_num_threads(1)
    rows = [row(factor) for factor in ("none", "high")]
    for measured in rows:
        print(json.dumps(measured))
    size = {**SIZE, "sequences": SEQUENCES, "tokens": LONG}
    settings = {"device": device(), **circumstances(), "threads": 1, "every": EVERY, "model": size}
    write_text(path, json.dumps({**settings, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    main(parser.parse_args().out)
