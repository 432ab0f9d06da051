"""A benchmark's items as inputs whose attention is captured, and what of a capture a record keeps."""

from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import torch
from scipy import stats
from transformers import PreTrainedTokenizerBase

from saobp.study.encoding import encode
from saobp.study.tasks import Task

POINTS = 1500  # of a scatter plot


def inputs(
    task: Task, tokenizer: PreTrainedTokenizerBase, length: int, samples: int, batch: int
) -> list[dict[str, torch.Tensor]]:
    """Return padded batches of the first reported items, one sequence an item, no label among them.

    A choice shows its article, question and first option; a span its question and first window.
    """
    rows = task.evaluation.select(range(min(samples, len(task.evaluation))))
    features = [_one(task, feature) for feature in _first_windows(encode(task.spec, rows, tokenizer, length))]
    return [
        dict(tokenizer.pad(features[start : start + batch], return_tensors="pt"))
        for start in range(0, len(features), batch)
    ]


def _first_windows(features: datasets.Dataset) -> list[dict[str, Any]]:
    seen: set[Any] = set()
    kept = []
    for index, feature in enumerate(features):
        item = feature.get("item", index)
        if item not in seen:
            seen.add(item)
            kept.append(feature)
    return kept


def _one(task: Task, feature: dict[str, Any]) -> dict[str, Any]:
    names = ("input_ids", "attention_mask", "token_type_ids")
    values = {name: feature[name] for name in names if name in feature}
    return {name: value[0] for name, value in values.items()} if task.spec.kind == "choice" else values


def graph_points(parquet: Path, seed: int = 0) -> dict[str, list[float]]:
    """Return GTD, clustering and betweenness of a seeded sample of the sample-head pairs (Figures 2 and 5)."""
    table = pd.read_parquet(parquet).query("matrix == 'refined'")
    chosen = table.sample(min(POINTS, len(table)), random_state=seed)
    columns = {"gtd": "gtd", "clustering": "clustering_barrat", "betweenness": "betweenness"}
    return {name: chosen[column].round(4).tolist() for name, column in columns.items()}


def example_map(parquet: Path, tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
    """Return the last layer's head that the refinement moved most, on the shortest sample that was kept whole."""
    with np.load(parquet.with_suffix(".maps.npz")) as arrays:
        kept = [name.removeprefix("input_ids_") for name in arrays.files if name.startswith("input_ids_")]
        shortest = min(kept, key=lambda sample: (len(arrays[f"input_ids_{sample}"]), int(sample)))
        raw, refined = (arrays[f"{name}_{shortest}"][-1] for name in ("raw", "refined"))
        tokens = tokenizer.convert_ids_to_tokens(arrays[f"input_ids_{shortest}"].tolist())
        layer = len(arrays[f"raw_{shortest}"])
    head = int(np.abs(refined - raw).sum((1, 2)).argmax())
    maps = {"raw": raw[head].round(4).tolist(), "refined": refined[head].round(4).tolist()}
    return {"sample": int(shortest), "layer": layer, "head": head + 1, "tokens": tokens, **maps}


MEASURES = ("gtd", "indirect_entropy", "entropy", "sparsity", "column_mass_maximum")


def changes(parquet: Path, resamples: int = 2000, seed: int = 0) -> pd.DataFrame:
    """Return what the refinement changes in each measure, with a 95 % interval that has samples as its unit.

    Heads and layers of one sample are averaged first: they are not independent of each other. Samples where a
    measure is undefined are left out and counted.
    """
    table = pd.read_parquet(parquet, columns=["sample", "matrix", *MEASURES])
    means = table.groupby(["matrix", "sample"])[list(MEASURES)].mean()
    difference, rows = means.loc["refined"] - means.loc["raw"], {}
    for name in MEASURES:
        values = difference[name].dropna().to_numpy()
        found = stats.bootstrap((values,), np.mean, n_resamples=resamples, method="percentile", rng=seed)
        rows[name] = {
            "softmax": means.loc["raw"][name].mean(), "refined": means.loc["refined"][name].mean(),
            "change": values.mean(), "low": found.confidence_interval.low, "high": found.confidence_interval.high,
            "samples": len(values), "undefined": int(difference[name].isna().sum()),
        }  # fmt: skip
    return pd.DataFrame(rows).T


def head_table(summary: dict[str, Any]) -> pd.DataFrame:
    """Return one row a head: how far the refinement moved its rows, and how much mass each class of tokens gained."""
    raw, refined = summary["matrices"]["raw"], summary["matrices"]["refined"]
    classes = [name for name in refined if name.startswith("mass_")]
    rows = []
    for layer in range(summary["layers"]):
        for head in range(summary["heads"]):
            gained = {c.removeprefix("mass_"): refined[c][layer][head] - raw[c][layer][head] for c in classes}
            largest = raw["column_mass_maximum"][layer][head]
            rows.append({"layer": layer + 1, "head": head + 1, "moved": refined["moved"][layer][head],
                         "largest column sum": largest, **gained})  # fmt: skip
    return pd.DataFrame(rows).sort_values("moved", ascending=False, ignore_index=True)
