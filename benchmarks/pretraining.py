"""Time whole pretraining steps of BERT-Mini: transformers' stock recipe, ours plain, ours with
High, in turns.

`python benchmarks/pretraining.py` writes benchmarks/pretraining.json. Stock is Trainer with
DataCollatorForLanguageModeling, BertForMaskedLM with vocabulary logits at every position, float32.
All three read the same sequences of the story world and have BERT's 30,522 words in their
vocabulary head.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import torch
from transformers import (
    BertForMaskedLM,
    DataCollatorForLanguageModeling,
    PrinterCallback,
    Trainer,
    TrainerCallback,
)

from companion.cost.timing import THREADS, circumstances
from companion.data import sources
from companion.data.masking import SeededMasking
from companion.paper.arithmetic import VOCABULARY
from companion.records import device
from companion.setup.paths import write_text
from companion.setup.studies import Pretraining, load_study
from companion.training import architectures, pretraining
from companion.training import trainer as training
from companion.training.watch import Progress, StopAtNaN

STEPS, SKIPPED, TURNS = 8, 2, 7
RECIPE = Pretraining(
    length=128,
    batch=32,
    steps=STEPS,
    learning_rate=1e-4,
    warmup=0,
    save_every=10_000,
    precision="fp32",
)
WAYS = ("stock", "original", "high")


class Clock(TrainerCallback):
    """Notes when each step ended."""

    def __init__(self):
        self.ends = []

    def on_step_end(self, args, state, control, **kwargs):
        """Note the time."""
        self.ends.append(time.perf_counter())


def trainer(way: str, text: torch.utils.data.Dataset, tokenizer) -> Trainer:
    """Return a Trainer of one way, its weights the same as the others'."""
    torch.manual_seed(0)
    special = architectures.special_tokens(tokenizer)
    config = architectures.bert_config(architectures.SIZES["mini"], VOCABULARY, **special)
    if way == "stock":
        network, collator = (
            BertForMaskedLM(config),
            DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15),
        )
    else:
        network = architectures.refine_with(architectures.SparseBertForMaskedLM(config), way, 0.2)
        collator = SeededMasking(tokenizer, 0.15, 0)
    arguments = training.arguments(RECIPE, Path(tempfile.gettempdir()) / "saobp-benchmark", 0)
    arguments.save_strategy = "no"
    # as in a run
    ours = [] if way == "stock" else [StopAtNaN(Path(arguments.output_dir)), Progress(way)]
    made = Trainer(
        network, args=arguments, train_dataset=text, data_collator=collator, callbacks=ours
    )
    made.remove_callback(PrinterCallback)
    return made


def seconds_a_step(made: Trainer) -> float:
    """Train a few steps and return the median time of one; the first do not count."""
    clock = Clock()
    made.add_callback(clock)
    made.train()
    ends = clock.ends[SKIPPED - 1 :]
    return statistics.median(later - earlier for earlier, later in zip(ends, ends[1:]))


def seconds_a_batch(made: Trainer, batches: int = 20) -> float:
    """Time the loader alone: reading sequences and masking them."""
    loader = iter(made.get_train_dataloader())
    next(loader)
    start = time.perf_counter()
    for _ in range(batches):
        next(loader)
    return (time.perf_counter() - start) / batches


def measure() -> dict:
    """Time all ways in turns; a ratio is the median of the turns' ratios."""
    study = load_study("smoke").changed(pretrain=RECIPE, beyond=None)
    tokenizer, text, _ = pretraining.texts(study, "mini", sources.resolve("synthetic"))
    spent = {way: [] for way in WAYS}
    for turn in range(TURNS):
        for way in WAYS[turn % 3 :] + WAYS[: turn % 3]:
            spent[way].append(seconds_a_step(trainer(way, text, tokenizer)))
    tokens, loading = (
        RECIPE.batch * RECIPE.length,
        seconds_a_batch(trainer("high", text, tokenizer)),
    )

    def ratio(above: str, below: str) -> dict[str, float]:
        values = [a / b for a, b in zip(spent[above], spent[below])]
        return {"median": statistics.median(values), "low": min(values), "high": max(values)}

    return {
        "batch": [RECIPE.batch, RECIPE.length],
        "vocabulary": VOCABULARY,
        "precision": RECIPE.precision,
        "turns": TURNS,
        "tokens_per_second": {
            way: tokens / statistics.median(times) for way, times in spent.items()
        },
        "original_over_stock": ratio("stock", "original"),
        "high_over_original": ratio("original", "high"),
        "loading_share_of_a_step": loading / statistics.median(spent["original"]),
    }


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    options = parser.parse_args()
    torch.set_num_threads(THREADS)
    training.quiet()
    text = json.dumps({"device": device(), **circumstances(), **measure()}, indent=1)
    write_text(options.out, text + "\n")
    print(text)


if __name__ == "__main__":
    main()
