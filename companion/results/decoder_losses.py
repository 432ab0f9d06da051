"""Rows of decoders: held-out loss, what messages of later rows leak, and answers without
fine-tuning.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import log

import numpy as np

from companion.paper import comparisons, numbers
from companion.records.schema import Record
from companion.results.row import CONTRAST, Endpoint, Row
from companion.results.study import Study
from companion.setup import labels
from companion.setup.sizes_and_strengths import LEAKY
from companion.setup.tasks_and_metrics import TASKS
from companion.statistics import Estimate, mean_interval, task_scores
from companion.statistics.seeds import metric, seed_gap

LOSS = Endpoint("log perplexity", "nats", -1, planned="primary")
BESIDE_PRINTED = Endpoint("log perplexity above the smallest printed fall", "nats", -1)
FULL_PASS = Endpoint("loss of the full pass", "nats")
PREFIXES = Endpoint("loss from prefixes alone", "nats")
LEAK = Endpoint("leak", "nats", of_what="sequences")
POSITIONS = Endpoint("positions that leak", "positions", of_what="positions")
PERPLEXITY = Endpoint("perplexity", "")
UNTRAINED = Endpoint("loss before training", "nats")
ACCURACY = Endpoint("zero-shot accuracy", "points", 1)
STRENGTH = Endpoint("strength of a decoder", "nats")
CONSTANT = Endpoint("decoders with one answer", "decoders", of_what="decoders")
# nats from which on a position leaks
LEAST_LEAK = 0.01
COMPARED = ("original", "high", LEAKY)


def rows(study: Study) -> Iterator[Row]:
    """Yield the rows of a study's decoders, one model after the other."""
    models = study.models("decoder")
    for model in models:
        runs = study.runs("decoder", model=model)
        suffix = f", {labels.model_title(model)}" if len(models) > 1 else ""
        for algorithm in ("high", LEAKY):
            estimate = seed_gap(runs, metric("perplexity"), (algorithm, "original"), log=True)
            if estimate is not None:
                contrast = f"{TITLES[algorithm]} − Original"
                yield study.row(LOSS.of(suffix), contrast, estimate, model)
                if algorithm == "high":
                    above = _above_printed(estimate)
                    yield study.row(BESIDE_PRINTED.of(suffix), CONTRAST, above, model)
        for algorithm in COMPARED:
            of_algorithm = [run for run in runs if run["parameters"]["algorithm"] == algorithm]
            if of_algorithm:
                yield from _levels(study, of_algorithm, suffix)
        strength = max(run["parameters"]["strength"] or 0 for run in runs)
        yield study.level(STRENGTH.of(suffix), "High", strength, model=model)
        for task in ("race", "boolq"):
            yield from _answers(study, runs, task, suffix)


def _above_printed(difference: Estimate) -> Estimate:
    """Return a difference of log perplexities minus the smallest fall that the paper prints."""
    fall = float(comparisons.perplexities(numbers.load())["fall"].min())
    low, high = difference.low + fall, difference.high + fall
    return replace(difference, value=difference.value + fall, low=low, high=high)


# the form of a decoder in a contrast: its title without brackets
TITLES = {"original": "Original", "high": "High", LEAKY: "High, all rows"}


def _levels(study: Study, runs: Sequence[Record], suffix: str) -> Iterator[Row]:
    """Yield what one form's decoders lose in the full pass and from prefixes alone, and the leak.

    The leak has an interval over the sequences of one model.
    """
    title = TITLES[runs[0]["parameters"]["algorithm"]]
    model = runs[0]["parameters"]["model"]
    losses = [log(run["metrics"]["perplexity"]) for run in runs]
    perplexity = np.exp(np.mean(losses))
    yield study.level(PERPLEXITY.of(suffix), title, perplexity, len(losses), model)
    start = runs[0]["metrics"]["curve"][0]
    yield study.level(UNTRAINED.of(suffix), title, start["loss"], 1)
    leaks = [run["metrics"]["leak"] for run in runs if run["metrics"].get("leak")]
    for endpoint, name in ((FULL_PASS, "full_pass"), (PREFIXES, "prefixes")):
        values = [leak[name] for leak in leaks]
        if values:
            yield study.level(endpoint.of(suffix), title, np.mean(values), len(values), model)
    if title == TITLES[LEAKY] and len(leaks) == 1:
        leak = mean_interval(leaks[0]["by_block"])
        yield study.row(LEAK.of(suffix), title, leak, model)
        positions = leaks[0].get("by_position") or []
        leaky = sum(position > LEAST_LEAK for position in positions)
        yield study.level(POSITIONS.of(suffix), title, leaky, len(positions), model)


def _answers(study: Study, runs: Sequence[Record], task: str, suffix: str) -> Iterator[Row]:
    """Yield High − Original on a task without fine-tuning, and how many decoders give one answer to
    all items.
    """
    model = runs[0]["parameters"]["model"]
    on_task = f" on {TASKS[task].title}{suffix}"
    accuracy = ACCURACY.of(on_task)
    estimate = seed_gap(runs, metric("tasks", task, "headline"))
    if estimate is not None:
        yield study.row(accuracy, CONTRAST, estimate, model)
    causal = [run for run in runs if run["parameters"]["algorithm"] != LEAKY]
    answers = task_scores.entries(causal, task)
    if answers:
        constant = sum(bool(answer["constant"]) for answer in answers)
        endpoint = CONSTANT.of(on_task)
        yield study.level(endpoint, "Original and High", constant, len(answers), model)
        majority = answers[0]["majority"]
        yield study.level(accuracy, "always the most frequent answer", majority)
