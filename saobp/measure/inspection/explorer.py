"""The attention explorer, raw maps as small integers that the browser refines again, and the page
around it.
"""

from __future__ import annotations

import base64
import itertools
import json
import math
import os
import re
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, UInt16
from jinja2 import Environment, FunctionLoader
from markupsafe import Markup, escape
from torch import Tensor, nn

from saobp.equations.controls import UNSEEN
from saobp.equations.factors import WITHOUT_MESSAGES
from saobp.measure import gtd_and_entropy
from saobp.measure.inspection import colours
from saobp.measure.inspection.maps import (
    encoded,
    is_causal,
    maps_of,
    one_step,
    patch_labels,
    plain_copy,
)
from saobp.measure.inspection.measures import FACTORS, MEASURES, strength_for

FLOOR = math.log(UNSEEN)
"""Logarithm of the smallest probability that travels; what is below it travels as none."""

LEVELS = 65535
"""The level of probability 1; those below are evenly spaced in the square root of the negative
logarithm.
"""

SLIDER = (0.02, 0.1, 0.2, 0.5, 1.0)
"""Strengths at which the error of the levels is measured; the page's slider goes from 0 to 1."""

LENGTHS = (16, 32, 64, 128, 256)
"""Tokens to which each text is also cut, besides as many as there are."""

ROOM = 12 * 2**20
"""Bytes of maps in a page: fewer texts, then fewer tokens, where a model has many heads."""

DRAWN = {
    "column": gtd_and_entropy.column_mass_maximum,
    "entropy": gtd_and_entropy.attention_entropy,
    "gtd": gtd_and_entropy.gtd,
}
"""What the page computes of a map."""

# what `write` leaves in a folder
FILES = ("index.html", "attention.csv", "measures.csv", "attention.json", "perplexity.csv")
ASSETS = files("saobp.measure.inspection") / "assets"
Inspection = Any
"""What `saobp.inspect` returns; its module imports this one."""

WORDS = ("title", "unit", "meaning", "range", "source")
"""What a table says of a measure."""

TERMINAL = ("column_mass_maximum", "sink_rate", "entropy", "rank_one_distance", "gtd")
"""Measures in the table of a terminal, if there are any of them."""


def to_levels(maps: Float[Tensor, "*head L L"]) -> UInt16[np.ndarray, "*head L L"]:
    """Return probabilities as levels: 0 is none, 1 is e^FLOOR, `LEVELS` is 1."""
    steps = torch.sqrt((maps.double().log() / FLOOR).clamp(0, 1)) * (LEVELS - 1)
    levels = (LEVELS - steps.round()).masked_fill(maps.double().log() < FLOOR, 0)
    return levels.cpu().numpy().astype("<u2")


def from_levels(levels: UInt16[np.ndarray, "*head L L"]) -> Float[Tensor, "*head L L"]:
    """Return the probabilities that levels stand for, rows normalised, in float64, as the page
    computes them.
    """
    numbers = torch.from_numpy(levels.astype(np.float64))
    maps = (FLOOR * ((LEVELS - numbers) / (LEVELS - 1)) ** 2).exp().masked_fill(numbers == 0, 0)
    return maps / maps.sum(-1, keepdim=True)


