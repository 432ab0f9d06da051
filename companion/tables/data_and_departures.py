"""What records say of the data that they read, and of where they depart from the paper's training
configuration.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from companion.data.splits import base_splits
from companion.records.schema import Record, Value
from companion.setup import labels
from companion.setup.tasks_and_metrics import HUB_ROWS

# before their departures
NAMED_STAGES = {
    "finetune": "fine-tuning",
    "attention": "attention",
    "cost": "cost",
    "alternations": "cost",
}


def splits(runs: Iterable[Record]) -> list[dict[str, Any]]:
    """Return every split that records read which is not the public one, or of which they asked a
    part: name, split, rows that were used, public rows (the hub's where known) and note.
    """
    partial = {}
    every = [split for run in runs for split in run["data"].get("splits") or []]
    for split in every:
        used = split.get("used", split["rows"])
        in_part = split.get("role") == "evaluation" and used < split["rows"]
        if split["complete"] and not in_part:
            continue
        config, bases = split.get("config"), set(base_splits(split["split"]))
        name = split["dataset"] + (f" ({config})" if config and config != "default" else "")
        known = HUB_ROWS.get((split["dataset"], config), {})
        rows = sum(known[base] for base in bases) if bases <= set(known) else split["hub_rows"]
        key = (name, split["split"], split.get("role") or "")
        partial.setdefault(key, split | {"name": name, "rows": used, "hub_rows": rows})
    return [partial[key] for key in sorted(partial)]


def departures(runs: Iterable[Record]) -> pd.DataFrame:
    """Return one row a distinct departure, as text: of, matter, ours, paper ("" for none), models;
    in a fixed order.
    """
    rows = []
    for run in runs:
        for entry in run["departures"]:
            where = (NAMED_STAGES.get(run["stage"]), entry.get("part"), entry.get("task"))
            basis = f" ({entry['basis']})" if "basis" in entry else ""
            paper = "" if entry["paper"] is None else _text(entry["paper"]) + basis
            model = entry.get("model") or run["parameters"].get("model")
            title = labels.model_title(model) if model else None
            of = ", ".join(filter(None, where))
            rows.append((of, entry["matter"], _text(entry["ours"]), paper, title))
    keys = ["of", "matter", "ours", "paper"]
    frame = pd.DataFrame(rows, columns=[*keys, "models"], dtype=str)
    models = frame.groupby(keys)["models"]
    return models.agg(lambda names: ", ".join(sorted(set(names.dropna())))).reset_index()


def splits_of_studies(studies: Mapping[str, Iterable[Record]]) -> pd.DataFrame:
    """Return the splits of every study, one row each: study, data, split, rows that were used,
    public rows (empty where they are not known), and what is different.
    """
    rows = []
    for study, runs in studies.items():
        for split in splits(runs):
            difference = split.get("note") or f"the first {split['rows']} rows"
            difference = difference.replace("stands in for", "used as")
            numbers = (split["rows"], split["hub_rows"])
            rows.append((study, split["name"], split["split"], *numbers, difference))
    columns = ["study", "data", "split", "rows", "public_rows", "difference"]
    frame = pd.DataFrame(rows, columns=columns)
    return frame.astype({"public_rows": "Int64"})


def departures_of_studies(studies: Mapping[str, Iterable[Record]]) -> pd.DataFrame:
    """Return the departures of every study, as `departures` has them, with the study's name."""
    frames = [departures(runs).assign(study=study) for study, runs in studies.items()]
    every = pd.concat(frames, ignore_index=True).replace({"of": {"": "pretraining"}})
    return every[["study", "of", "matter", "ours", "paper", "models"]]


def _text(value: Value) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
