"""Known hops on fresh seeds: the planned runs of notebook 12's exam, one record per width and seed."""

import argparse
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from saobp.study.beyond import multihop
from saobp.study.setup import paths, plan, records
from saobp.study.setup.recipes import MultiHop, Positive, Seeds
from saobp.study.setup.studies import load_profile


class KnownHops(plan.Question):
    """The plan's section `hops`."""

    arms: list[str]
    seeds: Seeds
    exam: str
    training: str
    layers: list[Positive]
    widths: dict[Positive, list[str]]  # further widths, at the largest depth

    def exams(self, usual: MultiHop) -> Iterator[MultiHop]:
        """Yield what each record trains and asks: every seed at the usual width, then the further widths."""
        common = replace(usual, exam=self.exam, more_seeds={})
        for seed in self.seeds:
            yield replace(common, algorithms=self.arms, seeds=[seed], layers=self.layers)
        for seed in self.seeds:
            for width, arms in self.widths.items():
                yield replace(common, algorithms=arms, seeds=[seed], layers=self.layers[-1:], hidden=width)


def run(exam: MultiHop, path: Path, folder: Path) -> dict[str, Any]:
    """Make one record: every arm and depth of one width and seed."""
    record = records.Run("hops", profile="hops", parameters={"width": exam.hidden, "seed": exam.seeds[0]})
    metrics = {"multihop": multihop.study(exam, folder), "exam_recipe": asdict(exam)}
    departures = [{"matter": "study", "ours": "questions of known hops in the story world", "paper": None}]
    return record.save(path, metrics, departures=departures, precision=exam.pretrain.precision)


def main() -> None:
    """Make every record of the plan that is not there yet; several of these commands share the work."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--plan", type=Path, default=plan.file())
    parser.add_argument("--out", type=Path, default=paths.build("hops") / "records")
    given = parser.parse_args()
    chosen = plan.section(given.plan, "hops", KnownHops)
    made = (
        (given.out / f"12-hops-{exam.hidden}-{exam.seeds[0]}.json", exam)
        for exam in chosen.exams(load_profile("stories").multihop)
    )
    work = given.out.parent / "work"
    plan.share(((path, lambda folder, p=path, e=exam: run(e, p, folder)) for path, exam in made), work)


if __name__ == "__main__":
    main()