def collect(
    model: nn.Module,
    tokenizer: Any,
    texts: Iterable[Any],
    *,
    factor: str = "high",
    strength: float = 0.2,
    number: int = 2,
    tokens: int = 128,
    most: int = 128,
    spare: str | float | None = None,
) -> dict[str, Any]:
    """Return what the explorer shows: the maps of the first texts, and where it starts.

    Each text is cut to `tokens`, as `saobp.inspect` does, but to `most` where that is fewer, and to
    the shorter `LENGTHS`; each length is read alone. With more heads than `ROOM` holds there are
    fewer texts, then fewer tokens. It starts at the text, layer and head whose largest column loses most. `error` holds the largest
    differences that the levels make to a refined probability, a largest column sum, an entropy and
    a GTD: over the longest view of these texts, all heads, all factors of the page and the strengths
    of `SLIDER`. Raises ValueError as `saobp.inspect` does.
    """
    plain = plain_copy(model)
    if hasattr(texts, "__iter__") and not isinstance(texts, str):
        # read once per length
        texts = list(texts)
    samples = list(itertools.islice(encoded(plain, tokenizer, texts, tokens), number))
    if not samples:
        raise ValueError("texts: none of two tokens or more")
    short = next(encoded(plain, tokenizer, texts, LENGTHS[0]))
    heads = sum(len(maps) for maps in maps_of(plain, short))
    longest, number = fitting(heads, min(tokens, most), number)
    lengths = [length for length in LENGTHS if length < longest] if short.labels else []
    cuts = [
        list(itertools.islice(encoded(plain, tokenizer, texts, length), number))
        for length in (*lengths, longest)
    ]
    causal, shown, drains, errors = is_causal(plain), [], [], []
    for views in zip(*cuts):
        # a text that is shorter than two lengths is the same at both
        views = {len(sample.labels): sample for sample in views}.values()
        maps = [maps_of(plain, sample) for sample in views]
        # the masks of CLIP are causal, its modules are not
        causal = causal or not any(bool(layer.triu(1).any()) for layer in maps[-1])
        levels = [[to_levels(layer) for layer in layers] for layers in maps]
        shown.append(_shown(levels, [sample.labels for sample in views]))
        drained = []
        # a layer at a time: all maps in float64 take more room than a model
        for exact, level in zip(maps[-1], levels[-1]):
            received = from_levels(level)
            refined = one_step(received, factor, strength, causal, spare)
            drained.append(received.sum(-2).amax(-1) - refined.sum(-2).amax(-1))
            errors.append(_differences(exact, received, causal))
        drains.append(torch.stack(drained))
    for text, sample in zip(shown, samples):
        text["whole"] = len(sample.labels) or len(text["views"][-1]["tokens"])
    text = max(range(len(shown)), key=lambda n: drains[n].max().item())
    layers, heads = drains[0].shape
    layer, head = divmod(int(drains[text].argmax()), heads)
    length = len(shown[text]["views"]) - 1
    return {
        "factor": factor,
        "strength": strength,
        "spare": spare,
        "paper": strength_for(model),
        "causal": causal,
        "floor": FLOOR,
        "top": LEVELS,
        "layers": layers,
        "heads": heads,
        "start": {"text": text, "length": length, "layer": layer, "head": head},
        "texts": shown,
        "error": {name: max(error[name] for error in errors) for name in errors[0]},
    }


