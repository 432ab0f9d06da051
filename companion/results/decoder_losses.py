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
from companion.statistics import Estimate, mean_interval
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
            found = seed_gap(runs, metric("perplexity"), (algorithm, "original"), log=True)
            if found is not None:
                named = replace(LOSS, name=LOSS.name + suffix)
                yield study.row(named, f"{TITLES[algorithm]} − Original", found, model)
                if algorithm == "high":
                    above = replace(BESIDE_PRINTED, name=BESIDE_PRINTED.name + suffix)
                    yield study.row(above, CONTRAST, _above_printed(found), model)
        for algorithm in COMPARED:
            own = [run for run in runs if run["parameters"]["algorithm"] == algorithm]
            if own:
                yield from _levels(study, own, suffix)
        strength = max(run["parameters"]["strength"] or 0 for run in runs)
        named = replace(STRENGTH, name=STRENGTH.name + suffix)
        yield study.level(named, "High", strength, model=model)
        for task in ("race", "boolq"):
            yield from _answers(study, runs, task, suffix)


def _above_printed(found: Estimate) -> Estimate:
    """Return a difference of log perplexities minus the smallest fall that the paper prints."""
    fall = float(comparisons.perplexities(numbers.load())["fall"].min())
    low, high = found.low + fall, found.high + fall
    return replace(found, value=found.value + fall, low=low, high=high)


# the form of a decoder in a contrast: its title without brackets
TITLES = {"original": "Original", "high": "High", LEAKY: "High, all rows"}


def _levels(study: Study, runs: Sequence[Record], suffix: str) -> Iterator[Row]:
    """Yield what one form's decoders lose in the full pass and from prefixes alone, and the leak.

    The leak has an interval over the sequences of one model.
    """
    title = TITLES[runs[0]["parameters"]["algorithm"]]
    model = runs[0]["parameters"]["model"]
    losses = [log(run["metrics"]["perplexity"]) for run in runs]
    perplexity = replace(PERPLEXITY, name=PERPLEXITY.name + suffix)
    yield study.level(perplexity, title, np.exp(np.mean(losses)), len(losses), model)
    start = runs[0]["metrics"]["curve"][0]
    yield study.level(replace(UNTRAINED, name=UNTRAINED.name + suffix), title, start["loss"], 1)
    leaks = [run["metrics"]["leak"] for run in runs if run["metrics"].get("leak")]
    for endpoint, name in ((FULL_PASS, "full_pass"), (PREFIXES, "prefixes")):
        values = [leak[name] for leak in leaks]
        if values:
            named = replace(endpoint, name=endpoint.name + suffix)
            yield study.level(named, title, np.mean(values), len(values), model)
    if title == TITLES[LEAKY] and len(leaks) == 1:
        named = replace(LEAK, name=LEAK.name + suffix)
        yield study.row(named, title, mean_interval(leaks[0]["by_block"]), model)
        positions = leaks[0].get("by_position") or []
        leaky = sum(position > LEAST_LEAK for position in positions)
        named = replace(POSITIONS, name=POSITIONS.name + suffix)
        yield study.level(named, title, leaky, len(positions), model)


def _answers(study: Study, runs: Sequence[Record], task: str, suffix: str) -> Iterator[Row]:
    """Yield High − Original on a task without fine-tuning, and how many decoders give one answer to
    all items.
    """
    model = runs[0]["parameters"]["model"]
    title = TASKS[task].title
    found = seed_gap(runs, metric("tasks", task, "headline"))
    if found is not None:
        named = replace(ACCURACY, name=f"{ACCURACY.name} on {title}{suffix}")
        yield study.row(named, CONTRAST, found, model)
    causal = [run for run in runs if run["parameters"]["algorithm"] != LEAKY]
    answers = [
        tasks[task] for run in causal if task in (tasks := run["metrics"].get("tasks") or {})
    ]
    if answers:
        constant = sum(bool(answer["constant"]) for answer in answers)
        named = replace(CONSTANT, name=f"{CONSTANT.name} on {title}{suffix}")
        yield study.level(named, "Original and High", constant, len(answers), model)
        yield study.level(
            replace(ACCURACY, name=f"{ACCURACY.name} on {title}{suffix}"),
            "always the most frequent answer",
            answers[0]["majority"],
        )
