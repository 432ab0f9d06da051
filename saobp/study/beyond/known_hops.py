"""Known hops on fresh seeds: the planned runs of notebook 12's exam, one record per width and seed."""

from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from saobp.study.beyond import multihop, planned
from saobp.study.setup import plan, records
from saobp.study.setup.recipes import MultiHop, Positive, Seeds
from saobp.study.setup.studies import load_study


class KnownHops(plan.Question):
    """The plan's section `hops`."""

    arms: list[str]
    seeds: Seeds
    exam: str
    training: str
    layers: list[Positive]
    widths: dict[Positive, list[str]]  # further widths, at the largest depth

    def exams(self, usual: MultiHop) -> Iterator[MultiHop]:
        """Yield what each record trains and asks, seed by seed: the usual width, then the further ones.

        So the seeds that there are hold every width, and a slope over the widths is of the same seeds.
        """
        common = replace(usual, exam=self.exam, more_seeds={})
        for seed in self.seeds:
            yield replace(common, algorithms=self.arms, seeds=[seed], layers=self.layers)
            for width, arms in self.widths.items():
                yield replace(common, algorithms=arms, seeds=[seed], layers=self.layers[-1:], hidden=width)


def run(exam: MultiHop, path: Path, folder: Path) -> dict[str, Any]:
    """Make one record: every arm and depth of one width and seed."""
    record = records.Run("hops", profile="hops", parameters={"width": exam.hidden, "seed": exam.seeds[0]})
    metrics = {"multihop": multihop.study(exam, folder), "exam_recipe": asdict(exam)}
    departures = [{"matter": "study", "ours": "questions of known hops in the story world", "paper": None}]
    return record.save(path, metrics, departures=departures, precision=exam.pretrain.precision)


def records_of(study: KnownHops) -> Iterator[tuple[str, planned.Make]]:
    """Yield the records of the plan: one per width and seed."""
    for exam in study.exams(load_study("stories").multihop):
        yield f"12-hops-{exam.hidden}-{exam.seeds[0]}", partial(run, exam)


if __name__ == "__main__":
    planned.command("hops", KnownHops, records_of)
