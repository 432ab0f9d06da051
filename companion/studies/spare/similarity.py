"""How well the cosine of an encoder's embeddings tells similar sentences, and what a change is
worth.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy import stats
from sklearn.metrics import roc_auc_score
from torch import nn

from companion.data.sources import Source
from companion.data.task_rows import load_reported
from companion.records.schema import Split
from companion.statistics.intervals import LEVEL, TAILS
from companion.statistics.paired import RESAMPLES
from companion.studies.retrofit.inserted import embeddings
from companion.studies.spare.sections import MEAN

# quantiles of the interval that two one-sided tests read
TEST_TAILS = (LEVEL, 1 - LEVEL)

# by benchmark
Values = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Pairs:
    """The pairs of sentences of a benchmark's train split, or a draw of them."""

    first: list[str]
    second: list[str]
    gold: np.ndarray
    split: Split


def load(name: str, limit: int | None, source: Source) -> Pairs:
    """Load a benchmark's train pairs, or draw `limit` of them with seed 0."""
    spec, rows, split = load_reported(name, source, split="train", limit=limit)
    first, second = spec.texts
    return Pairs(rows[first][:], rows[second][:], np.asarray(rows["label"][:]), split)


@torch.inference_mode()
def cosines(model: nn.Module, tokenizer: Any, sets: Mapping[str, Pairs]) -> dict[str, np.ndarray]:
    """Return the cosine of the mean-pooled embeddings of each pair, by benchmark.

    A text that stands in several pairs is embedded once.
    """
    texts = dict.fromkeys(text for pairs in sets.values() for text in pairs.first + pairs.second)
    row_of = {text: row for row, text in enumerate(texts)}
    rows = embeddings(model, tokenizer, list(texts))
    similarity = {}
    for name, pairs in sets.items():
        first = rows[[row_of[text] for text in pairs.first]]
        second = rows[[row_of[text] for text in pairs.second]]
        similarity[name] = torch.cosine_similarity(first, second).double().numpy()
    return similarity


def score(name: str, predicted: np.ndarray, gold: np.ndarray) -> float:
    """Return Spearman's correlation on STS-B, else the area under the ROC curve, in percent."""
    if name == "stsb":
        return float(100 * stats.spearmanr(predicted, gold).statistic)
    return float(100 * roc_auc_score(gold, predicted))


def differences(
    predicted: Values, plain: Values, gold: Values, draws: int = RESAMPLES
) -> dict[str, dict[str, Any]]:
    """Return each benchmark's change of score in points, and the change of the mean over them.

    With the 95 % and the 90 % percentile interval of a paired bootstrap over pairs, drawn within
    each benchmark.
    """
    changes, resampled = {}, {}
    for number, name in enumerate(gold):
        after = score(name, predicted[name], gold[name])
        changes[name] = after - score(name, plain[name], gold[name])
        random = np.random.default_rng([0, number])
        rows = random.integers(len(gold[name]), size=(draws, len(gold[name])))
        after = resampled_scores(name, predicted[name], gold[name], rows)
        resampled[name] = after - resampled_scores(name, plain[name], gold[name], rows)
    changes[MEAN] = float(np.mean(list(changes.values())))
    resampled[MEAN] = np.mean(list(resampled.values()), axis=0)
    return {
        name: {
            "difference": change,
            "interval": np.quantile(resampled[name], TAILS).tolist(),
            "interval_90": np.quantile(resampled[name], TEST_TAILS).tolist(),
        }
        for name, change in changes.items()
    }


def resampled_scores(
    name: str, predicted: np.ndarray, gold: np.ndarray, rows: np.ndarray
) -> np.ndarray:
    """Return `score` of each draw (draw, pair) of the pairs; both scores are functions of ranks.

    A pair that is drawn several times is one pair with a weight, so that nothing is sorted per
    draw.
    """
    places = np.unique(predicted, return_inverse=True)[1]
    gold_places = np.unique(gold, return_inverse=True)[1]
    scores = []
    for drawn in rows:
        weights = np.bincount(drawn, minlength=len(gold))
        ranks = _weighted_ranks(places, weights)
        if name == "stsb":
            gold_ranks = _weighted_ranks(gold_places, weights)
            scores.append(_weighted_correlation(ranks, gold_ranks, weights))
        else:
            scores.append(_weighted_area(ranks, gold == 1, weights))
    return 100 * np.array(scores)


def _weighted_ranks(places: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the mean rank of each value among `weights` copies of it; `places` are dense ranks."""
    copies = np.bincount(places, weights)
    last = np.cumsum(copies)
    return (last - (copies - 1) / 2)[places]


def _weighted_correlation(first: np.ndarray, second: np.ndarray, weights: np.ndarray) -> float:
    # ranks of n values have the same mean, ties or none
    middle = (weights.sum() + 1) / 2
    first, second = first - middle, second - middle
    weighted = weights * first
    return weighted @ second / np.sqrt((weighted @ first) * (weights * second @ second))


def _weighted_area(ranks: np.ndarray, positive: np.ndarray, weights: np.ndarray) -> float:
    """Return the share of pairs of a positive and a negative in the right order (Mann, Whitney)."""
    count = weights[positive].sum()
    others = weights.sum() - count
    ordered = weights[positive] @ ranks[positive] - count * (count + 1) / 2
    return ordered / (count * others)
