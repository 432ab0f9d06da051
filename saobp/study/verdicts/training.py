"""Measurements of training: convergence, perplexity of encoders and decoders, and the strength by size."""

from collections.abc import Iterator, Sequence
from functools import partial
from math import log, nan

import numpy as np

from saobp.study.beyond.strengths import by_size
from saobp.study.paper.numbers import Published
from saobp.study.setup import labels
from saobp.study.setup.records import select
from saobp.study.setup.sizes_and_strengths import SIZES, body_parameters
from saobp.study.statistics import Error, Estimate, borrow, mean_interval, median_interval, seed_variance
from saobp.study.statistics.seeds import metric, seed_gaps
from saobp.study.verdicts.claims_and_measurements import PRINTED, SEEDS, STORIES, Ends, Measurement, measured
from saobp.study.verdicts.studies import Studies, difference

HELD_OUT, TOKENS = metric("perplexity"), metric("token_perplexity")
VOCABULARY = 30_522  # of BERT, as Table 4 counts
LEAK = "what the leak is worth (nats per token)"  # less than nothing: it lowers the loss


def area(curve: Sequence[dict]) -> float | None:
    """Return the mean held-out loss over the steps, in nats; checks lie closer at the start (trapezoidal rule)."""
    points = np.array([(point["step"], point["loss"]) for point in curve if point.get("loss") is not None])
    return float(np.trapezoid(points[:, 1], points[:, 0]) / np.ptp(points[:, 0])) if len(points) > 1 else None


def convergence(studies: Studies) -> list[Measurement]:
    """High − Original: real text by seeds; story text by sizes, whose few seeds share their text."""
    real = difference(studies, "pretrain", lambda run: area(run["metrics"].get("curve") or []), post_hoc=True)
    real += difference(studies, "pretrain", HELD_OUT, log=True, part="loss at the last step", aside=True)
    rows = [row for row in real if row.scope != STORIES]
    for record, pairs in _story_pairs(studies):
        row = partial(measured, "stories", "", records=(record,))
        by_size = {model: np.mean([gap for gap, _ in found]) for model, found in pairs.items()}
        facts = {"of": "sizes", "method": "Student's t over models, one mean per size"}
        text = "story text, learning rates and seeds of a size averaged"
        rows.append(row(mean_interval([*by_size.values()]), text, post_hoc=True, **facts))
        for model in by_size if len(by_size) > 2 else ():
            without = labels.model_title(model)
            found = mean_interval([gap for other, gap in by_size.items() if other != model])
            rows.append(row(found, f"story text, without {without}", aside=True, without=without, **facts))
        each = zip(*(gaps for found in pairs.values() for gaps in found))
        for gaps, text in zip(each, ("story text, pairs", "story text, pairs, loss at the last step")):
            facts = {"of": "pairs", "method": "Student's t over pairs", "aside": True}
            rows.append(row(mean_interval(gaps), text, **facts))
    return rows


def _story_pairs(studies: Studies) -> Iterator[tuple[str, dict[str, list[tuple[float, float]]]]]:
    """Yield the pairs of models with High and without that notebook 12 trained: record, model -> gaps.

    The gaps of a pair: of the mean over the steps, and of the loss at the last one (that of the repetition where it
    takes the run's place, see `Studies.with_reruns`).
    """
    for record in studies.of("beyond").get("stories", []):
        pairs = {}
        if record["metrics"].get("larger"):
            runs = by_size(record)
            keys = [(run["model"], run["seed"], run.get("learning_rate")) for run in runs]
            plain = {key: run for key, run in zip(reversed(keys), reversed(runs)) if run["strength"] == 0.0}
            for key, run in zip(keys, runs):
                if run["strength"] and run["curve"] and key in plain:
                    sides = [(area(of["curve"]), of.get("again", of["curve"][-1]["loss"])) for of in (run, plain[key])]
                    pairs.setdefault(run["model"], []).append(tuple(np.subtract(*sides).tolist()))
            yield record["name"], pairs


def convergence_by_size(studies: Studies) -> list[Measurement]:
    """Mini − Medium of the paper's sizes on story text; one seed each, with the spread of the smaller models."""
    rows = []
    for record, pairs in _story_pairs(studies):
        cells = [[gap for gap, _ in found] for found in pairs.values()]
        if {"mini", "medium"} <= set(pairs) and any(len(cell) > 1 for cell in cells):
            variance, freedom = seed_variance(cells)
            mini, medium = (float(np.mean([gap for gap, _ in pairs[model]])) for model in ("mini", "medium"))
            found = Estimate(mini - medium, nan, nan, 1, error=Error(((float(np.sqrt(2 * variance)), freedom),)))
            facts = {"method": "one seed each; spread over seeds borrowed from the smaller models", "post_hoc": True}
            facts |= {"part": "BERT-Mini − BERT-Medium, story text", "records": (record,)}
            rows.append(measured("stories", "", found, **facts))
    return rows


