"""What a cost run found, as tables: operations beside Table 9, ways beside each other."""

from collections import Counter
from collections.abc import Sequence
from statistics import median
from typing import Any

import pandas as pd

from companion.paper import arithmetic, comparisons
from companion.paper.numbers import Published
from companion.records import select
from companion.records.schema import Record
from companion.setup import labels
from companion.setup.sizes_and_strengths import SIZES

PHASES = {
    "train": "training, dropout",
    "train_no_dropout": "training, no dropout",
    "inference": "inference",
}
LENGTH_WAYS = {
    "sdpa": "Original, fused",
    "high": "High, no matrix kept",
    "materialised": "High, matrix kept",
}


def way_title(way: str) -> str:
    """A way of computing attention for readers: "original_eager" -> "Original, eager"."""
    algorithm, _, kind = way.partition("_")
    return labels.algorithm_title(algorithm) + (f", {kind}" if kind else "")


def timings(records: Sequence[Record], model: str) -> list[Record]:
    """Return the cost runs of a size, those of the study that timed it most often."""
    runs = select(records, "cost", model=model)
    times = Counter(run["study"] for run in runs)
    return [run for run in runs if times[run["study"]] == max(times.values())]


def over_runs(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return a way's numbers in one phase: of a single run as it has them, a median with the
    quartiles of its rounds; of several the median of their medians, with the least and the largest.

    A number without rounds, such as an operation count, is that of the first run.
    """
    if len(runs) == 1:
        return runs[0]
    merged = dict(runs[0])
    for name, value in merged.items():
        if isinstance(value, dict):
            medians = [run[name]["median"] for run in runs]
            merged[name] = {"median": median(medians), "low": min(medians), "high": max(medians)}
    return merged


def operations(paper: Published) -> pd.DataFrame:
    """Return the 24 counts of Table 9 as printed, by fvcore and by the formula (10^9); "off": print
    from counter.
    """
    from companion.cost import whole_model

    cells, counted = comparisons.operations(paper), []
    for row in cells.itertuples():
        size, way = comparisons.OUR_SIZES[row.model], comparisons.OUR_ALGORITHMS[row.algorithm]
        training = row.phase == "train"
        counted.append(
            whole_model.macs(size, arithmetic.VOCABULARY, way, arithmetic.LENGTH, training=training)
        )
    return cells.assign(fvcore=counted, off=(cells["printed"] - counted).abs().round(2))


def surplus(cells: pd.DataFrame) -> pd.DataFrame:
    """Return by size and phase what High counts above Original, beside Original's own attention
    products (10^9).
    """
    counts = cells.pivot_table(
        index=["model", "phase"], columns="algorithm", values="fvcore", sort=False
    )
    models = counts.index.get_level_values("model")
    products = [
        arithmetic.attention_products(SIZES[comparisons.OUR_SIZES[model]]) for model in models
    ]
    return pd.DataFrame(
        {"High - Original": counts["High"] - counts["Original"], "2L²h × layers": products}
    )


def beside(ways: dict[str, dict[str, Any]]) -> pd.DataFrame:
    """Return one row a phase and way: median time, its ratios to both Originals, memory kept and at
    its peak (MiB).
    """
    rows = {}
    for phase, title in PHASES.items():
        for way, phases in ways.items():
            numbers = phases[phase]
            rows[title, way_title(way)] = {
                "milliseconds": numbers["milliseconds"]["median"],
                "÷ Original": numbers["ratio"]["median"],
                "÷ Original, eager": numbers["ratio_to_eager"]["median"],
                "kept (MiB)": numbers.get("kept_mib", 0.0),
                "peak (MiB)": numbers["peak_mib"]["median"],
            }
    return pd.DataFrame.from_dict(rows, orient="index").round(2)
