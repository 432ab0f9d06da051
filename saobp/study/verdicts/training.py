"""Measurements of training: convergence, perplexity of encoders and decoders, and the strength by size."""

from collections.abc import Sequence
from functools import partial
from math import log

import numpy as np

from saobp.study.setup import labels, sizes
from saobp.study.setup.records import select
from saobp.study.statistics import Error, Estimate, borrow, mean_interval, seed_variance
from saobp.study.verdicts.model import PRINTED, STORIES, Measurement, ends, measured, scope_of
from saobp.study.verdicts.studies import Record, Studies, over_seeds, seed_gaps

VOCABULARY = 30_522  # of BERT, as Table 4 counts
BY_SIZE = "Student's t over models, one mean per size"


def area(curve: Sequence[dict]) -> float | None:
    """Return the mean held-out loss over the steps, in nats; checks lie closer at the start (trapezoidal rule)."""
    points = [(point["step"], point["loss"]) for point in curve if point.get("loss") is not None]
    steps, losses = np.array(points).T if len(points) > 1 else ([], [])
    return float(np.trapezoid(losses, steps) / np.ptp(steps)) if len(points) > 1 else None


def convergence(studies: Studies) -> list[Measurement]:
    """High − Original: real text by seeds; story text by sizes, whose few seeds share their text."""

    def gaps(runs: list[Record]) -> dict:
        return seed_gaps(runs, lambda run: area(run["metrics"].get("curve") or []))

    real = over_seeds("convergence", studies, "pretrain", gaps, post_hoc=True)
    real += over_seeds("convergence", studies, "pretrain", _end_gaps, part="loss at the last step,", aside=True)
    rows = [row for row in real if row.scope != STORIES]
    for study, record, pairs in _story_pairs(studies):
        by_size = {model: np.mean([gap for gap, _ in found]) for model, found in pairs.items()}
        facts = {"of": "sizes", "method": BY_SIZE, "records": (record,)}
        text = "story text, learning rates and seeds of a size averaged"
        found = mean_interval([*by_size.values()])
        rows.append(measured("convergence", text, STORIES, study, found, post_hoc=True, **facts))
        for model in by_size if len(by_size) > 2 else ():
            without = labels.model_title(model)
            found = mean_interval([gap for other, gap in by_size.items() if other != model])
            part, given = f"story text, without {without}", {"aside": True, "without": without}
            rows.append(measured("convergence", part, STORIES, study, found, **facts, **given))
        facts = {"of": "pairs", "method": "Student's t over pairs", "records": (record,), "aside": True}
        for place, text in enumerate(("story text, pairs", "story text, pairs, loss at the last step")):
            each = [gaps[place] for found in pairs.values() for gaps in found]
            rows.append(measured("convergence", text, STORIES, study, mean_interval(each), **facts))
    return rows


def _end_gaps(runs: list[Record], sides: tuple[str, str] = ("high", "original")) -> dict:
    return seed_gaps(runs, lambda run: run["metrics"].get("perplexity"), sides, log=True)


def _story_pairs(studies: Studies) -> list[tuple[str, str, dict[str, list[tuple[float, float]]]]]:
    """The pairs of models with High and without that notebook 12 trained: (study, record, model -> gaps).

    The gaps of a pair: of the mean over the steps, and of the loss at the last one.
    """
    found = []
    for study, records in studies.of("beyond").items():
        for record in records:
            given = record["metrics"]
            if study != "stories" or not given.get("larger"):
                continue
            own = [run | {"model": record["parameters"]["model"], "learning_rate": None} for run in given["strengths"]]
            pairs: dict[str, list[tuple[float, float]]] = {}
            for run in (run for run in own + given["larger"] if run["curve"] and run["strength"] == _strength(run)):
                key = ("model", "seed", "learning_rate")
                plain = [other for other in own + given["larger"]
                         if other["strength"] == 0.0 and all(other[k] == run[k] for k in key)]  # fmt: skip
                pairs.setdefault(run["model"], []).extend(
                    (area(run["curve"]) - area(other["curve"]), _end(run) - _end(other)) for other in plain[:1]
                )
            found.append((study, record["name"], pairs))
    return found


def _end(run: dict) -> float:
    """The loss at the last step; that of the repetition where it takes the run's place (`Studies.with_reruns`)."""
    return run.get("again", run["curve"][-1]["loss"])


def _strength(run: dict) -> float:
    return sizes.strength_of(run["model"])


def convergence_by_size(studies: Studies) -> list[Measurement]:
    """Mini − Medium of the paper's sizes on story text; one seed each, with the spread of the smaller models."""
    rows = []
    for study, record, pairs in _story_pairs(studies):
        cells = [[gap for gap, _ in found] for found in pairs.values()]
        if {"mini", "medium"} <= set(pairs) and any(len(cell) > 1 for cell in cells):
            variance, freedom = seed_variance(cells)
            value = float(np.mean([gap for gap, _ in pairs["mini"]]) - np.mean([gap for gap, _ in pairs["medium"]]))
            error = Error(((float(np.sqrt(2 * variance)), freedom),))
            method = "one seed each; spread over seeds borrowed from the smaller models"
            rows.append(Measurement(
                "convergence-small", "BERT-Mini − BERT-Medium, story text", STORIES, study, value, ends(value, error),
                1, "seeds", method, (record,), error=error, post_hoc=True,
            ))  # fmt: skip
    return rows


