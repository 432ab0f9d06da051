"""A benchmark's items as inputs whose attention is captured, and what of a capture a record keeps."""

from collections.abc import Sequence
from dataclasses import replace
from math import nan
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from transformers import PreTrainedTokenizerBase

from saobp.study.data import encoding
from saobp.study.data.task_rows import Task
from saobp.study.setup.labels import ATTENTION_MEASURES
from saobp.study.statistics import Estimate, over_samples

NAMES = ("input_ids", "attention_mask", "token_type_ids")
POINTS = 1500  # of a scatter plot


def inputs(
    task: Task, tokenizer: PreTrainedTokenizerBase, length: int, samples: int, batch: int
) -> list[dict[str, torch.Tensor]]:
    """Return padded batches of the first reported items, one sequence an item, no label among them.

    A choice shows its article, question and first option; a span its question and first window.
    """
    rows = task.evaluation.take(min(samples, len(task.evaluation)))
    first: dict[Any, dict[str, Any]] = {}  # a span's first window, any other item itself
    for index, feature in enumerate(encoding.encode(task.spec, rows, tokenizer, length)):
        values = {name: feature[name] for name in NAMES if name in feature}
        if task.spec.kind == "choice":
            values = {name: options[0] for name, options in values.items()}
        first.setdefault(feature.get("item", index), values)
    features = list(first.values())
    parts = (features[start : start + batch] for start in range(0, len(features), batch))
    return [dict(tokenizer.pad(part, return_tensors="pt")) for part in parts]


def fitting(task: Task, tokenizer: PreTrainedTokenizerBase, length: int) -> tuple[Task, int]:
    """Leave out reported items that `length` tokens cannot hold uncut; return how many beside the others.

    Raises ValueError if that leaves none.
    """
    needed = encoding.tokens_needed(task.spec, task.evaluation, tokenizer)
    kept = [item for item, tokens in enumerate(needed) if tokens <= length]
    if not kept:
        raise ValueError(f"length={length} holds no item of {task.spec.name}: give at least {min(needed, default=1)}")
    return replace(task, evaluation=task.evaluation.select(kept)), len(needed) - len(kept)


def graph_points(parquet: Path) -> dict[str, list[float]]:
    """Return GTD, clustering and betweenness of a seeded sample of the sample-head pairs (Figures 2 and 5)."""
    table = pd.read_parquet(parquet).query("matrix == 'refined'")
    chosen = table.sample(min(POINTS, len(table)), random_state=0)
    columns = {"gtd": "gtd", "clustering": "clustering_barrat", "betweenness": "betweenness"}
    return {name: chosen[column].round(4).tolist() for name, column in columns.items()}


GRAPH = ("clustering_barrat", "betweenness")


def means(parquet: Path) -> pd.DataFrame:
    """Return the mean of each measure of the refined matrix, with a 95 % interval that has samples as its unit.

    Columns: mean, low, high, samples, undefined. Heads and layers of one sample are averaged first: they are not
    independent of each other. Samples where a measure is undefined are left out and counted.
    """
    refined = _by_sample(parquet, [*ATTENTION_MEASURES, *GRAPH]).loc["refined"]
    return pd.DataFrame({name: _summary(refined[name], "mean") for name in refined}).T


def changes(parquet: Path) -> pd.DataFrame:
    """Return what the refinement changes in each measure, with an interval over samples as in `means`."""
    table = _by_sample(parquet, ATTENTION_MEASURES)
    raw, refined = table.loc["raw"], table.loc["refined"]
    levels = pd.DataFrame({"softmax": raw.mean(), "refined": refined.mean()})
    difference = refined - raw
    return levels.join(pd.DataFrame({name: _summary(difference[name], "change") for name in difference}).T)


def _by_sample(parquet: Path, names: Sequence[str]) -> pd.DataFrame:
    """Average heads and layers: a row a matrix and sample."""
    table = pd.read_parquet(parquet, columns=["sample", "matrix", *names])
    return table.groupby(["matrix", "sample"])[list(names)].mean()


def _summary(values: pd.Series, title: str) -> dict[str, float]:
    known = values.dropna()
    found = over_samples(known) if len(known) else Estimate(nan, nan, nan, 1, 0)
    return {title: found.value, "low": found.low, "high": found.high, "samples": len(known),
            "undefined": len(values) - len(known)}  # fmt: skip
