"""Evidence from the controlled study, where the number of hops is known (Q18)."""

from collections.abc import Sequence
from typing import Any

from saobp.study import hops
from saobp.study.labels import joined
from saobp.study.records import select
from saobp.study.tables.evidence import Looks, Part

Record = dict[str, Any]


def _several_hops(records: Sequence[Record]) -> Looks | None:
    """High minus Original on questions of two hops and more, one mean a seed, with the error over its stories.

    The study's encoders are of no size of the paper, and its question is about no size: it decides by itself.
    """
    for run in select(list(records), "beyond"):
        if found := hops.several(run["metrics"].get("multihop") or []):
            estimate, depths, by_seed = found
            seeds = ", ".join(f"{round(gap, 1) + 0.0:+.1f}" for gap in sorted(by_seed.values(), reverse=True))
            what = f"questions of two hops and more, {joined(list(map(str, depths)))} layers, High − Original, points "
            what += f"(of each seed {seeds}):"
            return Looks(what, [Part("", estimate)])
    return None


JUDGES = {"Q18": _several_hops}
