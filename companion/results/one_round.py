"""Rows of one step in one trained encoder: which tokens lose, and how far one round is from settled
beliefs.
"""

from collections.abc import Iterator

import pandas as pd

from companion.records.schema import Record
from companion.results.row import Endpoint, Row
from companion.results.study import Study
from companion.setup.sizes_and_strengths import strength_of
from companion.studies.strengths import read as strengths

COLUMN = Endpoint("largest column sum of one encoder", "")
LEFT = Endpoint("distance to settled beliefs", "share")
TOKEN = Endpoint("column sum of ", "", of_what="occurrences")
GAINING = Endpoint("tokens that gain", "tokens", of_what="tokens")
MOVED = Endpoint("mass moved and largest column sum", "Spearman's ρ", of_what="heads")
LEARNED = Endpoint("strengths learned per head", "heads", of_what="heads")
# tokens that are named
SPECIAL = {"[CLS]": "CLS", "[SEP]": "SEP"}


def rows(study: Study) -> Iterator[Row]:
    """Yield the rows of each record of notebook 12 that followed one step."""
    for run in study.runs("beyond"):
        yield from _tokens(study, run)
        yield from _round(study, run)
        yield from _learned(study, run)


def _tokens(study: Study, run: Record) -> Iterator[Row]:
    """Yield the column sum of `[CLS]` and `[SEP]` before and after, and how the moved mass follows
    the largest column.
    """
    model = run["parameters"]["model"]
    tokens = run["metrics"].get("tokens") or []
    for token in tokens:
        if token["token"] in SPECIAL:
            endpoint = TOKEN.of(SPECIAL[token["token"]])
            for when in ("before", "after"):
                yield study.level(endpoint, when, token[when], token["count"], model)
    if tokens:
        gaining = sum(token["change"] > 0 for token in tokens)
        yield study.level(GAINING, "after the step", gaining, len(tokens), model)
    heads = pd.DataFrame(run["metrics"].get("heads") or [])
    if len(heads):
        rank = heads["moved"].corr(heads["largest_column"], method="spearman")
        yield study.level(MOVED, "over heads", rank, len(heads), model)


def _round(study: Study, run: Record) -> Iterator[Row]:
    """Yield the largest column before the step, after it and settled, at the model's own λ."""
    model = run["parameters"]["model"]
    rounds = (run["metrics"].get("one_round") or {}).get("this model") or []
    for strength in rounds:
        if strength["strength"] == strength_of(model):
            for when in ("before", "after", "settled"):
                yield study.level(COLUMN, when, strength[when], model=model)
            yield study.level(LEFT, "after one round", strength["left"], model=model)


def _learned(study: Study, run: Record) -> Iterator[Row]:
    """Yield in how many heads a learned strength ends above its start."""
    model = run["parameters"]["model"]
    went = strengths.learned(run["metrics"].get("strengths") or [])
    if len(went):
        heads = went.groupby(["seed", "layer", "head"])["strength"].agg(["first", "last"])
        grown = int((heads["last"] > heads["first"]).sum())
        yield study.level(LEARNED, "above their start", grown, len(heads), model)
