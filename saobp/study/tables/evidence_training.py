"""Evidence on the loss, perplexity and the strength: statements Q12-Q14."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from saobp.study.setup import labels
from saobp.study.statistics import estimates
from saobp.study.tables import scores
from saobp.study.tables.evidence import Evidence, Looks, Part, by_seed, change, each_size
from saobp.study.training import architectures

Record = dict[str, Any]
VOCABULARY = 30_522  # of BERT, as Table 4 counts


def _converges(records: Sequence[Record]) -> Looks:
    """Mean held-out log-perplexity over the steps (lower is faster), and more so in small models."""

    def area(run: Record) -> float | None:
        """The checks lie closer at the start: each counts by the steps it stands for, as in the trapezoidal rule."""
        points = [(p["step"], p["perplexity"]) for p in run["metrics"].get("curve") or [] if p.get("perplexity")]
        steps, read = np.array(points).T if len(points) > 1 else ([], [])
        return float(np.trapezoid(np.log(read), steps) / np.ptp(steps)) if len(points) > 1 else None

    found = {model: by_seed(records, area, "pretrain", model) for model in estimates.models(records)}
    found = {model: gaps for model, gaps in found.items() if len(gaps)}
    own = {model: gaps for model, gaps in found.items() if not labels.is_twin(model)} or found
    ends, twin = list(own)[:: max(1, len(own) - 1)], any(map(labels.is_twin, own))
    mean = Part(f"mean over {labels.joined(list(map(labels.model_title, own)))}", change(own), -1, twin=twin)
    more = change({model: own[model] for model in ends}, dict(zip(ends, (1, -1)))) if len(ends) > 1 else None
    parts = mean, Part(" − ".join(map(labels.model_title, ends)), more, -1, twin=twin)
    return Looks("mean held-out loss over the steps of training, High − Original, nats:", parts, 3)


def _decoders(records: Sequence[Record]) -> Looks:
    """Log perplexity at every size of Table 7; its pretraining seeds are what is drawn again."""

    def log(run: Record) -> float | None:
        found = scores.perplexity(run)
        return None if found is None else float(np.log(found.value))

    sizes = {labels.size(model): model for model in estimates.models(records, decoder=True)}
    parts = each_size(sizes, lambda model: by_seed(records, log, "decoder", model))
    return Looks("log perplexity, High − Original:", parts, 3)


def _strengths(_: Sequence[Record]) -> Evidence:
    """Whether λ grows in proportion to a size's parameters, as Sec. 6 says, or falls in it, as printed."""
    printed = {name: architectures.SIZES[name].strength for name in ("mini", "small", "medium")}
    counts = {name: architectures.body_parameters(name, VOCABULARY) for name in printed}
    scaled = {name: printed["mini"] * counts["mini"] / counts[name] for name in ("small", "medium")}
    words = "; ".join(f"{name.capitalize()}: {value:.3f}, printed {printed[name]}" for name, value in scaled.items())
    inverse = all(round(value, 2) == printed[name] for name, value in scaled.items())
    grown = all(round(printed["mini"] ** 2 / value, 2) == printed[name] for name, value in scaled.items())
    rule = (
        "the printed numbers follow, but inversely to size: they are reproduced, the word is not"
        if inverse
        else "not by this ratio"
    )
    words = f"λ {printed['mini']} of Mini × its parameters / the size's gives {words}: {rule}; arithmetic, no run"
    other = "other parameters of the sizes, or other strengths, than the paper prints"
    return Evidence(words, *([1.0, 1.0] if grown else [-1.0, -1.0]), overturned=other)


JUDGES = {"Q12": _converges, "Q13": _decoders, "Q14": _strengths}
