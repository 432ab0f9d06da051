"""Write what an inspection found: one page that needs nothing else, a CSV and a JSON."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FunctionLoader
from markupsafe import Markup

from saobp.measure import explorer
from saobp.measure.inspect import MEASURES, Inspection

UNITS = {"entropy": "nats", "indirect_entropy": "nats", "column_mass_maximum": "queries"}
SHOWN = tuple(name for name in MEASURES if name != "moved")
"""Measures in the table; the total variation from plain attention is 0 before the step."""


def refuse_unwritable(folder: Path) -> None:
    """Raise PermissionError in one line if a folder, or the one it would be made in, cannot be written to."""
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise PermissionError(f"{folder}: cannot be written ({error.strerror}); choose another with --out") from None


def write(folder: Path, name: str, found: Inspection, shown: dict[str, Any], facts: dict[str, Any]) -> list[Path]:
    """Write index.html, attention.csv, attention.json, and perplexity.csv of a language model; return their paths.

    `shown` is what `explorer.collect` returned, `facts` what the page says of the run. All are complete before the
    first of them gets its name.
    """
    import pandas

    result = summary(name, found, facts)
    texts = {
        "index.html": page(result, found, shown),
        "attention.csv": found.table().to_csv(index=False, float_format="%.6g"),
        "attention.json": json.dumps(result, indent=1, ensure_ascii=False) + "\n",
    }
    if found.predictions:
        texts["perplexity.csv"] = pandas.DataFrame(found.predictions).to_csv(index=False, float_format="%.6g")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".new-") as temporary:
        for file, text in texts.items():
            (Path(temporary) / file).write_text(text, encoding="utf-8")
        for file in texts:
            os.replace(Path(temporary) / file, folder / file)
    return [folder / file for file in texts]


def summary(name: str, found: Inspection, facts: dict[str, Any]) -> dict[str, Any]:
    """Return everything that was found as plain data, as it stands in attention.json."""
    layers, heads = found.shape
    digits = lambda values: [[float(f"{value:.5g}") for value in row] for row in values]  # noqa: E731
    return {
        "model": name, **facts, "layers": layers, "heads": heads, "causal": found.causal, "factor": found.factor,
        "strengths": list(found.strengths), "texts": found.values.samples, "tokens": found.tokens,
        "measures": {measure: {"title": title, "unit": UNITS.get(measure, "")} for measure, title in MEASURES.items()},
        "table": layer_rows(found),
        "curves": [
            {"strength": one, **{measure: digits(values) for measure, values in found.means(one).items()}}
            for one in found.grid
        ],
        "sinks": {"all": found.sinks()[:12], "by_layer": [found.sinks(layer + 1)[:5] for layer in range(layers)]},
        "predictions": found.predictions,
        "versions": {package: version(package) for package in ("saobp", "torch", "transformers")},
    }  # fmt: skip


def layer_rows(found: Inspection) -> list[dict[str, Any]]:
    """Return a row per layer, heads averaged: its most frequent sink, and every measure before and after the step."""
    at, mean = found.grid.index(found.strengths[0]), found.values.mean().mean(-1)
    low, high = found.values.interval(lambda values: (values[at] - values[0]).mean(-1))
    rows = []
    for layer in range(found.shape[0]):
        row: dict[str, Any] = {"layer": layer + 1, "sink": found.sinks(layer + 1)[0]}
        for m, measure in enumerate(MEASURES):
            before, after = float(mean[0, m, layer]), float(mean[at, m, layer])
            interval = {"low": float(low[m, layer]), "high": float(high[m, layer])}
            row[measure] = {"before": before, "after": after, "change": after - before} | {
                side: None if np.isnan(value) else value for side, value in interval.items()
            }
        rows.append(row)
    return rows


def terminal(rows: Sequence[dict[str, Any]]) -> str:
    """Return the table for a terminal: two lines per layer, the values and the interval of their change."""
    lines = [f"{'layer':<6}{'sink (share)':<20}" + "".join(f"{MEASURES[name]:<20}" for name in SHOWN)]
    for row in rows:
        sink = f"{row['sink']['token'][:12]} ({row['sink']['share']:.0%})"
        cells = [row[name] for name in SHOWN]
        both = (f"{cell['before']:.2f} → {cell['after']:.2f}" for cell in cells)
        lines.append(f"{row['layer']:<6}{sink:<20}" + "".join(f"{text:<20}" for text in both))
        if cells[0]["low"] is not None:
            spans = (f"[{cell['low']:+.2f}, {cell['high']:+.2f}]" for cell in cells)
            lines.append(" " * 26 + "".join(f"{text:<20}" for text in spans))
    return "\n".join(line.rstrip() for line in lines)


def page(result: dict[str, Any], found: Inspection, shown: dict[str, Any]) -> str:
    """Return the page: what changed, the explorer, and the tables, maps and curves."""
    environment = Environment(loader=FunctionLoader(explorer.asset), autoescape=True, trim_blocks=True)
    drawn = {name: result[name] for name in ("curves", "measures", "predictions", "strengths")}
    mean = lambda measure, side: float(np.mean([row[measure][side] for row in result["table"]]))  # noqa: E731
    tiles = [(measure, mean(measure, "before"), mean(measure, "after")) for measure in SHOWN]
    return environment.get_template("inspect.html").render(
        **result, titles=MEASURES, units=UNITS, shown=SHOWN, tiles=tiles,
        explorer=Markup(explorer.fragment(shown)), drawn=Markup(explorer.as_json(drawn)),
        charts=Markup(explorer.asset("charts.js")), style=Markup(explorer.asset("inspect.css")),
    )  # fmt: skip
