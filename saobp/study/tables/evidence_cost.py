"""Evidence on time: what the refinement costs a step (statement Q11)."""

from collections.abc import Sequence
from typing import Any

from saobp.study.cost import cost_tables, timing, whole_model
from saobp.study.setup import labels
from saobp.study.setup.records import select
from saobp.study.statistics import estimates
from saobp.study.tables.evidence import Evidence

Record = dict[str, Any]
SLIGHT = 1.1  # the paper gives no number


def _cost(records: Sequence[Record]) -> Evidence | None:
    """Positive if a training step with High takes less than a tenth more time than with Original.

    Training with dropout and without has to be so in every run, from quartile to quartile: on a CPU torch has a
    fused kernel for Original without dropout only. Inference is told and decides nothing. The paper says nothing of
    dropout, sizes or devices here, so runs that disagree leave it open.
    """
    measured = select(list(records), "cost")
    runs = [run for model in estimates.models(measured) for run in select(measured, model=model)]
    if not runs:
        return None
    own = [run for run in runs if not labels.is_twin(run["parameters"]["model"])]
    found = [run["metrics"]["ways"]["high"] for run in own or runs]
    ratios = [way[name]["ratio"] for way in found for name in _phases(way) if whole_model.PHASES[name].training]
    low, high = min(ratio["low"] for ratio in ratios), max(ratio["high"] for ratio in ratios)
    words = f"time of High / Original, median [quartiles]; slight: a training step below ×{SLIGHT:.2f}, "
    words += "which is our bound. "
    words += "; ".join(map(_run, runs))
    wanted = f"quartiles of all training runs on one side of ×{SLIGHT:.2f}"
    return Evidence(words, SLIGHT - high, SLIGHT - low, not own, wanted)


def _phases(way: dict[str, Any]) -> list[str]:
    return [name for name in whole_model.PHASES if name in way]


def _run(run: Record) -> str:
    """Model, batch, device and rounds of a run, and its ratios."""
    given, ways = run["parameters"], run["metrics"]["ways"]
    where = f"{labels.model_title(given['model'])}, {given['batch']} × {given['length']} tokens, {run['device']}"
    ratios = [_phase(ways, name) for name in _phases(ways["high"])]
    busy = "".join(f" ({line})" for line in timing.load_words(run["metrics"]))
    return f"{where}, {run['metrics']['repeats']} rounds: {', '.join(ratios)}{busy}"


def _phase(ways: dict[str, Any], name: str) -> str:
    ratio = ways["high"][name]["ratio"]
    title = f"{cost_tables.PHASES[name]} (Original {cost_tables.kernel(ways['original'][name])})"
    return f"{title} ×{ratio['median']:.2f} [{ratio['low']:.2f}, {ratio['high']:.2f}]"


JUDGES = {"Q11": _cost}
