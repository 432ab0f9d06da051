"""A benchmark's items as inputs whose attention is captured, and what of a capture a record
keeps.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import nan
from pathlib import Path

import pandas as pd
import torch
from transformers import PreTrainedTokenizerBase

from companion.data import encoding
from companion.data.task_rows import Task
from companion.setup.labels import ATTENTION_MEASURES, GRAPH_MEASURES
from companion.statistics import Estimate, over_samples


def inputs(
    task: Task, tokenizer: PreTrainedTokenizerBase, length: int, samples: int, batch: int
) -> list[dict[str, torch.Tensor]]:
    """Return padded batches of the first reported items: of a choice the first option, of a span
    the first window.
    """
    rows = task.evaluation.take(min(samples, len(task.evaluation)))
    features = encoding.encode(task.spec, rows, tokenizer, length).to_pandas()
    if "item" in features:
        features = features.drop_duplicates("item")
    features = features[features.columns.intersection(tokenizer.model_input_names)]
    if task.spec.kind == "choice":
        features = features.map(lambda options: options[0])
    parts = (features[start : start + batch] for start in range(0, len(features), batch))
    return [dict(tokenizer.pad(part.to_dict("list"), return_tensors="pt")) for part in parts]


def fitting(task: Task, tokenizer: PreTrainedTokenizerBase, length: int) -> tuple[Task, int]:
    """Leave out and count reported items that `length` tokens cannot hold uncut; ValueError if none
    is left.
    """
    # for what is never cut: a choice's question and longest option
    needed = [0] * len(task.evaluation)
    if task.spec.kind == "choice":
        texts_of = (encoding.option_texts(task.spec, row) for row in task.evaluation)
        needed = [max(encoding.tokens_needed(texts, tokenizer)) for texts in texts_of]
    kept = [item for item, tokens in enumerate(needed) if tokens <= length]
    if not kept:
        raise ValueError(
            f"length={length} holds no item of {task.spec.name}: give at least {min(needed, default=1)}"
        )
    return replace(task, evaluation=task.evaluation.select(kept)), len(needed) - len(kept)


def graph_points(parquet: Path) -> dict[str, list[float]]:
    """Return GTD, clustering and betweenness of a seeded draw of 1,500 of the sample-head pairs
    (Figures 2 and 5).
    """
    table = pd.read_parquet(parquet).query("matrix == 'refined'")
    chosen = table.sample(min(1500, len(table)), random_state=0).rename(
        columns={"clustering_barrat": "clustering"}
    )
    return chosen[["gtd", "clustering", "betweenness"]].round(4).to_dict("list")


def means(parquet: Path) -> pd.DataFrame:
    """Return the mean of each measure of the refined matrix, with a 95 % interval over samples, a
    mean of heads each.

    Columns: mean, low, high, samples, undefined: samples that are left out.
    """
    return _over_samples(
        _by_sample(parquet, [*ATTENTION_MEASURES, *GRAPH_MEASURES]).loc["refined"], "mean"
    )


def changes(parquet: Path) -> pd.DataFrame:
    """Return what the refinement changes in each measure, with an interval over samples as in
    `means`.
    """
    table = _by_sample(parquet, ATTENTION_MEASURES)
    raw, refined = table.loc["raw"], table.loc["refined"]
    levels = pd.DataFrame({"softmax": raw.mean(), "refined": refined.mean()})
    return levels.join(_over_samples(refined - raw, "change"))


def _by_sample(parquet: Path, names: Sequence[str]) -> pd.DataFrame:
    """Average heads and layers: a row a matrix and sample."""
    return (
        pd.read_parquet(parquet, columns=["sample", "matrix", *names])
        .groupby(["matrix", "sample"])
        .mean()
    )


def _over_samples(table: pd.DataFrame, title: str) -> pd.DataFrame:
    rows = {}
    for name, values in table.items():
        known = values.dropna()
        mean = over_samples(known) if len(known) else Estimate(nan, nan, nan, 1, 0)
        rows[name] = [mean.value, mean.low, mean.high, len(known), len(values) - len(known)]
    return pd.DataFrame.from_dict(
        rows, "index", float, [title, "low", "high", "samples", "undefined"]
    )
