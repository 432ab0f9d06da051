"""Time to learn in the records of the exams that came before: `hops` and `stories`.

Found after these runs, whose planned endpoint was another one. Both exams are of one world with one
recipe, at one learning rate; they differ in seeds and stories.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from companion.statistics.time_to_learn import Row, Times, first_step, ratio, row

# share right
KNOWN = 0.9
STUDIES = ("hops", "stories")
# number of hops -> name for readers
NAMES = {2: "two hops", 3: "three hops"}
CONTRASTS = (
    ("high", "original"),
    ("uniform", "original"),
    ("low", "original"),
    ("sinkhorn", "original"),
    ("elemmul", "original"),
    ("shuffled", "original"),
    ("high", "uniform"),
    ("high", "sinkhorn"),
)
Records = Mapping[str, Sequence[Mapping[str, Any]]]


@dataclass
class Group:
    """The runs of one width and depth: algorithm -> hops -> a time a run, "hops 21" say."""

    last: int = 0
    times: dict[str, dict[int, dict[str, float | None]]] = field(default_factory=dict)

    def add(self, study: str, run: Mapping[str, Any]) -> None:
        """Take in a run that did not fail; ValueError for one with another number of steps."""
        steps = [check["step"] for check in run["curve"]]
        if self.last not in (0, steps[-1]):
            raise ValueError(f"{study}: runs of {self.last} and of {steps[-1]} steps")
        self.last = steps[-1]
        for hops in NAMES:
            shares = [check["accuracy"][str(hops)] for check in run["curve"]]
            times = self.times.setdefault(run["algorithm"], {}).setdefault(hops, {})
            times[f"{study} {run['seed']}"] = first_step(steps, shares, KNOWN)

    def of(self, algorithm: str, hops: Sequence[int], study: str) -> list[Times]:
        """Return the times of an algorithm at some hops, of one study's runs or of all ("")."""
        chosen = []
        for number in hops:
            times = self.times.get(algorithm, {}).get(number, {})
            chosen.append({name: time for name, time in times.items() if name.startswith(study)})
        return chosen


def groups(records: Records) -> dict[tuple[int, int], Group]:
    """Gather the runs of all records by width and depth; a run that failed is left out."""
    gathered: dict[tuple[int, int], Group] = {}
    for study, made in records.items():
        for record in made:
            for run in record["metrics"].get("multihop") or ():
                width = record["metrics"]["exam_recipe"]["hidden"]
                if not run["failed"]:
                    gathered.setdefault((width, run["layers"]), Group()).add(study, run)
    return dict(sorted(gathered.items()))


def rows(records: Records) -> list[Row]:
    """Return every comparison: by width, depth, pair of algorithms, hops, and study.

    At the width that both studies have, over their seeds together too. The ends of the names say
    whether runs that never got there count with the last step, or pairs with one are left out.
    """
    compared = []
    for (width, layers), group in groups(records).items():
        for study in ("", *records):
            where = f"{layers} layers, width {width}"
            title = study or " and ".join(records)
            for sides in CONTRASTS:
                compared += _compared(group, sides, study, title, where)
    return compared


def _compared(
    group: Group, sides: tuple[str, str], study: str, title: str, where: str
) -> list[Row]:
    """Return the rows of one pair of algorithms; none where it has no pair of runs."""
    compared_rows = []
    for hops, name in {(2,): NAMES[2], (3,): NAMES[3], (2, 3): "two and three hops"}.items():
        treated, baseline = (group.of(side, hops, study) for side in sides)
        if not treated[0].keys() & baseline[0].keys():
            return []
        # of one study alone it is no other row
        if not study and len({key.split()[0] for key in treated[0]}) < 2:
            return []
        for reached, end in ((False, ""), (True, ", pairs that both get there")):
            compared = ratio(treated, baseline, group.last, reached=reached)
            endpoint = f"steps to 90 % of {name}, {where}{end}"
            compared_rows.append(row(title, endpoint, sides, compared))
    return compared_rows