def regularizers(studies: Studies, against: dict[str, str]) -> list[Measurement]:
    """Log perplexity on WikiText, High − each regulariser (by its printed name); on held-out training text aside."""
    rows = []
    for name, title in against.items():

        def paper(paper: Published, size: str, title: str = title) -> float:
            high, other = (paper.value(3, algorithm=side, metric="PPL_WikiText") for side in ("BP-High", title))
            return log(high / other)

        compared = partial(difference, studies, "pretrain", sides=("high", name), log=True)
        rows += compared(lambda run: (run["metrics"].get("wikitext") or {}).get("perplexity"), part=title, paper=paper)
        rows += compared(HELD_OUT, part=f"{title}, held-out training text", aside=True)
    return rows


def decoders(studies: Studies) -> list[Measurement]:
    """Log perplexity, causal High − Original; a single seed borrows the spread of the study's encoders.

    Beside it the form that reads later rows: what it gains, and what of that is the leak.
    """
    rows = []
    for study, model, runs in studies.cells("decoder", decoders=True):
        own = [*seed_gaps(runs, TOKENS, log=True).values()]
        if not own:
            continue
        encoders = [*seed_gaps(studies.of("pretrain").get(study, []), HELD_OUT, log=True).values()]
        found, method = mean_interval(own), SEEDS
        if len(own) == 1:
            found = borrow([own, encoders], [0.0, 0.0])[0] if len(encoders) > 1 else found
            method = "one seed; spread over seeds borrowed from this study's encoders"
        keys = {"model": labels.published_model(model), "metric": "PPL_WikiText"}
        printed = (log(studies.paper.value(7, algorithm=side, **keys)) for side in ("High", "Original"))
        facts = {"paper": float(np.subtract(*printed)), "records": tuple(run["name"] for run in runs)}
        rows.append(measured(study, model, found, method=method, **facts))
        uncut = seed_gaps(runs, TOKENS, ("high_all_rows", "original"), log=True)
        leaks = [-run["metrics"]["leak"]["leak"] for run in select(runs, algorithm="high_all_rows")]
        parts = {"High that reads later rows": [*uncut.values()], LEAK: leaks}
        for part, values in parts.items():
            if values:
                rows.append(measured(study, model, mean_interval(values), part, aside=True, method="control", **facts))
    return rows


def strengths(studies: Studies) -> list[Measurement]:
    """λ of Mini times its parameters over a size's, minus λ as printed: arithmetic, without a spread."""
    mini, facts = SIZES["mini"].strength * body_parameters("mini", VOCABULARY), {"of": "formulas"}
    rows = []
    for size in ("small", "medium"):
        value = mini / body_parameters(size, VOCABULARY) - SIZES[size].strength
        exact: Ends = lambda level, value=value: (value, value)  # noqa: E731
        facts |= {"scope": PRINTED, "interval": exact, "method": "arithmetic"}
        rows.append(measured("arithmetic", size, Estimate(value, value, value, 1), **facts))
    return rows


def cost(studies: Studies, phase: str, to: str) -> list[Measurement]:
    """Median ratio of a training step's times, round by round, with the interval of the median.

    Where the ratio is that to Original's kernel, that kernel must be a fused one. The planned study is of several
    thread counts, a part each.
    """
    rows, timed = [], [*studies.of("cost").items(), *studies.of("alternations", phase=phase, passes="one call").items()]
    for study, runs in timed:
        for run in runs:
            ways, model = run["metrics"]["ways"], run["parameters"]["model"]
            found = ways["high"][phase].get(to)
            if found and (to != "ratio" or ways["original"][phase].get("kernel")):
                keys = {"model": labels.published_model(model), "phase": "train", "metric": "step_per_s (ms)"}
                high, original = (studies.paper.value(9, algorithm=side, **keys) for side in ("High", "Original"))
                estimate = median_interval(found["low"], found["median"], found["high"], run["metrics"]["repeats"])
                facts = {"of": "rounds", "method": "median, error from quartiles", "records": (run["name"],)}
                if threads := run["parameters"].get("threads"):
                    facts |= {"part": f"{threads} thread{'s' * (threads > 1)}"}
                rows.append(measured(study, model, estimate, paper=high / original, **facts))
    return rows
