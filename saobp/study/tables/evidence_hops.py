"""Evidence from the controlled study, where the number of hops is known (Q18)."""

from collections.abc import Sequence
from typing import Any

from saobp.study.beyond import gain_on_hops
from saobp.study.setup.labels import counted, joined
from saobp.study.setup.records import select
from saobp.study.tables.evidence import Looks, Part

Record = dict[str, Any]
LOOKS = 3  # at a study to which seeds were added: at the first ones, on the way and at the end


def _several_hops(records: Sequence[Record]) -> Looks | None:
    """High minus Original on questions of two hops and more, one mean a seed, with the error over its stories.

    The study's encoders are of no size of the paper, and its question is about no size: it decides by itself. Seeds
    that were added after those of all algorithms had been seen make it one of `LOOKS`, for which it is widened.
    """
    for run in select(list(records), "beyond"):
        exam = run["metrics"].get("multihop") or []
        if found := gain_on_hops.difference(exam):
            estimate, depths, by_seed = found
            first = by_seed.keys() & gain_on_hops.shared_seeds(exam)
            times = LOOKS if 0 < len(first) < len(by_seed) else 1
            again = f"; look {times}, after {counted(len(first), 'seed')} and one on the way" if times > 1 else ""
            gaps = ", ".join(f"{round(gap, 1) + 0.0:+.1f}" for gap in sorted(by_seed.values(), reverse=True))
            what = "by its number, which shows no reason, on small encoders of none of the paper's sizes: "
            what += "questions of two hops and more, "
            what += f"{joined(list(map(str, depths)))} layers, High − Original, points (of each seed {gaps}{again}):"
            return Looks(what, [Part("", estimate, times=times)], aside=gain_on_hops.control_words(exam))
    return None


JUDGES = {"Q18": _several_hops}
