"""Measurements of training: convergence, perplexity of encoders and decoders, the strength by size,
and cost.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from math import exp, log

import numpy as np
import pandas as pd

from companion.beyond import plan
from companion.beyond import strengths as swept
from companion.paper.arithmetic import VOCABULARY
from companion.records import select
from companion.setup import labels
from companion.setup.sizes_and_strengths import SIZES, body_parameters
from companion.statistics import (
    Error,
    Estimate,
    borrow,
    mean_interval,
    median_interval,
    seed_variance,
)
from companion.statistics.seeds import SIDES, metric, seed_gaps
from companion.verdicts.claims_and_measurements import (
    PRINTED,
    SEEDS,
    STORIES,
    Ends,
    Measurement,
    measured,
)
from companion.verdicts.studies import ALONE, Studies, over_seeds

HELD_OUT = metric("perplexity")
# less than nothing: it lowers the loss
LEAK = "what the leak is worth (nats per token)"


def area(curve: Sequence[dict]) -> float | None:
    """Return the mean held-out loss over the steps, in nats; checks lie closer at the start
    (trapezoidal rule).
    """
    points = np.array(
        [(point["step"], point["loss"]) for point in curve if point.get("loss") is not None]
    )
    return (
        float(np.trapezoid(points[:, 1], points[:, 0]) / np.ptp(points[:, 0]))
        if len(points) > 1
        else None
    )


def convergence(studies: Studies) -> Iterator[Measurement]:
    """High − Original: real text by seeds; story text by sizes, whose few seeds share their
    text.
    """
    of_seeds = partial(over_seeds, studies, "pretrain", sides=SIDES)
    real = [
        *of_seeds(lambda run: area(run["metrics"].get("curve") or []), key="area", post_hoc=True)
    ]
    real += of_seeds(HELD_OUT, log=True, part="loss at the last step", key="end", aside=True)
    yield from (row for row in real if row.scope != STORIES)
    for record, pairs in _story_pairs(studies):
        row = partial(measured, "stories", "", runs=[record])
        means = pairs.groupby("model", sort=False)["area"].mean()
        facts = {
            "key": "area",
            "of": "size",
            "method": "Student's t over models, one mean per size",
        }
        text = "story text, learning rates and seeds of a size averaged"
        yield row(mean_interval(means.tolist()), text, post_hoc=True, **facts)
        for model in means.index if len(means) > 2 else ():
            found, without = (
                mean_interval(means.drop(model).tolist()),
                f"without {labels.model_title(model)}",
            )
            yield row(found, f"story text, {without}", aside=True, without=model, **facts)
        for column, text in (
            ("area", "story text, pairs"),
            ("end", "story text, pairs, loss at the last step"),
        ):
            facts = {
                "key": f"pairs_{column}",
                "of": "pair",
                "method": "Student's t over pairs",
                "aside": True,
            }
            yield row(mean_interval(pairs[column].tolist()), text, **facts)


def _story_pairs(studies: Studies) -> Iterator[tuple[dict, pd.DataFrame]]:
    """Yield each record of notebook 12 on story text, and its pairs of models with High and
    without.

    Of a pair: its model and learning rate, and the gaps of the mean loss over the steps ("area")
    and of the loss at the last one ("end"; that of the repetition where it takes the run's place,
    see `Studies.with_reruns`).
    """
    for record in studies.of("beyond").get("stories", []):
        if record["metrics"].get("larger"):
            runs = swept.by_size(record)
            reads = {
                "area": lambda run: area(run["curve"]),
                "end": lambda run: run.get("again", swept.end(run)),
            }
            found = {name: swept.pairs(runs, read) for name, read in reads.items()}
            gaps = {name: pairs["refined"] - pairs["plain"] for name, pairs in found.items()}
            yield record, pd.DataFrame({**found["end"][["model", "learning_rate"]], **gaps})


def convergence_by_size(studies: Studies) -> Iterator[Measurement]:
    """Mini − Medium of the paper's sizes on story text; one seed each, with the spread of the
    smaller models.
    """
    for record, pairs in _story_pairs(studies):
        cells = pairs.groupby("model")["area"].agg(list)
        # seeds of one recipe
        alike = pairs.groupby(["model", "learning_rate"], dropna=False)["area"].agg(list)
        if {"mini", "medium"} <= set(cells.index) and (alike.str.len() > 1).any():
            variance, freedom = seed_variance(alike.tolist())
            gap = float(np.mean(cells["mini"]) - np.mean(cells["medium"]))
            found = Estimate.of(gap, Error.of(float(np.sqrt(2 * variance)), freedom), 1)
            facts = {
                "method": "one seed each; spread over seeds borrowed from the smaller models",
                "post_hoc": True,
            }
            yield measured(
                "stories", "", found, "BERT-Mini − BERT-Medium, story text", runs=[record], **facts
            )


def regularizers(studies: Studies, against: dict[str, str]) -> Iterator[Measurement]:
    """Log perplexity on WikiText, High − each regulariser (by its printed name); on held-out
    training text aside.
    """
    for name, title in against.items():
        paper = studies.printed(3, "PPL_WikiText", ("BP-High", title), scale=log)
        compared = partial(over_seeds, studies, "pretrain", sides=("high", name), log=True)
        wikitext = metric("wikitext", "perplexity")
        yield from compared(wikitext, part=title, key=name, paper=lambda model, paper=paper: paper)
        yield from compared(
            HELD_OUT, part=f"{title}, held-out training text", key=f"{name}_held_out", aside=True
        )


def decoders(studies: Studies) -> Iterator[Measurement]:
    """Log perplexity, causal High − Original; a single seed borrows the spread of such decoders, or
    of its encoders.

    Beside it the form that reads later rows: what it gains, and what of that is the leak.
    """
    for study, model, runs in studies.cells("decoder"):
        own = [*seed_gaps(runs, HELD_OUT, log=True).values()]
        if not own:
            continue
        found, method = (
            _lent(studies, study, model, own) if len(own) == 1 else (mean_interval(own), SEEDS)
        )
        paper = studies.printed(7, "PPL_WikiText", scale=log, model=labels.published_model(model))
        causal = [run for run in runs if run["parameters"]["algorithm"] in SIDES]
        # before the plan named endpoint and margin
        seen = study not in plan.studies()
        yield measured(study, model, found, runs=causal, paper=paper, method=method, post_hoc=seen)
        uncut = seed_gaps(runs, HELD_OUT, ("high_all_rows", "original"), log=True)
        leaks = [-run["metrics"]["leak"]["leak"] for run in select(runs, algorithm="high_all_rows")]
        later = "High that reads later rows", [*uncut.values()]
        for key, (part, values) in {"high_all_rows": later, "leak": (LEAK, leaks)}.items():
            if values:
                facts = {
                    "key": key,
                    "runs": runs,
                    "paper": paper,
                    "aside": True,
                    "method": "control",
                }
                yield measured(study, model, mean_interval(values), part, **facts)


def _lent(studies: Studies, study: str, model: str, own: list[float]) -> tuple[Estimate, str]:
    """A single seed's difference with the spread of the same decoder in other studies, else of the
    study's encoders.
    """
    alike = [runs for _, other, runs in studies.cells("decoder") if other == model]
    encoders = [runs for name, _, runs in studies.cells("pretrain") if name == study]
    for runs, whose in (
        (alike, "such decoders of another study"),
        (encoders, "this study's encoders"),
    ):
        cells = [[*gaps.values()] for part in runs if (gaps := seed_gaps(part, HELD_OUT, log=True))]
        if max(map(len, cells), default=0) > 1:
            return borrow([own, *cells])[0], f"one seed; spread over seeds borrowed from {whose}"
    return mean_interval(own), ALONE


def strengths(studies: Studies) -> Iterator[Measurement]:
    """λ of Mini times its parameters over a size's, minus λ as printed: arithmetic, without a
    spread.
    """
    mini = SIZES["mini"].strength * body_parameters("mini", VOCABULARY)
    for size in ("small", "medium"):
        value = mini / body_parameters(size, VOCABULARY) - SIZES[size].strength
        exact: Ends = lambda level, value=value: (value, value)  # noqa: E731
        facts = {"of": "formula", "scope": PRINTED, "interval": exact, "method": "arithmetic"}
        yield measured("arithmetic", size, Estimate(value, value, value, 1), **facts)


def cost(studies: Studies, phase: str, to: str) -> Iterator[Measurement]:
    """Median ratio of a training step's times, round by round; to Original's kernel where that is a
    fused one.

    The planned study is of several thread counts, a part each.
    """
    timed = (
        studies.of("cost").items(),
        studies.of("alternations", phase=phase, passes="one call").items(),
    )
    for study, runs in chain(*timed):
        for run in runs:
            ways, model = run["metrics"]["ways"], run["parameters"]["model"]
            found = ways["high"][phase].get(to)
            if found and (to != "ratio" or ways["original"][phase].get("kernel")):
                keys = {"model": labels.published_model(model), "phase": "train"}
                paper = exp(studies.printed(9, "step_per_s (ms)", scale=log, **keys))
                estimate = median_interval(
                    found["low"], found["median"], found["high"], run["metrics"]["repeats"]
                )
                threads = run["parameters"].get("threads")
                part = labels.counted(threads, "thread") if threads else ""
                facts = {"of": "round", "method": "median, error from quartiles", "paper": paper}
                facts |= {"key": f"threads_{threads}" if threads else ""}
                yield measured(study, model, estimate, part, runs=[run], **facts)