def regularizers(studies: Studies) -> list[Measurement]:
    """Log perplexity on WikiText, High − each regulariser."""
    rows, printed = [], studies.paper
    high = printed.value(3, algorithm="BP-High", metric="PPL_WikiText")
    for name, title in (("entropy_reg", "Entropy-Reg"), ("eigen_reg", "Eigen-Reg")):

        def gaps(runs: list[Record], name: str = name) -> dict:
            return seed_gaps(runs, _wikitext, ("high", name), log=True)

        def held_out(runs: list[Record], name: str = name) -> dict:
            return _end_gaps(runs, ("high", name))

        paper = log(high / printed.value(3, algorithm=title, metric="PPL_WikiText"))
        facts = {"part": f"{title},", "paper": lambda size, p=paper: p}
        rows += over_seeds("regularizers-perplexity", studies, "pretrain", gaps, **facts)
        facts = {"part": f"{title}, held-out training text,", "aside": True}
        rows += over_seeds("regularizers-perplexity", studies, "pretrain", held_out, **facts)
    return rows


def _wikitext(run: Record) -> float | None:
    return (run["metrics"].get("wikitext") or {}).get("perplexity")


def decoders(claim: str, studies: Studies) -> list[Measurement]:
    """Log perplexity, causal High − Original; a single seed borrows the spread of the study's encoders.

    Beside it the form that reads later rows: what it gains, and what of that is the leak.
    """
    rows = []
    for study, runs in studies.of("decoder").items():
        encoders = _end_gaps(studies.of("pretrain").get(study, []))
        for model in sorted({run["parameters"]["model"] for run in runs}):
            own, name = select(runs, model=model), labels.published_model(model)
            gaps = seed_gaps(own, _token_perplexity, log=True)
            if not gaps:
                continue
            sides = (
                studies.paper.value(7, model=name, algorithm=a, metric="PPL_WikiText") for a in ("High", "Original")
            )
            facts = {"paper": float(np.subtract(*map(log, sides))), "records": tuple(run["name"] for run in own)}
            rows.append(_decoder(claim, study, model, [*gaps.values()], [*encoders.values()], facts))
            leaks = [run["metrics"]["leak"]["leak"] for run in select(own, algorithm="high_all_rows")]
            all_rows = [*seed_gaps(own, _token_perplexity, ("high_all_rows", "original"), log=True).values()]
            for part, values in (
                ("High that reads later rows", all_rows),
                ("its leak, sign reversed", [-x for x in leaks]),
            ):
                if values:
                    found = mean_interval(values)
                    facts |= {"aside": True, "method": "control"}
                    rows.append(
                        measured(
                            claim,
                            f"{part}, {labels.model_title(model)}",
                            scope_of(study, [model]),
                            study,
                            found,
                            **facts,
                        )
                    )
    return rows


def _decoder(claim: str, study: str, model: str, own: list[float], encoders: list[float], facts: dict) -> Measurement:
    title, scope = labels.model_title(model), scope_of(study, [model])
    if len(own) > 1:
        return measured(claim, title, scope, study, mean_interval(own), **facts)
    found: Estimate = borrow([own, encoders], [0.0, 0.0])[0] if len(encoders) > 1 else mean_interval(own)
    method = "one seed; spread over seeds borrowed from this study's encoders"
    return measured(claim, title, scope, study, found, method=method, **facts)


def _token_perplexity(run: Record) -> float | None:
    return run["metrics"].get("token_perplexity")


def strengths(studies: Studies) -> list[Measurement]:
    """λ of Mini times its parameters over a size's, minus λ as printed: arithmetic, without a spread."""
    printed = {size: sizes.SIZES[size].strength for size in labels.PAPER_SIZES}
    counts = {size: sizes.body_parameters(size, VOCABULARY) for size in labels.PAPER_SIZES}
    rows = []
    for size in ("small", "medium"):
        value = printed["mini"] * counts["mini"] / counts[size] - printed[size]
        rows.append(Measurement(
            "strength-scaling", labels.model_title(size), PRINTED, "arithmetic", value, lambda level, v=value: (v, v),
            1, "formulas", "arithmetic",
        ))  # fmt: skip
    return rows


MEASURES = {
    "convergence": convergence,
    "convergence-small": convergence_by_size,
    "regularizers-perplexity": regularizers,
    "decoder-perplexity": partial(decoders, "decoder-perplexity"),
    "decoder-perplexity-size": partial(decoders, "decoder-perplexity-size"),
    "strength-scaling": strengths,
}