def fitting(heads: int, tokens: int, number: int) -> tuple[int, int]:
    """Return how many tokens of how many texts a page has room for."""
    # two bytes an entry, and a third more for the shorter views
    entries = 3 * ROOM // (8 * heads)
    longest = min(tokens, math.isqrt(entries))
    return longest, max(1, min(number, entries // longest**2))


def _shown(levels: list[list[np.ndarray]], labels: list[list[str]]) -> dict[str, Any]:
    """Return a text as the page has it: its title, and its tokens and maps at every length, layer by
    layer.
    """
    views = []
    for layers, tokens in zip(levels, labels):
        maps = base64.b64encode(b"".join(layer.tobytes() for layer in layers)).decode()
        names = tokens or patch_labels(layers[0].shape[-1])
        views.append({"tokens": names, "maps": maps})
    return {"title": " ".join(views[-1]["tokens"][1:6]) + " …", "views": views}


def _differences(maps: Tensor, received: Tensor, causal: bool) -> dict[str, float]:
    """Return how far the page's numbers are from those of the exact maps, at most over factors,
    strengths and heads.
    """
    largest = dict.fromkeys(("probability", *DRAWN), 0.0)
    for factor in FACTORS:
        for strength in SLIDER[-1:] if factor in WITHOUT_MESSAGES else SLIDER:
            ours, exact = (
                one_step(attention, factor, strength, causal).double()
                for attention in (received, maps)
            )
            gaps = {"probability": ours - exact} | {
                name: of(ours) - of(exact) for name, of in DRAWN.items()
            }
            largest = {
                name: max(most, gaps[name].abs().max().item()) for name, most in largest.items()
            }
    return largest


def asset(name: str) -> str:
    """Return a file of the page's parts."""
    return ASSETS.joinpath(name).read_text(encoding="utf-8")


def as_json(data: Any) -> str:
    """Return data as JSON that can stand inside a page's script."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def fragment(data: dict[str, Any]) -> str:
    """Return the explorer as a piece of HTML with its style and script, which loads nothing from
    elsewhere.
    """
    strengths = ", ".join(f"{strength:g}" for strength in SLIDER)
    markup = asset("explorer.html").replace("{{ strengths }}", strengths)
    markup = markup.replace("{{ data }}", as_json(data))
    style = colours.css() + asset("explorer.css")
    return f"<style>\n{style}</style>\n{markup}<script>\n{asset('explorer.js')}</script>\n"


def refuse_unwritable(folder: Path) -> None:
    """Raise PermissionError in one line if a folder, or the one it would be made in, cannot be
    written to; ValueError if it has files of these names that no inspection wrote.
    """
    foreign = [name for name in FILES if (folder / name).exists() and not _inspected(folder)]
    if foreign:
        raise ValueError(
            f"{folder / foreign[0]}: is there, and no inspection wrote it; choose another --out"
        )
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise PermissionError(
            f"{folder}: cannot be written ({error.strerror}); choose another with --out"
        ) from None


def _inspected(folder: Path) -> bool:
    """Tell whether a folder is what an inspection wrote."""
    try:
        content = json.loads((folder / "attention.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and {"model", "factor", "strengths"} <= content.keys()


def write(
    folder: Path, name: str, inspection: Inspection, shown: dict[str, Any], facts: dict[str, Any]
) -> list[Path]:
    """Write index.html, attention.csv, measures.csv, attention.json, and perplexity.csv of a language
    model; return their paths.

    `shown` is what `collect` returned, `facts` what the page says of the run. All are complete
    before the first of them gets its name.
    """
    import pandas

    result = summary(name, inspection, facts)
    texts = {
        "index.html": page(result, inspection, shown),
        "attention.csv": inspection.to_frame().to_csv(index=False, float_format="%.6g"),
        "measures.csv": measures_table(inspection.measures).to_csv(index=False),
        "attention.json": json.dumps(result, indent=1, ensure_ascii=False) + "\n",
    }
    if inspection.predictions:
        texts["perplexity.csv"] = pandas.DataFrame(inspection.predictions).to_csv(
            index=False, float_format="%.6g"
        )
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".new-") as temporary:
        for file, text in texts.items():
            # of a name in another encoding the bytes are written out
            (Path(temporary) / file).write_text(text, encoding="utf-8", errors="backslashreplace")
        for file in texts:
            os.replace(Path(temporary) / file, folder / file)
    return [folder / file for file in texts]


def measures_table(measures: Sequence[str]) -> Any:
    """Return a row per measure: its name, title, unit, meaning, range and source."""
    import pandas

    rows = []
    for name in measures:
        words = asdict(MEASURES[name])
        rows.append({"measure": name, **{key: words[key] for key in WORDS}})
    return pandas.DataFrame(rows)


def summary(name: str, inspection: Inspection, facts: dict[str, Any]) -> dict[str, Any]:
    """Return everything that was found as plain data, as it stands in attention.json."""
    layers, heads = inspection.shape
    return {
        "model": name,
        **facts,
        "layers": layers,
        "heads": heads,
        "causal": inspection.causal,
        "factor": inspection.factor,
        "spare": inspection.spare,
        "strengths": list(inspection.strengths),
        "texts": inspection.values.samples,
        "tokens": inspection.tokens,
        "measures": {measure: asdict(MEASURES[measure]) for measure in inspection.measures},
        "table": layer_rows(inspection),
        "curves": [
            {"strength": strength, **by_head(inspection, strength)} for strength in inspection.grid
        ],
        "sinks": {
            "all": inspection.sinks()[:12],
            "by_layer": [inspection.sinks(layer + 1)[:5] for layer in range(layers)],
        },
        "predictions": inspection.predictions,
        "versions": {package: version(package) for package in ("saobp", "torch", "transformers")},
    }


def by_head(inspection: Inspection, strength: float) -> dict[str, list[list[float]]]:
    """Return the measures that were taken at a strength, five digits, by layer and head."""
    taken = {}
    for measure, values in inspection.means(strength).items():
        if not np.isnan(values).all():
            rows = [[float(f"{value:.5g}") for value in row] for row in values]
            taken[measure] = [[None if math.isnan(x) else x for x in row] for row in rows]
    return taken


def layer_rows(inspection: Inspection) -> list[dict[str, Any]]:
    """Return a row per layer, heads averaged: its most frequent sink, and every measure before and
    after the step.
    """
    table = inspection.to_frame()
    table = table[(table["strength"] == inspection.strengths[0]) & table["head"].isna()].set_index(
        "measure"
    )
    numbers = table[["before", "after", "change", "low", "high"]].astype(object)
    # an interval of one text
    numbers = numbers.where(numbers.notna(), None)
    return [
        {"layer": layer + 1, "sink": inspection.sinks(layer + 1)[0]}
        | numbers[table["layer"] == layer + 1].to_dict("index")
        for layer in range(inspection.shape[0])
    ]


def terminal(rows: Sequence[dict[str, Any]]) -> str:
    """Return the table for a terminal: two lines per layer, the values and the interval of their
    change.
    """
    measured = [name for name in MEASURES if name in rows[0]]
    shown = [name for name in TERMINAL if name in measured] or measured[:5]
    titles = "".join(f"{MEASURES[name].title:<22}" for name in shown)
    lines = [f"{'layer':<6}{'sink (share)':<20}{titles}"]
    for row in rows:
        sink = f"{row['sink']['token'][:12]} ({row['sink']['share']:.0%})"
        cells = [row[name] for name in shown]
        both = [f"{short(cell['before'])} → {short(cell['after'])}" for cell in cells]
        lines.append(f"{row['layer']:<6}{sink:<20}" + "".join(f"{text:<22}" for text in both))
        if cells[0]["low"] is not None:
            spans = [f"[{cell['low']:+.2f}, {cell['high']:+.2f}]" for cell in cells]
            lines.append(" " * 26 + "".join(f"{text:<22}" for text in spans))
    return "\n".join(line.rstrip() for line in lines)


def short(value: float) -> str:
    """Return a number with two digits after the point, or two digits where it is small."""
    return f"{value:.2g}" if 0 < value < 0.095 else f"{value:.2f}"


def page(result: dict[str, Any], inspection: Inspection, shown: dict[str, Any]) -> str:
    """Return the page: what changed, the explorer, and the tables, maps and curves."""
    drawn = {name: result[name] for name in ("curves", "measures", "predictions", "strengths")}
    texts, source = result["texts"], result["source"]
    # "paragraphs of the prose", of which there is one
    source = source if texts > 1 else re.sub(r"s\b", "", source, count=1)
    return (
        _environment()
        .get_template("inspect.html")
        .render(
            **result,
            measured_on=f"{texts} {source}",
            tiles=means(result["table"], inspection.measures),
            explorer=Markup(fragment(shown)),
            drawn=Markup(as_json(drawn)),
            charts=Markup(asset("charts.js")),
            style=Markup(asset("inspect.css")),
        )
    )


def _environment() -> Environment:
    """Return what fills the templates."""
    return Environment(loader=FunctionLoader(asset), autoescape=True, trim_blocks=True)


def means(
    rows: Sequence[dict[str, Any]], measures: Sequence[str]
) -> list[tuple[str, float, float]]:
    """Return the mean of each measure over layers, before and after the step, where there is one."""
    averages = []
    for measure in measures:
        sides = [[row[measure][side] for row in rows] for side in ("before", "after")]
        if None not in sides[0]:
            averages.append((measure, *(float(np.mean(values)) for values in sides)))
    return averages


def cell(inspection: Inspection) -> str:
    """Return what a notebook shows of an inspection: its table, and the explorer in a frame.

    The frame holds its page in an attribute and loads nothing, so that it works offline, in an
    exported page, and where a notebook's scripts do not run.
    """
    title = f"Attention in {inspection.name}"
    body = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
    page = (
        body
        + f'<body style="margin: 0; font: 15px system-ui, sans-serif">{fragment(inspection.shown)}</body></html>'
    )
    rows = layer_rows(inspection)
    return (
        _environment()
        .get_template("cell.html")
        .render(
            title=title,
            frame=page,
            rows=rows,
            measures={name: MEASURES[name] for name in inspection.measures},
            strength=None if inspection.factor in WITHOUT_MESSAGES else inspection.strengths[0],
            factor=inspection.factor,
            texts=inspection.values.samples,
            tokens=inspection.tokens,
        )
    )
