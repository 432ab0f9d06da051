"""What a cost run found, as tables and sentences: operations beside Table 9, ways beside each other, lengths."""

from math import isnan, nan
from typing import Any

import pandas as pd

from saobp.study.paper import arithmetic, frames
from saobp.study.paper.numbers import Published
from saobp.study.setup import labels
from saobp.study.setup.sizes import SIZES

Ways = dict[str, dict[str, Any]]
PHASES = {"train": "training, dropout", "train_no_dropout": "training, no dropout", "inference": "inference"}
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
    from saobp.study.cost import whole_model

    cells = frames.operations(paper)
    cells["fvcore"] = [
        whole_model.macs(
            model.lower(), arithmetic.VOCABULARY, algorithm.lower(), arithmetic.LENGTH, training=phase == "train"
        )
        for model, algorithm, phase in cells[["model", "algorithm", "phase"]].itertuples(index=False)
    ]
    cells["off"] = (cells["fvcore"] - cells["printed"]).abs().round(2)
    return cells


def printed_otherwise(cells: pd.DataFrame) -> list[str]:
    """Return a sentence for each count that is printed otherwise than counted."""
    return [
        f"{row.model}, {row.algorithm}, {row.phase}: printed {row.printed:.2f}, counted {row.fvcore:.2f}."
        for row in cells[cells["off"] > 0].itertuples()
    ]


def surplus(cells: pd.DataFrame) -> pd.DataFrame:
    """Return by size and phase what High counts above Original, beside Original's own attention products (10^9)."""
    counts = cells.pivot_table(index=["model", "phase"], columns="algorithm", values="fvcore", sort=False)
    sizes = [SIZES[model.lower()] for model in counts.index.get_level_values("model")]
    products = [size.layers * 2 * arithmetic.LENGTH**2 * size.hidden / 1e9 for size in sizes]
    return pd.DataFrame({"High - Original": counts["High"] - counts["Original"], "2n²h × layers": products})


def beside(ways: Ways) -> pd.DataFrame:
    """Return one row a phase and way: time with quartiles, its ratios to both Originals, rate, memory in MiB, size.

    A peak is the median of several processes, beside the lowest and the highest (NaN in an older record, which
    measured once).
    """
    rows = {
        (title, way_title(way)): {
            "milliseconds": found[phase]["milliseconds"]["median"],
            "lower quartile": found[phase]["milliseconds"]["low"],
            "upper quartile": found[phase]["milliseconds"]["high"],
            "÷ Original": found[phase]["ratio"]["median"],
            "÷ Original, eager": found[phase]["ratio_to_eager"]["median"],
            "kept (MiB)": found[phase].get("kept_mib", 0.0),
            "peak (MiB)": peak(found[phase])["median"],
            "lowest": peak(found[phase])["low"],
            "highest": peak(found[phase])["high"],
            "tokens/s": found[phase].get("tokens_per_second", {}).get("median"),
            "samples/s": found[phase].get("samples_per_second", {}).get("median"),
            "parameters": found["parameters"],
        }
        for phase, title in PHASES.items()
        for way, found in ways.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index").round(2)


def peak(found: dict[str, Any]) -> dict[str, float]:
    """Return median, "low" and "high" of a peak in MiB; an older record has one measurement and so no ends (NaN)."""
    value = found["peak_mib"]
    ends = value if isinstance(value, dict) else {"median": value}
    return {name: nan if ends.get(name) is None else ends[name] for name in ("median", "low", "high")}


def peaks(ways: Ways) -> list[str]:
    """Return a sentence a phase on how far memory rises, after one on what the numbers are.

    Gradients and AdamW's two moments are there in training whatever the attention is: three times the weights.
    """
    from saobp.study.cost import timing

    floor = 3 * ways["original"]["parameters"] * 4 / 2**20
    about = f"Median (lowest to highest) of {timing.PROCESSES} processes, MiB above the model and its inputs"
    about += f"; in training gradients and AdamW's moments alone take {floor:.1f}."
    return [about, *(f"{title}: {_peaks(ways, phase)}." for phase, title in PHASES.items())]


def _peaks(ways: Ways, phase: str) -> str:
    return "; ".join(f"{way_title(way)} {_peak(found[phase])}" for way, found in ways.items())


def _peak(found: dict[str, Any]) -> str:
    ends = peak(found)
    if isnan(ends["median"]):
        return "not measured"
    reach = "measured once" if isnan(ends["low"]) else f"{ends['low']:.1f} to {ends['high']:.1f}"
    return f"{ends['median']:.1f} ({reach})"


def kernels(ways: Ways) -> list[str]:
    """Return a sentence a phase: by which kernel torch computes Original, and in training what each way keeps."""
    return [
        f"{PHASES[phase]}: torch computes Original {kernel(ways['original'][phase])}" + _kept(ways, phase) + "."
        for phase in PHASES
    ]


def kernel(found: dict[str, Any]) -> str:
    """Say by which kernel torch's own attention was computed, as far as the record names it."""
    name = found.get("kernel")
    if name is None:
        return "by a kernel that the record does not name"
    return f"by its fused kernel {name}" if name else "without a fused kernel"


def _kept(ways: Ways, phase: str) -> str:
    if "kept_mib" not in ways["original"][phase]:
        return ""
    kept = "; ".join(f"{way_title(way)} {found[phase]['kept_mib']:.1f}" for way, found in ways.items())
    return f". MiB kept for the backward pass: {kept}"


def times(ways: Ways, way: str = "high") -> list[str]:
    """Return a sentence a phase: the time of a way over that of both Originals, with quartiles."""
    return [
        f"{PHASES[phase]}: {way_title(way)} takes {_ratio(ways[way][phase]['ratio'])} the time of Original "
        f"and {_ratio(ways[way][phase]['ratio_to_eager'])} that of Original, eager."
        for phase in PHASES
    ]


def _ratio(ratio: dict[str, float]) -> str:
    reach = "no range in this record" if isnan(ratio["low"]) else f"{ratio['low']:.2f} to {ratio['high']:.2f}"
    return f"{ratio['median']:.2f} times ({reach})"


def against_length(rows: list[dict[str, Any]]) -> str:
    """Return a sentence on the longest input at which all ways ran: time and memory of High over the others.

    A ratio of times has the quartiles of the rounds, a ratio of peaks the ends of both peaks.
    """
    longest = max(row["length"] for row in rows if row["way"] == "materialised")
    at = {row["way"]: row for row in rows if row["length"] == longest}
    others = {"sdpa": f"Original, computed {kernel(at['sdpa'])}", "materialised": "High with the matrix held"}
    words = [
        f"{_ratio(_times_over(at, way))} the time and {_ratio(_peaks_over(at, way))} the peak memory of {title}"
        for way, title in others.items()
    ]
    return f"Attention alone at {longest} tokens: High takes {', and '.join(words)}."


def _times_over(at: dict[str, dict[str, Any]], way: str) -> dict[str, float]:
    medians = at["high"]["median_ms"] / at[way]["median_ms"]
    return at["high"].get(f"ratio_to_{way}") or {"median": medians, "low": nan, "high": nan}


def _peaks_over(at: dict[str, dict[str, Any]], way: str) -> dict[str, float]:
    ours, theirs = peak(at["high"]), peak(at[way])
    return {name: ours[name] / theirs[other] for name, other in zip(ours, ("median", "high", "low"))}
