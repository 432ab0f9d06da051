"""Evidence from the controlled study, where the number of hops is known (Q18)."""

from collections.abc import Sequence
from typing import Any

from saobp.study import hops
from saobp.study.records import select
from saobp.study.statistics import mean_interval
from saobp.study.tables.evidence import Looks, Part

Record = dict[str, Any]


def _several_hops(records: Sequence[Record]) -> Looks | None:
    """High minus Original on questions of two hops and more, one mean a seed, over depths and hops.

    The study's encoders are of no size of the paper, and its question is about no size: it decides by itself.
    """
    for run in select(list(records), "beyond"):
        scores = hops.scores(run["metrics"].get("multihop") or [])
        several = scores[scores["hops"] > 1] if len(scores) else scores
        if {"high", "original"} <= set(several.get("algorithm", ())):
            means = several.pivot_table(index="seed", columns="algorithm", values="accuracy")
            gaps = (means["high"] - means["original"]).dropna().tolist()
            layers = " and ".join(str(depth) for depth in sorted(several["layers"].unique()))
            estimate = mean_interval(gaps) if gaps else None
            what = f"questions of two hops and more, {layers} layers, High − Original, points:"
            return Looks(what, [Part("", estimate)])
    return None


JUDGES = {"Q18": _several_hops}
