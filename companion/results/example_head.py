"""Rows of one head of MiniLM on one sentence, before and after a step, as figures and notebooks show
it.
"""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from companion.results.row import Endpoint, Row
from companion.results.study import Study
from companion.setup import paths

# the tracked numbers
EXAMPLE = "data/examples/minilm.json"
COLUMN = Endpoint("largest column sum of one head", "")
MOVED = Endpoint("mass that one step moves", "percent")
PRODUCT = Endpoint("factor of all messages to a row", "")


def load() -> dict[str, Any]:
    """Return model, strength (nats), text, tokens, heads (layer, head, largest column before and
    after), one map.
    """
    return json.loads((paths.root() / EXAMPLE).read_text(encoding="utf-8"))


def numbers(raw: np.ndarray, refined: np.ndarray, strength: float) -> dict[str, Any]:
    """Return which column is the largest and its sums, the mean share (percent) of a row's mass that
    moves, and what all messages to a row multiply that key by, on average over rows.
    """
    top = int(raw.sum(0).argmax())
    # log(1 - (1 - e^-λ) A_ik), of every row's message; a row hears all but its own
    logs = np.log1p(np.expm1(-strength) * raw[:, top])
    return {
        "place": top,
        "before": raw.sum(0)[top],
        "after": refined.sum(0)[top],
        "moved": 100 * np.abs(refined - raw).sum() / 2 / len(raw),
        "product": np.exp(logs.sum() * (1 - 1 / len(raw))),
    }


def rows() -> Iterator[Row]:
    """Yield the head's numbers."""
    example = load()
    raw, refined = (np.array(example["map"][side]) for side in ("raw", "refined"))
    values = numbers(raw, refined, example["strength"])
    study = Study("example", (), data="one head of MiniLM on one sentence")
    yield study.level(COLUMN, "before the step", values["before"])
    yield study.level(COLUMN, "after the step", values["after"])
    yield study.level(COLUMN, "all rows", len(raw))
    yield study.level(MOVED, "High", values["moved"])
    yield study.level(PRODUCT, "High", values["product"])
