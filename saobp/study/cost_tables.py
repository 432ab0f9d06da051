"""What a cost run found, as tables and sentences: operations beside Table 9, ways beside each other, lengths."""

from typing import Any

import pandas as pd

from saobp.study import audit, cost, labels, models, printed
from saobp.study.published import Published

Ways = dict[str, dict[str, Any]]
PHASES = {"train": "training", "train_no_dropout": "training, no dropout", "inference": "inference"}
LENGTH_WAYS = {
    "sdpa": "Original, fused",
    "high": "High, tile by tile",
    "materialised": "High, matrix held",
}


def way_title(way: str) -> str:
    """A way of computing attention for readers: "original_eager" -> "Original, eager"."""
    algorithm, _, kind = way.partition("_")
    return labels.algorithm_title(algorithm) + (f", {kind}" if kind else "")


def operations(paper: Published) -> pd.DataFrame:
    """Return the 24 counts of Table 9 as printed, as counted by fvcore and by the formula, in units of 10^9.

    "off" is how far print and counter are apart, to the two decimals that are printed.
    """
    cells = printed.operations(paper)
    cells["fvcore"] = [
        cost.macs(model.lower(), audit.VOCABULARY, algorithm.lower(), audit.LENGTH, training=phase == "train")
        for model, algorithm, phase in cells[["model", "algorithm", "phase"]].itertuples(index=False)
    ]
    cells["off"] = (cells["fvcore"] - cells["printed"]).abs().round(2)
    return cells


def surplus(cells: pd.DataFrame) -> pd.DataFrame:
    """Return by size and phase what High counts above Original, beside Original's own attention products (10^9)."""
    counts = cells.pivot_table(index=["model", "phase"], columns="algorithm", values="fvcore", sort=False)
    sizes = [models.SIZES[model.lower()] for model in counts.index.get_level_values("model")]
    products = [size.layers * 2 * audit.LENGTH**2 * size.hidden / 1e9 for size in sizes]
    return pd.DataFrame({"High - Original": counts["High"] - counts["Original"], "2n²h × layers": products})


def beside(ways: Ways) -> pd.DataFrame:
    """Return one row a phase and way: time with quartiles, its ratios to both Originals, rate, memory in MiB, size."""
    rows = {
        (title, way_title(way)): {
            "milliseconds": found[phase]["milliseconds"]["median"],
            "lower quartile": found[phase]["milliseconds"]["low"],
            "upper quartile": found[phase]["milliseconds"]["high"],
            "÷ Original": found[phase]["ratio"]["median"],
            "÷ Original, eager": found[phase]["ratio_to_eager"]["median"],
            "kept (MiB)": found[phase].get("kept_mib", 0.0),
            "peak (MiB)": found[phase]["peak_mib"],
            "tokens/s": found[phase].get("tokens_per_second", {}).get("median"),
            "samples/s": found[phase].get("samples_per_second", {}).get("median"),
            "parameters": found["parameters"],
        }
        for phase, title in PHASES.items()
        for way, found in ways.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index").round(2)


def kernels(ways: Ways) -> list[str]:
    """Return a sentence a phase of training: by which kernel torch computes Original, and what each way keeps."""
    return [_kernel(ways, phase) for phase in ("train", "train_no_dropout")]


def _kernel(ways: Ways, phase: str) -> str:
    name = ways["original"][phase]["kernel"]
    by = f"by its fused kernel {name}" if name else "without a fused kernel, matrix and all,"
    kept = {way: f"{found[phase]['kept_mib']:.1f}" for way, found in ways.items()}
    return (
        f"{PHASES[phase]}: torch computes Original {by} and keeps {kept['original']} MiB for the backward pass; "
        f"Original, eager keeps {kept['original_eager']}, High {kept['high']}."
    )


def times(ways: Ways, way: str = "high") -> list[str]:
    """Return a sentence a phase: the time of a way over that of both Originals, with quartiles."""
    return [
        f"{PHASES[phase]}: {way_title(way)} takes {_ratio(ways[way][phase]['ratio'])} the time of Original "
        f"and {_ratio(ways[way][phase]['ratio_to_eager'])} that of Original, eager."
        for phase in PHASES
    ]


def _ratio(ratio: dict[str, float]) -> str:
    return f"{ratio['median']:.2f} times ({ratio['low']:.2f} to {ratio['high']:.2f})"


def against_length(rows: list[dict[str, Any]]) -> str:
    """Return a sentence on the longest input at which all ways ran: time and memory of High over the others."""
    frame = pd.DataFrame(rows)
    longest = frame.loc[frame["way"] == "materialised", "length"].max()
    at = frame[frame["length"] == longest].set_index("way")
    words = [
        f"{at.loc['high', 'median_ms'] / at.loc[other, 'median_ms']:.2f} times the time and "
        f"{at.loc['high', 'peak_mib'] / at.loc[other, 'peak_mib']:.2f} times the peak memory of {title}"
        for other, title in (("sdpa", "Original"), ("materialised", "High with the matrix held"))
    ]
    return f"Attention alone at {longest} tokens: High takes {', and '.join(words)}."
