"""Evidence on scores, perplexity and strength: statements Q01-Q05, Q07, Q09, Q12-Q14."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from saobp.study import estimates, labels, models
from saobp.study.records import select
from saobp.study.statistics import mean_interval
from saobp.study.tables import scores
from saobp.study.tables.evidence import Evidence, Gaps, between, change, judged, pooled

Record = dict[str, Any]
VOCABULARY = 30_522  # of BERT, as Table 4 counts
TASKS = ("hellaswag", "race", "squad")


def _sides(records: Sequence[Record], model: str, task: str, ours: str, theirs: str) -> tuple[list, list]:
    first, second = (estimates.scores(records, model, name, task) for name in (ours, theirs))
    return first, second


def _gaps(records: Sequence[Record], tasks: Sequence[str], *, ours: str = "high", theirs: str = "original") -> Gaps:
    """Differences of all models on these tasks, where both sides have runs."""
    found = []
    for model in estimates.models(records):
        for task in tasks:
            sides = _sides(records, model, task, ours, theirs)
            if all(sides):
                gap = estimates.score_difference(*sides)
                found.append((model, gap, estimates.seed_differences(*sides)))
    return found


def _improves(records: Sequence[Record]) -> Evidence | None:
    return pooled(_gaps(records, (*TASKS, *estimates.GLUE)), "High − Original:")


def _glue(records: Sequence[Record]) -> Evidence | None:
    return pooled(_gaps(records, estimates.GLUE), "GLUE, High − Original:")


def _long_range(records: Sequence[Record]) -> Evidence | None:
    return pooled(_gaps(records, ("qnli", "race")), "QNLI and RACE-Middle, High − Original:")


def _suited(records: Sequence[Record]) -> Evidence | None:
    """ElemMul above High on SQuAD and SST2, below it on RACE-Middle and MNLI: positive if both hold."""
    first = _gaps(records, ("squad", "sst2"), ours="elemmul", theirs="high")
    second = _gaps(records, ("race", "mnli"), ours="high", theirs="elemmul")
    if not first or not second:
        return None
    return pooled(first + second, "ElemMul − High on SQuAD, SST2 with High − ElemMul on RACE, MNLI:")


def _narrows(records: Sequence[Record]) -> Evidence | None:
    """The gap of the smallest size minus that of the largest, on the tasks that both have."""
    models = estimates.models(records)
    ends = {model: _gaps(select(list(records), model=model), TASKS) for model in (models[:1] + models[1:][-1:])}
    if len(ends) < 2 or len({len(gaps) for gaps in ends.values()} | {0}) != 2:
        return None
    small, large = (estimates.pool([cell[1:] for cell in gaps]) for gaps in ends.values())
    mean, half = small.value - large.value, float(np.hypot(small.half_width, large.half_width))
    words = f"gap of the smallest − of the largest: {mean:+.2f} points{between(mean, half)}"
    reach = half if min(small.seeds, large.seeds) > 1 else float("nan")
    return Evidence(words, mean - reach, mean + reach, any(map(labels.is_twin, ends)))


def _mini_reaches_small(records: Sequence[Record]) -> Evidence | None:
    sizes = {labels.size(model): model for model in estimates.models(records)}
    if not {"mini", "small"} <= sizes.keys():
        return None
    gaps = []
    for task in ("mnli", "qqp"):
        ours = estimates.scores(records, sizes["mini"], "high", task)
        theirs = estimates.scores(records, sizes["small"], "original", task)
        gap = estimates.score_difference(ours, theirs)
        gaps += [(sizes["mini"], gap, estimates.seed_differences(ours, theirs))] if gap else []
    return pooled(gaps, "Mini High − Small Original on MNLI, QQP:")


def _regularizers(records: Sequence[Record]) -> Evidence | None:
    tasks = ("qnli", "squad")
    gaps = [g for name in ("entropy_reg", "eigen_reg") for g in _gaps(records, tasks, theirs=name)]
    return pooled(gaps, "High − regularisers on QNLI, SQuAD:")


def _converges(records: Sequence[Record]) -> Evidence | None:
    """Mean held-out log-perplexity over the curve: the area under it, lower is faster."""

    def area(run: Record) -> float | None:
        points = [p["perplexity"] for p in run["metrics"].get("curve") or [] if p.get("perplexity")]
        return float(np.mean(np.log(points))) if points else None

    what = "mean held-out loss over training, High − Original, nats:"
    return judged(change(_encoders(records), area, "pretrain"), what, -1)


def _encoders(records: Sequence[Record]) -> list[Record]:
    return [r for r in records if not labels.is_decoder(str(r["parameters"].get("model")))]


def _decoders(records: Sequence[Record]) -> Evidence | None:
    values, models = [], estimates.models(records, decoder=True)
    for model in models:
        means = [
            estimates.mean_over_runs(
                scores.perplexity(run) for run in select(list(records), model=model, algorithm=name)
            )
            for name in ("high", "original")
        ]
        if None not in means:
            values.append(np.log(means[0].value / means[1].value))
    if not values:
        return None
    found = mean_interval(values), all(map(labels.is_twin, models))
    return judged(found, "log perplexity, High − Original:", -1)


def _strengths(_: Sequence[Record]) -> Evidence:
    """Whether λ grows in proportion to a size's parameters, as Sec. 6 says, or falls in it, as printed."""
    printed = {name: models.SIZES[name].strength for name in ("mini", "small", "medium")}
    counts = {name: models.body_parameters(name, VOCABULARY) for name in printed}
    scaled = {name: printed["mini"] * counts["mini"] / counts[name] for name in ("small", "medium")}
    words = "; ".join(f"{name.capitalize()}: {value:.3f}, printed {printed[name]}" for name, value in scaled.items())
    inverse = all(round(value, 2) == printed[name] for name, value in scaled.items())
    grown = all(round(printed["mini"] ** 2 / value, 2) == printed[name] for name, value in scaled.items())
    rule = "the printed ones follow, but inversely to size (notebook 09)" if inverse else "not by this ratio"
    words = f"λ {printed['mini']} of Mini × its parameters / the size's gives {words}: {rule}; arithmetic, no run"
    return Evidence(words, *([1.0, 1.0] if grown else [-1.0, -1.0]))


JUDGES = {
    "Q01": _improves, "Q02": _narrows, "Q03": _mini_reaches_small, "Q04": _long_range, "Q05": _suited,
    "Q07": _regularizers, "Q09": _glue, "Q12": _converges, "Q13": _decoders, "Q14": _strengths,
}  # fmt: skip
